package slack_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/slack"
	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
)

func TestARecycledSocketLosesNothing(t *testing.T) {
	t.Parallel()
	for name, recycle := range map[string]func(*slacktest.Server){
		"refresh":         func(s *slacktest.Server) { s.Disconnect(slacktest.RefreshRequested, 0) },
		"warning":         func(s *slacktest.Server) { s.Disconnect(slacktest.Warning, 100*time.Millisecond) },
		"cut without one": func(s *slacktest.Server) { s.DropSockets() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, slacktest.Options{}, config.SlackSettings{})
			r.listen(bySocket)
			recycle(r.slack)
			at := time.Now()
			m := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "hello"})
			r.got(m.TS)
			t.Logf("%s: the next message was taken in after %s", name, time.Since(at).Round(time.Millisecond))
			r.eventually("the sockets are back", func() bool { return r.slack.Sockets() == 2 })
		})
	}
}

func TestASilentSocketIsReplaced(t *testing.T) { // not in parallel: it shortens the wait of all new sockets
	r := newRig(t, slacktest.Options{PingInterval: 100 * time.Millisecond}, config.SlackSettings{})
	before := slack.SetPingWithin(2 * time.Second)
	defer slack.SetPingWithin(before)
	r.listen(bySocket)
	r.slack.Silence()
	m := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "hello"})
	r.got(m.TS)
}

func TestNothingIsAcknowledgedBeforeItIsCommitted(t *testing.T) {
	t.Parallel()
	for _, by := range []transport{bySocket, byHTTP} {
		t.Run(string(by), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, slacktest.Options{AckTimeout: 200 * time.Millisecond, RetryDelays: []time.Duration{0, 50 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond}}, config.SlackSettings{})
			r.adapter = newAdapter(t, r.slack, r.store, by, config.SlackSettings{})
			r.refuse = fault.New(fault.Unavailable, "the database is away")
			r.listen(by)
			m := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "hello"})
			r.eventually("it was sent again", func() bool {
				for _, d := range r.slack.Deliveries() {
					if d.Sent > 1 {
						return true
					}
				}
				return false
			})
			for _, d := range r.slack.Deliveries() {
				if d.Acked {
					t.Errorf("%s was acknowledged and not committed", d.ID)
				}
			}
			r.mu.Lock()
			r.refuse = nil
			r.mu.Unlock()
			r.got(m.TS)
		})
	}
}

func TestRefusedIdsAreAcknowledged(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	r.refuse = fault.New(fault.Invalid, "the id is refused")
	r.listen(bySocket)
	r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "hello"})
	r.must(r.slack.Settled(t.Context()))
	for _, d := range r.slack.Deliveries() {
		if !d.Acked {
			t.Errorf("%s was not acknowledged", d.ID)
		}
	}
}

func TestTheEventsAPITakesWhatSlackSigned(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	r.adapter = newAdapter(t, r.slack, r.store, byHTTP, config.SlackSettings{})
	r.listen(byHTTP) // answers Slack's challenge
	m := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "<@" + r.slack.Team().BotUser + "> hello"})
	if got := r.got(m.TS); got.Addressed != adapters.Mention || got.Text != "hello" {
		t.Errorf("it came in as %+v", got)
	}
	answered, err := r.slack.Command(t.Context(), slacktest.Command{Channel: r.general.ID, User: r.ann.ID, Command: "/mikan-help"})
	r.must(err)
	if !answered.Acked || r.count(func(m adapters.Message) bool { return m.Text == "/mikan-help" && m.Addressed == adapters.Pressed }) != 1 {
		t.Errorf("a command: %+v", answered)
	}
}

func TestRequestsWithoutSlacksSignatureAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	a := newAdapter(t, r.slack, r.store, byHTTP, config.SlackSettings{})
	mux := http.NewServeMux()
	a.Inbound(adapters.Gateway{Receive: r.receive, Ready: r.isReady, Mux: mux})
	body := []byte(`{"type":"url_verification","challenge":"c"}`)
	good, old := r.slack.Sign(body, time.Now()), r.slack.Sign(body, time.Now().Add(-6*time.Minute))
	ahead := r.slack.Sign(body, time.Now().Add(6*time.Minute))
	for _, c := range []struct {
		what   string
		header http.Header
		body   []byte
		want   int
	}{
		{"signed", good, body, http.StatusOK},
		{"unsigned", http.Header{}, body, http.StatusUnauthorized},
		{"another body", good, []byte(`{"type":"url_verification","challenge":"d"}`), http.StatusUnauthorized},
		{"six minutes old", old, body, http.StatusUnauthorized},
		{"six minutes ahead", ahead, body, http.StatusUnauthorized},
		{"a signature that is no hex", http.Header{"X-Slack-Signature": {"v0=zz"}, "X-Slack-Request-Timestamp": good["X-Slack-Request-Timestamp"]}, body, http.StatusUnauthorized},
		{"too large", good, bytes.Repeat([]byte("x"), 2<<20), http.StatusRequestEntityTooLarge},
	} {
		request := httptest.NewRequest(http.MethodPost, "/slack/events", bytes.NewReader(c.body))
		for name, values := range c.header {
			request.Header[name] = values
		}
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		mux.ServeHTTP(recorder, request)
		if recorder.Code != c.want {
			t.Errorf("%s: %d %s, want %d", c.what, recorder.Code, strings.TrimSpace(recorder.Body.String()), c.want)
		}
	}
}

func TestARefusedTokenEndsTheAdapterWithWhatToMend(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	for variable, f := range map[string]slacktest.Fault{
		"SLACK_BOT_TOKEN": {Method: "auth.test", Kind: slacktest.ErrorCode, Code: "invalid_auth"},
		"SLACK_APP_TOKEN": {Method: "apps.connections.open", Kind: slacktest.ErrorCode, Code: "invalid_auth"},
	} {
		r.slack.ClearFaults()
		r.inject(f)
		a := newAdapter(t, r.slack, r.store, bySocket, config.SlackSettings{})
		err := a.Inbound(adapters.Gateway{Receive: r.receive, Ready: r.isReady, Mux: http.NewServeMux()}).Run(t.Context())
		if fault.CodeOf(err) != fault.Forbidden || !strings.Contains(err.Error(), variable) {
			t.Errorf("with a refused token: %v; want a word about %s", err, variable)
		}
	}
}
