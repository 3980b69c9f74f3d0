package github_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/github"
	"github.com/geminixiang/mikan/adapters/github/githubtest"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/settings"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/worker/service/servicetest"
)

// What every test finds on GitHub.
const (
	token  = "github_pat_test-of-mikan"
	secret = "a secret of the webhook"
	repo   = "Acme/Web.App"
	me     = "Mikan-Bot"
	ann    = "Ann" // may write
	rob    = "rob" // may read
	eve    = "eve" // has nothing to do with it
	robot  = "ci[bot]"
)

// world is GitHub, a database, and gateways that take webhooks in.
type world struct {
	testing.TB
	hub      *githubtest.Server
	store    *store.Store
	settings settings.Office
	listed   []store.AccessRule
	mu       sync.Mutex
	woken    []string
}

// gateway is one process: the pipelines, the adapter, and an address for webhooks.
type gateway struct {
	adapter  *github.Adapter
	delivery *adapters.Delivery
	intake   *adapters.Intake
	inbound  adapters.Inbound
	url      string
	ready    chan error
	server   *httptest.Server
}

// newHub starts a local GitHub whose violations fail the test.
func newHub(t testing.TB) *githubtest.Server {
	t.Helper()
	hub := githubtest.New(t)
	t.Cleanup(func() {
		for _, v := range hub.Violations() {
			t.Errorf("%s %s: %s (%s)", v.Call.Method, v.Call.Path, v.What, v.Call.Body)
		}
	})
	hub.AddUser(me, githubtest.Person)
	for _, login := range []string{ann, rob, eve} {
		hub.AddUser(login, githubtest.Person)
	}
	hub.AddUser(robot, githubtest.Bot)
	addRepo(hub, repo)
	hub.AddToken(token, me, githubtest.FullLevels())
	return hub
}

func addRepo(hub *githubtest.Server, full string) {
	owner, name, _ := strings.Cut(full, "/")
	hub.AddRepo(owner, name, githubtest.PublicRepo)
	hub.Permit(full, me, "write")
	hub.Permit(full, ann, "write")
	hub.Permit(full, rob, "read")
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{TB: t, hub: newHub(t), store: storetest.Open(t)}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// Wake implements adapters.Waker.
func (w *world) Wake(_ context.Context, officeKey, sessionKey string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = append(w.woken, run.WorkflowID(officeKey, sessionKey))
	return nil
}

// Cancel implements adapters.Canceller.
func (w *world) Cancel(context.Context, string, string) error { return nil }

// start makes a gateway, and the hub send to it when hook is set.
func (w *world) start(triggers ...config.GitHubTrigger) *gateway {
	w.Helper()
	g := w.gateway(triggers...)
	w.hub.AddHook(repo, g.url, secret, githubtest.JSONHook)
	return g
}

func (w *world) gateway(triggers ...config.GitHubTrigger) *gateway {
	w.Helper()
	log := slog.New(slog.NewTextHandler(w.Output(), nil))
	metrics, err := telemetry.NewMetrics(log)
	w.must(err)
	c := config.GitHubConfig{AgentToken: token, WebhookSecret: secret, APIURL: w.hub.URL}
	a, err := github.New(c, config.GitHubSettings{Triggers: triggers}, adapters.Services{Store: w.store, Process: fmt.Sprint(time.Now().UnixNano()), Metrics: metrics, Log: log})
	w.must(err)
	g := &gateway{adapter: a, ready: make(chan error, 100)}
	g.delivery = &adapters.Delivery{Store: w.store, Metrics: metrics, Log: log, Outbounds: map[office.Platform]adapters.Outbound{office.GitHub: a}}
	inForce := func(context.Context, string) (settings.Office, error) { return w.settings, nil }
	control := &adapters.Control{Store: w.store, Delivery: g.delivery, Canceller: w, Settings: inForce}
	g.intake = &adapters.Intake{
		Store: w.store, Waker: w, Control: control, Delivery: g.delivery, Settings: inForce, Access: &adapters.Access{Store: w.store, Listed: w.listed},
		AnswerAge: 24 * time.Hour, Metrics: metrics, Log: log,
	}
	mux := http.NewServeMux()
	g.inbound = a.Inbound(adapters.Gateway{Receive: g.intake.Receive, Mux: mux, Ready: func(err error) {
		select {
		case g.ready <- err:
		default:
		}
	}})
	g.server = httptest.NewServer(mux)
	w.Cleanup(g.server.Close)
	g.url = g.server.URL + github.WebhookPath
	return g
}

// run runs a gateway's reading until the test ends.
func (w *world) run(g *gateway) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = g.inbound.Run(ctx) }()
	w.Cleanup(func() { cancel(); <-done })
}

func (w *world) count(query string, args ...any) int {
	w.Helper()
	var n int
	w.must(w.store.Pool().QueryRow(w.Context(), query, args...).Scan(&n))
	return n
}

// waiting counts the messages that wait for a run.
func (w *world) waiting() int { return w.count("SELECT count(*) FROM inbox WHERE state = 'waiting'") }

func (w *world) rows() int {
	return w.count("SELECT (SELECT count(*) FROM chat_log) + (SELECT count(*) FROM inbox) + (SELECT count(*) FROM sessions) + (SELECT count(*) FROM offices)")
}

// eventually waits for what happens beside the webhook.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	servicetest.Eventually(w, what, holds)
}

// decided waits until nothing is undecided.
func (w *world) decided() {
	w.Helper()
	w.eventually("everything is decided", func() bool { return w.count("SELECT count(*) FROM inbox WHERE state = 'undecided'") == 0 })
}

func officeKey(t testing.TB, full string, number int64) string {
	owner, name, _ := strings.Cut(full, "/")
	issue, err := office.NewIssue(owner, name, number)
	if err != nil {
		t.Fatal(err)
	}
	key, err := issue.Address().Key()
	if err != nil {
		t.Fatal(err)
	}
	return string(key)
}

// logged is the text of a message in the log; false when there is none.
func (w *world) logged(full string, number int64, id string) (store.ChatMessage, bool) {
	m, err := w.store.ChatMessage(w.Context(), officeKey(w, full, number), id)
	return m, err == nil && !m.Deleted
}
