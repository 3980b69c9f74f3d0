// Package servicetest runs all of mikan in a test's process: gateways and workers as operators run them, each with
// connections of its own, over one real database and one real Temporal, with a model that answers by a script.
//
// A platform's tests start its local server first and name it in Options.Env. Processes end with the test, the last one
// started first.
package servicetest

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/adapters/terminal"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/testenv"
	"github.com/geminixiang/mikan/worker/service"
)

// Options of an installation.
type Options struct {
	Script llmtest.Script    // what the model answers
	Env    map[string]string // more variables; they win over the installation's own
	Lines  []string          // of the MIKAN_CONFIG file; without any there is no file
}

// Installation is what mikan's processes share.
type Installation struct {
	// Env is the environment of each process made from now on: a test may add to it. It names the database, Temporal, a
	// task queue of the test's own, the model, a workspace, and the sandbox "host".
	Env   map[string]string
	Dir   string       // the data directory
	Store *store.Store // the migrated database, by a connection pool that is no process's
	Model *llmtest.Server

	t   testing.TB
	log *slog.Logger // warnings and errors of all processes, in the test's output
}

// New makes an installation in which nothing runs yet.
func New(t testing.TB, o Options) *Installation {
	t.Helper()
	in := &Installation{
		Dir: t.TempDir(), Model: llmtest.NewServer(t, o.Script),
		t: t, log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	address, namespace := testenv.Temporal(t)
	in.Env = map[string]string{
		"MIKAN_DATABASE_URL": testenv.PostgresURL(t), "TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": namespace,
		"MIKAN_TASK_QUEUE": testenv.TaskQueue(t), "MIKAN_WORKSPACE": filepath.Join(in.Dir, "workspace"), "MIKAN_SANDBOX": "host",
		"ANTHROPIC_API_KEY": "test-key-of-the-model", "ANTHROPIC_BASE_URL": in.Model.AnthropicURL(), "MIKAN_MODEL": "anthropic/test-model",
	}
	if len(o.Lines) > 0 {
		in.Env["MIKAN_CONFIG"] = filepath.Join(in.Dir, "mikan.yaml")
		in.must(os.WriteFile(in.Env["MIKAN_CONFIG"], []byte(strings.Join(o.Lines, "\n")), 0o600))
	}
	maps.Copy(in.Env, o.Env)
	in.Store = storetest.At(t, in.Env["MIKAN_DATABASE_URL"])
	return in
}

func (in *Installation) config() config.Config {
	in.t.Helper()
	cfg, err := config.Load(func(name string) string { return in.Env[name] }, in.Dir)
	in.must(err)
	return cfg
}

func (in *Installation) must(err error) {
	in.t.Helper()
	if err != nil {
		in.t.Fatal(err)
	}
}

// Settled tells whether no message waits, nothing runs, and nothing that was begun in a chat is unfinished. What a
// platform has not delivered to a gateway yet is unknown here.
func (in *Installation) Settled() bool {
	var open int
	err := in.Store.Pool().QueryRow(in.t.Context(), `
		SELECT (SELECT count(*) FROM inbox) + (SELECT count(*) FROM runs WHERE state = 'running')
			+ (SELECT count(*) FROM deliveries WHERE state IN ('intended', 'posted'))`).Scan(&open)
	return err == nil && open == 0
}

// Runs lists the newest 1,000 runs, newest first.
func (in *Installation) Runs() []store.Run {
	in.t.Helper()
	runs, err := in.Store.Runs(in.t.Context(), store.RunFilter{Limit: 1000})
	in.must(err)
	return runs
}

// Process is a gateway, a worker, or the parts of either without anything that runs.
type Process struct {
	Backend   *backend.Backend
	Platforms *platforms.Platforms
	Metrics   *telemetry.Metrics
	Mux       *http.ServeMux // what a gateway serves over HTTP; a test that wants it listened to gives it to a server

	t    testing.TB
	quit func()
}

// Process makes the parts of a process by the environment as it is now. Their connections close when the test ends.
func (in *Installation) Process() *Process {
	in.t.Helper()
	p := &Process{Mux: http.NewServeMux(), t: in.t, quit: func() {}}
	var err error
	p.Metrics, err = telemetry.NewMetrics(in.log)
	in.must(err)
	p.Backend, err = backend.Open(in.t.Context(), in.config(), in.log, backend.Instruments{TemporalLog: telemetry.TemporalLogger(in.log)})
	in.must(err)
	in.t.Cleanup(p.Backend.Close)
	p.Platforms, err = platforms.New(p.Backend, p.Metrics)
	in.must(err)
	return p
}

// Worker starts a worker and returns when it polls.
func (in *Installation) Worker() *Process {
	in.t.Helper()
	p := in.Process()
	s, err := service.Start(in.t.Context(), service.Options{
		Backend: p.Backend, Platforms: p.Platforms, Metrics: p.Metrics, Fallback: sandbox.Refuse, Say: func(string) {},
	})
	in.must(err)
	p.until(s.Stop)
	return p
}

// Gateway starts a gateway with its sweeper. It does not wait until a platform is connected: only the platform's server
// knows.
func (in *Installation) Gateway() *Process {
	in.t.Helper()
	p := in.Process()
	gateway := p.Platforms.Gateway(p.Mux, telemetry.NewHealth(p.Metrics, in.log))
	ctx, cancel := context.WithCancel(in.t.Context())
	var running sync.WaitGroup
	running.Go(func() { gateway.Run(ctx) })
	running.Go(func() { p.Platforms.Sweeper.Run(ctx) })
	p.until(func() {
		cancel()
		running.Wait()
	})
	return p
}

// until makes stop what ends the process.
func (p *Process) until(stop func()) {
	p.quit = sync.OnceFunc(stop)
	p.t.Cleanup(p.quit)
}

// Quit ends what the process runs, as an orderly stop does, and waits for it. Its parts stay usable; a second call does
// nothing.
func (p *Process) Quit() { p.quit() }

// Send says something on the terminal, as a message that this process takes in.
func (p *Process) Send(said terminal.Input) (adapters.Message, adapters.Receipt) {
	p.t.Helper()
	m, err := terminal.Message(said)
	if err != nil {
		p.t.Fatal(err)
	}
	receipt, err := p.Platforms.Intake.Receive(p.t.Context(), m)
	if err != nil {
		p.t.Fatal(err)
	}
	return m, receipt
}
