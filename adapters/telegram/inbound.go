package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/store"
)

const (
	// pollTime is how long Telegram holds a request without updates; it allows 50 s.
	pollTime      = 30 * time.Second
	updatesAtOnce = 100
	// leaseTime is how long a bot is deaf at most when the process that polls for it dies.
	leaseTime = 8 * time.Second
	// Pauses after a failure double from the first to the last, each a little different so that two pollers do not meet
	// again and again.
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
	// A server that holds no requests is asked again after a pause.
	heldAtLeast = 50 * time.Millisecond
	unheldPause = 250 * time.Millisecond
)

// allowedUpdates are those that mikan takes in.
var allowedUpdates = []string{models.AllowedUpdateMessage, models.AllowedUpdateEditedMessage}

// inbound is the receiving side.
type inbound struct {
	*Adapter
	gateway adapters.Gateway
	setOnce atomic.Bool // the webhook was set by this process, so with this process's secret
}

// Inbound makes the receiving side. With a webhook configured it mounts it.
func (a *Adapter) Inbound(g adapters.Gateway) adapters.Inbound {
	in := &inbound{Adapter: a, gateway: g}
	if a.config.WebhookURL != "" {
		in.mount()
	}
	return in
}

// Run takes messages in by the webhook or by polling, one process at a time. A refused token ends it.
func (in *inbound) Run(ctx context.Context) error {
	err := in.run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (in *inbound) run(ctx context.Context) error {
	if err := in.patiently(ctx, func() error {
		_, err := in.whoAmI(ctx)
		return err
	}); err != nil {
		return err
	}
	if err := in.showMenu(ctx); err != nil {
		in.log.Warn("Telegram shows no menu of commands", "code", fault.CodeOf(err))
	}
	if in.config.WebhookURL != "" {
		return in.keepWebhook(ctx)
	}
	in.gateway.Ready(nil) // another process may be the one that polls
	lease := rate.Lease{Store: in.store, Name: "telegram/" + in.installation() + "/poll", Holder: in.process, Lasts: leaseTime}
	return lease.Hold(ctx, in.poll)
}

// patiently tries until something succeeds. It ends with the error of a refused token, or with ctx.
func (in *inbound) patiently(ctx context.Context, do func() error) error {
	var pause pauses
	for {
		err := do()
		switch {
		case err == nil, ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errToken):
			return err
		}
		in.gateway.Ready(err)
		if !pause.wait(ctx, fault.RetryAfter(err)) {
			return ctx.Err()
		}
	}
}

// pauses are the times between attempts.
type pauses struct{ next time.Duration }

// wait pauses, at least as long as was asked for; false when ctx ended.
func (p *pauses) wait(ctx context.Context, atLeast time.Duration) bool {
	p.next = min(max(p.next*2, firstPause), lastPause)
	jittered := p.next/2 + rand.N(p.next)
	select {
	case <-time.After(max(jittered, atLeast)):
		return true
	case <-ctx.Done():
		return false
	}
}

// poll fetches updates, commits them, and only then asks Telegram for what comes after them, which is how it forgets
// them. Telegram remembers where it was: an offset kept here would be wrong after a week's silence, when it begins to
// count anew.
func (in *inbound) poll(ctx context.Context) error {
	if err := in.patiently(ctx, func() error { return in.clearWebhook(ctx) }); err != nil {
		return err
	}
	var offset int64
	var pause pauses
	for ctx.Err() == nil {
		next, err := in.round(ctx, offset)
		offset = max(offset, next)
		switch {
		case err == nil:
			pause = pauses{}
			in.gateway.Ready(nil)
			continue
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errToken):
			return err
		case fault.CodeOf(err) == fault.Conflict:
			err = fault.Wrap(fault.Conflict, err, "somebody else takes this bot's messages; give every program a bot of its own, or stop the other one")
		}
		in.gateway.Ready(err)
		in.log.Warn("Telegram's messages do not come in", "code", fault.CodeOf(err), "error", err)
		pause.wait(ctx, fault.RetryAfter(err))
	}
	return nil
}

// round takes one batch of updates in. It returns the offset after the last that is committed.
func (in *inbound) round(ctx context.Context, offset int64) (int64, error) {
	failpoint.Hit("telegram.getupdates.before")
	asked := time.Now()
	updates, err := in.transport.updates(ctx, offset, pollTime)
	failpoint.Hit("telegram.getupdates.after")
	if err != nil {
		return offset, err
	}
	if len(updates) == 0 && time.Since(asked) < heldAtLeast {
		select {
		case <-time.After(unheldPause):
		case <-ctx.Done():
		}
	}
	for batch := in.decode(updates); len(batch) > 0; {
		n := together(batch)
		if err := in.commit(ctx, batch[:n]); err != nil {
			return offset, err
		}
		offset = max(offset, batch[n-1].ID+1)
		batch = batch[n:]
	}
	return offset, nil
}

// decode reads updates. Of one that cannot be read only the number is left: it would be no more readable the next time.
func (in *inbound) decode(raw []json.RawMessage) []models.Update {
	updates := make([]models.Update, len(raw))
	for i := range raw {
		var u models.Update
		if err := json.Unmarshal(raw[i], &u); err != nil {
			var numbered struct {
				ID int64 `json:"update_id"`
			}
			_ = json.Unmarshal(raw[i], &numbered)
			u = models.Update{ID: numbered.ID}
			in.metrics.Refused(office.Telegram, "unreadable")
			in.log.Warn("an update of Telegram's cannot be read", "update", numbered.ID)
		}
		updates[i] = u
	}
	return updates
}

// together counts the updates at the head of a batch that make up one message: an album comes as a message for each of
// its files, mostly in one batch.
func together(batch []models.Update) int {
	first := batch[0].Message
	if first == nil || first.MediaGroupID == "" {
		return 1
	}
	n := 1
	for n < len(batch) && batch[n].Message != nil && batch[n].Message.MediaGroupID == first.MediaGroupID && batch[n].Message.Chat.ID == first.Chat.ID {
		n++
	}
	return n
}

// commit takes in the updates of one message. What intake refuses it would refuse again: it is left behind.
func (in *inbound) commit(ctx context.Context, updates []models.Update) error {
	var err error
	switch u := updates[0]; {
	case u.Message != nil:
		var rest []*models.Message
		for _, more := range updates[1:] {
			rest = append(rest, more.Message)
		}
		err = in.receive(ctx, u.Message, adapters.Created, rest)
	case u.EditedMessage != nil:
		err = in.receive(ctx, u.EditedMessage, adapters.Edited, nil)
	}
	if code := fault.CodeOf(err); code == fault.Invalid || code == fault.Conflict {
		return nil // counted by intake
	}
	return err
}

// receive hands a message to intake, with the further files of its album.
func (in *inbound) receive(ctx context.Context, m *models.Message, change adapters.Change, album []*models.Message) error {
	switch {
	case m.MigrateToChatID != 0:
		return in.moved(ctx, m.Chat.ID, m.MigrateToChatID)
	case m.MigrateFromChatID != 0:
		return in.moved(ctx, m.MigrateFromChatID, m.Chat.ID)
	}
	me := in.identity.Load()
	if me == nil {
		return fault.New(fault.Unavailable, "Telegram has not said yet who the bot is")
	}
	first, err := in.first(ctx, m.Chat.ID)
	if err != nil {
		return err
	}
	made, said, err := me.message(m, change, first)
	if err != nil {
		in.metrics.Refused(office.Telegram, string(fault.Invalid))
		return fault.Wrap(fault.Invalid, err, "the message makes no session key")
	}
	if !said {
		return nil
	}
	for _, more := range album {
		me.join(&made, more)
	}
	if len(album) > 0 && isPrivate(m) {
		made.Addressed = adapters.DirectMessage // pictures alone are a question there
	}
	in.remember(ctx, m.From)
	_, err = in.gateway.Receive(ctx, made)
	return err
}

// remember keeps what an author is called, so that answers can mention people. Failing at it is of no consequence.
func (in *inbound) remember(ctx context.Context, u *models.User) {
	if u == nil || u.IsBot {
		return
	}
	p := store.Person{
		Platform: string(office.Telegram), Installation: in.installation(), ID: strconv.FormatInt(u.ID, 10),
		Handle: u.Username, Name: personName(*u),
	}
	if kept, ok := in.people.Load(p.ID); ok && kept == p {
		return
	}
	if err := in.store.KeepPeople(ctx, p); err == nil {
		in.people.Store(p.ID, p)
	}
}

// menu is what Telegram offers when somebody types "/". Its names can hold no hyphen.
var menu = []models.BotCommand{
	{Command: "stop", Description: "End what I am doing here"},
	{Command: "new", Description: "Start an empty session"},
	{Command: "compact", Description: "Make a summary of this session for me"},
	{Command: "model", Description: "Show or choose the model"},
	{Command: "memory", Description: "Show what I remember here"},
	{Command: "session", Description: "Get a private link to this session"},
	{Command: "help", Description: "Show what I understand"},
}

func (in *inbound) showMenu(ctx context.Context) error {
	return in.call(ctx, "setmycommands", func(ctx context.Context) error {
		_, err := in.bot.SetMyCommands(ctx, &bot.SetMyCommandsParams{Commands: menu})
		return err
	})
}
