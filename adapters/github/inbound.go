package github

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/store"
)

// inbound takes GitHub's events in for one gateway.
type inbound struct {
	*Adapter
	gateway adapters.Gateway
	gaps    chan struct{} // something may have been missed

	mu    sync.Mutex
	noted map[string]bool      // cursors that exist
	taken map[string]time.Time // what was read already, in the state of that time
}

// Inbound makes the receiving side and mounts the webhook.
func (a *Adapter) Inbound(g adapters.Gateway) adapters.Inbound {
	in := &inbound{Adapter: a, gateway: g, gaps: make(chan struct{}, 1), noted: map[string]bool{}, taken: map[string]time.Time{}}
	a.mu.Lock()
	a.receive = g.Receive
	a.mu.Unlock()
	g.Mux.HandleFunc(WebhookPath, in.webhook)
	return in
}

// leaseLasts is how long the reading of what was missed stands still when the gateway that does it dies.
const leaseLasts = 30 * time.Second

// Run reads what was missed, at once, after every gap, and every few minutes; one gateway does that for all. Webhooks
// come in meanwhile, on every gateway. It ends early only for a token that GitHub refuses.
func (in *inbound) Run(ctx context.Context) error {
	me, err := in.awaitIdentity(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	in.gateway.Ready(nil)
	lease := rate.Lease{Store: in.Store, Name: "github/" + me.login + "/read", Holder: in.Process, Lasts: leaseLasts}
	return lease.Hold(ctx, func(ctx context.Context) error { return in.readOn(ctx, me) })
}

// awaitIdentity asks until GitHub tells whose the token is.
func (in *inbound) awaitIdentity(ctx context.Context) (identity, error) {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		me, err := in.self(ctx)
		switch {
		case err == nil:
			return me, nil
		case fault.CodeOf(err) == fault.Forbidden:
			return identity{}, err
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

// readOn reads as long as this gateway holds the lease.
func (in *inbound) readOn(ctx context.Context, me identity) error {
	for ctx.Err() == nil {
		err := in.readAll(ctx, me)
		switch {
		case err == nil:
			in.gateway.Ready(nil)
		case fault.CodeOf(err) == fault.Forbidden:
			return err
		case ctx.Err() == nil:
			in.gateway.Ready(err)
			in.Log.Warn("what changed on GitHub could not be read; it is tried again", "code", fault.CodeOf(err))
		}
		select {
		case <-time.After(max(in.every, fault.RetryAfter(err))):
		case <-in.gaps:
		case <-ctx.Done():
		}
	}
	return nil
}

// missed makes the reader look at once.
func (in *inbound) missed() {
	select {
	case in.gaps <- struct{}{}:
	default:
	}
}

// take takes in what was said; false when nothing of it is kept. Talk in conversations that mikan takes no part in is
// not: their past is read when somebody calls it in.
func (in *inbound) take(ctx context.Context, s said, me identity) (kept bool, err error) {
	receipt, err := in.receive(ctx, in.renew(ctx, s), me)
	switch receipt.Decision {
	case adapters.Queued:
		in.joinSoon(ctx, me, s.at)
		return true, err
	case adapters.Undecided, adapters.Logged, adapters.Commanded:
		return true, err
	}
	return false, err
}

func (in *inbound) receive(ctx context.Context, s said, me identity) (adapters.Receipt, error) {
	m, ok, err := in.message(s, me)
	if err != nil {
		in.Metrics.Refused(office.GitHub, string(fault.Invalid))
		return adapters.Receipt{}, nil // its names are refused: they would be again
	}
	if !ok {
		return adapters.Receipt{}, nil
	}
	wanted, err := in.wanted(ctx, s, m)
	if err != nil || !wanted {
		return adapters.Receipt{}, err
	}
	receipt, err := in.gateway.Receive(ctx, m)
	switch fault.CodeOf(err) {
	case fault.Invalid, fault.Conflict:
		return receipt, nil // refused for good
	}
	return receipt, err
}

// wanted tells whether a message is for mikan or in a conversation that mikan takes part in.
func (in *inbound) wanted(ctx context.Context, s said, m adapters.Message) (bool, error) {
	key, err := m.Address.Key()
	if err != nil {
		return true, nil // intake counts the refusal
	}
	switch m.Addressed {
	case adapters.Assignment, adapters.Review:
		known, err := in.reported(ctx, string(key), s)
		return !known, err
	case adapters.Mention, adapters.Reply:
		return true, nil
	}
	return in.Store.TakesPart(ctx, string(key), m.SessionKey)
}

// apart is how far the times may differ that a webhook and the timeline give of one act.
const apart = 5

// reported tells whether the log has an act already under a time next to this one.
func (in *inbound) reported(ctx context.Context, officeKey string, s said) (bool, error) {
	for id := s.id - apart; id <= s.id+apart; id++ {
		if id == s.id {
			continue // intake knows that one
		}
		_, err := in.Store.ChatMessage(ctx, officeKey, messageID(s.kind, id))
		switch {
		case err == nil:
			return true, nil
		case fault.CodeOf(err) != fault.NotFound:
			return false, err
		}
	}
	return false, nil
}

// Scopes of this platform's cursors.
func repoScope(t target) string { return "repo:" + t.full() }

func issueScope(t target) string { return fmt.Sprintf("issue:%s#%d", t.full(), t.Number) }

func (in *inbound) stream(me identity, scope string) store.Stream {
	return store.Stream{Platform: string(office.GitHub), Installation: me.login, Scope: scope}
}

// noteRepository begins to follow a repository from which something came that mikan takes part in. What it missed
// before is not its concern.
func (in *inbound) noteRepository(ctx context.Context, me identity, s said) {
	when := s.updated
	if when.IsZero() || when.After(time.Now()) {
		when = time.Now()
	}
	in.note(ctx, in.stream(me, repoScope(s.at)), position(when))
}

// noteHook remembers a webhook, so that its failed deliveries can be asked for.
func (in *inbound) noteHook(ctx context.Context, header map[string][]string, payload []byte) {
	h, ok := hookOf(header, payload)
	if !ok {
		return
	}
	if me, err := in.self(ctx); err == nil {
		in.note(ctx, in.stream(me, h.scope()), position(time.Now()))
	}
}

// note makes a cursor where there is none. A failure is of no consequence: the next event notes it.
func (in *inbound) note(ctx context.Context, of store.Stream, at string) {
	in.mu.Lock()
	known := in.noted[of.Scope]
	in.mu.Unlock()
	if known {
		return
	}
	_, known, err := in.Store.Cursor(ctx, of)
	if err == nil && !known {
		err = in.Store.SetCursor(ctx, of, at)
	}
	if err != nil {
		return
	}
	in.mu.Lock()
	in.noted[of.Scope] = true
	in.mu.Unlock()
}

func position(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func parsePosition(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Now().Add(-24 * time.Hour)
	}
	return t
}

// hook is a webhook of a repository, or of an organisation when repo is empty.
type hook struct {
	owner, repo string
	id          int64
}

func (h hook) scope() string {
	if h.repo == "" {
		return fmt.Sprintf("hook:orgs/%s/%d", h.owner, h.id)
	}
	return fmt.Sprintf("hook:repos/%s/%s/%d", h.owner, h.repo, h.id)
}

func parseHook(scope string) (hook, bool) {
	var h hook
	parts := strings.Split(strings.TrimPrefix(scope, "hook:"), "/")
	last := parts[len(parts)-1]
	if _, err := fmt.Sscanf(last, "%d", &h.id); err != nil {
		return hook{}, false
	}
	switch {
	case len(parts) == 3 && parts[0] == "orgs":
		h.owner = parts[1]
	case len(parts) == 4 && parts[0] == "repos":
		h.owner, h.repo = parts[1], parts[2]
	default:
		return hook{}, false
	}
	return h, true
}
