package e2etest

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"

	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/testenv"
)

// World is one installation: a database, a namespace, a workspace, a model.
type World struct {
	T         testing.TB
	Workspace string
	DataDir   string
	Env       map[string]string // of each process
	Model     *llmtest.Server
	pool      *pgxpool.Pool
}

// New makes an installation on the tests' shared servers, with a schema and no process yet.
func New(t testing.TB, script llmtest.Script) *World {
	t.Helper()
	w := Bare(t, script)
	w.Env["MIKAN_DATABASE_URL"] = testenv.PostgresURL(t)
	w.Env["TEMPORAL_ADDRESS"], w.Env["TEMPORAL_NAMESPACE"] = testenv.Temporal(t)
	w.Migrate()
	return w
}

// Bare is a world whose servers are still to be named.
func Bare(t testing.TB, script llmtest.Script) *World {
	t.Helper()
	if script == nil {
		script = llmtest.Echo(llmtest.EchoOptions{})
	}
	w := &World{T: t, Workspace: filepath.Join(t.TempDir(), "workspace"), DataDir: t.TempDir(), Model: llmtest.NewServer(t, script)}
	w.Env = map[string]string{
		"MIKAN_WORKSPACE":     w.Workspace,
		"MIKAN_TASK_QUEUE":    testenv.TaskQueue(t),
		"MIKAN_SANDBOX":       "host",
		"MIKAN_LISTEN":        "127.0.0.1:0",
		"MIKAN_WORKER_LISTEN": "127.0.0.1:0",
		"MIKAN_MODEL":         "anthropic/claude-test",
		"ANTHROPIC_API_KEY":   "key-of-the-tests",
		"ANTHROPIC_BASE_URL":  w.Model.AnthropicURL(),
	}
	return w
}

// Environ is the environment of a process of this world. Settings are NAME=VALUE and come last, so they win.
func (w *World) Environ(settings ...string) []string {
	var env []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "MIKAN_") && !strings.HasPrefix(name, "TEMPORAL_") && !strings.HasSuffix(name, "_API_KEY") {
			env = append(env, entry)
		}
	}
	for name, value := range w.Env {
		env = append(env, name+"="+value)
	}
	return append(env, settings...)
}

// Migrate makes the schema.
func (w *World) Migrate() {
	w.T.Helper()
	if out := w.Mikan("migrate", "--schema-only"); out.Code != 0 {
		w.T.Fatalf("migrate: %+v", out)
	}
}

// Mikan runs a command of the CLI to its end.
func (w *World) Mikan(args ...string) Exited {
	w.T.Helper()
	return Command(w.T, MikanPath(w.T), w.Environ(), append(args, "--data-dir", w.DataDir)...)
}

// Worker starts a worker and waits until it polls.
func (w *World) Worker(settings ...string) *Process {
	w.T.Helper()
	p := w.LaunchWorker(settings...)
	p.Says(w.T, "the worker is ready")
	return p
}

// LaunchWorker starts a worker and does not wait for it.
func (w *World) LaunchWorker(settings ...string) *Process {
	w.T.Helper()
	return Start(w.T, "worker", WorkerPath(w.T), w.Environ(settings...), "-data-dir", w.DataDir)
}

// Gateway starts a gateway and does not wait for it.
func (w *World) Gateway(settings ...string) *Process {
	w.T.Helper()
	return Start(w.T, "gateway", MikanPath(w.T), w.Environ(settings...), "serve", "--data-dir", w.DataDir)
}

// Answer is what `mikan ask --json` prints, with its exit code.
type Answer struct {
	RunID         string `json:"run_id"`
	TemporalRunID string `json:"temporal_run_id"`
	WorkflowID    string `json:"workflow_id"`
	TriggerID     string `json:"trigger_id"`
	AnswerID      string `json:"answer_id"`
	SessionKey    string `json:"session_key"`
	OfficeKey     string `json:"office_key"`
	Outcome       string `json:"outcome"`
	Answer        string `json:"answer"`

	Exited Exited
}

// Ask sends a line and waits for what comes back. flags come before the text.
func (w *World) Ask(text string, flags ...string) Answer {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.T.Context(), Patience)
	defer cancel()
	return w.AskWith(ctx, nil, text, flags...)
}

// AskWith asks with settings of the command's own.
func (w *World) AskWith(ctx context.Context, settings []string, text string, flags ...string) Answer {
	w.T.Helper()
	args := append([]string{"ask", "--data-dir", w.DataDir, "--json"}, flags...)
	out := CommandIn(ctx, w.T, MikanPath(w.T), w.Environ(settings...), append(args, "--", text)...)
	a := Answer{Exited: out}
	if out.Stdout != "" {
		if err := json.Unmarshal([]byte(out.Stdout), &a); err != nil {
			w.T.Errorf("ask printed %q: %v", out.Stdout, err)
		}
	}
	return a
}

// Asked sends a line in the background.
func (w *World) Asked(text string, flags ...string) <-chan Answer {
	w.T.Helper()
	done := make(chan Answer, 1)
	go func() { done <- w.Ask(text, flags...) }()
	return done
}

// WantAnswer fails the test when the answer is not what it should be.
func WantAnswer(t testing.TB, got Answer, outcome, contains string, code int) {
	t.Helper()
	if got.Outcome != outcome || !strings.Contains(got.Answer, contains) || got.Exited.Code != code {
		t.Errorf("outcome %q, exit code %d, answer %q (%s); want %q, %d, …%q…",
			got.Outcome, got.Exited.Code, got.Answer, got.Exited.Stderr, outcome, code, contains)
	}
}

// DB is a pool on the world's database, for looking only.
func (w *World) DB() *pgxpool.Pool {
	w.T.Helper()
	if w.pool == nil {
		pool, err := pgxpool.New(w.T.Context(), w.Env["MIKAN_DATABASE_URL"]+"&pool_max_conns=2")
		if err != nil {
			w.T.Fatal(err)
		}
		w.T.Cleanup(pool.Close)
		w.pool = pool
	}
	return w.pool
}

// Rows reads one column of text.
func Rows(ctx context.Context, db *pgxpool.Pool, sql string, args ...any) ([]string, error) {
	found, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[string])
}

// Temporal is a client on the world's namespace.
func (w *World) Temporal() client.Client {
	w.T.Helper()
	c, err := client.Dial(client.Options{HostPort: w.Env["TEMPORAL_ADDRESS"], Namespace: w.Env["TEMPORAL_NAMESPACE"], Logger: quietLogger{}})
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(c.Close)
	return c
}

type quietLogger struct{}

func (quietLogger) Debug(string, ...any) {}
func (quietLogger) Info(string, ...any)  {}
func (quietLogger) Warn(string, ...any)  {}
func (quietLogger) Error(string, ...any) {}

// Ran lists the lines that tools have appended to a file of any office.
func (w *World) Ran(file string) []string {
	w.T.Helper()
	found, err := filepath.Glob(filepath.Join(w.Workspace, "*", file))
	if err != nil {
		w.T.Fatal(err)
	}
	var lines []string
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			w.T.Fatal(err)
		}
		lines = append(lines, strings.Fields(string(text))...)
	}
	return lines
}

// Took logs how long something took: a figure for people, never a verdict.
func Took(t testing.TB, what string, since time.Time) {
	t.Helper()
	t.Logf("%s: %.1f s", what, time.Since(since).Seconds())
}

var Discard = slog.New(slog.DiscardHandler)
