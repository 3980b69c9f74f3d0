package activities

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/memory"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/text"
	"github.com/geminixiang/mikan/internal/workfile"
)

// MemoryFiles reads and changes MEMORY.md, where the workspace is.
type MemoryFiles struct {
	Store     *store.Store
	Workspace *Workspace
	Metrics   *telemetry.Metrics
	Log       *slog.Logger
}

// OpenMemory takes the office's memory for a capture and reads it for extraction.
func (f *MemoryFiles) OpenMemory(ctx context.Context, in CaptureStep) (CaptureProgress, error) {
	pulse := startPulse(ctx, 0, "open memory")
	defer pulse.stop()
	next, err := f.open(ctx, in)
	return next, captureError(ctx, f.Store, f.Log, in.RunID, err)
}

func (f *MemoryFiles) open(ctx context.Context, in CaptureStep) (CaptureProgress, error) {
	r, capture, err := runAndCapture(ctx, f.Store, in.RunID)
	if err != nil {
		return CaptureProgress{}, err
	}
	if capture.State == store.CaptureEnded {
		return CaptureProgress{Next: CaptureIsOver, Outcome: capture.Outcome}, nil
	}
	lease, held, err := f.Store.LeaseMemory(ctx, r.OfficeKey, r.ID)
	if err != nil || !held {
		return CaptureProgress{Next: CaptureWaits}, err
	}
	next := CaptureProgress{Next: CaptureGoesOn, Token: lease.Token}
	if capture.State != store.CaptureExtract {
		return next, nil
	}
	dir, err := workfile.Open(f.Workspace.place(r).Dir)
	if err != nil {
		return CaptureProgress{}, fault.Wrap(fault.Unavailable, err, "the office's directory cannot be opened")
	}
	defer dir.Close()
	content, err := memory.Read(dir)
	if memory.Blocked(err) {
		return f.end(ctx, r.ID, store.CaptureEnding{Outcome: store.CaptureBlocked, Code: fault.CodeOf(err), Text: err.Error()})
	}
	if err != nil {
		return CaptureProgress{}, err
	}
	forgotten, err := f.forgotten(ctx, r, content)
	if err != nil {
		return CaptureProgress{}, err
	}
	return next, f.Store.KeepMemory(ctx, lease, string(content), forgotten)
}

// forgotten lists what left the file since the run began: the agent took it out, on request.
func (f *MemoryFiles) forgotten(ctx context.Context, r store.Run, content []byte) ([]string, error) {
	states, corrected, err := f.Store.RecalledSince(ctx, r)
	if err != nil {
		return nil, err
	}
	return without(memory.Gone(states, content), corrected), nil
}

// ApplyKnowledge carries out what was extracted, on the file as it is now.
func (f *MemoryFiles) ApplyKnowledge(ctx context.Context, in CaptureStep) (CaptureProgress, error) {
	pulse := startPulse(ctx, 0, "apply")
	defer pulse.stop()
	next, err := f.apply(ctx, in)
	return next, captureError(ctx, f.Store, f.Log, in.RunID, err)
}

func (f *MemoryFiles) apply(ctx context.Context, in CaptureStep) (CaptureProgress, error) {
	r, capture, err := runAndCapture(ctx, f.Store, in.RunID)
	if err != nil {
		return CaptureProgress{}, err
	}
	if capture.State == store.CaptureEnded {
		return CaptureProgress{Next: CaptureIsOver, Outcome: capture.Outcome}, nil
	}
	var end store.CaptureEnding
	err = memory.Change(ctx, f.Workspace.place(r).Dir, func(content []byte) ([]byte, error) {
		var after []byte
		after, end, err = f.attempt(ctx, content, r, capture, store.MemoryLease{OfficeKey: r.OfficeKey, RunID: r.ID, Token: in.Token})
		return after, err
	})
	switch {
	case memory.Blocked(err):
		end = store.CaptureEnding{Outcome: store.CaptureBlocked, Code: fault.CodeOf(err), Text: err.Error()}
	case err != nil:
		return CaptureProgress{}, err
	}
	return f.end(ctx, r.ID, end)
}

// attempt carries the operations out on a content, and tells how the capture ends when that is written.
func (f *MemoryFiles) attempt(ctx context.Context, content []byte, r store.Run, capture store.Capture, lease store.MemoryLease) ([]byte, store.CaptureEnding, error) {
	if memory.Written(content, capture.Effects) {
		// An earlier attempt replaced the file and died before it could say so.
		return content, store.CaptureEnding{Outcome: store.CaptureWritten, Effects: capture.Effects}, nil
	}
	forgotten, err := f.forgotten(ctx, r, content)
	if err != nil {
		return nil, store.CaptureEnding{}, err
	}
	after, effects, err := memory.Apply(content, capture.Operations, memory.Origin{Date: capture.CreatedAt, MessageID: r.TriggerMessageID}, forgotten)
	if memory.Full(err) {
		return content, store.CaptureEnding{Outcome: store.CaptureFull, Code: fault.TooLarge, Text: err.Error()}, nil
	}
	if err != nil {
		return nil, store.CaptureEnding{}, err
	}
	for _, e := range capture.Effects {
		if e.Kind == memory.Credential {
			effects = append(effects, e)
		}
	}
	// What is about to be written is recorded first; this also proves that nobody else has the office's memory.
	if err := f.Store.IntendCapture(ctx, lease, effects); err != nil {
		return nil, store.CaptureEnding{}, err
	}
	if !changes(effects) {
		return content, store.CaptureEnding{Outcome: store.CaptureUnchanged, Effects: effects}, nil
	}
	return after, store.CaptureEnding{Outcome: store.CaptureWritten, Effects: effects}, nil
}

func changes(effects []memory.Effect) bool {
	for _, e := range effects {
		if e.Changes() {
			return true
		}
	}
	return false
}

func (f *MemoryFiles) end(ctx context.Context, runID string, end store.CaptureEnding) (CaptureProgress, error) {
	return endCapture(ctx, f.Store, f.Metrics, runID, end)
}

// readMemory reads a MEMORY.md for a prompt, or beginning and end of one that is much longer than it shows. What is
// missing, a link or unreadable is no memory: an answer without it is better than none.
func readMemory(dir string) string {
	d, err := workfile.Open(dir)
	if err != nil {
		return ""
	}
	defer d.Close()
	file, info, err := d.OpenPlain(memory.File)
	if err != nil {
		return ""
	}
	defer file.Close()
	shown := io.LimitReader(file, maxMemoryFile)
	if size := info.Size(); size > maxMemoryFile {
		const half = maxMemoryFile / 2
		shown = io.MultiReader(io.NewSectionReader(file, 0, half), strings.NewReader("\n"), io.NewSectionReader(file, size-half, half))
	}
	content, err := io.ReadAll(shown)
	if err != nil {
		return ""
	}
	return text.Storable(string(content))
}

// shownMemory is how much of a MEMORY.md the command shows, in bytes: about one message on every platform.
const shownMemory = 1600

// memoryText is what people read about the memory of their conversation.
func memoryText(content string) string {
	content = strings.TrimSpace(content)
	if content == "" {
		return "Nothing is remembered here yet."
	}
	shown := text.Head(content, shownMemory)
	said := "This is `" + memory.File + "` of this conversation. Ask me to correct or forget any of it.\n\n" + shown
	if len(shown) < len(content) {
		said += "\n\n_…and more; ask me about the rest._"
	}
	return said
}
