package adapters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/markdown"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// postWithin is the hard deadline of one call to a platform. A successor waits until it has passed before it looks
// whether the call went through, so it is short.
const postWithin = 8 * time.Second

// Delivery is the one way out: every visible message goes intent, platform call, confirmation.
type Delivery struct {
	Store     *store.Store
	Outbounds map[office.Platform]Outbound
	Metrics   *telemetry.Metrics
	Log       *slog.Logger
}

// place is where a message goes.
type place struct {
	address  office.Address
	outbound Outbound
	onlyFor  string // the one person who may see it; empty: whoever reads the conversation
	link     string // stands for LinkMark in what is shown, and is never stored
	stage    Stage
	again    Again
	cause    string // the message that is answered
}

func (d *Delivery) place(ctx context.Context, officeKey string) (place, error) {
	home, err := d.Store.Home(ctx, officeKey)
	if err != nil {
		return place{}, err
	}
	outbound, ok := d.Outbounds[office.Platform(home.Platform)]
	if !ok {
		return place{}, fault.New(fault.Unavailable, "this process has no tokens for %s", home.Platform)
	}
	address := office.Address{Platform: office.Platform(home.Platform), ConversationID: home.ConversationID}
	return place{address: address, outbound: outbound}, nil
}

// A run's visible message is its answer, whatever it says in the end: the draft, the answer, or why there is none. What
// is too long for one message goes on in further parts, each a delivery of its own.
func answerDelivery(r store.Run, kind store.DeliveryKind, part int, text string) store.Delivery {
	return store.Delivery{
		Key: run.DeliveryKey(r.ID, fmt.Sprintf("answer/%d", part)), OfficeKey: r.OfficeKey, SessionKey: r.SessionKey, RunID: r.ID,
		Kind: kind, Part: part, Reply: r.Reply, Text: text,
	}
}

// Capabilities tells what a run's platform can do where the run answers.
func (d *Delivery) Capabilities(ctx context.Context, r store.Run) (Capabilities, error) {
	p, err := d.place(ctx, r.OfficeKey)
	if err != nil {
		return Capabilities{}, err
	}
	return p.outbound.Capabilities(p.address), nil
}

// Draw shows an answer that is still growing: the first call posts it, later ones edit it. Of a text that is too long
// for one message, the beginning is shown. not_found means that somebody has deleted the draft: it is drawn no more.
func (d *Delivery) Draw(ctx context.Context, r store.Run, text string) error {
	p, err := d.place(ctx, r.OfficeKey)
	if err != nil {
		return err
	}
	p.stage, p.cause = Growing, r.TriggerMessageID
	m := answerDelivery(r, store.AnswerDelivery, 0, partsOf(p, text)[0])
	c, err := d.show(ctx, p, m)
	if err == nil && c.State == store.Refused {
		return fault.New(c.ErrorCode, "%s", c.ErrorText)
	}
	ctx, done := begun(ctx)
	defer done()
	if err == nil {
		c.State = store.Posted
		err = d.Store.Confirm(ctx, c)
	}
	if err != nil {
		d.repair(ctx, p, m.Key, c.MessageID)
	}
	return err
}

// repair makes the platform show what is recorded of a message. Two attempts can have called it at once: one that stood
// still while another one finished the run, or whose process is dead while its call was on the way. Its late edit has
// then taken the final text's place, which is shown once more; its late post, which nobody looked for any more, stands
// beside the recorded message and is taken back. shown is what the caller has posted or edited; it may be empty.
func (d *Delivery) repair(ctx context.Context, p place, key, shown string) {
	recorded, found, err := d.Store.Delivery(ctx, key)
	if err == nil && !found {
		return
	}
	p.stage = Complete
	at := attempt{until: time.Now().Add(postWithin)}
	// While an intent is open, its attempt may find the message and make it its own.
	if err == nil && shown != "" && shown != recorded.MessageID && recorded.State != store.Intended {
		err = d.call(ctx, at, "delete", func(ctx context.Context) error {
			return p.outbound.Delete(ctx, shown, outgoing(p, recorded))
		})
		if fault.CodeOf(err) == fault.NotFound {
			err = nil
		}
	}
	if err == nil && recorded.State == store.Final && recorded.MessageID != "" {
		err = d.call(ctx, at, "edit", func(ctx context.Context) error {
			return p.outbound.Edit(ctx, recorded.MessageID, outgoing(p, recorded))
		})
	}
	if err != nil {
		d.Log.Warn("a message could not be repaired", "delivery", key, "code", fault.CodeOf(err))
	}
}

// Ending is how a run ends for the people who read along.
type Ending struct {
	Kind       store.DeliveryKind
	Text       string // Markdown; empty: nothing is said, and a draft is taken back
	Settlement store.Settlement
}

// Finish shows a run's final message and settles the run in the transaction that records it. It may be repeated: what
// was shown is not shown again, and a settled run stays as it was settled.
func (d *Delivery) Finish(ctx context.Context, runID string, end Ending) (store.After, error) {
	r, err := d.Store.Run(ctx, runID)
	if err != nil {
		return store.After{}, err
	}
	if r.State == store.Settled {
		return d.Store.Finish(ctx, runID, nil, end.Settlement)
	}
	p, err := d.place(ctx, r.OfficeKey)
	if err != nil {
		return store.After{}, err
	}
	p.cause = r.TriggerMessageID
	defer d.rest(ctx, p, r)
	said, err := d.Store.RunDeliveries(ctx, r.ID)
	if err == nil {
		err = d.giveUpFiles(ctx, said)
	}
	if err != nil {
		return store.After{}, err
	}
	if end.Text == "" || (end.Settlement.Outcome == run.Stopped && onlyNotices(said)) {
		if err := d.takeBack(ctx, p, said); err != nil {
			return store.After{}, err
		}
		return d.Store.Finish(ctx, runID, nil, end.Settlement)
	}
	return d.finish(ctx, p, r, said, end)
}

// restText is what people read after the beginning of an answer whose rest they will not get.
const restText = "The rest of this answer could not be shown."

// finish shows the parts in order: each is confirmed before the next is begun, the last one with the settlement. A part
// that the platform refuses ends the run as failed. A run that ends without its whole answer says so after the parts
// that people have: in the next one, which may have been on its way.
func (d *Delivery) finish(ctx context.Context, p place, r store.Run, said []store.Delivery, end Ending) (store.After, error) {
	parts, first := partsOf(p, end.Text), 0
	if shown := beginning(said); shown > 0 && end.Settlement.Outcome != run.Answered {
		first = shown
		if end.Settlement.Outcome == run.Failed {
			parts = []string{restText}
		}
	}
	for i := 0; i < len(parts); i++ {
		delivery := answerDelivery(r, end.Kind, first+i, parts[i])
		c, err := d.show(ctx, p, delivery)
		if err != nil {
			return store.After{}, err
		}
		c.Log = logOf(r, c, kindOf(said, delivery))
		settled, stop := begun(ctx)
		defer stop()
		if c.State == store.Refused {
			end.Settlement = store.Settlement{Outcome: run.Failed, ErrorCode: c.ErrorCode, ErrorText: c.ErrorText}
			parts = parts[:i+1]
			if i > 0 && parts[i] != restText {
				parts, end.Kind = append(parts, restText), store.NoticeDelivery
			}
		}
		if i < len(parts)-1 {
			if err := d.Store.Confirm(settled, c); err != nil {
				return store.After{}, d.lost(settled, p, c, err)
			}
			continue
		}
		after, err := d.Store.Finish(settled, r.ID, []store.Confirmation{c}, end.Settlement)
		if err == nil && c.Contested > 0 {
			d.again(ctx, p, c)
		}
		return after, d.lost(settled, p, c, err)
	}
	return store.After{}, fault.New(fault.Internal, "an answer has no parts")
}

// partsOf cuts a text into messages; an empty one is one empty part.
func partsOf(p place, text string) []string {
	if parts := p.outbound.Split(text); len(parts) > 0 {
		return parts
	}
	return []string{text}
}

// kindOf is what a part of an answer counts as. One that was final before stays what it was, however its run ends.
func kindOf(said []store.Delivery, part store.Delivery) store.DeliveryKind {
	for _, s := range said {
		if s.Key == part.Key && s.State == store.Final {
			return s.Kind
		}
	}
	return part.Kind
}

// lost repairs what an attempt has shown that turns out to have been overtaken. It passes the error on.
func (d *Delivery) lost(ctx context.Context, p place, c store.Confirmation, err error) error {
	if store.Overtaken(err) {
		d.repair(ctx, p, c.Key, c.MessageID)
	}
	return err
}

// again repeats a final edit. An edit of a dead or frozen attempt was in flight when the final one was made, and may have
// come after it; when its deadline has passed the platform shows the last one for certain.
func (d *Delivery) again(ctx context.Context, p place, c store.Confirmation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*postWithin)
	defer cancel()
	select {
	case <-time.After(c.Contested):
	case <-ctx.Done():
		return
	}
	d.repair(ctx, p, c.Key, c.MessageID)
}

// onlyNotices tells whether a run has no message that its last word could take the place of, while a notice was posted
// where somebody stopped it.
func onlyNotices(said []store.Delivery) bool {
	return slices.ContainsFunc(said, isNotice) && (beginning(said) > 0 || !slices.ContainsFunc(said, isAnswer))
}

// beginning counts the parts of a run's answer that are done with, from the first one on: people have them to keep, or
// will never get them.
func beginning(said []store.Delivery) int {
	n := 0
	for slices.ContainsFunc(said, func(s store.Delivery) bool {
		return isAnswer(s) && s.Part == n && (s.State == store.Final || s.State == store.Refused && n > 0)
	}) {
		n++
	}
	return n
}

// isNotice tells a notice about a run from a file that the run has posted: a notice answers somebody's word.
func isNotice(s store.Delivery) bool { return !isAnswer(s) && s.CauseID != "" }

func isAnswer(s store.Delivery) bool {
	return s.Key == run.DeliveryKey(s.RunID, fmt.Sprintf("answer/%d", s.Part))
}

// CloseNotices rewrites the "Stopping" notices of a run that has settled. It comes after the settlement: whoever posts a
// notice later finds the run settled, and closes it himself.
func (d *Delivery) CloseNotices(ctx context.Context, r store.Run) error {
	text := "It had already finished."
	if r.Outcome == run.Stopped {
		text = StoppedText
	}
	p, err := d.place(ctx, r.OfficeKey)
	if err != nil {
		return err
	}
	said, err := d.Store.RunDeliveries(ctx, r.ID)
	if err != nil {
		return err
	}
	for _, s := range said {
		if !isNotice(s) || s.State == store.Final || s.State == store.Refused {
			continue
		}
		s.Text = text
		c, err := d.show(ctx, p, s)
		if err != nil {
			return err
		}
		c.Log = logOf(r, c, store.NoticeDelivery)
		if err := d.Store.Confirm(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// StoppedText is what people read where a run was stopped.
const StoppedText = "Stopped."

// takeBack deletes a draft that a run has shown before it chose to say nothing.
func (d *Delivery) takeBack(ctx context.Context, p place, said []store.Delivery) error {
	for _, s := range said {
		if !isAnswer(s) || s.State == store.Final || s.State == store.Deleted || s.State == store.Refused {
			continue
		}
		at, err := d.resolve(ctx, p, s)
		if err != nil {
			return err
		}
		if at.messageID != "" {
			err := d.call(ctx, at, "delete", func(ctx context.Context) error {
				return p.outbound.Delete(ctx, at.messageID, outgoing(p, s))
			})
			if err != nil && fault.CodeOf(err) != fault.NotFound {
				return err
			}
		}
		err = d.Store.Confirm(ctx, store.Confirmation{Key: s.Key, Token: at.Token, State: store.Deleted, MessageID: at.messageID, Text: s.Text})
		if err != nil {
			return err
		}
	}
	return nil
}

// Notice is something that mikan says outside of an answer.
type Notice struct {
	Cause string // what it is about: a run id or a message id; with What it makes the notice unique
	What  string
	RunID string
	Row   store.InboxRow // where it is said
	Text  string
	State store.DeliveryState // Posted when it will be edited later, Final otherwise
	// OnlyFor makes it a whisper, on platforms that have them: it is then not part of the chat log.
	OnlyFor string
	// Again tells what becomes of the notice when it may have been posted already.
	Again Again
	// Link stands for LinkMark when the notice is shown. It is a secret: what is stored keeps the mark.
	Link string
}

// Again tells whether a message that may be there already is posted again.
type Again string

// The choices.
const (
	LookFirst Again = ""      // look for it, and post it if it is not found
	NotAgain  Again = "never" // one too few is better than one too many
)

// LinkMark stands in a stored notice for the link that was shown to its reader.
const LinkMark = "[private link]"

// Say posts a notice once.
func (d *Delivery) Say(ctx context.Context, n Notice) error {
	p, err := d.place(ctx, n.Row.OfficeKey)
	if err != nil {
		return err
	}
	p.onlyFor, p.link, p.cause, p.again = n.OnlyFor, n.Link, n.Row.MessageID, n.Again
	if parts := p.outbound.Split(n.Text); len(parts) > 1 {
		n.Text = parts[0] // what is said about mikan itself is one message: better its beginning than a refusal
	}
	delivery := store.Delivery{
		// A message id is unique in its conversation only: Telegram counts from 1 in every chat.
		Key: run.DeliveryKey(n.Row.OfficeKey+"\x00"+n.Cause, n.What), OfficeKey: n.Row.OfficeKey, SessionKey: n.Row.SessionKey, RunID: n.RunID,
		Kind: store.NoticeDelivery, CauseID: n.Row.MessageID, Reply: n.Row.Reply, Text: n.Text,
	}
	c, err := d.show(ctx, p, delivery)
	if errors.Is(err, errSaid) {
		return nil
	}
	if err != nil {
		return err
	}
	if c.State == store.Final {
		c.State = n.State
	}
	c.Log = &store.ChatMessage{
		OfficeKey: n.Row.OfficeKey, MessageID: c.MessageID, SessionKey: n.Row.SessionKey, AuthorID: "mikan", AuthorName: "mikan",
		AuthorKind: store.AuthorMikan, Kind: store.ChatNotice, Text: c.Text, RunID: n.RunID, SentAt: time.Now(),
	}
	if c.MessageID == "" || n.OnlyFor != "" {
		c.Log = nil
	}
	return d.Store.Confirm(ctx, c)
}

// show brings one message to the platform in the state given and returns what to confirm: Final, or Refused when the
// platform will never take it.
func (d *Delivery) show(ctx context.Context, p place, m store.Delivery) (store.Confirmation, error) {
	at, err := d.resolve(ctx, p, m)
	if err != nil {
		return store.Confirmation{}, err
	}
	intent, messageID := at.Intent, at.messageID
	c := store.Confirmation{Key: m.Key, Token: intent.Token, State: store.Final, MessageID: messageID, Text: m.Text}
	switch {
	case intent.State == store.Final:
		c.Text = intent.Text
		return c, nil
	case messageID == "" && holdsPlace(p, m):
		growing, holder := p, m
		growing.stage, holder.Text = Growing, PlaceholderText
		c.MessageID, err = d.post(ctx, growing, holder, at)
		if err == nil {
			c.State, c.Text = store.Posted, holder.Text
			settled, done := begun(ctx)
			defer done()
			if err := d.Store.Confirm(settled, c); err != nil {
				return store.Confirmation{}, d.lost(settled, p, c, err)
			}
			return d.show(ctx, p, m)
		}
	case messageID == "":
		c.MessageID, err = d.post(ctx, p, m, at)
	default:
		err = d.call(ctx, at, "edit", func(ctx context.Context) error {
			return p.outbound.Edit(ctx, messageID, outgoing(p, m))
		})
		c.Contested = intent.Wait
		if fault.CodeOf(err) == fault.NotFound && p.stage == Complete {
			c.MessageID, err = d.anew(ctx, p, m, at)
		}
	}
	platform := p.address.Platform
	switch {
	case err == nil:
		d.Metrics.Delivered(platform, "shown")
		return c, nil
	case fault.CodeOf(err) == fault.RateLimited && !intent.Ambiguous:
		return store.Confirmation{}, errors.Join(err, d.Store.Forgo(ctx, intent))
	case fault.Retryable(fault.CodeOf(err)) || ctx.Err() != nil:
		return store.Confirmation{}, err
	}
	d.Metrics.Delivered(platform, "refused")
	d.Log.Error("the platform refused a message for good", "platform", platform, "delivery", m.Key, "code", fault.CodeOf(err), "error", err)
	c.State, c.ErrorCode, c.ErrorText = store.Refused, fault.CodeOf(err), err.Error()
	return c, nil
}

// PlaceholderText is what a run's message says before there is anything to say.
const PlaceholderText = "Thinking…"

// holdsPlace tells whether a message is posted as a placeholder, to be edited once its id is stored: where nobody can find
// out whether a post came through, it is a placeholder that may stand there twice, and never a piece of an answer.
func holdsPlace(p place, m store.Delivery) bool {
	return p.outbound.Capabilities(p.address).Placeholder == PlaceholderFirst && isAnswer(m) && m.Part == 0 && m.Text != PlaceholderText
}

// anew posts a message whose draft somebody has deleted. An earlier attempt may have done so already.
func (d *Delivery) anew(ctx context.Context, p place, m store.Delivery, at attempt) (messageID string, err error) {
	messageID, found, err := find(ctx, p, m, at.CreatedAt)
	if err != nil || found && messageID != at.MessageID {
		return messageID, err
	}
	return d.post(ctx, p, m, at)
}

// post makes one attempt at posting a message.
func (d *Delivery) post(ctx context.Context, p place, m store.Delivery, at attempt) (messageID string, err error) {
	err = d.call(ctx, at, "post", func(ctx context.Context) error {
		messageID, err = p.outbound.Post(ctx, outgoing(p, m))
		return err
	})
	return messageID, err
}

// attempt is one attempt at a delivery.
type attempt struct {
	store.Intent
	messageID string    // of the message on the platform; empty: there is none
	until     time.Time // the hard deadline, as this process can measure it: not later than the one in the database
}

// resolve commits the intent and finds out whether the message is on the platform already: by its confirmation, or,
// when an earlier attempt left none, by looking there once that attempt's deadline has passed.
func (d *Delivery) resolve(ctx context.Context, p place, m store.Delivery) (attempt, error) {
	promise := store.PostOnce
	if p.outbound.Capabilities(p.address).Repeats == RepeatsVanish {
		promise = store.Repeatable
	}
	// The clock is read before the intent is committed: a process that stands still in between has less time, not more.
	asked := time.Now()
	began, done := begun(ctx)
	defer done()
	if p.again == NotAgain {
		intent, first, err := d.Store.IntendFirst(began, m, postWithin)
		if err == nil && !first {
			err = errSaid
		}
		return attempt{Intent: intent, until: asked.Add(postWithin)}, err
	}
	intent, err := d.Store.Intend(began, m, postWithin, promise)
	at := attempt{Intent: intent, messageID: intent.MessageID, until: asked.Add(intent.Wait + postWithin)}
	if err != nil || intent.MessageID != "" || !intent.Ambiguous || promise == store.Repeatable {
		return at, err
	}
	select {
	case <-time.After(intent.Wait):
	case <-ctx.Done():
		return at, ctx.Err()
	}
	messageID, found, err := find(ctx, p, m, intent.CreatedAt)
	if found && err == nil {
		at.messageID = messageID
	}
	return at, err
}

// errSaid ends an attempt at what may have been said already.
var errSaid = errors.New("it may have been said already")

// begun is the context of a step between an intent and its confirmation. A run that is cancelled finishes it: broken off,
// it would leave what is said next to wait until it is certain what the platform shows.
func begun(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), postWithin)
}

// call makes one call to the platform within the attempt's hard deadline.
func (d *Delivery) call(ctx context.Context, at attempt, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), at.until)
	defer cancel()
	failpoint.Hit("platform." + what + ".before")
	if !time.Now().Before(at.until) {
		return fault.New(fault.Unavailable, "the attempt's time had passed before the platform was called")
	}
	err := do(ctx)
	failpoint.Hit("platform." + what + ".after")
	return err
}

// find looks on the platform for what an earlier attempt may have posted.
func find(ctx context.Context, p place, m store.Delivery, since time.Time) (messageID string, found bool, err error) {
	failpoint.Hit("platform.find.before")
	messageID, found, err = p.outbound.FindDelivery(ctx, outgoing(p, m), since)
	failpoint.Hit("platform.find.after")
	return messageID, found, err
}

func outgoing(p place, m store.Delivery) Outgoing {
	o := Outgoing{
		Address: p.address, SessionKey: m.SessionKey, Reply: m.Reply, Key: m.Key, Markdown: m.Text, Stage: p.stage, Part: m.Part,
		OnlyFor: p.onlyFor, Cause: p.cause,
	}
	if p.stage == Growing {
		o.Markdown = markdown.Draft(o.Markdown) // what is open is closed, so that its marks do not flicker
	}
	if p.link != "" {
		o.Markdown = strings.Replace(o.Markdown, LinkMark, p.link, 1)
	}
	return o
}

func logOf(r store.Run, c store.Confirmation, kind store.DeliveryKind) *store.ChatMessage {
	if c.MessageID == "" {
		return nil
	}
	m := store.ChatMessage{
		OfficeKey: r.OfficeKey, MessageID: c.MessageID, SessionKey: r.SessionKey, AuthorID: "mikan", AuthorName: "mikan",
		AuthorKind: store.AuthorMikan, Kind: store.ChatNotice, Text: c.Text, RunID: r.ID, SentAt: time.Now(),
	}
	if kind == store.AnswerDelivery {
		m.Kind, m.CauseMessageID = store.ChatAnswer, r.TriggerMessageID
	}
	return &m
}
