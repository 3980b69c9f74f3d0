package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/testenv"
)

func TestABadConfigurationEndsTheStartWithASentence(t *testing.T) {
	t.Parallel()
	w := bareWorld(t, nil)
	w.Env["MIKAN_DATABASE_URL"], w.Env["TEMPORAL_ADDRESS"] = "postgres://nobody@127.0.0.1:1/none", "127.0.0.1:1"
	for name, test := range map[string]struct {
		setting string
		says    string
	}{
		"an unreadable database URL": {"MIKAN_DATABASE_URL=mysql://x", "MIKAN_DATABASE_URL"},
		"a model without provider":   {"MIKAN_MODEL=llama", "MIKAN_MODEL"},
		"a model without key":        {"ANTHROPIC_API_KEY=", "ANTHROPIC_API_KEY is not set"},
		"an unknown sandbox":         {"MIKAN_SANDBOX=chroot", "MIKAN_SANDBOX"},
		"an address without port":    {"MIKAN_WORKER_LISTEN=localhost", "MIKAN_WORKER_LISTEN"},
		"half a deployment":          {"MIKAN_DEPLOYMENT=d", "MIKAN_BUILD_ID"},
		"an unknown queue choice":    {"MIKAN_SERVE_QUEUES=some", "MIKAN_SERVE_QUEUES"},
		"a missing file":             {"MIKAN_CONFIG=/nowhere.yaml", "/nowhere.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for program, args := range map[string][]string{e2etest.WorkerPath(t): nil, e2etest.MikanPath(t): {"serve"}} {
				out := e2etest.Command(t, program, w.Environ(test.setting), args...)
				if out.Code != 2 || !strings.Contains(out.Stderr, test.says) || strings.Contains(out.Stderr, "goroutine") {
					t.Errorf("%s: exit code %d, says %q; want 2 and %q", filepath.Base(program), out.Code, out.Stderr, test.says)
				}
			}
		})
	}
}

func TestABadIDIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, flags := range [][]string{
		{"--conversation", "../etc"}, {"--conversation", "a:b"}, {"--conversation", ".."}, {"--conversation", ""},
		{"--conversation", "a\x01b"}, {"--conversation", strings.Repeat("x", 300)}, {"--thread", "a/b"}, {"--thread", "."},
		{"--thread", strings.Repeat("y", 200)},
	} {
		if a := w.Ask("hello", flags...); a.Exited.Code != 2 || a.Exited.Stderr == "" {
			t.Errorf("ask %q: exit code %d, says %q; want 2 and why", flags, a.Exited.Code, a.Exited.Stderr)
		}
	}
	if kept, err := e2etest.Rows(t.Context(), w.DB(), `SELECT message_id FROM chat_log UNION ALL SELECT message_id FROM inbox`); err != nil || len(kept) > 0 {
		t.Errorf("kept %v (%v)", kept, err)
	}
	if out := w.Mikan("office", "key", "slack", "C1/.."); out.Code != 2 {
		t.Errorf("office key: %+v", out)
	}
}

func TestAMessageThatNobodyServesIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if a := w.Ask("anybody there?"); a.Exited.Code != 4 || !strings.Contains(a.Exited.Stderr, "kept") {
		t.Errorf("exit code %d, says %q", a.Exited.Code, a.Exited.Stderr)
	}
	w.Worker()
	w.Settled()
	w.WellFormed()
	if said, err := e2etest.Rows(t.Context(), w.DB(), `SELECT text FROM deliveries`); err != nil || len(said) != 1 || said[0] != "echo: anybody there?" {
		t.Errorf("said %q (%v)", said, err)
	}
}

func TestAFreshTemporalIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := bareWorld(t, nil)
	w.Env["MIKAN_DATABASE_URL"] = testenv.PostgresURL(t)
	w.Env["TEMPORAL_ADDRESS"], w.Env["TEMPORAL_NAMESPACE"] = testenv.TemporalWithoutSearchAttributes(t)
	w.Migrate()
	began := time.Now()
	g := w.Gateway()
	p := w.LaunchWorker()
	a := w.Ask("hello")
	e2etest.WantAnswer(t, a, "answered", "echo: hello", 0)
	e2etest.Took(t, "the first answer", began)
	if log := p.Output() + g.Output() + a.Exited.Stderr; !strings.Contains(log, "search attributes") {
		t.Errorf("nobody says what is waited for: %s", log)
	}
	w.Settled()
	w.WellFormed()
}

func TestAMessageIsTakenInWhileTemporalIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.Worker()
	a := w.AskWith(t.Context(), []string{"TEMPORAL_ADDRESS=127.0.0.1:1"}, "hello")
	if a.Exited.Code != 0 && a.Exited.Code != 4 {
		t.Errorf("exit code %d: %s", a.Exited.Code, a.Exited.Stderr)
	}
	e2etest.Eventually(t, "the message is answered", func(ctx context.Context) error {
		said, err := e2etest.Rows(ctx, w.DB(), `SELECT text FROM deliveries WHERE state = 'final'`)
		if err == nil && len(said) != 1 {
			err = errors.New("not yet")
		}
		return err
	})
	w.Settled()
	w.WellFormed()
}

func TestAnOrderlyEndLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, talkative())
	settings := filepath.Join(t.TempDir(), "mikan.yaml")
	if err := os.WriteFile(settings, []byte("drain_seconds: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Env["MIKAN_CONFIG"] = settings
	first := w.Worker()
	model := w.Asked("slow 20", "--conversation", "model")
	tool := w.Asked(e2etest.Mark("drained", 6), "--conversation", "tool")
	w.openRun("tool", calling)
	w.openRun("model", drafted)
	first.Signal(syscall.SIGTERM)
	w.LaunchWorker() // before the first has ended: an ask gives up half a minute after the last worker
	first.AwaitEnd(t)
	e2etest.WantAnswer(t, <-model, "answered", "20 of 20", 0)
	e2etest.WantAnswer(t, <-tool, "answered", "ran: ", 0)
	w.Settled()
	w.WellFormed()
	w.RanOnce("marks")
}
