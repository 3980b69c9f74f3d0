package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
)

// build is a line of `mikan deploy status --json`.
type build struct {
	ID    string `json:"build_id"`
	State string `json:"state"`
	Open  int    `json:"open"`
}

// build starts a worker of a build.
func (w *world) build(id string) *e2etest.Process {
	w.T.Helper()
	return w.Worker("MIKAN_DEPLOYMENT=mikan", "MIKAN_BUILD_ID="+id)
}

// untilBuild waits for a build to be in one of the states: it passes through some of them quickly.
func (w *world) untilBuild(id string, states ...string) {
	w.T.Helper()
	e2etest.Eventually(w.T, fmt.Sprintf("build %s is %v", id, states), func(context.Context) error {
		out := w.Mikan("deploy", "--deployment", "mikan", "status", "--json")
		var status struct {
			Builds []build `json:"builds"`
		}
		if out.Code != 0 {
			return fmt.Errorf("deploy status: %d %s", out.Code, out.Stderr)
		}
		if err := json.Unmarshal([]byte(out.Stdout), &status); err != nil {
			return err
		}
		if !slices.ContainsFunc(status.Builds, func(b build) bool { return b.ID == id && slices.Contains(states, b.State) }) {
			return fmt.Errorf("%+v", status.Builds)
		}
		return nil
	})
}

// promote makes a build current, as soon as Temporal has seen all its workers.
func (w *world) promote(id string) {
	w.T.Helper()
	e2etest.Eventually(w.T, "build "+id+" is promoted", func(context.Context) error {
		if out := w.Mikan("deploy", "--deployment", "mikan", "promote", id); out.Code != 0 {
			return fmt.Errorf("deploy promote: %d %s", out.Code, out.Stderr)
		}
		return nil
	})
}

func TestARollingRestartUnderLoadLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, talkative())
	old := []*e2etest.Process{w.build("1"), w.build("1")}
	if out := w.Mikan("deploy", "--deployment", "mikan", "promote", "2"); out.Code != 3 && out.Code != 5 {
		t.Errorf("a build that has no worker is promoted: %+v", out)
	}
	w.promote("1")
	tr := w.converse(3)
	tr.progress(t)
	began := time.Now()
	// A run that takes long stays on the build that began it, and its session's next one begins on the new build.
	long := w.Asked(e2etest.Mark("long", 6), "--conversation", "long")
	w.openRun("long", calling)
	next := w.Asked("after the long one", "--conversation", "long")
	young := w.build("2")
	w.promote("2")
	w.untilBuild("1", "draining", "drained")
	tr.progress(t)
	w.untilBuild("1", "drained")
	e2etest.Took(t, "the old build is drained", began)
	for _, p := range old {
		p.End(t)
	}
	e2etest.WantAnswer(t, <-long, "answered", "done long", 0)
	e2etest.WantAnswer(t, <-next, "answered", "echo: after the long one", 0)
	tr.progress(t)
	tr.end()
	w.Settled()
	w.WellFormed()
	w.RanOnce("marks")
	young.End(t)
}

func TestRunsOfABuildWhoseWorkersAreGoneGoOnWithAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, talkative())
	old := w.build("1")
	w.promote("1")
	asked := w.Asked(e2etest.Mark("moved", 60))
	w.begunMark()
	w.build("2")
	w.promote("2")
	old.Kill()
	w.untilBuild("1", "draining", "drained")
	if out := w.Mikan("deploy", "--deployment", "mikan", "move", "1"); out.Code != 0 {
		t.Errorf("deploy move: %+v", out)
	}
	e2etest.WantAnswer(t, <-asked, "answered", "interrupted", 0)
	w.untilBuild("1", "drained")
	w.Settled()
	w.WellFormed()
	w.RanOnce("marks")
}
