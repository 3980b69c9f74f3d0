package activities

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/chatfile"
	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/tool"
)

// Tools carries out tool calls, where the workspace is.
type Tools struct {
	Store     *store.Store
	Registry  *tool.Registry
	Workspace *Workspace
	Delivery  *adapters.Delivery
	Metrics   *telemetry.Metrics
	Log       *slog.Logger
}

// ToolInput names a tool call: the Index-th of the model's turn at Step.
type ToolInput struct {
	RunID string `json:"run"`
	Step  int    `json:"step"`
	Index int    `json:"index"`
}

// RecallInput names the run to recall the memory for.
type RecallInput struct {
	RunID string `json:"run"`
}

// process is what an attempt leaves behind about its call: that it began, and the child it runs in.
type process struct {
	Began bool           `json:"began"`
	Group *sandbox.Group `json:"group,omitempty"`
}

// Tool carries out one call and stores its result for the model. A call that is not declared safe runs at most once:
// when an earlier attempt began it, what is left of that attempt is killed and the model is told that the call was
// interrupted.
func (t *Tools) Tool(ctx context.Context, in ToolInput) error {
	err := t.tool(ctx, in)
	explain(ctx, t.Store, in.RunID, err)
	return toTemporal(err, in.RunID)
}

func (t *Tools) tool(ctx context.Context, in ToolInput) error {
	pulse := startPulse(ctx, in.Step, "load")
	defer pulse.stop()
	slot := store.CallSlot(store.ThinkSlot(in.Step), in.Index)
	step, err := t.Store.BeginStep(ctx, in.RunID, slot)
	if err != nil || step.Done != nil {
		return err
	}
	turn, err := t.Store.StepEntry(ctx, in.RunID, store.ThinkSlot(in.Step))
	if err != nil {
		return err
	}
	calls := turn.Body.Calls()
	if in.Index >= len(calls) {
		return fault.New(fault.Internal, "the model's turn has no call %d", in.Index)
	}
	call := calls[in.Index]
	chosen, known := t.Registry.Get(call.Name)
	if !known {
		// Registered where the model was called, but not here: two releases side by side.
		result := store.ResultEntry(in.RunID, slot, call.CallID, "The call was not carried out: this worker does not have the tool.", store.Erred)
		_, err := t.Store.CommitStep(ctx, step, store.Spent{}, result)
		return err
	}
	t.copyLog(ctx, step)
	if chosen.Replay() == tool.Unsafe {
		if len(step.Process) > 0 {
			return t.interrupted(ctx, step, call.CallID, call.Name)
		}
		if err := t.Store.Started(ctx, step, process{Began: true}); err != nil {
			return err
		}
	}
	pulse.enter("tool " + call.Name)
	return t.run(ctx, step, chosen, tool.Call{
		Key: in.RunID + "/" + slot, Arguments: json.RawMessage(call.Arguments), Place: t.Workspace.place(step.Run),
	}, call.CallID)
}

// copyLog brings log.jsonl up to date when a run's first tool starts. A file that cannot be written, a symbolic link in
// its place for example, is told to the operator and does not end the run.
func (t *Tools) copyLog(ctx context.Context, step store.Step) {
	first, err := t.Store.FirstTools(ctx, step)
	if err == nil && first {
		_, err = chatfile.Update(ctx, t.Store, t.Workspace.place(step.Run).Dir, step.Run.OfficeKey, store.Continued)
	}
	if err != nil && ctx.Err() == nil {
		t.Log.Warn("log.jsonl is not up to date", "run", step.Run.ID, "code", fault.CodeOf(err), "error", err)
	}
}

func (t *Tools) run(ctx context.Context, step store.Step, chosen tool.Tool, call tool.Call, callID string) error {
	name := chosen.Spec().Name
	call.Started = func(group sandbox.Group) {
		if err := t.Store.Started(ctx, step, process{Began: true, Group: &group}); err != nil {
			t.Log.Warn("a process group is not recorded", "run", step.Run.ID, "code", fault.CodeOf(err))
		}
	}
	// The result is stored first: a platform that is slow to draw must not have the call count as interrupted.
	defer t.showCall(ctx, step.Run, callID)()
	started := time.Now()
	failpoint.Hit("tool.before")
	result, err := chosen.Run(ctx, call)
	failpoint.Hit("tool.after")
	took := time.Since(started)
	kind := store.Returned
	switch {
	case ctx.Err() != nil:
		t.Metrics.ToolCalled(name, "cancelled", took)
		return ctx.Err()
	case err != nil:
		// The tool itself failed. The model hears of it; trying again is its decision.
		t.Log.Warn("a tool failed", "tool", name, "run", step.Run.ID, "code", fault.CodeOf(err), "error", err)
		result, kind = tool.Result{Text: "The tool failed: " + err.Error()}, store.Erred
	case result.IsError:
		kind = store.Erred
	}
	t.Metrics.ToolCalled(name, string(kind), took)
	entry := store.ResultEntry(step.Run.ID, step.Slot, callID, result.Text, kind, result.Images...)
	return t.commit(ctx, step, entry, took)
}

// commit stores a result as long as it takes: the call has had its effects and must not be repeated.
func (t *Tools) commit(ctx context.Context, step store.Step, entry store.Entry, took time.Duration) error {
	return patiently(ctx, func() error {
		_, err := t.Store.CommitStep(ctx, step, store.Spent{ToolMS: took.Milliseconds()}, entry)
		return err
	})
}

// interrupted ends what an earlier attempt left running on this host and tells the model.
func (t *Tools) interrupted(ctx context.Context, step store.Step, callID, name string) error {
	var left process
	if err := json.Unmarshal(step.Process, &left); err == nil && left.Group != nil {
		if err := left.Group.Kill(); err != nil {
			t.Log.Warn("a process group of a dead worker is not killed", "run", step.Run.ID, "error", err)
		}
	}
	t.Metrics.ToolCalled(name, string(store.Unanswered), 0)
	result := store.ResultEntry(step.Run.ID, step.Slot, callID, store.InterruptedResult, store.Unanswered)
	return t.commit(ctx, step, result, 0)
}

// Recall reads the memory files for a run whose model call happens on a host without the workspace.
func (t *Tools) Recall(ctx context.Context, in RecallInput) error {
	pulse := startPulse(ctx, 0, "recall")
	defer pulse.stop()
	r, err := t.Store.Run(ctx, in.RunID)
	if err == nil {
		_, err = t.Workspace.recall(ctx, t.Store, r)
	}
	return toTemporal(err, in.RunID)
}

// Workspace is this host's view of what tools see.
type Workspace struct {
	Root string // absolute
}

func (w *Workspace) place(r store.Run) tool.Place {
	return tool.Place{OfficeKey: r.OfficeKey, SessionKey: r.SessionKey, RunID: r.ID, Dir: filepath.Join(w.Root, r.OfficeKey)}
}

// maxMemoryFile is how much of a MEMORY.md is read; the prompt shows less.
const maxMemoryFile = 256 << 10

// recall reads both memory files, fresh, and keeps them for the run's later steps.
func (w *Workspace) recall(ctx context.Context, s *store.Store, r store.Run) (store.Memory, error) {
	memory := store.Memory{
		Office:    readMemory(filepath.Join(w.Root, r.OfficeKey)),
		Workspace: readMemory(w.Root),
	}
	return memory, s.SetRunMemory(ctx, r.ID, memory)
}
