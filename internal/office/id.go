package office

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxConversationID is the length of the longest conversation id, in bytes: that of the longest session key, since the
// id alone is the key of the conversation's top level.
const MaxConversationID = 190

// Part tells which value an IDError speaks of.
type Part string

// The parts.
const (
	PartPlatform     Part = "platform"
	PartConversation Part = "conversation id"
	PartKey          Part = "office key"
	PartRepository   Part = "repository"
)

// Reason tells what is wrong with a value. The reasons are few and hold nothing of the value: fit for a metric.
type Reason string

// The reasons.
const (
	ReasonUnknown   Reason = "is not one that mikan speaks (slack, discord, telegram, github, terminal)"
	ReasonEmpty     Reason = "is empty"
	ReasonTooLong   Reason = "is longer than 190 bytes"
	ReasonEncoding  Reason = "is not valid UTF-8"
	ReasonDots      Reason = "is . or .."
	ReasonSlash     Reason = "contains / or \\"
	ReasonControl   Reason = "contains a control character"
	ReasonColon     Reason = "contains a colon, which separates a session key's parts"
	ReasonUpperCase Reason = "is not in lower case, as GitHub's ids are kept"
	ReasonNotAKey   Reason = "does not have the form v1-<platform>-<name>-<16 hex digits>"
	ReasonName      Reason = "is not an owner, a name and a positive number"
)

// IDError refuses an identifier.
type IDError struct {
	Part   Part
	Reason Reason
	Value  string // as it was given; chosen by a stranger, so it goes to people who typed it, not into logs
}

func (e *IDError) Error() string {
	return fmt.Sprintf("the %s %s %s", e.Part, quote(e.Value), e.Reason)
}

// quote makes a stranger's value printable on one line, and short.
func quote(value string) string {
	const most = 64 // runes; enough to recognise an id
	if utf8.RuneCountInString(value) > most {
		value = string([]rune(value)[:most]) + "…"
	}
	return fmt.Sprintf("%q", value)
}

// ValidateConversationID tells why id names no conversation; the error is an *IDError. Nothing is trimmed or folded.
func ValidateConversationID(id string) error {
	refuse := func(r Reason) error { return &IDError{Part: PartConversation, Reason: r, Value: id} }
	switch {
	case id == "":
		return refuse(ReasonEmpty)
	case len(id) > MaxConversationID:
		return refuse(ReasonTooLong)
	case !utf8.ValidString(id):
		return refuse(ReasonEncoding)
	case id == "." || id == "..":
		return refuse(ReasonDots)
	case strings.ContainsAny(id, `/\`):
		return refuse(ReasonSlash)
	case strings.ContainsFunc(id, isControl):
		return refuse(ReasonControl)
	case strings.Contains(id, ":"):
		return refuse(ReasonColon)
	}
	return nil
}

// isControl holds for U+0000–U+001F and U+007F–U+009F.
func isControl(r rune) bool { return r <= 0x1f || (r >= 0x7f && r <= 0x9f) }
