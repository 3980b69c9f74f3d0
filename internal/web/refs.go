package web

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"

	"github.com/geminixiang/mikan/internal/fault"
)

// seal turns session ids into references that stand in addresses: they show no id, work only under the token that made
// them, and cannot be made up.
type seal struct {
	aead cipher.AEAD
	key  []byte // makes the nonces
}

func newSeal(token string) (*seal, error) {
	keys, err := hkdf.Key(sha256.New, []byte(token), nil, "mikan session view references v1", 64)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "no key can be derived")
	}
	block, err := aes.NewCipher(keys[:32])
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "no cipher can be made")
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "no cipher can be made")
	}
	return &seal{aead: aead, key: keys[32:]}, nil
}

// close makes the reference of a session. The same id always gets the same one, so that addresses can be compared; the
// nonce is a function of the id, so no two ids share one.
func (s *seal) close(id string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id))
	nonce := mac.Sum(nil)[:s.aead.NonceSize()]
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, []byte(id), nil))
}

func (s *seal) open(ref string) (id string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(ref)
	if err != nil || len(raw) < s.aead.NonceSize() {
		return "", fault.New(fault.NotFound, "no such reference")
	}
	plain, err := s.aead.Open(nil, raw[:s.aead.NonceSize()], raw[s.aead.NonceSize():], nil)
	if err != nil {
		return "", fault.New(fault.NotFound, "no such reference")
	}
	return string(plain), nil
}

// links makes addresses relative to one page, so that the view works below any path of a proxy.
type links struct {
	root  string // from the page to the directory of the pages
	page  string // last part of the page's own address
	token string
	seal  *seal
}

func (l links) session(id string) string { return l.root + l.token + "/s/" + l.seal.close(id) }

// entry is a session's page at the one of its entries that has this position.
func (l links) entry(id string, seq int64) string {
	n := strconv.FormatInt(seq, 10)
	return l.session(id) + "?at=" + n + "#e" + n
}

func (l links) all() string { return l.root + l.token + "/all" }

func (l links) live() string { return l.page + "/live" }

func (l links) text(seq int64) string { return l.page + "/raw/" + strconv.FormatInt(seq, 10) }

func (l links) image(seq int64, i int) string { return l.text(seq) + "/" + strconv.Itoa(i) }

func (l links) asset(name string) string { return l.root + version(name) }
