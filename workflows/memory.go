package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/activities"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
)

// Activities of captures, named like those of runs.
var (
	captures    *activities.Captures
	memoryFiles *activities.MemoryFiles
)

// CaptureInput starts a memory capture.
type CaptureInput struct {
	OfficeKey string `json:"office"`
	RunID     string `json:"run"`
}

// CaptureMemory records durable knowledge of a run in the conversation's MEMORY.md: the gate judges the exchange, the
// conversation's model extracts lines, and they are applied to the file. Captures of one office take turns. The settle
// step of the run starts it only where a decision model is configured; what goes wrong fails this capture alone, and is
// recorded. The result is the capture's outcome.
func CaptureMemory(ctx workflow.Context, in CaptureInput) (activities.CaptureOutcome, error) {
	c := &capture{ctx: ctx, queue: workflow.GetInfo(ctx).TaskQueueName, step: activities.CaptureStep{RunID: in.RunID}}
	outcome, err := c.work()
	if err == nil {
		return outcome, nil
	}
	return c.giveUp(codeOf(err))
}

// capture is the state of one execution of CaptureMemory.
type capture struct {
	ctx   workflow.Context
	queue string
	step  activities.CaptureStep
}

// mostTurns is how often a capture starts over because it lost the office's memory to another, which takes minutes of
// silence each time.
const mostTurns = 5

func (c *capture) work() (activities.CaptureOutcome, error) {
	gate, err := c.gate()
	if err != nil || gate.Next == activities.CaptureIsOver {
		return gate.Outcome, err
	}
	for turn := 1; ; turn++ {
		done, err := c.turn()
		if err != nil && codeOf(err) == fault.Conflict && turn < mostTurns {
			continue
		}
		return done.Outcome, err
	}
}

// turn holds the office's memory from reading it until it is changed.
func (c *capture) turn() (activities.CaptureProgress, error) {
	opened, err := c.open()
	if err != nil || opened.Next == activities.CaptureIsOver {
		return opened, err
	}
	c.step.Token = opened.Token
	extracted, err := c.extract()
	if err != nil || extracted.Next == activities.CaptureIsOver {
		return extracted, err
	}
	return c.apply()
}

func (c *capture) gate() (next activities.CaptureProgress, err error) {
	ctx := with(c.ctx, gateClass, c.queue, "gate")
	err = workflow.ExecuteActivity(ctx, captures.GateCapture, c.step).Get(ctx, &next)
	return next, err
}

const (
	firstTurnWait = time.Second
	mostTurnWait  = 15 * time.Second
	// turnPatience is how long a capture waits for its turn, in all.
	turnPatience = 2 * time.Hour
)

// open waits until the office's memory is free, and reads it.
func (c *capture) open() (next activities.CaptureProgress, err error) {
	ctx := with(c.ctx, memoryClass, run.ToolsQueue(c.queue), "read memory")
	for waited, wait := time.Duration(0), firstTurnWait; ; waited, wait = waited+wait, min(wait*3/2, mostTurnWait) {
		next = activities.CaptureProgress{}
		if err := workflow.ExecuteActivity(ctx, memoryFiles.OpenMemory, c.step).Get(ctx, &next); err != nil {
			return next, err
		}
		if next.Next != activities.CaptureWaits {
			return next, nil
		}
		if waited >= turnPatience {
			return next, fault.New(fault.Unavailable, "other captures kept the memory to themselves")
		}
		if err := workflow.Sleep(c.ctx, wait); err != nil {
			return next, err
		}
	}
}

func (c *capture) extract() (next activities.CaptureProgress, err error) {
	ctx := with(c.ctx, extractClass, c.queue, "extract")
	err = workflow.ExecuteActivity(ctx, captures.ExtractKnowledge, c.step).Get(ctx, &next)
	return next, err
}

func (c *capture) apply() (next activities.CaptureProgress, err error) {
	ctx := with(c.ctx, memoryClass, run.ToolsQueue(c.queue), "apply")
	err = workflow.ExecuteActivity(ctx, memoryFiles.ApplyKnowledge, c.step).Get(ctx, &next)
	return next, err
}

// giveUp records a failure, also that of a capture that was cancelled.
func (c *capture) giveUp(code fault.Code) (activities.CaptureOutcome, error) {
	detached, _ := workflow.NewDisconnectedContext(c.ctx)
	ctx := withLocal(detached, storeClass, "give up")
	var next activities.CaptureProgress
	err := workflow.ExecuteLocalActivity(ctx, captures.GiveUpCapture, activities.CaptureFailure{RunID: c.step.RunID, Code: code}).Get(ctx, &next)
	return next.Outcome, err
}
