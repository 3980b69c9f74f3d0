package slack_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/slack"
	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/worker/service/servicetest"
)

// rig is the adapter with the real SDK and a real database, before a local Slack. Intake is a test's own.
type rig struct {
	testing.TB
	slack   *slacktest.Server
	store   *store.Store
	adapter *slack.Adapter
	ann     slacktest.User    // a member
	general slacktest.Channel // with ann and mikan

	mu       sync.Mutex
	received []adapters.Message
	refuse   error // what intake answers
	ready    []error
}

// transport tells how events come in.
type transport string

const (
	bySocket transport = "socket"
	byHTTP   transport = "http"
)

// newSlack starts a local Slack whose violations fail the test.
func newSlack(t testing.TB, o slacktest.Options) *slacktest.Server {
	t.Helper()
	server, err := slacktest.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, v := range server.Violations() {
			t.Errorf("a rule of Slack's was broken: %+v", v)
		}
		_ = server.Close()
	})
	return server
}

func newStore(t testing.TB) *store.Store {
	t.Helper()
	s := storetest.Open(t)
	return s
}

func newAdapter(t testing.TB, server *slacktest.Server, s *store.Store, by transport, settings config.SlackSettings) *slack.Adapter {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	metrics, err := telemetry.NewMetrics(log)
	if err != nil {
		t.Fatal(err)
	}
	c := config.SlackConfig{BotToken: config.Secret(server.Team().BotToken), APIURL: server.APIURL()}
	switch by {
	case bySocket:
		c.AppToken = config.Secret(server.App().AppToken)
	case byHTTP:
		c.SigningSecret = config.Secret(server.App().SigningSecret)
	}
	a, err := slack.New(c, settings, adapters.Services{Store: s, Process: t.Name(), Metrics: metrics, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// newRig makes the parts; listen starts the receiving side.
func newRig(t testing.TB, o slacktest.Options, settings config.SlackSettings) *rig {
	t.Helper()
	r := populate(t, newSlack(t, o), newStore(t))
	r.adapter = newAdapter(t, r.slack, r.store, bySocket, settings)
	return r
}

// populate makes people and a channel, without an adapter.
func populate(t testing.TB, server *slacktest.Server, s *store.Store) *rig {
	t.Helper()
	r := &rig{TB: t, slack: server, store: s}
	r.ann = r.user(slacktest.NewUser{Name: "ann"})
	r.general = r.channel(slacktest.NewChannel{Name: "general", Members: []string{r.ann.ID}, WithBot: true})
	return r
}

func (r *rig) user(n slacktest.NewUser) slacktest.User {
	r.Helper()
	u, err := r.slack.CreateUser(n)
	r.must(err)
	return u
}

func (r *rig) channel(n slacktest.NewChannel) slacktest.Channel {
	r.Helper()
	c, err := r.slack.CreateChannel(n)
	r.must(err)
	return c
}

func (r *rig) say(w slacktest.Saying) slacktest.Message {
	r.Helper()
	m, err := r.slack.Say(w)
	r.must(err)
	return m
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// listen runs the receiving side until the test ends or quit is called.
func (r *rig) listen(by transport) (quit func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	mux := http.NewServeMux()
	inbound := r.adapter.Inbound(adapters.Gateway{Receive: r.receive, Ready: r.isReady, Mux: mux})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := inbound.Run(ctx); err != nil {
			r.Errorf("the receiving side ended: %v", err)
		}
	}()
	quit = func() { cancel(); <-ended }
	r.Cleanup(quit)
	if by == byHTTP {
		web := httptest.NewServer(mux)
		r.Cleanup(web.Close)
		r.must(r.slack.SetEndpoints(r.Context(), slacktest.Endpoints{Events: web.URL + "/slack/events", Commands: web.URL + "/slack/commands", Interactivity: web.URL + "/slack/interactive"}))
	} else {
		r.eventually("the sockets are connected", func() bool { return r.slack.Sockets() == 2 })
	}
	return quit
}

func (r *rig) receive(_ context.Context, m adapters.Message) (adapters.Receipt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return adapters.Receipt{}, r.refuse
	}
	r.received = append(r.received, m)
	return adapters.Receipt{Decision: adapters.Logged}, nil
}

func (r *rig) isReady(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = append(r.ready, err)
}

// got waits for what came in about a message.
func (r *rig) got(id string) adapters.Message {
	r.Helper()
	var found adapters.Message
	r.eventually("message "+id+" comes in", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, m := range r.received {
			if m.ID == id {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

func (r *rig) count(is func(adapters.Message) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, m := range r.received {
		if is(m) {
			n++
		}
	}
	return n
}

func (r *rig) eventually(what string, holds func() bool) {
	r.Helper()
	servicetest.Eventually(r, what, holds)
}
