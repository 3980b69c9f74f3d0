package activities

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/prompt"
	"github.com/geminixiang/mikan/internal/settings"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/tool"
)

// Model calls the model.
type Model struct {
	Store     *store.Store
	Providers *llm.Providers
	Tools     *tool.Registry
	Delivery  *adapters.Delivery
	Settings  SettingsReader
	// Workspace is set where this worker serves the tools queue and so can read MEMORY.md itself.
	Workspace *Workspace
	Info      func(llm.Ref) llm.ModelInfo
	Metrics   *telemetry.Metrics
	Log       *slog.Logger
}

// ThinkInput names a step of a run.
type ThinkInput struct {
	RunID string `json:"run"`
	Step  int    `json:"step"`
	Fit   Fit    `json:"fit,omitempty"`
}

// Fit tells how a context that is too long for the model is dealt with.
type Fit string

// The ways. The zero value asks for a compaction.
const (
	FitByTrimming Fit = "trim" // leave out the oldest turns, for this request only
)

// ThoughtKind tells what a model call came to.
type ThoughtKind string

// What a model call comes to.
const (
	Answered    ThoughtKind = "answered" // the step holds the answer
	WantsTools  ThoughtKind = "tools"    // Calls are to be carried out, then think again
	NeedsMemory ThoughtKind = "memory"   // nothing was called: recall the memory first
	NeedsRoom   ThoughtKind = "room"     // the context does not fit: compact, then think again

	NothingToSpend ThoughtKind = "spent" // the office has spent what it may in a day
)

// Thought is what the workflow learns of a model call.
type Thought struct {
	Kind   ThoughtKind `json:"kind"`
	Calls  []CallRef   `json:"calls,omitempty"`
	Tokens int64       `json:"tokens,omitempty"`
	Filled bool        `json:"filled,omitempty"` // the context nears the window: compact beside the run
}

// CallRef names a tool call of a step by its position. Tool is a registered name: an unknown one never gets here.
type CallRef struct {
	Index int    `json:"index"`
	Tool  string `json:"tool"`
}

// Think calls the model with the session's context and stores its turn. A retried Think finds the stored turn and
// returns it.
func (m *Model) Think(ctx context.Context, in ThinkInput) (Thought, error) {
	thought, err := m.think(ctx, in)
	explain(ctx, m.Store, in.RunID, err)
	return thought, toTemporal(err, in.RunID)
}

func (m *Model) think(ctx context.Context, in ThinkInput) (Thought, error) {
	pulse := startPulse(ctx, in.Step, "load")
	defer pulse.stop()
	var step store.Step
	err := patiently(ctx, func() (err error) {
		step, err = m.Store.BeginStep(ctx, in.RunID, store.ThinkSlot(in.Step))
		return err
	})
	if err != nil {
		return Thought{}, err
	}
	office, err := m.Settings(ctx, step.Run.OfficeKey)
	if err != nil {
		return Thought{}, err
	}
	if step.Done != nil {
		return m.thoughtOf(*step.Done, office), nil
	}
	memory, err := m.memory(ctx, step)
	if err != nil || memory == nil {
		return Thought{Kind: NeedsMemory}, err
	}
	if in.Step > 1 {
		if err := m.Store.CloseCalls(ctx, step.Run); err != nil {
			return Thought{}, err
		}
	}
	session, err := m.Store.Context(ctx, step.Run.SessionID)
	if err != nil {
		return Thought{}, err
	}
	ref, err := llm.ParseRef(step.Run.Model)
	if err != nil {
		return Thought{}, err
	}
	if spent, err := m.overSpent(ctx, step.Run, office); spent || err != nil {
		return Thought{Kind: NothingToSpend}, err
	}
	request, filled := m.request(step.Run, ref, session, *memory, office, in.Fit)
	if filled == overLimit {
		return Thought{Kind: NeedsRoom}, nil
	}
	pulse.enter("model")
	response, spent, err := m.call(ctx, step.Run, ref, request, stepLines(step.Run.ID, session.Entries, ""), pulse)
	if llm.IsContextTooLong(err) && in.Fit != FitByTrimming {
		return Thought{Kind: NeedsRoom}, nil // the provider counts otherwise than we do
	}
	if err != nil {
		return Thought{}, err
	}
	pulse.enter("store")
	turn := store.Entry{Kind: store.EntryAssistant, Body: store.Body{
		Blocks: response.Blocks, Model: response.Model, Stop: response.Stop, Usage: &response.Usage, Basis: session.Session.SummaryEntry,
	}}
	if in.Fit == FitByTrimming {
		turn.Body.Basis = store.Trimmed
	}
	var stored store.Entry
	err = patiently(ctx, func() (err error) {
		stored, err = m.Store.CommitStep(ctx, step, spent, turn, m.refusedCalls(in, turn, office)...)
		return err
	})
	if err != nil {
		return Thought{}, err
	}
	thought := m.thoughtOf(stored, office)
	thought.Filled = filled == nearLimit
	return thought, nil
}

// fullness tells how much of the model's window a request takes.
type fullness int

const (
	roomLeft fullness = iota
	nearLimit
	overLimit
)

// request makes the model request of a step.
func (m *Model) request(r store.Run, ref llm.Ref, session store.Context, memory store.Memory, office settings.Office, fit Fit) (llm.Request, fullness) {
	share := budgetFor(m.Info(ref))
	request := llm.Request{
		Model: ref.Model, System: prompt.System(office.Instructions), Tools: m.offered(r.OfficeKey, office), Thinking: ref.Thinking,
		MaxTokens: int(share.output), CacheKey: r.SessionID,
	}
	fixed := overhead(request.System, request.Tools) + prompt.MemoryTokens(memory)
	filled := roomLeft
	switch size := measure(session, fixed); {
	case fit == FitByTrimming:
		session = trim(session, share.limit, fixed)
	case size > share.limit:
		return request, overLimit
	case size > share.early:
		filled = nearLimit
	}
	messages, notes := prompt.Messages(session, memory)
	for _, note := range notes {
		m.Log.Debug("a request was repaired", "run", r.ID, "note", note)
	}
	request.Messages = messages
	return request, filled
}

// offered lists the tools that an office has on, of those that there are on its platform.
func (m *Model) offered(officeKey string, in settings.Office) []llm.ToolSpec {
	platform := office.Key(officeKey).Platform()
	return slices.DeleteFunc(m.Tools.Specs(), func(t llm.ToolSpec) bool { return !in.On(t.Name) || !m.Tools.Offers(t.Name, platform) })
}

// overSpent tells whether the office has spent today what it may spend in a day. Calls whose price is unknown count as
// free: a limit needs a priced model.
func (m *Model) overSpent(ctx context.Context, r store.Run, office settings.Office) (bool, error) {
	if office.SpendLimitUSD == 0 {
		return false, nil
	}
	micros, err := m.Store.Spent(ctx, r.OfficeKey, office.Today(time.Now()))
	return float64(micros) >= office.SpendLimitUSD*1e6, err
}

// call makes the one request of this attempt and shows the answer while it grows.
func (m *Model) call(ctx context.Context, r store.Run, ref llm.Ref, request llm.Request, steps string, pulse *pulse) (llm.Response, store.Spent, error) {
	model, err := m.Providers.Model(ref)
	if err != nil {
		return llm.Response{}, store.Spent{}, err
	}
	draft, err := m.startDraft(ctx, r, steps)
	if err != nil {
		return llm.Response{}, store.Spent{}, err
	}
	defer draft.stop()
	started := time.Now()
	failpoint.Hit("model.before")
	response, err := model.Complete(ctx, request, func(e llm.Event) {
		pulse.event()
		if e.Kind == llm.EventText {
			draft.add(e.Text)
		}
	})
	failpoint.Hit("model.after")
	took := time.Since(started)
	spent := store.Spent{Usage: response.Usage, ModelMS: took.Milliseconds()}
	if micros, ok := m.Info(ref).Cost(response.Usage); ok {
		spent.CostMicros = &micros
	}
	if ctx.Err() != nil && err != nil {
		err = ctx.Err() // a cancelled run, whatever the provider's library made of it
	}
	observed := telemetry.ModelCall{Model: ref, Usage: response.Usage, Duration: took, Outcome: "ok"}
	if err != nil {
		observed.Outcome = string(fault.CodeOf(err))
	}
	if spent.CostMicros != nil {
		observed.CostMicroUSD = *spent.CostMicros
	}
	m.Metrics.ModelCalled(observed)
	return response, spent, err
}

// memory finds what was recalled for the run, or recalls it where this worker can; nil when it cannot.
func (m *Model) memory(ctx context.Context, step store.Step) (*store.Memory, error) {
	if step.Memory != nil || m.Workspace == nil {
		return step.Memory, nil
	}
	recalled, err := m.Workspace.recall(ctx, m.Store, step.Run)
	return &recalled, err
}

// refusedCalls answers at once the calls that nobody could carry out: broken arguments, an unknown tool, or a turn that
// was cut off, in which any call may be half of one.
func (m *Model) refusedCalls(in ThinkInput, turn store.Entry, office settings.Office) []store.Entry {
	var results []store.Entry
	for i, call := range turn.Body.Calls() {
		if why := m.refusal(turn.Body, call, office); why != "" {
			slot := store.CallSlot(store.ThinkSlot(in.Step), i)
			results = append(results, store.ResultEntry(in.RunID, slot, call.CallID, why, store.Erred))
		}
	}
	return results
}

func (m *Model) refusal(turn store.Body, call llm.Block, office settings.Office) string {
	switch _, known := m.Tools.Get(call.Name); {
	case call.Invalid != "":
		return "The call was not carried out: " + call.Invalid
	case turn.Stop == llm.StopLength:
		return "The call was not carried out: your turn was cut off at the output limit, so it may be incomplete."
	case !office.On(call.Name):
		return "The call was not carried out: this tool is turned off here."
	case !known:
		return "The call was not carried out: there is no tool of this name."
	}
	return ""
}

func (m *Model) thoughtOf(turn store.Entry, office settings.Office) Thought {
	thought := Thought{Kind: Answered}
	if usage := turn.Body.Usage; usage != nil {
		thought.Tokens = usage.Input + usage.Output + usage.CacheRead + usage.CacheWrite
	}
	for i, call := range turn.Body.Calls() {
		thought.Kind = WantsTools
		if m.refusal(turn.Body, call, office) == "" {
			thought.Calls = append(thought.Calls, CallRef{Index: i, Tool: call.Name})
		}
	}
	return thought
}
