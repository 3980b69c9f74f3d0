// Package session holds the grammar of session keys.
//
// A session key is "conversationId" or "conversationId:suffix": raw platform values, split at the first colon. It says
// which session of an office is meant, never which office: that is the office key's part, and one never holds the other.
package session

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxKey is the length of the longest key, in bytes. A workflow id is "<officeKey>/<sessionKey>", an office key has at
// most 61 bytes, and Temporal's SQL stores hold 255 characters of a workflow id.
const MaxKey = 190

// Key is a session key. Outside tests it comes from ParseKey, MakeKey or a rule of this package only.
type Key string

// ParseKey reads a session key. Nothing is trimmed or case-folded. The error is a *KeyError.
func ParseKey(s string) (Key, error) {
	conversation, suffix, scoped := strings.Cut(s, ":")
	if err := check(PartConversation, conversation); err != nil {
		return "", err
	}
	if scoped {
		if err := check(PartSuffix, suffix); err != nil {
			return "", err
		}
	}
	if len(s) > MaxKey {
		return "", &KeyError{Part: PartKey, Reason: ReasonTooLong, Value: s}
	}
	return Key(s), nil
}

// MakeKey joins a conversation id and a suffix; an empty suffix is refused like any other bad one. The key of the
// conversation's top level is ParseKey(conversationID). The error is a *KeyError.
func MakeKey(conversationID, suffix string) (Key, error) {
	if strings.Contains(conversationID, ":") {
		return "", &KeyError{Part: PartConversation, Reason: ReasonColon, Value: conversationID}
	}
	return ParseKey(conversationID + ":" + suffix)
}

// topLevel is the key of a conversation's top level.
func topLevel(conversationID string) (Key, error) {
	if strings.Contains(conversationID, ":") {
		return "", &KeyError{Part: PartConversation, Reason: ReasonColon, Value: conversationID}
	}
	return ParseKey(conversationID)
}

// Conversation is the part before the first colon.
func (k Key) Conversation() string {
	conversation, _, _ := strings.Cut(string(k), ":")
	return conversation
}

// Suffix is the part after the first colon, which may hold colons itself; false when the key is the conversation's
// top level.
func (k Key) Suffix() (string, bool) {
	_, suffix, scoped := strings.Cut(string(k), ":")
	return suffix, scoped
}

// BelongsTo refuses a key that is malformed or not of exactly this conversation. Every door through which a key comes
// in asks this before it does anything else. The error is a *KeyError.
func (k Key) BelongsTo(conversationID string) error {
	if _, err := ParseKey(string(k)); err != nil {
		return err
	}
	if k.Conversation() != conversationID {
		return &KeyError{Part: PartKey, Reason: ReasonForeign, Value: string(k)}
	}
	return nil
}

// Part tells which value a KeyError speaks of.
type Part string

// The parts.
const (
	PartKey          Part = "session key"
	PartConversation Part = "session key's conversation id"
	PartSuffix       Part = "session key's suffix"
)

// Reason tells what is wrong with a value. The reasons are few and hold nothing of the value: fit for a metric.
type Reason string

// The reasons.
const (
	ReasonEmpty    Reason = "is empty"
	ReasonTooLong  Reason = "is longer than 190 bytes"
	ReasonEncoding Reason = "is not valid UTF-8"
	ReasonDots     Reason = "is . or .."
	ReasonSlash    Reason = "contains / or \\"
	ReasonControl  Reason = "contains a control character"
	ReasonColon    Reason = "contains a colon"
	ReasonForeign  Reason = "belongs to another conversation"
)

// KeyError refuses a session key.
type KeyError struct {
	Part   Part
	Reason Reason
	Value  string // as it was given; chosen by a stranger, so it goes to people who typed it, not into logs
}

func (e *KeyError) Error() string {
	const most = 64 // runes; enough to recognise a key
	value := e.Value
	if utf8.RuneCountInString(value) > most {
		value = string([]rune(value)[:most]) + "…"
	}
	return fmt.Sprintf("the %s %q %s", e.Part, value, e.Reason)
}

// check applies the rules that both parts of a key share. Package office has the same for conversation ids, since
// neither package may lean on the other; a test holds the two to each other.
func check(part Part, s string) error {
	refuse := func(r Reason) error { return &KeyError{Part: part, Reason: r, Value: s} }
	switch {
	case s == "":
		return refuse(ReasonEmpty)
	case !utf8.ValidString(s):
		return refuse(ReasonEncoding)
	case s == "." || s == "..":
		return refuse(ReasonDots)
	case strings.ContainsAny(s, `/\`):
		return refuse(ReasonSlash)
	case strings.ContainsFunc(s, isControl):
		return refuse(ReasonControl)
	}
	return nil
}

// isControl holds for U+0000–U+001F and U+007F–U+009F.
func isControl(r rune) bool { return r <= 0x1f || (r >= 0x7f && r <= 0x9f) }
