package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/internal/fault"
)

// class is how an activity is timed and retried. The table below is all there is to know about it.
type class struct {
	startToClose time.Duration // hard end of one attempt
	heartbeat    time.Duration // silence after which a worker counts as dead; 0 = too short to need it
	attempts     int32         // 0 = until the run ends
	first, most  time.Duration // wait before the second attempt, and the longest wait
}

// className names a class.
type className string

// The classes.
const (
	storeClass    className = "store"    // keyed SQL, as local activity
	modelClass    className = "model"    // one model call
	toolClass     className = "tool"     // one tool call; the activity itself never repeats an unsafe one
	deliveryClass className = "delivery" // showing a message and settling the run: a platform may be away for an hour and a half
	lastClass     className = "last"     // settling without showing anything, when delivery failed for good
	gateClass     className = "gate"     // one question to the decision model
	extractClass  className = "extract"  // one model call of a capture, which has a minute
	memoryClass   className = "memory"   // reading or changing MEMORY.md
)

var classes = map[className]class{
	storeClass:    {startToClose: 10 * time.Second, attempts: 0, first: 100 * time.Millisecond, most: 10 * time.Second},
	modelClass:    {startToClose: 15 * time.Minute, heartbeat: 5 * time.Second, attempts: 8, first: time.Second, most: 30 * time.Second},
	toolClass:     {startToClose: 15 * time.Minute, heartbeat: 5 * time.Second, attempts: 5, first: 200 * time.Millisecond, most: 10 * time.Second},
	deliveryClass: {startToClose: 3 * time.Minute, heartbeat: 5 * time.Second, attempts: 100, first: 200 * time.Millisecond, most: time.Minute},
	gateClass:     {startToClose: 3 * time.Minute, heartbeat: 5 * time.Second, attempts: 5, first: time.Second, most: time.Minute},
	extractClass:  {startToClose: 3 * time.Minute, heartbeat: 5 * time.Second, attempts: 4, first: 2 * time.Second, most: 30 * time.Second},
	memoryClass:   {startToClose: time.Minute, heartbeat: 5 * time.Second, attempts: 20, first: 200 * time.Millisecond, most: 10 * time.Second},
	lastClass:     {startToClose: 10 * time.Second, attempts: 0, first: time.Second, most: time.Minute},
}

// final lists the domain errors that another attempt cannot change.
func final() []string {
	return []string{
		string(fault.Invalid), string(fault.NotFound), string(fault.Conflict), string(fault.Forbidden),
		string(fault.TooLarge), string(fault.Interrupted),
	}
}

func (c class) retry() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{
		InitialInterval: c.first, BackoffCoefficient: 2, MaximumInterval: c.most, MaximumAttempts: c.attempts,
		NonRetryableErrorTypes: final(),
	}
}

// with makes a context for a regular activity of the class. summary is one of our own fixed names, never text that a
// model or a person wrote.
func with(ctx workflow.Context, name className, queue, summary string) workflow.Context {
	c := classes[name]
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: queue, StartToCloseTimeout: c.startToClose, HeartbeatTimeout: c.heartbeat,
		WaitForCancellation: c.heartbeat > 0, RetryPolicy: c.retry(), Summary: summary,
	})
}

// withLocal makes a context for a local activity of the class: only keyed SQL, since it runs again whenever its
// workflow task is lost.
func withLocal(ctx workflow.Context, name className, summary string) workflow.Context {
	c := classes[name]
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: c.startToClose, RetryPolicy: c.retry(), Summary: summary,
	})
}
