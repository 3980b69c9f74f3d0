package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// pause holds the activities of a type of an execution, as the Temporal UI does, and waits until none is at work.
func (w *world) pause(c client.Client, workflowID, activity string) {
	w.T.Helper()
	_, err := c.WorkflowService().PauseActivity(w.T.Context(), &workflowservice.PauseActivityRequest{
		Namespace: w.Env["TEMPORAL_NAMESPACE"], Execution: execution(workflowID, ""),
		Activity: &workflowservice.PauseActivityRequest_Type{Type: activity}, Reason: "by the test",
	})
	if err != nil {
		w.T.Fatal(err)
	}
	e2etest.Eventually(w.T, activity+" is paused", func(ctx context.Context) error {
		description, err := c.DescribeWorkflowExecution(ctx, workflowID, "")
		if err != nil {
			return err
		}
		pending := description.GetPendingActivities()
		if len(pending) != 1 || !pending[0].GetPaused() || pending[0].GetState() != enumspb.PENDING_ACTIVITY_STATE_PAUSED {
			return fmt.Errorf("%v", pending)
		}
		return nil
	})
}

func (w *world) unpause(c client.Client, workflowID, activity string) {
	w.T.Helper()
	_, err := c.WorkflowService().UnpauseActivity(w.T.Context(), &workflowservice.UnpauseActivityRequest{
		Namespace: w.Env["TEMPORAL_NAMESPACE"], Execution: execution(workflowID, ""),
		Activity: &workflowservice.UnpauseActivityRequest_Type{Type: activity},
	})
	if err != nil {
		w.T.Fatal(err)
	}
}

func TestAPausedRunStandsStillAndGoesOn(t *testing.T) {
	t.Parallel()
	var hangs atomic.Bool
	hangs.Store(true)
	stall := stalling()
	w := newWorld(t, func(r llmtest.Request) llmtest.Reply {
		if hangs.Load() {
			return stall(r)
		}
		return llmtest.Echo(llmtest.EchoOptions{})(r)
	})
	w.Worker()
	c := w.Temporal()
	t.Run("in a model call", func(t *testing.T) {
		asked := w.Asked("hang on", "--conversation", "model")
		_, workflowID := w.openRun("model", drafted)
		w.pause(c, workflowID, "Think")
		ctx, cancel := context.WithTimeout(t.Context(), e2etest.Patience)
		defer cancel()
		if _, err := w.Model.Wait(ctx, func(requests []llmtest.Request) bool { return streams(requests) == 0 }); err != nil {
			t.Errorf("the model goes on: %v", err)
		}
		calls := len(w.Model.Requests())
		queued := w.Asked("behind it", "--conversation", "model")
		e2etest.Eventually(t, "the next message waits", func(ctx context.Context) error {
			waits, err := e2etest.Rows(ctx, w.DB(), `SELECT message_id FROM inbox WHERE session_key = 'model'`)
			if err == nil && len(waits) != 1 {
				err = errors.New("not yet")
			}
			return err
		})
		if n := len(w.Model.Requests()); n != calls {
			t.Errorf("%d more model calls while the run is paused", n-calls)
		}
		hangs.Store(false)
		w.unpause(c, workflowID, "Think")
		e2etest.WantAnswer(t, <-asked, "answered", "echo: hang on", 0)
		e2etest.WantAnswer(t, <-queued, "answered", "echo: behind it", 0)
	})
	t.Run("in a command", func(t *testing.T) {
		asked := w.Asked(e2etest.Mark("paused", 300), "--conversation", "tool")
		_, workflowID := w.openRun("tool", calling)
		w.begunMark()
		w.pause(c, workflowID, "Tool")
		w.unpause(c, workflowID, "Tool")
		e2etest.WantAnswer(t, <-asked, "answered", "interrupted", 0)
	})
	t.Run("stopped while it is paused", func(t *testing.T) {
		asked := w.Asked(e2etest.Mark("stopped", 300), "--conversation", "stop")
		_, workflowID := w.openRun("stop", calling)
		w.pause(c, workflowID, "Tool")
		w.Ask("stop", "--conversation", "stop")
		if a := <-asked; a.Outcome != "stopped" {
			t.Errorf("outcome %q: %s", a.Outcome, a.Answer)
		}
	})
	w.Settled()
	w.WellFormed()
	w.RanOnce("marks")
}
