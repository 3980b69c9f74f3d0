// Package secret keeps the process's own credentials out of what tools print.
package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// MinLength is the length in bytes below which a value is not searched for: shorter ones occur by chance.
const MinLength = 8

// Redactor replaces secrets by [SECRET:NAME]. It finds the value itself, the password inside a value that is a URL,
// each line of a value of several lines, and all these in base64 (wherever they stand in the encoded text), URL
// encoding and JSON strings. A nil *Redactor replaces nothing. It is safe for concurrent use.
type Redactor struct {
	patterns map[[2]byte][]pattern // by the first two bytes; longest first
	first    [1 << 16 / 64]uint64  // the same keys as a bit set
	longest  int
}

type pattern struct {
	find string
	with string
}

// NewRedactor makes a Redactor from names, such as environment variables have, and values. Values below MinLength are
// left out.
func NewRedactor(secrets map[string]string) *Redactor {
	r := &Redactor{patterns: map[[2]byte][]pattern{}}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(secrets)) { // of equal values always the same name is told
		with := "[SECRET:" + name + "]"
		for _, value := range parts(strings.TrimSpace(secrets[name])) {
			for _, find := range encodings(value) {
				if len(find) < MinLength || seen[find] {
					continue
				}
				seen[find] = true
				r.add(pattern{find, with})
			}
		}
	}
	for key := range r.patterns {
		slices.SortStableFunc(r.patterns[key], func(a, b pattern) int { return len(b.find) - len(a.find) })
	}
	return r
}

func (r *Redactor) add(p pattern) {
	key := [2]byte{p.find[0], p.find[1]}
	r.patterns[key] = append(r.patterns[key], p)
	bit := int(key[0])<<8 | int(key[1])
	r.first[bit/64] |= 1 << (bit % 64)
	r.longest = max(r.longest, len(p.find))
}

// parts returns value and what in it is a secret of its own.
func parts(value string) []string {
	found := []string{value}
	if u, err := url.Parse(value); err == nil && u.User != nil {
		if password, set := u.User.Password(); set {
			found = append(found, password)
		}
	}
	for line := range strings.Lines(value) {
		line = strings.TrimSpace(line)
		// A PEM header is everybody's; a short last line would match by chance.
		if line != value && len(line) >= 2*MinLength && !strings.HasPrefix(line, "-----") {
			found = append(found, line)
		}
	}
	return slices.DeleteFunc(found, func(s string) bool { return len(s) < MinLength })
}

func encodings(value string) []string {
	found := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	if quoted, err := json.Marshal(value); err == nil {
		found = append(found, string(quoted[1:len(quoted)-1]))
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			found = append(found, base64At(encoding, value, shift))
		}
	}
	return found
}

// base64At returns those characters of value's base64 form that do not depend on its neighbours when shift bytes
// (modulo 3) stand before it.
func base64At(encoding *base64.Encoding, value string, shift int) string {
	encoded := encoding.EncodeToString([]byte(strings.Repeat("\x00", shift) + value))
	start := (shift*8 + 5) / 6
	end := (shift + len(value)) * 8 / 6
	return encoded[start:end]
}

// String returns s without secrets.
func (r *Redactor) String(s string) string {
	if r == nil || r.longest == 0 {
		return s
	}
	out, _ := r.replace(nil, []byte(s), 0)
	return string(out)
}

// replace appends src without secrets to dst. It stops keep bytes before the end of src, or after the secret that
// reaches into them, and returns how much it consumed.
func (r *Redactor) replace(dst, src []byte, keep int) ([]byte, int) {
	plain, i := 0, 0
	for i < len(src)-keep {
		p := r.at(src[i:])
		if p == nil {
			i++
			continue
		}
		dst = append(append(dst, src[plain:i]...), p.with...)
		i += len(p.find)
		plain = i
	}
	return append(dst, src[plain:i]...), i
}

func (r *Redactor) at(src []byte) *pattern {
	if len(src) < MinLength {
		return nil
	}
	bit := int(src[0])<<8 | int(src[1])
	if r.first[bit/64]&(1<<(bit%64)) == 0 {
		return nil
	}
	patterns := r.patterns[[2]byte{src[0], src[1]}]
	for i := range patterns {
		if find := patterns[i].find; len(src) >= len(find) && bytes.Equal(src[:len(find)], []byte(find)) {
			return &patterns[i]
		}
	}
	return nil
}

// Writer redacts a stream in flat memory: a secret that is cut over several writes is found all the same. It holds
// back as many bytes as the longest secret has; Flush passes them on at the end.
type Writer struct {
	redactor *Redactor
	to       io.Writer
	held     []byte
	out      []byte
}

// Writer makes a Writer that writes to w.
func (r *Redactor) Writer(w io.Writer) *Writer { return &Writer{redactor: r, to: w} }

// Write redacts p. The error is the underlying writer's.
func (w *Writer) Write(p []byte) (int, error) {
	if w.redactor == nil || w.redactor.longest == 0 {
		return w.to.Write(p)
	}
	w.held = append(w.held, p...)
	return len(p), w.pass(w.redactor.longest - 1)
}

// Flush passes on what was held back. No Write may follow.
func (w *Writer) Flush() error {
	if len(w.held) == 0 {
		return nil
	}
	return w.pass(0)
}

func (w *Writer) pass(keep int) error {
	out, used := w.redactor.replace(w.out[:0], w.held, keep)
	w.out = out
	w.held = w.held[:copy(w.held, w.held[used:])]
	if len(out) == 0 {
		return nil
	}
	_, err := w.to.Write(out)
	return err
}
