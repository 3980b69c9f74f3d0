package activities

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

// How many of a run's calls are shown, the newest, and how much of what one is about.
const (
	shownCalls      = 12
	shownCharacters = 60
)

// stepLines shows a run's tool calls as Markdown, one line each. A call without a result is shown only if it is the one
// that runs.
func stepLines(runID string, entries []store.Entry, running string) string {
	results := map[string]llm.Block{}
	for _, e := range entries {
		if e.RunID == runID && e.Kind == store.EntryToolResult {
			for _, b := range e.Body.Blocks {
				results[b.CallID] = b
			}
		}
	}
	var lines []string
	for _, e := range entries {
		if e.RunID != runID || e.Kind != store.EntryAssistant {
			continue
		}
		for _, call := range e.Body.Calls() {
			state := adapters.CallDone
			switch result, ended := results[call.CallID]; {
			case ended && result.IsError:
				state = adapters.CallFailed
			case !ended && call.CallID == running:
				state = adapters.CallRunning
			case !ended:
				continue
			}
			lines = append(lines, state+" "+callLabel(call))
		}
	}
	if n := len(lines); n > shownCalls {
		lines = append([]string{adapters.CallDone + " …"}, lines[n-shownCalls:]...)
	}
	return adapters.JoinCalls(lines)
}

// callLabel names a call by its tool and what it is about, in a code span that its content cannot end.
func callLabel(call llm.Block) string {
	var arguments struct {
		Command string `json:"command"`
		Path    string `json:"path"`
		Query   string `json:"query"`
	}
	if err := json.Unmarshal([]byte(call.Arguments), &arguments); err != nil {
		return call.Name
	}
	for _, about := range []string{arguments.Command, arguments.Path, arguments.Query} {
		about = strings.Join(strings.Fields(strings.ReplaceAll(about, "`", "'")), " ")
		if about != "" {
			return call.Name + " `" + text.Clip(about, shownCharacters) + "`"
		}
	}
	return call.Name
}

// showAfter is how long a tool runs before people are told: a call that is over at once is worth no message.
const showAfter = time.Second

// showCall shows in the run's draft which tool runs, unless it ends soon. The returned function waits until nothing is
// being drawn.
func (t *Tools) showCall(ctx context.Context, r store.Run, callID string) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	drawn := make(chan struct{})
	t.Delivery.Accompany(ctx, r, "is working…")
	go func() {
		defer close(drawn)
		select {
		case <-time.After(showAfter):
		case <-ctx.Done():
			return
		}
		if err := t.drawCalls(ctx, r, callID); err != nil && ctx.Err() == nil {
			t.Log.Warn("a running tool was not shown", "run", r.ID, "code", fault.CodeOf(err))
		}
	}()
	return func() {
		cancel()
		<-drawn
	}
}

func (t *Tools) drawCalls(ctx context.Context, r store.Run, running string) error {
	can, err := t.Delivery.Capabilities(ctx, r)
	if err != nil || can.Redraws != adapters.EditRedraws {
		return err
	}
	entries, err := t.Store.RunEntries(ctx, r)
	if err != nil {
		return err
	}
	return t.Delivery.Draw(ctx, r, stepLines(r.ID, entries, running))
}
