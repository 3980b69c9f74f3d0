package service_test

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/adapters/terminal"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/testenv"
	"github.com/geminixiang/mikan/worker/service"
)

// mikan is a whole installation in this process: a real worker against real servers, and a scripted model.
type mikan struct {
	testing.TB
	backend   *backend.Backend
	platforms *platforms.Platforms
	metrics   *telemetry.Metrics
	model     *llmtest.Server
	service   *service.Service
}

// start runs mikan with the model that answers by the script. settings are lines of the MIKAN_CONFIG file.
func start(t testing.TB, script llmtest.Script, settings ...string) *mikan {
	t.Helper()
	return startWith(t, script, nil, settings...)
}

// startWith runs mikan with more variables in its environment.
func startWith(t testing.TB, script llmtest.Script, variables map[string]string, settings ...string) *mikan {
	t.Helper()
	m := &mikan{TB: t, model: llmtest.NewServer(t, script)}
	address, namespace := testenv.Temporal(t)
	dir := t.TempDir()
	env := map[string]string{
		"MIKAN_DATABASE_URL": testenv.PostgresURL(t), "TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": namespace,
		"MIKAN_TASK_QUEUE": testenv.TaskQueue(t), "MIKAN_WORKSPACE": filepath.Join(dir, "workspace"), "MIKAN_SANDBOX": "host",
		"ANTHROPIC_API_KEY": "test-key-of-the-model", "ANTHROPIC_BASE_URL": m.model.AnthropicURL(), "MIKAN_MODEL": "anthropic/test-model",
	}
	maps.Copy(env, variables)
	if len(settings) > 0 {
		env["MIKAN_CONFIG"] = filepath.Join(dir, "mikan.yaml")
		m.must(os.WriteFile(env["MIKAN_CONFIG"], []byte(strings.Join(settings, "\n")), 0o600))
	}
	cfg, err := config.Load(func(name string) string { return env[name] }, dir)
	m.must(err)
	s, err := backend.OpenStore(t.Context(), cfg)
	m.must(err)
	_, _, err = s.Migrate(t.Context())
	s.Close()
	m.must(err)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	m.metrics, err = telemetry.NewMetrics(log)
	m.must(err)
	m.backend, err = backend.Open(t.Context(), cfg, log, backend.Instruments{TemporalLog: telemetry.TemporalLogger(log)})
	m.must(err)
	t.Cleanup(m.backend.Close)
	m.platforms, err = platforms.New(m.backend, m.metrics)
	m.must(err)
	m.work()
	t.Cleanup(func() { m.service.Stop() })
	return m
}

// work starts the worker.
func (m *mikan) work() {
	m.Helper()
	var err error
	m.service, err = service.Start(m.Context(), service.Options{
		Backend: m.backend, Platforms: m.platforms, Metrics: m.metrics, Fallback: sandbox.Refuse, Say: func(string) {},
	})
	m.must(err)
}

func (m *mikan) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// send says something; thread is a message id, or empty at top level.
func (m *mikan) send(conversation, thread, said string) (adapters.Message, adapters.Receipt) {
	m.Helper()
	message, err := terminal.Message(terminal.Input{Conversation: conversation, Thread: thread, User: "ann", Text: said})
	m.must(err)
	receipt, err := m.platforms.Intake.Receive(m.Context(), message)
	m.must(err)
	return message, receipt
}

// answer is a settled run with what it said.
type answer struct {
	run       store.Run
	text      string
	messageID string
}

// settled waits until a run is settled.
func (m *mikan) settled(runID string) answer {
	m.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		r, err := m.backend.Store.Run(m.Context(), runID)
		if fault.CodeOf(err) == fault.NotFound || (err == nil && r.State == store.Running) {
			continue
		}
		m.must(err)
		said, err := m.backend.Store.RunDeliveries(m.Context(), runID)
		m.must(err)
		a := answer{run: r}
		for _, d := range said {
			if d.State == store.Final {
				a.text, a.messageID = d.Text, d.MessageID
			}
		}
		return a
	}
	m.Fatalf("run %s did not settle", runID)
	return answer{}
}

func (m *mikan) eventually(what string, true func() bool) {
	m.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if true() {
			return
		}
	}
	m.Fatalf("it did not come true that %s", what)
}

// ask says something and waits for the answer.
func (m *mikan) ask(conversation, thread, said string) answer {
	m.Helper()
	_, receipt := m.send(conversation, thread, said)
	return m.settled(receipt.RunID)
}

func (m *mikan) wantOutcome(a answer, outcome run.Outcome) {
	m.Helper()
	if a.run.Outcome != outcome {
		m.Errorf("outcome %s (%s %s), want %s; it said %q", a.run.Outcome, a.run.ErrorCode, a.run.ErrorText, outcome, a.text)
	}
}
