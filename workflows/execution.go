package workflows

import (
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/activities"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
)

// execution is the state of one execution of Run.
type execution struct {
	ctx      workflow.Context
	in       run.Input
	queue    string
	wakes    workflow.ReceiveChannel
	run      activities.Claimed
	idle     run.Outcome // the outcome when there is no run to execute
	summary  compaction
	progress progress
}

// ending is what close needs to know.
type ending struct {
	outcome run.Outcome
	waiting bool // another trigger of the session waits
	capture bool // the run deserves a memory capture
}

// begin sets the attributes anew: continue-as-new copies those of the execution before.
func begin(ctx workflow.Context, in run.Input) *execution {
	e := &execution{
		ctx: ctx, in: in, queue: workflow.GetInfo(ctx).TaskQueueName,
		wakes: workflow.GetSignalChannel(ctx, run.WakeSignal), idle: run.Duplicate,
	}
	e.progress.ctx = ctx
	return e
}

// prepare claims the oldest waiting trigger. It first settles what a vanished execution left open, and waits for a run
// that is to be forked. It runs detached from cancellation: a run that is cancelled before its first step must still be
// claimed, or the sweeper would start it again.
func (e *execution) prepare() error {
	detached, _ := workflow.NewDisconnectedContext(e.ctx)
	info := workflow.GetInfo(e.ctx)
	in := activities.PrepareInput{Input: e.in, OriginRun: info.OriginalRunID}
	for waits := 0; ; {
		e.drain()
		var prepared activities.Prepared
		ctx := withLocal(detached, storeClass, "prepare")
		if err := workflow.ExecuteLocalActivity(ctx, sessions.Prepare, in).Get(ctx, &prepared); err != nil {
			return err
		}
		switch prepared.Kind {
		case activities.Orphaned:
			e.conclude(activities.SettleInput{RunID: prepared.Orphan, Outcome: run.Failed, Code: fault.Interrupted})
		case activities.Blocked:
			if waits >= len(waitLimits) || !e.wait(waits) {
				in.Patience = activities.ForkNow
			}
			waits++
		case activities.Dropped:
			e.idle = run.Dropped
		default:
			e.run = prepared.Run
			return e.announce()
		}
	}
}

// wait stands still until a signal comes or the next limit has passed; false when the execution was cancelled.
func (e *execution) wait(waits int) bool {
	timer, stop := workflow.WithCancel(e.ctx)
	defer stop()
	woken := true
	workflow.NewSelector(e.ctx).
		AddReceive(e.wakes, func(c workflow.ReceiveChannel, _ bool) { c.Receive(e.ctx, nil) }).
		AddFuture(workflow.NewTimer(timer, waitLimits[waits]), func(f workflow.Future) { woken = f.Get(timer, nil) == nil }).
		Select(e.ctx)
	return woken
}

// announce shows in the Temporal UI what this execution is. Most executions were started with just these attributes: to
// set them again would cost the server a write.
func (e *execution) announce() error {
	known := workflow.GetTypedSearchAttributes(e.ctx)
	trigger, triggered := known.GetKeyword(run.TriggerAttribute)
	_, ended := known.GetKeyword(run.OutcomeAttribute)
	if e.run.ID != "" && triggered && trigger == string(e.run.Trigger) && !ended {
		return nil
	}
	outcomeUpdate := run.OutcomeAttribute.ValueUnset()
	triggerUpdate := run.TriggerAttribute.ValueUnset()
	if e.run.ID == "" {
		outcomeUpdate = run.OutcomeAttribute.ValueSet(string(e.idle))
	} else {
		triggerUpdate = run.TriggerAttribute.ValueSet(string(e.run.Trigger))
	}
	return workflow.UpsertTypedSearchAttributes(e.ctx,
		run.PlatformAttribute.ValueSet(run.PlatformOf(e.in.OfficeKey)),
		run.OfficeAttribute.ValueSet(e.in.OfficeKey),
		run.SessionAttribute.ValueSet(e.in.SessionKey),
		triggerUpdate, outcomeUpdate,
	)
}

func (e *execution) ended(s activities.Settled) ending {
	return ending{outcome: s.Outcome, waiting: s.Waiting, capture: s.Capture}
}

// close ends the execution: capture, then the next trigger. Temporal refuses a completion that overlooks a signal; the
// code then runs again from the lost task and finds the signal in the channel.
func (e *execution) close(end ending) error {
	detached, _ := workflow.NewDisconnectedContext(e.ctx)
	if e.run.ID != "" {
		if err := workflow.UpsertTypedSearchAttributes(e.ctx, run.OutcomeAttribute.ValueSet(string(end.outcome))); err != nil {
			return err
		}
	}
	if end.capture {
		e.capture(detached)
	}
	e.summary.wait(detached)
	if late := e.drain(); end.waiting || late {
		return continueAsNew(detached, run.Input{OfficeKey: e.in.OfficeKey, SessionKey: e.in.SessionKey})
	}
	if end.outcome == run.Stopped {
		return e.ctx.Err() // "Canceled" in the UI where somebody cancelled; nil after a reset
	}
	return nil
}

// capture starts the memory capture and waits for its start only: an abandoned child whose parent closes first would
// never run.
func (e *execution) capture(ctx workflow.Context) {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            run.MemoryWorkflowID(e.run.ID),
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		StaticSummary:         "memory capture",
		Memo:                  run.Memo(e.in.OfficeKey, e.in.SessionKey),
		TypedSearchAttributes: run.Attributes(e.in.OfficeKey, e.in.SessionKey),
	})
	child := workflow.ExecuteChildWorkflow(ctx, run.MemoryWorkflowType, CaptureInput{OfficeKey: e.in.OfficeKey, RunID: e.run.ID})
	err := child.GetChildWorkflowExecution().Get(ctx, nil)
	if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		workflow.GetLogger(e.ctx).Warn("The memory capture did not start.", "run", e.run.ID)
	}
}

// drain takes all signals that have come and tells whether there were any.
func (e *execution) drain() bool {
	any := false
	for e.wakes.ReceiveAsync(nil) {
		any = true
	}
	return any
}

// codeOf reads the domain code out of an activity's error.
func codeOf(err error) fault.Code {
	var application *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &application):
		return fault.Code(application.Type())
	case temporal.IsCanceledError(err), errors.As(err, &timeout):
		return fault.Interrupted
	}
	return fault.CodeOf(err)
}
