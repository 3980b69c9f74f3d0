package adapters

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/jev"
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
	Own       Decision = "own"       // the echo of what mikan says; its delivery records it
	Logged    Decision = "logged"    // kept in the chat log; it does not address mikan, or is too old to be answered
	Revised   Decision = "revised"   // an edit or deletion, kept in the chat log
	Stranged  Decision = "stranger"  // its author may not talk to mikan
	Queued    Decision = "queued"    // waits in the inbox for its run
	Undecided Decision = "undecided" // waits in the inbox for the decision whether it becomes a run
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
	Store    *store.Store
	Waker    Waker
	Control  *Control
	Delivery *Delivery
	// Settings tells what is in force in an office now.
	Settings func(ctx context.Context, officeKey string) (settings.Office, error)
	Access   *Access
	// Judge decides where an office asks for it whether talk is meant for mikan; nil: it never is.
	Judge jev.Judge
	// AnswerAge is how old a message may be and still be answered; zero: any age.
	AnswerAge time.Duration
	Metrics   *telemetry.Metrics
	Log       *slog.Logger
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
	switch {
	case isEcho(m):
		receipt.Decision = Own
		return receipt, nil
	case m.Change != Created:
		return in.revise(ctx, m, receipt)
	}
	return in.arrive(ctx, m, receipt)
}

// echoAge is how long a message of mikan's own counts as the echo of a delivery that records it itself. What is found
// later, in a history that is read again, is logged like anybody's; the log knows those that were delivered.
const echoAge = 10 * time.Minute

// isEcho recognises what mikan says itself. Its edits are redraws: the delivery records the final text.
func isEcho(m Message) bool {
	return m.Author.Kind == store.AuthorMikan && (m.Change == Edited || m.Change == Created && time.Since(m.SentAt) < echoAge)
}

// arrive takes in a message that is new to mikan.
func (in *Intake) arrive(ctx context.Context, m Message, receipt Receipt) (Receipt, error) {
	arrival := arrivalOf(m, receipt.OfficeKey)
	stranger := false
	if arrival.Row != nil {
		if m.Purpose == ForContext || in.tooOld(m) {
			arrival.Row = nil
		} else if err := in.consider(ctx, m, &arrival, &stranger); err != nil {
			return receipt, err
		}
	}
	if stranger && in.capabilities(m.Address).Strangers == StrangersUnkept {
		receipt.Decision = Stranged
		return receipt, nil
	}
	fresh, err := in.Store.Receive(ctx, arrival)
	switch {
	case err != nil:
		return receipt, err
	case !fresh:
		receipt.Decision = Repeated
		return receipt, nil
	case stranger:
		receipt.Decision = Stranged
		in.turnAway(ctx, m, arrival)
		return receipt, nil
	case arrival.Row == nil:
		receipt.Decision = Logged
		return receipt, nil
	}
	return in.queued(ctx, m, arrival, receipt), nil
}

// queued sets going what was committed: the decision about it, or what it asks for.
func (in *Intake) queued(ctx context.Context, m Message, arrival store.Arrival, receipt Receipt) Receipt {
	switch {
	case arrival.Doubt != nil:
		receipt.Decision = Undecided
		in.decideSoon(ctx, store.Undecided{InboxRow: *arrival.Row, Doubt: *arrival.Doubt})
		return receipt
	case arrival.Row.Kind == store.InboxControl:
		receipt.Decision = Commanded
	default:
		receipt.Decision, receipt.RunID = Queued, run.ID(receipt.OfficeKey, m.SessionKey, m.ID, 1)
	}
	in.begin(ctx, *arrival.Row)
	return receipt
}

// begin sets going what an inbox row asks for. All of it is best effort: the row is committed, and the sweeper repeats
// what was left undone.
func (in *Intake) begin(ctx context.Context, row store.InboxRow) {
	if row.Kind == store.InboxControl {
		if err := in.Control.CarryOut(ctx, row); err != nil {
			in.Log.Warn("a control word waits for the sweeper", "code", fault.CodeOf(err))
		}
		return
	}
	in.wake(ctx, row.OfficeKey, row.SessionKey)
	in.Delivery.acknowledge(ctx, row)
}

func (in *Intake) tooOld(m Message) bool {
	return in.AnswerAge > 0 && time.Since(m.SentAt) > in.AnswerAge
}

func (in *Intake) capabilities(at office.Address) Capabilities {
	if outbound, ok := in.Delivery.Outbounds[at.Platform]; ok {
		return outbound.Capabilities(at)
	}
	return Capabilities{}
}

// wake is best effort: the row is committed, and the sweeper wakes what was not woken.
func (in *Intake) wake(ctx context.Context, officeKey, sessionKey string) {
	if err := in.Waker.Wake(ctx, officeKey, sessionKey); err != nil {
		in.Log.Warn("a run waits for the sweeper", "office", officeKey, "code", fault.CodeOf(err), "error", err)
	}
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
	if m.Author.Kind == store.AuthorHuman && m.Purpose == ForAnswer {
		word = ParseWord(m.Text)
	}
	if word != NoWord && word != Stop && word != StopAll && m.Audience == store.Shared && (m.Addressed == NotAddressed || m.Addressed == Ambient) {
		word = NoWord // said among people, or to another bot
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
// going changes the log only. An edit starts a run when it is the edit that mentions mikan.
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
	if m.Change == Deleted || m.Addressed != Mention || m.Author.Kind != store.AuthorHuman {
		return receipt, nil
	}
	if !changed { // also where only the mention was added, which is no part of the text
		_, err := in.Store.ChatMessage(ctx, receipt.OfficeKey, m.ID)
		if fault.CodeOf(err) == fault.NotFound {
			m.Change = Created // mikan has never seen the message that was edited
			return in.arrive(ctx, m, receipt)
		}
		if err != nil {
			return receipt, err
		}
	}
	return in.call(ctx, m, receipt)
}

// call makes an edit that mentions mikan a trigger, unless the message has had its run.
func (in *Intake) call(ctx context.Context, m Message, receipt Receipt) (Receipt, error) {
	answered, err := in.Store.Answers(ctx, receipt.OfficeKey, m.ID)
	if err != nil || answered || in.tooOld(m) {
		return receipt, err
	}
	arrival, stranger := arrivalOf(m, receipt.OfficeKey), false
	if err := in.consider(ctx, m, &arrival, &stranger); err != nil || arrival.Row == nil || arrival.Row.Kind != store.InboxTrigger {
		return receipt, err
	}
	fresh, err := in.Store.QueueLate(ctx, arrival)
	if err != nil || !fresh {
		return receipt, err
	}
	return in.queued(ctx, m, arrival, receipt), nil
}

// ReplyOf encodes an adapter's reply terms.
func ReplyOf(terms any) json.RawMessage {
	raw, err := json.Marshal(terms)
	if err != nil {
		panic(fmt.Sprintf("reply terms must be plain data: %v", err))
	}
	return raw
}
