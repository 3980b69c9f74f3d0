// Package adapters is the contract between mikan and chat platforms, and the two pipelines that all of them share:
// intake (events become triggers) and delivery (answers become messages).
//
// An adapter package knows its platform and nothing of the others. Inbound it turns native events into Message and
// computes the raw session key; it decides nothing else about sessions. Outbound it implements Outbound, and as many of
// the small optional interfaces as the platform has means for.
package adapters

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/tool"
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

// The reasons. The last two hold under a condition, which intake looks up.
const (
	NotAddressed  Reason = ""
	DirectMessage Reason = "direct_message"
	Mention       Reason = "mention"
	Reply         Reason = "reply"      // to a message of mikan's
	Assignment    Reason = "assignment" // mikan was assigned to the issue
	Review        Reason = "review"     // mikan's review was requested
	Pressed       Reason = "pressed"    // a button or a command of the platform's own
	FollowUp      Reason = "follow_up"  // holds when the session has had a run
	Ambient       Reason = "ambient"    // talk in a shared conversation: holds as the office's auto-reply setting says
)

// Standing is what a platform's default says about a person, before any rule of the operator's.
type Standing string

// The standings. Unknown people are looked up by the adapter's Vetter after their message is committed.
const (
	Member   Standing = "member"   // may talk to mikan
	Stranger Standing = "stranger" // may not
	Unknown  Standing = "unknown"  // a call is needed to find out
)

// Purpose tells what a message is taken in for.
type Purpose string

// The purposes.
const (
	ForAnswer  Purpose = ""        // as it is addressed
	ForContext Purpose = "context" // logged, whatever it says: the past of a conversation that mikan has just joined
)

// Message is what an adapter makes of one native event.
type Message struct {
	Address office.Address
	// Installation is the workspace, bot or account that received the event, as the platform names it.
	Installation string
	Issue        *office.Issue // GitHub only
	Audience     store.Audience
	OfficeName   string
	SessionKey   string // raw platform values; intake refuses a key of another conversation
	ID           string
	ThreadID     string
	ReplyTo      string
	Author       Author
	// Standing of the author; the zero value counts as Member where the platform has no strangers (the terminal).
	Standing Standing
	// Groups are what access rules can name beside the author: "workspace:T1", "guild:1", "chat:-100", "role:7",
	// "repository:owner/name".
	Groups    []Group
	Text      string
	SentAt    time.Time
	Change    Change
	Addressed Reason
	Purpose   Purpose
	// Reply tells Outbound where an answer goes, in the adapter's own terms. It is stored with the run: the model
	// cannot change it.
	Reply json.RawMessage

	Attachments []store.Attachment
}

// Group is something that people belong to, by the platform's id.
type Group struct {
	Kind store.PrincipalKind
	ID   string
}

// Capabilities tell what a platform can do in a conversation, so that the shared pipelines need no platform's name. The
// zero value is a platform that shows one finished message and nothing else.
type Capabilities struct {
	Redraws     Redraws
	RedrawEvery time.Duration // shortest time between two redraws of one message; zero: one second
	Whispers    Whispers
	Repeats     Repeats
	Placeholder Placeholder
	Waiting     Waiting
	Strangers   Strangers
	Lists       Lists
	Governs     Governs
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

// Placeholder tells whether a run's message is posted before there is anything to say.
type Placeholder string

// The choices.
const (
	NoPlaceholder    Placeholder = ""
	PlaceholderFirst Placeholder = "first" // before the model is called: only an edit can be repeated on this platform
)

// Waiting tells how people learn that their message waits behind a run.
type Waiting string

// The choices.
const (
	WaitingUnsaid  Waiting = ""
	WaitingMarked  Waiting = "mark"   // Marker.Mark(MarkQueued), taken off when the run starts
	WaitingNoticed Waiting = "notice" // a short message
)

// Strangers tells what becomes of a message by somebody who may not talk to mikan.
type Strangers string

// The choices.
const (
	StrangersTold   Strangers = ""     // logged; one short notice a day
	StrangersUnkept Strangers = "none" // no trace is kept
)

// Lists tells what it means that an operator lists people or groups.
type Lists string

// The choices.
const (
	ListsDecide Lists = ""       // whoever is listed may talk to mikan, and nobody else
	ListsNarrow Lists = "narrow" // whoever is listed may, if the platform's own standing admits them, too
)

// Governs tells who may empty the session and change the settings of a shared conversation.
type Governs string

// The choices.
const (
	AdminsGovern  Governs = ""        // its administrators
	MembersGovern Governs = "members" // everybody who may talk to mikan there, since that takes trust enough
)

// Stage tells whether more of a message will come.
type Stage string

// The stages.
const (
	Complete Stage = ""
	Growing  Stage = "growing"
)

// Outgoing is a message on its way to a platform.
type Outgoing struct {
	Address    office.Address
	SessionKey string
	Reply      json.RawMessage
	Key        string // opaque idempotency key, at most 25 characters
	Markdown   string // GFM; the adapter renders it natively
	Stage      Stage
	Part       int // 0 is the first message of an answer; later ones continue it
	// OnlyFor is the platform's id of the one person who may see the message; empty: whoever reads the conversation.
	// Set only where the platform whispers.
	OnlyFor string
	// Cause is the platform's id of the message that is answered; empty when there is none.
	Cause string
}

// Outbound puts messages on one platform. Errors carry a fault code: unavailable and rate_limited (with RetryAfter) are
// tried again; invalid, forbidden, not_found and too_large are the platform's last word. Every call ends when ctx does.
type Outbound interface {
	Platform() office.Platform
	Capabilities(at office.Address) Capabilities
	// Split cuts Markdown into parts that each fit one message, at block boundaries. A text that fits is one part.
	Split(markdown string) []string
	// Post sends a message and returns the platform's id of it.
	Post(ctx context.Context, m Outgoing) (messageID string, err error)
	Edit(ctx context.Context, messageID string, m Outgoing) error
	Delete(ctx context.Context, messageID string, m Outgoing) error
	// FindDelivery looks for a message that an earlier attempt may have posted since the given time, a little earlier
	// than the intent by the database's clock.
	FindDelivery(ctx context.Context, m Outgoing, since time.Time) (messageID string, found bool, err error)
}

// Presence shows that mikan is at work, outside of any message: typing, a status line. It never blocks an answer, and a
// failure is of no consequence.
type Presence interface {
	// Working is called when a run starts and every few seconds while it goes on. doing is a short phrase.
	Working(ctx context.Context, m Outgoing, doing string) error
	// Rest is called once when the run has ended, however it ended.
	Rest(ctx context.Context, m Outgoing) error
}

// Mark is a sign on somebody's message.
type Mark string

// The marks.
const (
	MarkSeen   Mark = "seen"   // it was received and will be answered
	MarkQueued Mark = "queued" // it waits behind another run
)

// Marker puts signs on the message m.Cause. Both calls may be repeated.
type Marker interface {
	Mark(ctx context.Context, m Outgoing, mark Mark) error
	Unmark(ctx context.Context, m Outgoing, mark Mark) error
}

// Fetcher opens an attachment on the platform. A token is sent to the platform's own hosts only. Errors as Outbound's;
// not_found, forbidden and too_large end up in what the model reads about the file.
type Fetcher interface {
	Fetch(ctx context.Context, at office.Address, a store.Attachment) (io.ReadCloser, error)
}

// Upload is a file on its way to a platform.
type Upload struct {
	Name    string
	Size    int64 // bytes
	Content io.Reader
}

// Uploader posts a file where an answer would go and returns the platform's id of the message or file.
type Uploader interface {
	Upload(ctx context.Context, m Outgoing, u Upload) (messageID string, err error)
}

// Toolbox is a platform that has tools of its own for the model. They implement tool.Placed.
type Toolbox interface {
	Tools() []tool.Tool
}

// Applicant is somebody whose standing is looked up.
type Applicant struct {
	Address      office.Address
	Installation string
	AuthorID     string
	Groups       []Group
	Reply        json.RawMessage
}

// Vetter finds out what an event does not tell about its author. An error means that it is not known yet: it is asked
// again, and in the end the author is a stranger. Implementations keep what they learn for some minutes.
type Vetter interface {
	Standing(ctx context.Context, a Applicant) (Standing, error)
}

// Gateway is what the receiving side of an adapter works with.
type Gateway struct {
	// Receive takes a message in. The platform may be acknowledged when it returns nil; refused messages (code invalid
	// or conflict) are acknowledged too, since they would be refused again.
	Receive func(ctx context.Context, m Message) (Receipt, error)
	// Ready is told how the connection is: nil when events come in, else why they do not.
	Ready func(err error)
	// Mux takes webhooks.
	Mux *http.ServeMux
}

// Inbound takes one platform's events in.
type Inbound interface {
	// Run returns nil when ctx has ended. An error ends this platform only, and says what the operator must mend.
	Run(ctx context.Context) error
}

// Services are what an adapter's constructor is given.
type Services struct {
	Store   *store.Store // people, cursors, leases, rates; sessions and runs are no business of an adapter's
	Process string       // unique to this process: what it holds leases as
	Metrics *telemetry.Metrics
	Log     *slog.Logger
}

// Adapter is one platform, as its package makes it.
type Adapter interface {
	Outbound
	// Inbound makes the receiving side, for a gateway. It mounts webhooks at once.
	Inbound(g Gateway) Inbound
	// Check tells what works and what does not, for `mikan doctor`.
	Check(ctx context.Context) []Finding
}

// Finding is one line of a check.
type Finding struct {
	What string // "bot token", "scopes", …
	Err  error  // nil: it works; else what to do
	Note string // what was found
}
