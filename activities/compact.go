package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/prompt"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

// CompactInput names a run whose session is to be compacted. Step and Ordinal tell the compactions of one run apart.
type CompactInput struct {
	RunID   string `json:"run"`
	Step    int    `json:"step"`
	Ordinal int    `json:"ordinal"`
}

// askedShare is the part of the context, one in so many, that stays beside a summary that somebody asked for.
const askedShare = 4

// Compacted is what the workflow learns of a compaction.
type Compacted struct {
	Entries int   `json:"entries"` // how many entries the summary stands for; 0: there was nothing to compact
	Before  int64 `json:"before,omitempty"`
	After   int64 `json:"after,omitempty"` // estimated tokens of the context
}

// Compact replaces the older part of a session, for the model, by a summary that the conversation's own model writes.
// Nothing is deleted, and when it fails the session is unchanged.
func (m *Model) Compact(ctx context.Context, in CompactInput) (Compacted, error) {
	done, err := m.compact(ctx, in)
	return done, toTemporal(err, in.RunID)
}

func (m *Model) compact(ctx context.Context, in CompactInput) (Compacted, error) {
	pulse := startPulse(ctx, in.Step, "compact")
	defer pulse.stop()
	step, err := m.Store.BeginStep(ctx, in.RunID, fmt.Sprintf("compact/%d/%d", in.Step, in.Ordinal))
	if err != nil {
		return Compacted{}, err
	}
	if step.Done != nil {
		return Compacted{Entries: 1}, nil // done by an earlier attempt, whose figures are gone
	}
	ref, err := llm.ParseRef(step.Run.Model)
	if err != nil {
		return Compacted{}, err
	}
	session, err := m.Store.Context(ctx, step.Run.SessionID)
	if err != nil {
		return Compacted{}, err
	}
	share := budgetFor(m.Info(ref))
	keep := share.keep
	if step.Run.Word == run.CompactWord {
		keep = min(keep, session.Tokens()/askedShare) // somebody asked for it: make room in a short session, too
	}
	cut := cutFor(session.Entries, keep)
	if cut == 0 {
		return Compacted{}, nil
	}
	summary, spent, err := m.summarise(ctx, step.Run, ref, session, cut, share, pulse)
	if err != nil {
		return Compacted{}, err
	}
	done := Compacted{Entries: cut, Before: session.Tokens()}
	shorter := store.Context{Summary: summary, Entries: session.Entries[cut:]}
	done.After = shorter.Tokens()
	if done.After >= done.Before {
		return Compacted{}, fault.New(fault.TooLarge, "the summary is no shorter than what it stands for")
	}
	return done, m.Store.Compact(ctx, step, session.Session, summary, session.Entries[cut], spent)
}

// summarise has the model write the summary of everything before the cut, in as many calls as the window needs.
func (m *Model) summarise(ctx context.Context, r store.Run, ref llm.Ref, session store.Context, cut int, share budget, pulse *pulse) (string, store.Spent, error) {
	model, err := m.Providers.Model(ref)
	if err != nil {
		return "", store.Spent{}, err
	}
	var total store.Spent
	summary := session.Summary
	room := share.limit - llm.EstimateText(prompt.Summarise) - share.output
	for rest := session.Entries[:cut]; len(rest) > 0; {
		var piece string
		piece, rest = transcript(rest, room-llm.EstimateText(summary))
		failpoint.Hit("summary.before")
		response, err := model.Complete(ctx, llm.Request{
			Model: ref.Model, System: prompt.Summarise, Messages: prompt.Transcript(summary, piece), MaxTokens: int(share.output),
		}, func(llm.Event) { pulse.event() })
		failpoint.Hit("summary.after")
		if err != nil {
			return "", store.Spent{}, err
		}
		total = m.add(total, ref, response.Usage)
		summary = strings.TrimSpace(store.Body{Blocks: response.Blocks}.Text())
		if summary == "" {
			return "", store.Spent{}, fault.New(fault.Unavailable, "the model wrote an empty summary")
		}
	}
	kept, err := m.keptPrompt(ctx, r, session.Entries[cut:], share)
	return summary + kept, total, err
}

// keptPrompt repeats the message that is being answered when it is no longer among the entries: it is never left to a
// summary.
func (m *Model) keptPrompt(ctx context.Context, r store.Run, kept []store.Entry, share budget) (string, error) {
	if slices.ContainsFunc(kept, func(e store.Entry) bool { return e.Kind == store.EntryPrompt && e.RunID == r.ID }) {
		return "", nil
	}
	trigger, err := m.Store.StepEntry(ctx, r.ID, "prompt")
	if err != nil || trigger.Kind != store.EntryPrompt {
		return "", err
	}
	return "\n\nThe message that you are answering now, word for word:\n" + text.Head(trigger.Body.Text(), int(share.keep)), nil
}

func (m *Model) add(total store.Spent, ref llm.Ref, usage llm.Usage) store.Spent {
	total.Usage = total.Usage.Add(usage)
	if micros, ok := m.Info(ref).Cost(usage); ok {
		if total.CostMicros != nil {
			micros += *total.CostMicros
		}
		total.CostMicros = &micros
	}
	return total
}

// transcript renders entries as text for the summary until the room, in tokens, is used up, and returns the rest. It
// always takes at least one entry: one that is larger than the room is shortened.
func transcript(entries []store.Entry, room int64) (string, []store.Entry) {
	var b strings.Builder
	room = max(room, 500)
	for i, e := range entries {
		line := transcriptLine(e)
		cost := llm.EstimateText(line)
		if cost > room && i > 0 {
			return b.String(), entries[i:]
		}
		if cost > room {
			line = text.Head(line, int(room))
		}
		b.WriteString(line)
		room -= cost
	}
	return b.String(), nil
}

func transcriptLine(e store.Entry) string {
	var b strings.Builder
	for _, block := range e.Body.Blocks {
		switch block.Kind {
		case llm.BlockText:
			if e.Kind == store.EntryAssistant {
				b.WriteString("mikan: ")
			}
			b.WriteString(block.Text + "\n")
		case llm.BlockToolCall:
			fmt.Fprintf(&b, "mikan called %s: %s\n", block.Name, text.Head(block.Arguments, clippedResult))
		case llm.BlockToolResult:
			fmt.Fprintf(&b, "result: %s\n", text.Head(block.Text, clippedResult))
		case llm.BlockImage:
			b.WriteString("(an image)\n")
		}
	}
	return b.String()
}
