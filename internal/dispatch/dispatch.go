// Package dispatch brings what waits in Postgres to Temporal: it wakes and cancels runs, sweeps what was never woken,
// and reconciles runs whose execution is gone.
package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
)

// workflowTaskTimeout is how long a run stands still when a worker dies in the middle of a workflow task.
const workflowTaskTimeout = 4 * time.Second

// callTimeout bounds one call to Temporal: intake must acknowledge its platform soon, and the sweeper repeats.
const callTimeout = 5 * time.Second

// Dispatcher starts, signals and cancels runs.
type Dispatcher struct {
	Client client.Client
	Queue  string
	here   atomic.Bool
}

// BeginHere has executions that this process starts begin in its own worker, if that has room. It is for a process whose
// worker polls the queue already: the SDK asks the server what it can do with a client's first call, and an eager start
// reads that without a lock. Temporal's eager start does not look at versions: it is not for a worker that has one.
func (d *Dispatcher) BeginHere() { d.here.Store(true) }

// Wake starts the workflow of a session, or signals the one that is open. It carries no content and may be repeated.
//
// Most sessions are idle when a message comes. A plain start of those spares the server a signal, and where a worker
// runs in this process the first task of the execution comes back with the start's own answer.
func (d *Dispatcher) Wake(ctx context.Context, officeKey, sessionKey string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	options, in := d.startOptions(officeKey, sessionKey), run.Input{OfficeKey: officeKey, SessionKey: sessionKey}
	failpoint.Hit("wake.before")
	_, err := d.Client.ExecuteWorkflow(ctx, options, run.WorkflowType, in)
	failpoint.Hit("wake.after")
	if !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return translate(err)
	}
	// It may end before the signal comes: then the signal starts the next one.
	options.EnableEagerStart = false
	failpoint.Hit("wake_signal.before")
	_, err = d.Client.SignalWithStartWorkflow(ctx, options.ID, run.WakeSignal, nil, options, run.WorkflowType, in)
	failpoint.Hit("wake_signal.after")
	return translate(err)
}

// startOptions are those of every execution that is not begun by another one. Never a WorkflowExecutionTimeout: it would
// span the whole chain of a session's runs.
func (d *Dispatcher) startOptions(officeKey, sessionKey string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                                       run.WorkflowID(officeKey, sessionKey),
		TaskQueue:                                d.Queue,
		WorkflowTaskTimeout:                      workflowTaskTimeout,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		EnableEagerStart:                         d.here.Load(),
		TypedSearchAttributes:                    startAttributes(officeKey, sessionKey),
		Memo:                                     run.Memo(officeKey, sessionKey),
		StaticSummary:                            "session " + sessionKey,
		Priority:                                 temporal.Priority{FairnessKey: officeKey},
	}
}

// startAttributes are what nearly every execution turns out to be: then its workflow need not set them. One that is
// something else sets them anew.
func startAttributes(officeKey, sessionKey string) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(run.Attributes(officeKey, sessionKey).Copy(), run.TriggerAttribute.ValueSet(string(run.Human)))
}

// Cancel asks one execution to stop. An execution that is closed already is not an error.
func (d *Dispatcher) Cancel(ctx context.Context, workflowID, temporalRunID string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	failpoint.Hit("cancel.before")
	err := d.Client.CancelWorkflow(ctx, workflowID, temporalRunID)
	failpoint.Hit("cancel.after")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil
	}
	return translate(err)
}

// Open tells whether the workflow of a session has an open execution.
func (d *Dispatcher) Open(ctx context.Context, workflowID string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	description, err := d.Client.DescribeWorkflowExecution(ctx, workflowID, "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return false, nil
	}
	if err != nil {
		return false, translate(err)
	}
	return description.GetWorkflowExecutionInfo().GetCloseTime() == nil, nil
}

// Polled tells whether a worker has asked for work on the queue within the last minute.
func (d *Dispatcher) Polled(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	description, err := d.Client.DescribeTaskQueue(ctx, d.Queue, 1 /* workflow tasks */)
	if err != nil {
		return false, translate(err)
	}
	for _, poller := range description.GetPollers() {
		if time.Since(poller.GetLastAccessTime().AsTime()) < 70*time.Second {
			return true, nil // a long poll lasts up to a minute
		}
	}
	return false, nil
}

func translate(err error) error {
	if err == nil {
		return nil
	}
	var invalid *serviceerror.InvalidArgument
	var denied *serviceerror.PermissionDenied
	switch {
	case errors.As(err, &invalid):
		return fault.Wrap(fault.Invalid, err, "Temporal refused the request")
	case errors.As(err, &denied):
		return fault.Wrap(fault.Forbidden, err, "Temporal refused the credentials")
	}
	return fault.Wrap(fault.Unavailable, err, "Temporal is not reachable")
}
