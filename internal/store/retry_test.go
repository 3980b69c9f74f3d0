package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

func TestARetryIsANewAttemptBehindWhatWaits(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "do it")
	first := c.claim("C1")
	c.think(first, 1, call("c1", "bash", "{}"))
	c.settle(first, "It went wrong.", run.Failed)
	c.ask("C1", "bob", "another thing")
	row, err := c.s.Retry(c.ctx(), first.ID)
	c.must(err)
	if row.Attempt != 2 || row.Trigger != run.Human || row.ID == 0 {
		t.Errorf("the row is %+v", row)
	}
	if between, _ := c.answer("C1", "done"); between.TriggerMessageID == first.TriggerMessageID {
		t.Error("the retry overtook what waited")
	}
	second := c.claim("C1")
	if want := run.ID(c.office.Key, "C1", first.TriggerMessageID, 2); second.ID != want || second.Attempt != 2 {
		t.Errorf("the attempt is %s (%d), want %s", second.ID, second.Attempt, want)
	}
	c.wantContext("C1",
		"prompt [ann]: do it", "assistant call bash {}", "tool_result result "+store.InterruptedResult,
		"chat [mikan]: It went wrong.", "prompt [bob]: another thing", "assistant done", "prompt [ann]: do it")
}

func TestARetryIsRefusedWhereThereIsNothingToTryAgain(t *testing.T) {
	t.Parallel()
	for what, play := range map[string]func(c *scene) string{
		"open": func(c *scene) string {
			c.ask("C1", "ann", "do it")
			return c.claim("C1").ID
		},
		"answered": func(c *scene) string {
			c.ask("C1", "ann", "do it")
			r, _ := c.answer("C1", "done")
			return r.ID
		},
		"was run again already": func(c *scene) string {
			first := c.failed("C1")
			_, err := c.s.Retry(c.ctx(), first.ID)
			c.must(err)
			c.settle(c.claim("C1"), "Again in vain.", run.Failed)
			return first.ID
		},
		"waits already": func(c *scene) string {
			first := c.failed("C1")
			_, err := c.s.Retry(c.ctx(), first.ID)
			c.must(err)
			return first.ID
		},
		"was deleted": func(c *scene) string {
			first := c.failed("C1")
			_, err := c.s.Revise(c.ctx(), store.Revision{OfficeKey: c.office.Key, MessageID: first.TriggerMessageID, Deleted: true})
			c.must(err)
			return first.ID
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := newScene(t)
			id := play(c)
			before := c.waiting()
			_, err := c.s.Retry(c.ctx(), id)
			if fault.CodeOf(err) != fault.Conflict || !strings.Contains(err.Error(), what) {
				t.Errorf("%v, want a conflict that says %q", err, what)
			}
			if c.waiting() != before {
				t.Error("something was written")
			}
		})
	}
	c := newScene(t)
	if _, err := c.s.Retry(c.ctx(), "nothing"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("an unknown run: %v", err)
	}
}

// failed plays a run that ends in vain.
func (c *scene) failed(key string) store.Run {
	c.t.Helper()
	c.ask(key, "ann", "do it")
	r := c.claim(key)
	c.settle(r, "It went wrong.", run.Failed)
	return r
}

func (c *scene) waiting() int64 {
	c.t.Helper()
	n, _, err := c.s.Waiting(c.ctx(), "")
	c.must(err)
	return n
}

func TestOnlyOneOfTwoRetriesAtOnceIsTaken(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.failed("C1")
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			_, err := c.s.Retry(c.ctx(), r.ID)
			errs <- err
		}()
	}
	taken := 0
	for range cap(errs) {
		select {
		case err := <-errs:
			if err == nil {
				taken++
			} else if fault.CodeOf(err) != fault.Conflict {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a retry does not return")
		}
	}
	if taken != 1 || c.waiting() != 1 {
		t.Errorf("%d were taken and %d wait", taken, c.waiting())
	}
}
