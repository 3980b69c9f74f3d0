package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/testenv"
)

func TestABadConfigurationEndsTheStartWithASentence(t *testing.T) {
	t.Parallel()
	w := bareWorld(t, nil)
	w.env["MIKAN_DATABASE_URL"], w.env["TEMPORAL_ADDRESS"] = "postgres://nobody@127.0.0.1:1/none", "127.0.0.1:1"
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
			for program, args := range map[string][]string{worker(t): nil, mikan(t): {"serve"}} {
				out := command(t, program, w.environ(test.setting), args...)
				if out.code != 2 || !strings.Contains(out.stderr, test.says) || strings.Contains(out.stderr, "goroutine") {
					t.Errorf("%s: exit code %d, says %q; want 2 and %q", filepath.Base(program), out.code, out.stderr, test.says)
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
		if a := w.ask("hello", flags...); a.exited.code != 2 || a.exited.stderr == "" {
			t.Errorf("ask %q: exit code %d, says %q; want 2 and why", flags, a.exited.code, a.exited.stderr)
		}
	}
	if kept, err := rows(t.Context(), w.db(), `SELECT message_id FROM chat_log UNION ALL SELECT message_id FROM inbox`); err != nil || len(kept) > 0 {
		t.Errorf("kept %v (%v)", kept, err)
	}
	if out := w.mikan("office", "key", "slack", "C1/.."); out.code != 2 {
		t.Errorf("office key: %+v", out)
	}
}

func TestAMessageThatNobodyServesIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if a := w.ask("anybody there?"); a.exited.code != 4 || !strings.Contains(a.exited.stderr, "kept") {
		t.Errorf("exit code %d, says %q", a.exited.code, a.exited.stderr)
	}
	w.worker()
	w.settled()
	w.wellFormed()
	if said, err := rows(t.Context(), w.db(), `SELECT text FROM deliveries`); err != nil || len(said) != 1 || said[0] != "echo: anybody there?" {
		t.Errorf("said %q (%v)", said, err)
	}
}

func TestAFreshTemporalIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := bareWorld(t, nil)
	w.env["MIKAN_DATABASE_URL"] = testenv.PostgresURL(t)
	w.env["TEMPORAL_ADDRESS"], w.env["TEMPORAL_NAMESPACE"] = testenv.TemporalWithoutSearchAttributes(t)
	w.migrate()
	began := time.Now()
	g := w.gateway()
	p := w.launchWorker()
	a := w.ask("hello")
	wantAnswer(t, a, "answered", "echo: hello", 0)
	took(t, "the first answer", began)
	if log := p.output() + g.output() + a.exited.stderr; !strings.Contains(log, "search attributes") {
		t.Errorf("nobody says what is waited for: %s", log)
	}
	w.settled()
	w.wellFormed()
}

func TestAMessageIsTakenInWhileTemporalIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.worker()
	a := w.askWith(t.Context(), []string{"TEMPORAL_ADDRESS=127.0.0.1:1"}, "hello")
	if a.exited.code != 0 && a.exited.code != 4 {
		t.Errorf("exit code %d: %s", a.exited.code, a.exited.stderr)
	}
	eventually(t, "the message is answered", func(ctx context.Context) error {
		said, err := rows(ctx, w.db(), `SELECT text FROM deliveries WHERE state = 'final'`)
		if err == nil && len(said) != 1 {
			err = errors.New("not yet")
		}
		return err
	})
	w.settled()
	w.wellFormed()
}

func TestAnOrderlyEndLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, talkative())
	settings := filepath.Join(t.TempDir(), "mikan.yaml")
	if err := os.WriteFile(settings, []byte("drain_seconds: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env["MIKAN_CONFIG"] = settings
	first := w.worker()
	model := w.asked("slow 20", "--conversation", "model")
	tool := w.asked(mark("drained", 6), "--conversation", "tool")
	w.openRun("tool", calling)
	w.openRun("model", drafted)
	first.end(t)
	w.worker()
	wantAnswer(t, <-model, "answered", "20 of 20", 0)
	wantAnswer(t, <-tool, "answered", "ran: ", 0)
	w.settled()
	w.wellFormed()
	w.ranOnce("marks")
}
