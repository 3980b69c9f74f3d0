package e2e

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

// world is one installation: a database, a namespace, a workspace, a model.
type world struct {
	t         testing.TB
	workspace string
	dataDir   string
	env       map[string]string
	model     *llmtest.Server
	pool      *pgxpool.Pool
}

// newWorld makes an installation on the tests' shared servers, with a schema and no process yet.
func newWorld(t testing.TB, script llmtest.Script) *world {
	t.Helper()
	w := bareWorld(t, script)
	w.env["MIKAN_DATABASE_URL"] = testenv.PostgresURL(t)
	w.env["TEMPORAL_ADDRESS"], w.env["TEMPORAL_NAMESPACE"] = testenv.Temporal(t)
	w.migrate()
	return w
}

// bareWorld is a world whose servers are still to be named.
func bareWorld(t testing.TB, script llmtest.Script) *world {
	t.Helper()
	if script == nil {
		script = llmtest.Echo(llmtest.EchoOptions{})
	}
	w := &world{t: t, workspace: filepath.Join(t.TempDir(), "workspace"), dataDir: t.TempDir(), model: llmtest.NewServer(t, script)}
	w.env = map[string]string{
		"MIKAN_WORKSPACE":     w.workspace,
		"MIKAN_TASK_QUEUE":    testenv.TaskQueue(t),
		"MIKAN_SANDBOX":       "host",
		"MIKAN_LISTEN":        "127.0.0.1:0",
		"MIKAN_WORKER_LISTEN": "127.0.0.1:0",
		"MIKAN_MODEL":         "anthropic/claude-test",
		"ANTHROPIC_API_KEY":   "key-of-the-tests",
		"ANTHROPIC_BASE_URL":  w.model.AnthropicURL(),
	}
	return w
}

// environ is the environment of a process of this world. Settings are NAME=VALUE and come last, so they win.
func (w *world) environ(settings ...string) []string {
	var env []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "MIKAN_") && !strings.HasPrefix(name, "TEMPORAL_") && !strings.HasSuffix(name, "_API_KEY") {
			env = append(env, entry)
		}
	}
	for name, value := range w.env {
		env = append(env, name+"="+value)
	}
	return append(env, settings...)
}

func (w *world) migrate() {
	w.t.Helper()
	if out := w.mikan("migrate", "--schema-only"); out.code != 0 {
		w.t.Fatalf("migrate: %+v", out)
	}
}

// mikan runs a command of the CLI to its end.
func (w *world) mikan(args ...string) exited {
	w.t.Helper()
	return command(w.t, mikan(w.t), w.environ(), append(args, "--data-dir", w.dataDir)...)
}

// worker starts a worker and waits until it polls.
func (w *world) worker(settings ...string) *process {
	w.t.Helper()
	p := w.launchWorker(settings...)
	p.says(w.t, "the worker is ready")
	return p
}

func (w *world) launchWorker(settings ...string) *process {
	w.t.Helper()
	return start(w.t, "worker", worker(w.t), w.environ(settings...), "-data-dir", w.dataDir)
}

func (w *world) gateway(settings ...string) *process {
	w.t.Helper()
	return start(w.t, "gateway", mikan(w.t), w.environ(settings...), "serve", "--data-dir", w.dataDir)
}

// answer is what `mikan ask --json` prints, with its exit code.
type answer struct {
	RunID         string `json:"run_id"`
	TemporalRunID string `json:"temporal_run_id"`
	WorkflowID    string `json:"workflow_id"`
	TriggerID     string `json:"trigger_id"`
	AnswerID      string `json:"answer_id"`
	SessionKey    string `json:"session_key"`
	OfficeKey     string `json:"office_key"`
	Outcome       string `json:"outcome"`
	Answer        string `json:"answer"`

	exited exited
}

// ask sends a line and waits for what comes back. flags come before the text.
func (w *world) ask(text string, flags ...string) answer {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	return w.askWith(ctx, nil, text, flags...)
}

func (w *world) askWith(ctx context.Context, settings []string, text string, flags ...string) answer {
	w.t.Helper()
	args := append([]string{"ask", "--data-dir", w.dataDir, "--json"}, flags...)
	out := commandIn(ctx, w.t, mikan(w.t), w.environ(settings...), append(args, "--", text)...)
	a := answer{exited: out}
	if out.stdout != "" {
		if err := json.Unmarshal([]byte(out.stdout), &a); err != nil {
			w.t.Errorf("ask printed %q: %v", out.stdout, err)
		}
	}
	return a
}

// asked sends a line in the background.
func (w *world) asked(text string, flags ...string) <-chan answer {
	w.t.Helper()
	done := make(chan answer, 1)
	go func() { done <- w.ask(text, flags...) }()
	return done
}

// wantAnswer fails the test when the answer is not what it should be.
func wantAnswer(t testing.TB, got answer, outcome, contains string, code int) {
	t.Helper()
	if got.Outcome != outcome || !strings.Contains(got.Answer, contains) || got.exited.code != code {
		t.Errorf("outcome %q, exit code %d, answer %q (%s); want %q, %d, …%q…",
			got.Outcome, got.exited.code, got.Answer, got.exited.stderr, outcome, code, contains)
	}
}

// db is a pool on the world's database, for looking only.
func (w *world) db() *pgxpool.Pool {
	w.t.Helper()
	if w.pool == nil {
		pool, err := pgxpool.New(w.t.Context(), w.env["MIKAN_DATABASE_URL"]+"&pool_max_conns=2")
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(pool.Close)
		w.pool = pool
	}
	return w.pool
}

// rows reads one column of text.
func rows(ctx context.Context, db *pgxpool.Pool, sql string, args ...any) ([]string, error) {
	found, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[string])
}

// temporal is a client on the world's namespace.
func (w *world) temporal() client.Client {
	w.t.Helper()
	c, err := client.Dial(client.Options{HostPort: w.env["TEMPORAL_ADDRESS"], Namespace: w.env["TEMPORAL_NAMESPACE"], Logger: quietLogger{}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

type quietLogger struct{}

func (quietLogger) Debug(string, ...any) {}
func (quietLogger) Info(string, ...any)  {}
func (quietLogger) Warn(string, ...any)  {}
func (quietLogger) Error(string, ...any) {}

// ran lists the lines that tools have appended to a file of any office.
func (w *world) ran(file string) []string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.workspace, "*", file))
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			w.t.Fatal(err)
		}
		lines = append(lines, strings.Fields(string(text))...)
	}
	return lines
}

// took logs how long something took: a figure for people, never a verdict.
func took(t testing.TB, what string, since time.Time) {
	t.Helper()
	t.Logf("%s: %.1f s", what, time.Since(since).Seconds())
}

var discard = slog.New(slog.DiscardHandler)
