package adapters

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/settings"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// Decision is what intake made of a message.
type Decision string

// The decisions; each is counted.
const (
	Refused   Decision = "refused"   // its ids are not acceptable; nothing was kept
	Repeated  Decision = "repeated"  // known already: a redelivery
	Logged    Decision = "logged"    // kept in the chat log; it does not address mikan
	Revised   Decision = "revised"   // an edit or deletion, kept in the chat log
	Queued    Decision = "queued"    // waits in the inbox for its run
	Commanded Decision = "commanded" // a word that mikan carries out itself
)

// Receipt tells a caller what became of its message.
type Receipt struct {
	Decision   Decision
	OfficeKey  string
	SessionKey string
	RunID      string // of the run that will answer, for Queued
	WorkflowID string
}

// Waker starts or signals the workflow of a session.
type Waker interface {
	Wake(ctx context.Context, officeKey, sessionKey string) error
}

// Intake is the one way in, for every platform.
type Intake struct {
	Store   *store.Store
	Waker   Waker
	Control *Control
	// Settings tells what is in force in an office now.
	Settings func(ctx context.Context, officeKey string) (settings.Office, error)
	Metrics  *telemetry.Metrics
	Log      *slog.Logger
}

// Receive takes a message in. When it returns without an error the message is committed, and the platform may be
// acknowledged; what follows (waking the workflow, carrying out a word) is repeated by the sweeper if it fails here.
// Errors: invalid for ids that are refused, unavailable when the database is not reachable.
func (in *Intake) Receive(ctx context.Context, m Message) (Receipt, error) {
	receipt, err := in.receive(ctx, m)
	if fault.CodeOf(err) == fault.Invalid || fault.CodeOf(err) == fault.Conflict {
		receipt.Decision = Refused
		in.Metrics.Refused(m.Address.Platform, string(fault.CodeOf(err)))
		in.Log.Warn("a message was refused", "platform", m.Address.Platform, "code", fault.CodeOf(err))
	}
	if receipt.Decision != "" {
		in.Metrics.Received(m.Address.Platform, string(receipt.Decision))
	}
	return receipt, err
}

func (in *Intake) receive(ctx context.Context, m Message) (Receipt, error) {
	officeKey, err := identify(m)
	if err != nil {
		return Receipt{}, err
	}
	receipt := Receipt{OfficeKey: officeKey, SessionKey: m.SessionKey, WorkflowID: run.WorkflowID(officeKey, m.SessionKey)}
	if m.Change != Created {
		return in.revise(ctx, m, receipt)
	}
	arrival := arrivalOf(m, officeKey)
	if arrival.Row != nil && arrival.Row.Word != string(Stop) && arrival.Row.Word != string(StopAll) {
		in, err := in.Settings(ctx, officeKey)
		if err != nil {
			return receipt, err
		}
		if len(in.Allowed) > 0 && !slices.Contains(in.Allowed, m.Author.ID) {
			arrival.Row = nil // logged like any talk that is not meant for mikan
		}
	}
	fresh, err := in.Store.Receive(ctx, arrival)
	switch {
	case err != nil:
		return receipt, err
	case !fresh:
		receipt.Decision = Repeated
		return receipt, nil
	case arrival.Row == nil:
		receipt.Decision = Logged
		return receipt, nil
	case arrival.Row.Kind == store.InboxControl:
		receipt.Decision = Commanded
		if err := in.Control.CarryOut(ctx, *arrival.Row); err != nil {
			in.Log.Warn("a control word waits for the sweeper", "word", arrival.Row.Word, "code", fault.CodeOf(err))
		}
		return receipt, nil
	}
	receipt.Decision = Queued
	receipt.RunID = run.ID(officeKey, m.SessionKey, m.ID, 1)
	in.wake(ctx, officeKey, m.SessionKey)
	return receipt, nil
}

// wake is best effort: the row is committed, and the sweeper wakes what was not woken.
func (in *Intake) wake(ctx context.Context, officeKey, sessionKey string) {
	failpoint.Hit("wake.before")
	if err := in.Waker.Wake(ctx, officeKey, sessionKey); err != nil {
		in.Log.Warn("a run waits for the sweeper", "office", officeKey, "code", fault.CodeOf(err))
	}
	failpoint.Hit("wake.after")
}

// identify refuses every id that could reach another conversation's state, and derives the office key.
func identify(m Message) (string, error) {
	officeKey, err := m.Address.Key()
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "the message's address is refused")
	}
	key, err := session.ParseKey(m.SessionKey)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "the session key is refused")
	}
	if err := key.BelongsTo(m.Address.ConversationID); err != nil {
		return "", fault.Wrap(fault.Invalid, err, "the session key is refused")
	}
	if err := office.ValidateConversationID(m.ID); err != nil {
		return "", fault.New(fault.Invalid, "the message id %.64q is refused", m.ID)
	}
	return string(officeKey), nil
}

func arrivalOf(m Message, officeKey string) store.Arrival {
	word := NoWord
	if m.Author.Kind == store.AuthorHuman {
		word = ParseWord(m.Text)
	}
	kind := store.ChatMessageKind
	if word != NoWord {
		kind = store.ChatCommand
	}
	arrival := store.Arrival{
		Office: store.Office{
			Key: officeKey, Platform: string(m.Address.Platform), ConversationID: m.Address.ConversationID,
			Audience: m.Audience, Name: m.OfficeName,
		},
		Message: store.ChatMessage{
			OfficeKey: officeKey, MessageID: m.ID, SessionKey: m.SessionKey, ThreadID: m.ThreadID, ReplyTo: m.ReplyTo,
			AuthorID: m.Author.ID, AuthorName: m.Author.Name, AuthorKind: m.Author.Kind, Kind: kind, Text: m.Text,
			Attachments: m.Attachments, SentAt: m.SentAt,
		},
	}
	if m.Issue != nil {
		arrival.Office.RepoOwner, arrival.Office.RepoName, arrival.Office.IssueNumber = m.Issue.Owner, m.Issue.Repo, m.Issue.Number
	}
	if m.Author.Kind != store.AuthorHuman {
		return arrival // other bots and ourselves never trigger, not even by mention
	}
	row := store.InboxRow{
		OfficeKey: officeKey, SessionKey: m.SessionKey, MessageID: m.ID, Reply: m.Reply,
		Kind: store.InboxTrigger, Trigger: run.Human,
	}
	switch {
	case word == Compact, word == Memory:
		row.Trigger, row.Word = run.Command, string(word)
		arrival.Row = &row
	case word != NoWord:
		row.Kind, row.Trigger, row.Word = store.InboxControl, run.Command, string(word)
		arrival.Row = &row
	case m.Addressed != NotAddressed:
		arrival.Row = &row
	}
	return arrival
}

// revise records an edit or a deletion. The run of a message that still waits reads the newest text; one whose run is
// going changes the log only.
func (in *Intake) revise(ctx context.Context, m Message, receipt Receipt) (Receipt, error) {
	changed, err := in.Store.Revise(ctx, store.Revision{
		OfficeKey: receipt.OfficeKey, MessageID: m.ID, Text: m.Text, Deleted: m.Change == Deleted,
	})
	if err != nil {
		return receipt, err
	}
	receipt.Decision = Repeated
	if changed {
		receipt.Decision = Revised
	}
	return receipt, nil
}

// ReplyOf encodes an adapter's reply terms.
func ReplyOf(terms any) json.RawMessage {
	raw, err := json.Marshal(terms)
	if err != nil {
		panic(fmt.Sprintf("reply terms must be plain data: %v", err))
	}
	return raw
}
