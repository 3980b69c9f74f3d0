package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// frozen waits until a process has stopped itself.
func (p *process) frozen(t testing.TB) {
	t.Helper()
	eventually(t, p.name+" stands still", func(context.Context) error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		// The state follows the program's name, which is in parentheses.
		if _, after, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(after, "T") {
			return errors.New("it runs")
		}
		return nil
	})
}

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
		{"tool.after", mark("frozen", 0.1), "interrupted"},
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
		standstill{"tool_started.commit.after", mark("frozen", 0.1), "interrupted"},
		standstill{"tool.before", mark("frozen", 0.1), "interrupted"},
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
			first := w.worker("MIKAN_FAILPOINT=" + c.point + ":freeze")
			asked := w.asked(c.says)
			first.frozen(t)
			began := time.Now()
			w.worker()
			wantAnswer(t, <-asked, "answered", c.want, 0)
			took(t, "answered by the second worker", began)
			said := w.said()
			first.signal(syscall.SIGCONT)
			// It ends when everything that it had begun has come to an end.
			first.end(t)
			if now := w.said(); now != said {
				t.Errorf("the continued worker changed what was said:\n%s\nto\n%s", said, now)
			}
			w.settled()
			w.wellFormed()
			w.ranOnce("marks")
		})
	}
}

// said is every message on the terminal, in order.
func (w *world) said() string {
	w.t.Helper()
	lines, err := rows(w.t.Context(), w.db(), `SELECT key || ' ' || state || ' ' || text FROM deliveries ORDER BY created_at`)
	if err != nil {
		w.t.Fatal(err)
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
		"a tool run":      {mark("posting", 0.1), "platform.post.before", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, stalling())
			p := w.worker("MIKAN_FAILPOINT=" + c.point + ":freeze")
			asked := w.asked(c.says)
			p.frozen(t)
			stopped := w.asked("stop")
			eventually(t, "the run's execution is cancelled", func(ctx context.Context) error {
				found, err := rows(ctx, w.db(), `SELECT 'x' FROM deliveries WHERE kind = 'notice' AND cause_message_id IS NOT NULL`)
				if err == nil && len(found) == 0 {
					err = errors.New("not yet")
				}
				return err
			})
			p.signal(syscall.SIGCONT)
			a := <-asked
			if c.outcome != "" && a.Outcome != c.outcome {
				t.Errorf("outcome %q, want %q: %s %s", a.Outcome, c.outcome, a.Answer, a.exited.stderr)
			}
			notice := <-stopped
			t.Logf("%s: %q; the word: %q", a.Outcome, a.Answer, notice.Answer)
			w.settled()
			w.wellFormed()
			w.ranOnce("marks")
		})
	}
}

func TestTwoDeathsInsideOneToolCallRunItOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.worker()
	asked := w.asked(mark("twice", 60))
	eventually(t, "the command has begun", func(context.Context) error {
		if len(w.ran("marks")) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	first.kill()
	second := w.launchWorker("MIKAN_FAILPOINT=step.commit.before") // where it tells the model
	select {
	case <-second.ended:
	case <-time.After(patience):
		t.Fatal("the second worker does not come to the call")
	}
	w.worker()
	wantAnswer(t, <-asked, "answered", "interrupted", 0)
	w.settled()
	w.wellFormed()
	w.ranOnce("marks")
	if n := len(w.ran("marks")); n != 1 {
		t.Errorf("the command ran %d times", n)
	}
}
