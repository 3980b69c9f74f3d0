package adapters

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/settings"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/web"
)

// Canceller cancels one execution of a run's workflow. A run that is closed already is not an error.
type Canceller interface {
	Cancel(ctx context.Context, workflowID, temporalRunID string) error
}

// Control carries out the words that mikan does not send to the model. A word is a row of the inbox until it is done,
// so a dying gateway cannot lose it; everything here may be repeated.
type Control struct {
	Store     *store.Store
	Delivery  *Delivery
	Canceller Canceller
	// Settings tells what is in force in an office now.
	Settings func(ctx context.Context, officeKey string) (settings.Office, error)
	// DefaultModel answers in offices that choose none.
	DefaultModel string
	// PublicURL is where people reach the gateway, for links to the session view.
	PublicURL string
}

const helpText = "Write what you want done. `stop` ends what I am doing here and `stop all` also drops what waits; " +
	"`/new` starts an empty session, `/compact` makes a summary of this one for me; `/memory` shows what I remember here; `/session` gives you a private link to everything in this one; " +
	"`/model` tells which model answers here and `/model provider/model` chooses one; `/auto-reply on`, `off` or `jev` tells me whether to answer without being mentioned; `/events` lists what I do here by myself; `/help` shows this."

// CarryOut does what a control row asks for and removes the row.
func (c *Control) CarryOut(ctx context.Context, row store.InboxRow) error {
	var err error
	switch Word(row.Word) {
	case Stop:
		err = c.stop(ctx, row, "")
	case StopAll:
		err = c.stopAll(ctx, row)
	case New:
		err = c.reset(ctx, row)
	case Session:
		err = c.link(ctx, row)
	case Events:
		err = c.events(ctx, row)
	case Model, AutoReply:
		err = c.set(ctx, row)
	default:
		err = c.say(ctx, row, row.Word, "", helpText, store.Final)
	}
	if err != nil {
		return err
	}
	return c.Store.Done(ctx, row.ID)
}

func (c *Control) say(ctx context.Context, row store.InboxRow, what, runID, text string, state store.DeliveryState) error {
	return c.Delivery.Say(ctx, Notice{Cause: row.MessageID, What: what, RunID: runID, Row: row, Text: text, State: state})
}

// stop ends the run that the message means, and says so where the word was said. The notice names that run: carried out
// again, by whoever finds the word left over, it ends no other.
func (c *Control) stop(ctx context.Context, row store.InboxRow, dropped string) error {
	notice, said, err := c.Store.NoticeFor(ctx, row.OfficeKey, row.MessageID)
	switch {
	case err != nil:
		return err
	case said && notice.RunID == "":
		return c.say(ctx, row, "stop", "", notice.Text, store.Final)
	case said:
		target, err := c.Store.Run(ctx, notice.RunID)
		if err != nil {
			return err
		}
		return c.end(ctx, row, target, notice.Text)
	}
	target, others, err := c.target(ctx, row)
	switch {
	case err != nil:
		return err
	case target != nil:
		return c.end(ctx, row, *target, dropped+"Stopping…")
	case others > 0:
		return c.say(ctx, row, "stop", "", dropped+fmt.Sprintf("%d runs are going on in threads here; say `stop` in the one you mean.", others), store.Final)
	}
	if waits, err := c.Store.WaitsBefore(ctx, row); err != nil || waits {
		// The message that is meant has not become a run yet. Its run is stopped when it has.
		return errors.Join(err, fault.New(fault.Unavailable, "the run to stop has not begun"))
	}
	return c.say(ctx, row, "stop", "", dropped+"Nothing is running here.", store.Final)
}

// end cancels a run. The notice is rewritten when the run has settled: by the run, or here when it was faster.
func (c *Control) end(ctx context.Context, row store.InboxRow, target store.Run, text string) error {
	if err := c.say(ctx, row, "stop", target.ID, text, store.Posted); err != nil {
		return err
	}
	if err := c.cancel(ctx, target); err != nil {
		return err
	}
	target, err := c.Store.Run(ctx, target.ID)
	if err != nil || target.State != store.Settled {
		return err
	}
	return c.Delivery.CloseNotices(ctx, target)
}

// target finds what "stop" means: the message's own session if it ran when the word came; else the conversation's top
// level; else, said at top level, the only thread that ran. others counts the runs when that is not one.
func (c *Control) target(ctx context.Context, row store.InboxRow) (target *store.Run, others int, err error) {
	open, err := c.Store.RunsAt(ctx, row.OfficeKey, row.ReceivedAt)
	if err != nil {
		return nil, 0, err
	}
	key, err := session.ParseKey(row.SessionKey)
	if err != nil {
		return nil, 0, fault.Wrap(fault.Invalid, err, "the session key is refused")
	}
	for _, wanted := range []string{row.SessionKey, key.Conversation()} {
		for i := range open {
			if open[i].SessionKey == wanted {
				return &open[i], 0, nil
			}
		}
	}
	// Where every message at top level opens a scope of its own, the word's scope is the word itself.
	if suffix, scoped := key.Suffix(); scoped && suffix != row.MessageID || len(open) == 0 {
		return nil, 0, nil
	}
	if len(open) == 1 {
		return &open[0], 0, nil
	}
	return nil, len(open), nil
}

func (c *Control) stopAll(ctx context.Context, row store.InboxRow) error {
	dropped, err := c.Store.EmptyQueue(ctx, row)
	if err != nil {
		return err
	}
	c.Delivery.unmark(ctx, dropped)
	return c.stop(ctx, row, fmt.Sprintf("Dropped %d waiting. ", len(dropped)))
}

// reset starts an empty session at once. The open run of the old epoch can write no more; it is stopped, and what
// waits behind it runs afterwards in the empty context.
func (c *Control) reset(ctx context.Context, row store.InboxRow) error {
	message, err := c.Store.ChatMessage(ctx, row.OfficeKey, row.MessageID)
	if err != nil {
		return err
	}
	may, err := c.governs(ctx, row.OfficeKey, message)
	if err != nil {
		return err
	}
	if !may {
		return c.say(ctx, row, "new", "", "Only this conversation's administrators can start a new session here.", store.Final)
	}
	open, running, err := c.Store.Reset(ctx, row.OfficeKey, row.SessionKey, row.MessageID, message.SentAt)
	if err != nil {
		return err
	}
	if running {
		if err := c.cancel(ctx, open); err != nil {
			return err
		}
	}
	return c.say(ctx, row, "new", "", "New session: earlier messages are no longer in my context. They can still be searched.", store.Final)
}

// link answers with a link to the session view that only the person who asked can read. Where a message reaches
// everybody, there is none: whoever has the link reads the session.
func (c *Control) link(ctx context.Context, row store.InboxRow) error {
	said, found, err := c.Store.NoticeFor(ctx, row.OfficeKey, row.MessageID)
	if err != nil || found && said.State == store.Final {
		return err // repeated: its reader has a link already
	}
	current, known, err := c.Store.CurrentSession(ctx, row.OfficeKey, row.SessionKey)
	if err != nil {
		return err
	}
	if !known {
		return c.say(ctx, row, "session", "", "There is no session here yet: nothing was asked of me.", store.Final)
	}
	onlyFor, private, err := c.confidant(ctx, row)
	if err != nil {
		return err
	}
	if !private {
		return c.say(ctx, row, "session", "", "I cannot show you a link here that nobody else sees. Whoever operates me can make one: `mikan session link "+current.ID+"`", store.Final)
	}
	token, _, err := c.Store.CreateLink(ctx, current.ID, store.LinkLifetime)
	if err != nil {
		return err
	}
	return c.Delivery.Say(ctx, Notice{
		Cause: row.MessageID, What: "session", Row: row, State: store.Final, OnlyFor: onlyFor,
		Text: "This session, for 24 hours and for whoever has the link: " + LinkMark, Link: web.Link(c.PublicURL, token),
	})
}

// confidant tells to whom alone an answer can be shown: nobody in particular in a private conversation, the author of
// the message where the platform whispers; private is false where neither holds.
func (c *Control) confidant(ctx context.Context, row store.InboxRow) (onlyFor string, private bool, err error) {
	o, err := c.Store.Office(ctx, row.OfficeKey)
	if err != nil || o.Audience == store.Private {
		return "", true, err
	}
	p, err := c.Delivery.place(ctx, row.OfficeKey)
	if err != nil || p.outbound.Capabilities(p.address).Whispers == NoWhispers {
		return "", false, err
	}
	message, err := c.Store.ChatMessage(ctx, row.OfficeKey, row.MessageID)
	return message.AuthorID, message.AuthorID != "", err
}

// governs tells whether somebody may empty the session and change settings: in a private conversation everybody who talks
// there, in a shared one its administrators, or everybody where the platform lets only those talk who are trusted with it.
func (c *Control) governs(ctx context.Context, officeKey string, message store.ChatMessage) (bool, error) {
	o, err := c.Store.Office(ctx, officeKey)
	if err != nil || o.Audience == store.Private {
		return err == nil, err
	}
	p, err := c.Delivery.place(ctx, officeKey)
	if err != nil || p.outbound.Capabilities(p.address).Governs == MembersGovern {
		return err == nil, err
	}
	in, err := c.Settings(ctx, officeKey)
	return slices.Contains(in.Admins, message.AuthorID), err
}

func (c *Control) cancel(ctx context.Context, r store.Run) error {
	return c.Canceller.Cancel(ctx, r.WorkflowID, r.TemporalRunID)
}

// StopRun ends a run from outside of the chat (the operator's CLI). It is refused with conflict when it has ended.
func (c *Control) StopRun(ctx context.Context, runID string) (store.Run, error) {
	r, err := c.Store.Run(ctx, runID)
	if err != nil {
		return store.Run{}, err
	}
	if r.State == store.Settled {
		return r, fault.New(fault.Conflict, "the run has ended already (%s)", r.Outcome)
	}
	return r, c.cancel(ctx, r)
}
