package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/activities"
	"github.com/geminixiang/mikan/internal/run"
)

// compaction is a summary that is being made beside the run; the zero value is none.
type compaction struct {
	result  workflow.Future
	ordinal int
}

// compactBeside starts a compaction without waiting for it: the context nears the model's window but still fits.
func (e *execution) compactBeside(step int) {
	if e.summary.result != nil && !e.summary.result.IsReady() {
		return
	}
	e.summary.ordinal++
	ctx := with(e.ctx, modelClass, e.queue, "compact session")
	e.summary.result = workflow.ExecuteActivity(ctx, model.Compact, activities.CompactInput{
		RunID: e.run.ID, Step: step, Ordinal: e.summary.ordinal,
	})
}

// compactOnly is the run of the command that asks for a compaction.
func (e *execution) compactOnly() ending {
	e.compactBeside(1)
	var done activities.Compacted
	err := e.summary.result.Get(e.ctx, &done)
	e.summary.result = nil
	in := activities.SettleInput{RunID: e.run.ID, Outcome: run.Answered, Said: activities.SaidCompacted}
	switch {
	case e.ctx.Err() != nil:
		in.Outcome, in.Said = run.Stopped, ""
	case err != nil:
		in.Outcome, in.Code, in.Said = run.Failed, codeOf(err), ""
	case done.Entries == 0:
		in.Said = activities.SaidNothingToCompact
	}
	return e.ended(e.conclude(in))
}

// makeRoom waits for a compaction, starting one if none is under way; false when it made no room.
func (e *execution) makeRoom(step int) bool {
	e.compactBeside(step)
	e.progress.began("compact session")
	started := workflow.Now(e.ctx)
	var done activities.Compacted
	err := e.summary.result.Get(e.ctx, &done)
	e.summary.result = nil
	e.progress.ended(workflow.Now(e.ctx).Sub(started), 0, err)
	return err == nil && done.Entries > 0
}

// wait lets a compaction that is under way end before the execution closes, since closing would drop it.
func (c *compaction) wait(ctx workflow.Context) {
	if c.result != nil {
		_ = c.result.Get(ctx, nil) // a failed one leaves the session as it is; the next run tries again
	}
}
