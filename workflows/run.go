// Package workflows is mikan's orchestration: what a run does, in order. It is pure and deterministic, and knows the
// world only by the names of its activities.
package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/activities"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
)

// Activities are named through nil pointers of their types: this package calls none of them itself.
var (
	sessions *activities.Sessions
	model    *activities.Model
	tools    *activities.Tools
	answers  *activities.Answers
)

// maxEvents is how long a run's history may grow before the run goes on in a new execution. Temporal warns at 10,240
// events and ends a workflow at 51,200.
const maxEvents = 4096

// Run executes the oldest waiting trigger of a session: prepare, think and use tools until there is an answer, deliver
// it, start the memory capture, and make room for what waits behind it. One execution is one run, but for a run that
// outgrows its history.
func Run(ctx workflow.Context, in run.Input) error {
	e := begin(ctx, in)
	if err := e.prepare(); err != nil {
		return err
	}
	if e.run.ID == "" {
		return e.close(ending{outcome: e.idle})
	}
	switch e.run.Word {
	case run.CompactWord:
		return e.close(e.compactOnly())
	case run.MemoryWord:
		return e.close(e.showMemory())
	}
	if e.run.Files {
		e.fetchFiles()
	}
	step, err := e.work(in.Step)
	if workflow.IsContinueAsNewError(err) {
		return err
	}
	return e.close(e.settle(step, err))
}

// errSpent ends a run whose office has spent what it may.
var errSpent = errors.New("spent")

// work alternates between model and tools until the model has answered. It returns the step that holds the answer.
func (e *execution) work(step int) (int, error) {
	for step = max(step, 1); ; step++ {
		thought, err := e.think(step)
		if err != nil {
			return step, err
		}
		switch thought.Kind {
		case activities.Answered:
			return step, nil
		case activities.NothingToSpend:
			return step, errSpent
		}
		for _, call := range thought.Calls {
			if err := e.use(step, call); err != nil {
				return step, err
			}
		}
		if e.outgrown() {
			return step, e.continueRun(step + 1)
		}
	}
}

// maxCompactions is how often one step may be compacted before its request is made to fit by rule.
const maxCompactions = 2

// think takes one step: the model is called once, after whatever the call needs first.
func (e *execution) think(step int) (activities.Thought, error) {
	in := activities.ThinkInput{RunID: e.run.ID, Step: step}
	for compactions := 0; ; {
		thought, err := e.callModel(in)
		switch {
		case err != nil:
			return thought, err
		case thought.Kind == activities.NeedsMemory:
			if err := e.recall(); err != nil {
				return thought, err
			}
		case thought.Kind == activities.NeedsRoom:
			compactions++
			if compactions > maxCompactions || !e.makeRoom(step) {
				in.Fit = activities.FitByTrimming
			}
		default:
			if thought.Filled {
				e.compactBeside(step)
			}
			return thought, nil
		}
	}
}

func (e *execution) callModel(in activities.ThinkInput) (activities.Thought, error) {
	var thought activities.Thought
	started := workflow.Now(e.ctx)
	e.progress.began("model " + e.run.Model)
	ctx := with(e.ctx, modelClass, e.queue, "model "+e.run.Model)
	err := workflow.ExecuteActivity(ctx, model.Think, in).Get(ctx, &thought)
	e.progress.ended(workflow.Now(e.ctx).Sub(started), thought.Tokens, err)
	return thought, err
}

// fetchFiles has the files of the run's messages brought into the workspace. What goes wrong is told to the model: a
// missing file never keeps an answer back.
func (e *execution) fetchFiles() {
	ctx := with(e.ctx, toolClass, run.ToolsQueue(e.queue), "fetch files")
	_ = workflow.ExecuteActivity(ctx, tools.Files, activities.FilesInput{RunID: e.run.ID}).Get(ctx, nil)
}

// recall has the memory read where the workspace is, for a model call on a worker that has none.
func (e *execution) recall() error {
	ctx := with(e.ctx, toolClass, run.ToolsQueue(e.queue), "recall memory")
	return workflow.ExecuteActivity(ctx, tools.Recall, activities.RecallInput{RunID: e.run.ID}).Get(ctx, nil)
}

// showMemory is the run of the command that asks what is remembered: it reads the file and shows it, without a model.
func (e *execution) showMemory() ending {
	in := activities.SettleInput{RunID: e.run.ID, Outcome: run.Answered, Said: activities.SaidMemory}
	if err := e.recall(); err != nil {
		in.Outcome, in.Code, in.Said = run.Failed, codeOf(err), ""
	}
	if e.ctx.Err() != nil {
		in.Outcome, in.Code, in.Said = run.Stopped, "", ""
	}
	return e.ended(e.conclude(in))
}

// use carries out one tool call. What goes wrong inside is the model's to read; an error ends the run.
func (e *execution) use(step int, call activities.CallRef) error {
	started := workflow.Now(e.ctx)
	e.progress.began("tool " + call.Tool)
	ctx := with(e.ctx, toolClass, run.ToolsQueue(e.queue), "tool "+call.Tool)
	err := workflow.ExecuteActivity(ctx, tools.Tool, activities.ToolInput{RunID: e.run.ID, Step: step, Index: call.Index}).Get(ctx, nil)
	e.progress.ended(workflow.Now(e.ctx).Sub(started), 0, err)
	if err != nil && e.ctx.Err() == nil && codeOf(err) != fault.Conflict {
		// The call is left open; the next model call is told that it was interrupted.
		return nil
	}
	return err
}

// settle brings the run to its end for everybody who waits: the answer, or an honest word why there is none.
func (e *execution) settle(step int, failure error) ending {
	in := activities.SettleInput{RunID: e.run.ID, Outcome: run.Failed}
	if failure == nil {
		settled, err := e.answer(step)
		if err == nil {
			return e.ended(settled)
		}
		failure, in.Said = err, activities.SaidUnposted
	}
	in.Code = codeOf(failure)
	if errors.Is(failure, errSpent) {
		in.Code, in.Said = fault.Forbidden, activities.SaidSpent
	}
	if e.ctx.Err() != nil || in.Code == fault.Conflict {
		in.Outcome, in.Code = run.Stopped, ""
	}
	return e.ended(e.conclude(in))
}

// answer delivers what the model said at a step.
func (e *execution) answer(step int) (activities.Settled, error) {
	e.drain() // whoever signalled until here has a row that the settling transaction sees
	var settled activities.Settled
	ctx := with(e.ctx, deliveryClass, e.queue, "answer")
	err := workflow.ExecuteActivity(ctx, answers.Answer, activities.AnswerInput{RunID: e.run.ID, Step: step}).Get(ctx, &settled)
	return settled, err
}

// conclude ends a run that has no answer. It goes on when the run itself was cancelled, and when nothing can be shown
// any more it at least records the outcome.
func (e *execution) conclude(in activities.SettleInput) activities.Settled {
	e.drain()
	var settled activities.Settled
	detached, _ := workflow.NewDisconnectedContext(e.ctx)
	ctx := with(detached, deliveryClass, e.queue, "settle")
	if err := workflow.ExecuteActivity(ctx, answers.Settle, in).Get(ctx, &settled); err != nil {
		workflow.GetLogger(e.ctx).Error("A run is settled without a word to its people.", "code", codeOf(err))
		ctx = with(detached, lastClass, e.queue, "settle silently")
		_ = workflow.ExecuteActivity(ctx, answers.Abandon, in).Get(ctx, &settled) // retried until it succeeds
	}
	return settled
}

// outgrown tells whether the history is so long that the run should go on in a new execution.
func (e *execution) outgrown() bool {
	info := workflow.GetInfo(e.ctx)
	return info.GetCurrentHistoryLength() > maxEvents || info.GetContinueAsNewSuggested()
}

func (e *execution) continueRun(step int) error {
	return continueAsNew(e.ctx, run.Input{
		OfficeKey: e.in.OfficeKey, SessionKey: e.in.SessionKey, RunID: e.run.ID, Step: step,
	})
}

// waitLimits is how long a thread's first run waits for the run it grew from before it looks again by itself, should
// the wake-up be lost: half an hour in all.
var waitLimits = []time.Duration{
	15 * time.Second, 45 * time.Second, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 12 * time.Minute,
}
