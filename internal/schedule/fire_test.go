package schedule_test

import (
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/activities"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/workflows"
)

// await looks until it sees what it wants, or the test's time is over.
func await(t *testing.T, what string, seen func() bool) {
	t.Helper()
	for !seen() {
		select {
		case <-t.Context().Done():
			t.Fatalf("%s never came", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestATaskNeverOvertakesItself(t *testing.T) {
	t.Parallel()
	s := open(t)
	add(t, s, store.Schedule{ID: "hourly", Kind: store.ScheduleCron, Cron: "0 * * * *", Text: "look around"})
	k, c, _ := keeper(t, s)
	if err := k.Place(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := worker.New(c, k.Queue, worker.Options{})
	w.RegisterWorkflowWithOptions(workflows.FireSchedule, workflow.RegisterOptions{Name: run.FireWorkflowType})
	w.RegisterActivity(&activities.Schedules{Store: s, Waker: &woken{}})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	handle := c.ScheduleClient().GetHandle(t.Context(), run.ScheduleID("hourly"))
	d, err := handle.Describe(t.Context())
	if err != nil || d.Schedule.Policy.Overlap != enumspb.SCHEDULE_OVERLAP_POLICY_SKIP || d.Schedule.Policy.CatchupWindow != 24*time.Hour {
		t.Fatalf("%+v %v", d, err)
	}
	fire := func(firings int) client.ScheduleActionResult {
		t.Helper()
		if err := handle.Trigger(t.Context(), client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP}); err != nil {
			t.Fatal(err)
		}
		var recent []client.ScheduleActionResult
		await(t, "a firing", func() bool {
			d, err := handle.Describe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			recent = d.Info.RecentActions
			n, _, err := s.Waiting(t.Context(), officeKey)
			if err != nil {
				t.Fatal(err)
			}
			return len(recent) == firings && n == 1
		})
		return recent[firings-1]
	}
	first := fire(1)
	// These two find the first one's run still to come, and are skipped.
	fire(1)
	fire(1)
	settleRun(t, s)
	if err := c.GetWorkflow(t.Context(), first.StartWorkflowResult.WorkflowID, first.StartWorkflowResult.FirstExecutionRunID).Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	fire(2)
}

// settleRun runs the one trigger that waits.
func settleRun(t *testing.T, s *store.Store) {
	t.Helper()
	var key string
	if err := s.Pool().QueryRow(t.Context(), `SELECT session_key FROM inbox`).Scan(&key); err != nil {
		t.Fatal(err)
	}
	claim, err := s.Claim(t.Context(), store.Address{OfficeKey: officeKey, SessionKey: key},
		store.Execution{WorkflowID: "w", OriginRun: "o", RunID: "o"}, store.Wait, store.Terms{Model: "demo/demo", Zone: time.UTC})
	if err != nil || claim.Kind != store.ClaimedRun || claim.Run.Trigger != run.Scheduled {
		t.Fatalf("%+v %v", claim, err)
	}
	if _, err := s.Finish(t.Context(), claim.Run.ID, nil, store.Settlement{Outcome: run.Silent}); err != nil {
		t.Fatal(err)
	}
}
