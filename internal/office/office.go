// Package office names the persistent home of a conversation: its address, and the storage identity that is made from
// the address.
//
// The office key names directories, workflow ids and database rows, so how it is made can never change: a key is
// "v1-<platform>-<readable>-<digest>", where only the digest tells two offices apart and the readable part is for
// people. Version 1 is the form that 0.5.3 installations already have on disk.
package office

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Platform is a chat system that mikan speaks.
type Platform string

// The platforms. Their names are part of every office key.
const (
	Slack    Platform = "slack"
	Discord  Platform = "discord"
	Telegram Platform = "telegram"
	GitHub   Platform = "github"
	Terminal Platform = "terminal"
)

// Platforms lists every platform in the order in which people read them.
func Platforms() []Platform { return []Platform{Slack, Discord, Telegram, GitHub, Terminal} }

// ParsePlatform reads a platform's name as it is written in keys; anything else is an *IDError.
func ParsePlatform(name string) (Platform, error) {
	p := Platform(name)
	if !slices.Contains(Platforms(), p) {
		return "", &IDError{Part: PartPlatform, Reason: ReasonUnknown, Value: name}
	}
	return p, nil
}

// Address is where a conversation takes place. ConversationID is the platform's own raw value, kept byte for byte; for
// GitHub it is the id that Issue.ConversationID makes.
type Address struct {
	Platform       Platform `json:"platform"`
	ConversationID string   `json:"conversationId"`
}

// NewAddress makes a validated address from what a person typed or an old installation left behind. It differs from a
// literal Address in one thing: a GitHub id is brought into its one spelling, since GitHub's names ignore case.
func NewAddress(platform, conversationID string) (Address, error) {
	a := Address{Platform: Platform(platform), ConversationID: conversationID}
	if a.Platform == GitHub {
		a.ConversationID = canonicalGitHub(conversationID)
	}
	return a, a.Validate()
}

// Validate tells why the address names no office; the error is an *IDError.
func (a Address) Validate() error {
	if _, err := ParsePlatform(string(a.Platform)); err != nil {
		return err
	}
	if err := ValidateConversationID(a.ConversationID); err != nil {
		return err
	}
	if a.Platform == GitHub && a.ConversationID != canonicalGitHub(a.ConversationID) {
		return &IDError{Part: PartConversation, Reason: ReasonUpperCase, Value: a.ConversationID}
	}
	return nil
}

// Key makes the office key of a valid address. Equal addresses have equal keys; different ones differ in the digest.
func (a Address) Key() (Key, error) {
	if err := a.Validate(); err != nil {
		return "", err
	}
	digest := sha256.Sum256([]byte("office-address-v1\x00" + string(a.Platform) + "\x00" + a.ConversationID))
	return Key("v1-" + string(a.Platform) + "-" + readable(a.ConversationID) + "-" + hex.EncodeToString(digest[:8])), nil
}

// maxReadable is the length of a key's readable part, in bytes. It keeps a key within 61 bytes.
const maxReadable = 32

var notReadable = regexp.MustCompile(`[^a-z0-9]+`)

func readable(conversationID string) string {
	// Full Unicode lower-casing, which strings.ToLower does not do: "İ" becomes "i" and a combining dot, hence "i-".
	// A Caser keeps state, so each call has its own.
	s := cases.Lower(language.Und).String(conversationID)
	s = strings.Trim(notReadable.ReplaceAllString(s, "-"), "-")
	if len(s) > maxReadable {
		s = strings.TrimRight(s[:maxReadable], "-")
	}
	if s == "" {
		return "conversation"
	}
	return s
}

// Key is the storage identity of an office. Outside tests it comes from Address.Key or ParseKey only.
type Key string

var keyShape = regexp.MustCompile(`^v1-(slack|discord|telegram|github|terminal)-([a-z0-9]+(?:-[a-z0-9]+)*)-[0-9a-f]{16}$`)

// ParseKey reads an office key; anything of another shape is an *IDError. Whether such an office exists, and whether
// its digest belongs to its readable part, only the database can tell.
func ParseKey(s string) (Key, error) {
	m := keyShape.FindStringSubmatch(s)
	if m == nil || len(m[2]) > maxReadable {
		return "", &IDError{Part: PartKey, Reason: ReasonNotAKey, Value: s}
	}
	return Key(s), nil
}

// IsKey tells whether s has the shape of an office key.
func IsKey(s string) bool {
	_, err := ParseKey(s)
	return err == nil
}

// Platform tells which platform the office is on; "" for a Key that ParseKey refuses.
func (k Key) Platform() Platform {
	m := keyShape.FindStringSubmatch(string(k))
	if m == nil {
		return ""
	}
	return Platform(m[1])
}

// Dir is the office's directory right below root. It refuses a Key that was not made by this package, so that no
// path ever leaves root.
func (k Key) Dir(root string) (string, error) {
	if _, err := ParseKey(string(k)); err != nil {
		return "", err
	}
	return filepath.Join(root, string(k)), nil
}
