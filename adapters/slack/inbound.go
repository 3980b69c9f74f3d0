package slack

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"sync"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// inbound takes Slack's events in for one gateway.
type inbound struct {
	*Adapter
	gateway adapters.Gateway
	lanes   []chan func()
	read    *positions
	gaps    chan struct{} // something may have been missed
	started time.Time

	mu        sync.Mutex
	connected int             // sockets that Slack has greeted
	evictions int             // sockets that were closed as soon as they had been opened
	assistant map[string]bool // assistant threads that have no title yet, by channel and thread
	homes     map[string]bool // App Homes that are being drawn, by person
	work      sync.WaitGroup  // what goes on beside the events: greetings, homes, titles
	ctx       context.Context // of Run, for that work
}

// lanes is how many messages are taken in at once. Those of one conversation go through the same lane, in order.
const lanes = 16

// Inbound makes the receiving side.
func (a *Adapter) Inbound(g adapters.Gateway) adapters.Inbound {
	in := &inbound{Adapter: a, gateway: g, read: newPositions(a.Store), gaps: make(chan struct{}, 1), assistant: map[string]bool{}, homes: map[string]bool{}}
	if a.config.AppToken == "" {
		in.mount(g.Mux)
	}
	return in
}

// Run takes events in until ctx ends.
func (in *inbound) Run(ctx context.Context) error {
	in.started = time.Now()
	me, err := in.awaitIdentity(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in.mu.Lock()
	in.ctx = ctx
	in.mu.Unlock()
	var group sync.WaitGroup
	in.lanes = make([]chan func(), lanes)
	for i := range in.lanes {
		lane := make(chan func(), 64)
		in.lanes[i] = lane
		group.Go(func() {
			for {
				select {
				case do := <-lane:
					do()
				case <-ctx.Done():
					return
				}
			}
		})
	}
	in.read.holdBack() // nothing counts as read before the first backfill, which the first connection starts, has looked
	group.Go(func() { in.keepPeople(ctx, me) })
	group.Go(func() { in.fillGaps(ctx, me) })
	group.Go(func() { in.keepPositions(ctx, me) })
	if in.config.AppToken != "" {
		err = in.sockets(ctx, me)
	} else {
		in.gateway.Ready(nil)
		in.missed()
		<-ctx.Done()
	}
	cancel()
	group.Wait()
	in.work.Wait()
	return err
}

// awaitIdentity asks who mikan is until Slack answers. A refused token ends it with what to mend.
func (in *inbound) awaitIdentity(ctx context.Context) (identity, error) {
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		me, err := in.identity(ctx)
		switch {
		case err == nil:
			return me, nil
		case fault.CodeOf(err) == fault.Forbidden:
			return identity{}, mend(err, "SLACK_BOT_TOKEN", "OAuth & Permissions: Bot User OAuth Token (xoxb-…)")
		case ctx.Err() != nil:
			return identity{}, nil
		}
		in.gateway.Ready(err)
		select {
		case <-time.After(max(wait, fault.RetryAfter(err))):
		case <-ctx.Done():
			return identity{}, nil
		}
	}
}

// keepPeople learns who is who, at start and every hour.
func (in *inbound) keepPeople(ctx context.Context, me identity) {
	for {
		if err := in.readPeople(ctx, me.Team); err != nil && ctx.Err() == nil {
			in.Log.Warn("Slack's people were not read", "code", fault.CodeOf(err), "error", err)
		}
		select {
		case <-time.After(time.Hour):
		case <-ctx.Done():
			return
		}
	}
}

// inLane does something after everything else of its conversation that came before.
func (in *inbound) inLane(ctx context.Context, conversation ref, do func()) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(conversation))
	select {
	case in.lanes[h.Sum32()%lanes] <- do:
	case <-ctx.Done():
	}
}

// beside does something that no event waits for.
func (in *inbound) beside(what string, do func(ctx context.Context) error) {
	in.mu.Lock()
	ctx := in.ctx
	in.mu.Unlock()
	if ctx == nil || ctx.Err() != nil {
		return
	}
	in.work.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := do(ctx); err != nil && ctx.Err() == nil {
			in.Log.Warn(what, "code", fault.CodeOf(err), "error", err)
		}
	})
}

// decode reads an event of this workspace; false when there is nothing to take in: it may be acknowledged.
func (in *inbound) decode(me identity, payload json.RawMessage) (event, bool) {
	var e envelope
	var inner event
	if json.Unmarshal(payload, &e) != nil || json.Unmarshal(e.Event, &inner) != nil {
		in.refuse("unreadable", "an event of Slack's cannot be read")
		return event{}, false
	}
	inner.raw = e.Event
	if team, ours := e.of(me.Team); !ours {
		in.refuse("workspace", "an event of another workspace was refused: this bot token is of "+me.Team+
			" alone; a second workspace needs an installation of mikan with its own token", "workspace", team)
		return event{}, false
	}
	return inner, true
}

func (in *inbound) refuse(reason, what string, args ...any) {
	in.Metrics.Refused(office.Slack, reason)
	in.Log.Warn(what, args...)
}

// accept takes an event in. When it returns nil, Slack may be told so.
func (in *inbound) accept(ctx context.Context, me identity, e event) error {
	switch e.Type {
	case "message", "app_mention":
		n, talks := note(e)
		if !talks {
			return nil
		}
		return in.take(ctx, me, n)
	case "member_joined_channel":
		if string(e.User) == me.User {
			in.beside("a channel's past was not read", func(ctx context.Context) error { return in.joined(ctx, me, string(e.Channel), e.EventTS) })
		}
	case "channel_rename", "group_rename":
		in.channels.keep(string(e.Channel), renamed(e.raw))
	case "assistant_thread_started":
		if e.Assistant != nil {
			in.beside("an assistant thread was not greeted", func(ctx context.Context) error { return in.greet(ctx, me, *e.Assistant) })
		}
	case "app_home_opened":
		if e.Tab == "home" {
			in.openHome(me, string(e.User))
		}
	}
	return nil
}

// take takes a message in. What intake refuses for its ids is not sent again.
func (in *inbound) take(ctx context.Context, me identity, n noted) error {
	m, err := in.translateMessage(ctx, me, n)
	if err == nil {
		_, err = in.receive(ctx, n.message, m)
	}
	return err
}

// receive hands a message to intake, and keeps account of what was read.
func (in *inbound) receive(ctx context.Context, from message, m adapters.Message) (adapters.Receipt, error) {
	// Our own edits come back as edits of what people see; the log holds what was said.
	if m.Author.Kind == store.AuthorMikan && m.Change == adapters.Edited {
		return adapters.Receipt{}, nil
	}
	receipt, err := in.gateway.Receive(ctx, m)
	switch fault.CodeOf(err) {
	case "":
		in.read.saw(string(from.Channel), from.TS)
		in.name(m)
		in.title(m)
		return receipt, nil
	case fault.Invalid, fault.Conflict:
		return receipt, nil
	}
	in.missed()
	return receipt, err
}

// missed makes the backfill look for what may not have come in.
func (in *inbound) missed() {
	in.read.holdBack()
	select {
	case in.gaps <- struct{}{}:
	default:
	}
}

// name finds out what a conversation is called, for the next time.
func (in *inbound) name(m adapters.Message) {
	id := m.Address.ConversationID
	if _, known := in.channels.name(id); known || m.Audience == store.Private {
		return
	}
	in.channels.keep(id, "") // asked once
	in.beside("a channel's name is not known", func(ctx context.Context) error {
		return in.nameChannel(ctx, m.Installation, id)
	})
}
