package conformance_test

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/adaptertest"
	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/testenv"
	"github.com/geminixiang/mikan/worker/service"
)

// world is an installation before a platform: two gateways and a worker, each with connections of its own.
type world struct {
	testing.TB
	platform adaptertest.Platform
	model    *llmtest.Server
	store    *store.Store
	log      *slog.Logger
	env      map[string]string
	dir      string
}

func newWorld(t testing.TB, p adaptertest.Platform, script llmtest.Script) *world {
	t.Helper()
	w := &world{TB: t, platform: p, model: llmtest.NewServer(t, script), dir: t.TempDir()}
	w.log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	address, namespace := testenv.Temporal(t)
	w.env = map[string]string{
		"MIKAN_DATABASE_URL": testenv.PostgresURL(t), "TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": namespace,
		"MIKAN_TASK_QUEUE": testenv.TaskQueue(t), "MIKAN_WORKSPACE": filepath.Join(w.dir, "workspace"), "MIKAN_SANDBOX": "host",
		"ANTHROPIC_API_KEY": "test-key-of-the-model", "ANTHROPIC_BASE_URL": w.model.AnthropicURL(), "MIKAN_MODEL": "anthropic/test-model",
	}
	for name, value := range p.Env() {
		w.env[name] = value
	}
	w.env["MIKAN_CONFIG"] = filepath.Join(w.dir, "mikan.yaml")
	w.must(os.WriteFile(w.env["MIKAN_CONFIG"], []byte(strings.Join(p.Lines(), "\n")), 0o600))
	cfg, err := config.Load(w.getenv, w.dir)
	w.must(err)
	w.store, err = backend.OpenStore(t.Context(), cfg)
	w.must(err)
	t.Cleanup(w.store.Close)
	_, _, err = w.store.Migrate(t.Context())
	w.must(err)
	w.work()
	w.gateway()
	w.gateway()
	w.eventually("the gateways are connected", func() bool { return p.Connected(2) })
	return w
}

func (w *world) getenv(name string) string { return w.env[name] }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) process() (*backend.Backend, *platforms.Platforms, *telemetry.Metrics) {
	w.Helper()
	cfg, err := config.Load(w.getenv, w.dir)
	w.must(err)
	metrics, err := telemetry.NewMetrics(w.log)
	w.must(err)
	b, err := backend.Open(w.Context(), cfg, w.log, backend.Instruments{TemporalLog: telemetry.TemporalLogger(w.log)})
	w.must(err)
	w.Cleanup(b.Close)
	all, err := platforms.New(b, metrics)
	w.must(err)
	return b, all, metrics
}

func (w *world) work() {
	w.Helper()
	b, all, metrics := w.process()
	s, err := service.Start(w.Context(), service.Options{Backend: b, Platforms: all, Metrics: metrics, Fallback: sandbox.Refuse, Say: func(string) {}})
	w.must(err)
	w.Cleanup(s.Stop)
}

func (w *world) gateway() {
	w.Helper()
	_, all, metrics := w.process()
	ctx, cancel := context.WithCancel(w.Context())
	mux := http.NewServeMux()
	gateway := all.Gateway(mux, telemetry.NewHealth(metrics, w.log))
	w.platform.Serve(mux)
	ended := make(chan struct{}, 2)
	go func() { gateway.Run(ctx); ended <- struct{}{} }()
	go func() { all.Sweeper.Run(ctx); ended <- struct{}{} }()
	w.Cleanup(func() {
		cancel()
		<-ended
		<-ended
	})
}

func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	if !w.within(time.Minute, holds) {
		w.Fatalf("it did not come true that %s", what)
	}
}

func (w *world) within(limit time.Duration, holds func() bool) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}

// settled tells whether nothing waits and nothing runs.
func (w *world) settled() bool {
	var open int
	err := w.store.Pool().QueryRow(w.Context(), `
		SELECT (SELECT count(*) FROM inbox) + (SELECT count(*) FROM runs WHERE state = 'running')
			+ (SELECT count(*) FROM deliveries WHERE state IN ('intended', 'posted'))`).Scan(&open)
	return err == nil && open == 0
}

func (w *world) runs() int {
	w.Helper()
	var n int
	w.must(w.store.Pool().QueryRow(w.Context(), `SELECT count(*) FROM runs`).Scan(&n))
	return n
}

// logged counts what people have said that mikan knows of.
func (w *world) logged() int {
	w.Helper()
	var n int
	w.must(w.store.Pool().QueryRow(w.Context(), `SELECT count(*) FROM chat_log WHERE author_kind = 'human'`).Scan(&n))
	return n
}
