package e2e

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
)

// standstill is a place from which a worker would go on to write.
type standstill struct {
	point string
	says  string
	want  string
}

// standstills are those that are always tried, and the rest with MIKAN_FREEZE=all: each takes half a minute, for the
// server goes on giving work to the polls of a worker that stands still.
func standstills() []standstill {
	usual := []standstill{
		{"model.after", "hello", "echo: hello"},
		{"tool.after", e2etest.Mark("frozen", 0.1), "interrupted"},
		{"platform.post.after", "hello", "echo: hello"},
		{"settle.commit.before", "hello", "echo: hello"}, // with the run's row locked
	}
	if os.Getenv("MIKAN_FREEZE") != "all" {
		return usual
	}
	return append(usual,
		standstill{"claim.commit.before", "hello", "echo: hello"},
		standstill{"begin_step.commit.after", "hello", "echo: hello"},
		standstill{"model.before", "hello", "echo: hello"},
		standstill{"step.commit.before", "hello", "echo: hello"}, // with the session's row locked
		standstill{"tool_started.commit.after", e2etest.Mark("frozen", 0.1), "interrupted"},
		standstill{"tool.before", e2etest.Mark("frozen", 0.1), "interrupted"},
		standstill{"intend.commit.after", "hello", "echo: hello"},
		standstill{"platform.post.before", "hello", "echo: hello"},
	)
}

// TestAFrozenWorkerWritesNothingLate has a worker stand still for longer than its heartbeats may stay away: another takes
// its work over, and what the first does when it is continued is refused.
func TestAFrozenWorkerWritesNothingLate(t *testing.T) {
	t.Parallel()
	for _, c := range standstills() {
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, dramatic())
			first := w.Worker("MIKAN_FAILPOINT=" + c.point + ":freeze")
			asked := w.Asked(c.says)
			first.Frozen(t)
			began := time.Now()
			w.Worker()
			e2etest.WantAnswer(t, <-asked, "answered", c.want, 0)
			e2etest.Took(t, "answered by the second worker", began)
			said := w.said()
			first.Signal(syscall.SIGCONT)
			// It ends when everything that it had begun has come to an end.
			first.End(t)
			if now := w.said(); now != said {
				t.Errorf("the continued worker changed what was said:\n%s\nto\n%s", said, now)
			}
			w.Settled()
			w.WellFormed()
			w.RanOnce("marks")
		})
	}
}

// said is every message on the terminal, in order.
func (w *world) said() string {
	w.T.Helper()
	lines, err := e2etest.Rows(w.T.Context(), w.DB(), `SELECT key || ' ' || state || ' ' || text FROM deliveries ORDER BY created_at`)
	if err != nil {
		w.T.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// TestAStopDuringPostingShowsOneMessage has a worker stand still, for less than its heartbeats may stay away, while it
// posts; the run is stopped in between.
func TestAStopDuringPostingShowsOneMessage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says    string
		point   string
		outcome string
	}{
		"a draft":         {"hang", "platform.post.before", "stopped"},
		"a draft, posted": {"hang", "platform.post.after", "stopped"},
		"an answer":       {"silent no more", "platform.post.before", "answered"},
		"a tool run":      {e2etest.Mark("posting", 0.1), "platform.post.before", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, stalling())
			p := w.Worker("MIKAN_FAILPOINT=" + c.point + ":freeze")
			asked := w.Asked(c.says)
			p.Frozen(t)
			stopped := w.Asked("stop")
			e2etest.Eventually(t, "the run's execution is cancelled", func(ctx context.Context) error {
				found, err := e2etest.Rows(ctx, w.DB(), `SELECT 'x' FROM deliveries WHERE kind = 'notice' AND cause_message_id IS NOT NULL`)
				if err == nil && len(found) == 0 {
					err = errors.New("not yet")
				}
				return err
			})
			p.Signal(syscall.SIGCONT)
			a := <-asked
			if c.outcome != "" && a.Outcome != c.outcome {
				t.Errorf("outcome %q, want %q: %s %s", a.Outcome, c.outcome, a.Answer, a.Exited.Stderr)
			}
			notice := <-stopped
			t.Logf("%s: %q; the word: %q", a.Outcome, a.Answer, notice.Answer)
			w.Settled()
			w.WellFormed()
			w.RanOnce("marks")
		})
	}
}

func TestTwoDeathsInsideOneToolCallRunItOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.Worker()
	asked := w.Asked(e2etest.Mark("twice", 60))
	e2etest.Eventually(t, "the command has begun", func(context.Context) error {
		if len(w.Ran("marks")) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	first.Kill()
	second := w.LaunchWorker("MIKAN_FAILPOINT=step.commit.before") // where it tells the model
	select {
	case <-second.Ended:
	case <-time.After(e2etest.Patience):
		t.Fatal("the second worker does not come to the call")
	}
	w.Worker()
	e2etest.WantAnswer(t, <-asked, "answered", "interrupted", 0)
	w.Settled()
	w.WellFormed()
	w.RanOnce("marks")
	if n := len(w.Ran("marks")); n != 1 {
		t.Errorf("the command ran %d times", n)
	}
}
