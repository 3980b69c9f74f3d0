package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/activities"
	"github.com/geminixiang/mikan/internal/run"
)

var schedules *activities.Schedules

// scheduledStart is when Temporal's schedule meant this execution to start: the moment that the task was due.
var scheduledStart = temporal.NewSearchAttributeKeyTime("TemporalScheduledStartTime")

// How long a firing waits for its run, and how often it looks. While it waits, the task's next firing is skipped.
const (
	settlePatience = 2 * time.Hour
	firstLook      = 2 * time.Second
	mostBetween    = time.Minute
)

// FireSchedule starts the run of a scheduled task and waits until it has settled, so that a task never overtakes itself.
func FireSchedule(ctx workflow.Context, in run.FireInput) error {
	due, scheduled := workflow.GetTypedSearchAttributes(ctx).GetTime(scheduledStart)
	if !scheduled {
		due = workflow.GetInfo(ctx).WorkflowStartTime // started by hand
	}
	var fired activities.Fired
	firing := with(ctx, lastClass, workflow.GetInfo(ctx).TaskQueueName, "fire")
	if err := workflow.ExecuteActivity(firing, schedules.Fire, activities.FireInput{ScheduleID: in.ScheduleID, Due: due.UTC()}).Get(ctx, &fired); err != nil {
		return err
	}
	if fired.RunID == "" {
		return nil
	}
	began := workflow.Now(ctx)
	for wait := firstLook; workflow.Now(ctx).Sub(began) < settlePatience; wait = min(2*wait, mostBetween) {
		if err := workflow.Sleep(ctx, wait); err != nil {
			return err
		}
		settled := false
		if err := workflow.ExecuteLocalActivity(withLocal(ctx, storeClass, "settled?"), schedules.RunIsSettled, fired.RunID).Get(ctx, &settled); err != nil {
			return err
		}
		if settled {
			return nil
		}
	}
	return nil
}
