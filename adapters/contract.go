// Package adapters is the contract between mikan and chat platforms, and the two pipelines that all of them share:
// intake (events become triggers) and delivery (answers become messages).
//
// An adapter package knows its platform and nothing of the others. Inbound it turns native events into Message and
// computes the raw session key; it decides nothing else about sessions. Outbound it implements Outbound.
package adapters

import (
	"context"
	"encoding/json"
	"time"

	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// Change tells what happened to a message.
type Change string

// The changes. A platform's "edit" that changes no text (link previews) is still Edited; intake compares.
const (
	Created Change = "created"
	Edited  Change = "edited"
	Deleted Change = "deleted"
)

// Author is who said a message.
type Author struct {
	ID   string
	Name string
	Kind store.AuthorKind
}

// Reason tells why a message addresses mikan. The empty reason means that it does not: it is logged, nothing runs.
type Reason string

// The reasons that all platforms share.
const (
	NotAddressed  Reason = ""
	DirectMessage Reason = "direct_message"
	Mention       Reason = "mention"
)

// Message is what an adapter makes of one native event.
type Message struct {
	Address    office.Address
	Issue      *office.Issue // GitHub only
	Audience   store.Audience
	OfficeName string
	SessionKey string // raw platform values; intake refuses a key of another conversation
	ID         string
	ThreadID   string
	ReplyTo    string
	Author     Author
	Text       string
	SentAt     time.Time
	Change     Change
	Addressed  Reason
	// Reply tells Outbound where an answer goes, in the adapter's own terms. It is stored with the run: the model
	// cannot change it.
	Reply json.RawMessage

	Attachments []store.Attachment
}

// Capabilities tell what a platform can do, so that the shared pipelines need no platform's name.
type Capabilities struct {
	Redraws  Redraws
	Whispers Whispers
	Repeats  Repeats
}

// Repeats tells what a second Post with the same key does.
type Repeats string

// The choices.
const (
	RepeatsShow   Repeats = ""     // a second message: an earlier attempt must be looked for before another is made
	RepeatsVanish Repeats = "none" // nothing: it is the same message
)

// Whispers tells whether a message in a shared conversation can be shown to one person alone.
type Whispers string

// The choices.
const (
	NoWhispers  Whispers = ""    // whatever is said, everybody reads
	ToOnePerson Whispers = "one" // Outgoing.OnlyFor is honoured
)

// Redraws tells whether a message may be shown before it is complete.
type Redraws string

// The choices.
const (
	NoRedraws   Redraws = "none" // one finished message
	EditRedraws Redraws = "edit" // the message is edited while it grows
)

// Outgoing is a message on its way to a platform.
type Outgoing struct {
	Address    office.Address
	SessionKey string
	Reply      json.RawMessage
	Key        string // opaque idempotency key, at most 25 characters
	Markdown   string // GFM; the adapter renders it natively
	// OnlyFor is the platform's id of the one person who may see the message; empty: whoever reads the conversation.
	// Set only where the platform whispers.
	OnlyFor string
}

// Outbound puts messages on one platform. Errors carry a fault code: unavailable and rate_limited are tried again;
// invalid, forbidden, not_found and too_large are the platform's last word. Every call ends when ctx does.
type Outbound interface {
	Platform() office.Platform
	Capabilities() Capabilities
	// Post sends a message and returns the platform's id of it.
	Post(ctx context.Context, m Outgoing) (messageID string, err error)
	Edit(ctx context.Context, messageID string, m Outgoing) error
	Delete(ctx context.Context, messageID string, m Outgoing) error
	// FindDelivery looks for a message that an earlier attempt may have posted since the given time.
	FindDelivery(ctx context.Context, m Outgoing, since time.Time) (messageID string, found bool, err error)
}
