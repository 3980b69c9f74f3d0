package activities

import (
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
)

// What compaction leaves free and keeps, in tokens, where the model's window is large enough for it.
const (
	reserveTokens = 16_384 // for the answer, and for what the estimate gets wrong
	keepTokens    = 20_000 // of recent entries beside a summary
)

// budget is how many tokens a model's window leaves for what.
type budget struct {
	limit  int64 // most tokens of a request
	early  int64 // from here on a compaction starts in the background
	keep   int64 // recent entries that stay beside a summary
	output int64 // most tokens of an answer
}

// budgetFor shares out a window. A small one is shared out in proportion.
func budgetFor(info llm.ModelInfo) budget {
	reserve := min(reserveTokens, info.Window/4)
	limit := info.Window - reserve
	return budget{
		limit: limit, early: limit * 8 / 10, keep: min(keepTokens, limit/3),
		output: min(info.MaxOutput, max(reserve, 256)),
	}
}

// overhead is what a request holds beside the session's context.
func overhead(system string, tools []llm.ToolSpec) int64 {
	n := llm.EstimateText(system)
	for _, t := range tools {
		n += llm.EstimateText(t.Name) + llm.EstimateText(t.Description) + llm.EstimateText(string(t.Schema)) + 12
	}
	return n
}

// measure tells how many tokens a request with this context takes: what the provider counted for the newest turn in it,
// and an estimate of what came after; an estimate of all where nothing was counted since the window last moved.
func measure(c store.Context, fixed int64) int64 {
	var after int64
	for i := len(c.Entries) - 1; i >= 0; i-- {
		e := c.Entries[i]
		if usage := e.Body.Usage; usage != nil && e.Body.Basis == c.Session.SummaryEntry {
			counted := usage.Input + usage.CacheRead + usage.CacheWrite + usage.Output
			if counted > 0 {
				return max(counted, fixed) + after
			}
		}
		after += e.Tokens
	}
	return fixed + llm.EstimateText(c.Summary) + after
}

// cutFor finds the first entry to keep so that the kept ones take at most keep tokens. A result is never parted from
// its call. 0 means that there is nothing to compact.
func cutFor(entries []store.Entry, keep int64) int {
	var kept int64
	cut := len(entries)
	for cut > 0 && kept+entries[cut-1].Tokens <= keep {
		cut--
		kept += entries[cut].Tokens
	}
	if cut == len(entries) && cut > 0 {
		cut-- // the newest entry alone is over: keep at least that
	}
	for cut > 0 && entries[cut].Kind == store.EntryToolResult {
		cut-- // back to the call
	}
	return cut
}

// newestPrompt finds the trigger of the run that is going on; -1 when the context holds none.
func newestPrompt(entries []store.Entry) int {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Kind == store.EntryPrompt {
			return i
		}
	}
	return -1
}

// clippedResult is how much of an old tool result stays when a context is trimmed by rule, in bytes.
const clippedResult = 2000
