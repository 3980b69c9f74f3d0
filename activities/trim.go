package activities

import (
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

// trim makes a context fit by rule, for one request and without storing anything: the way out when no summary could be
// made. The oldest turns go first, but never the message that is being answered; then long texts are clipped.
func trim(c store.Context, limit, fixed int64) store.Context {
	total := fixed + llm.EstimateText(c.Summary)
	for _, e := range c.Entries {
		total += e.Tokens
	}
	kept := append([]store.Entry(nil), c.Entries...)
	for total > limit {
		first := 0
		if newestPrompt(kept) == 0 {
			first = 1 // the message that is being answered stays; what came right after it goes
		}
		last := first + 1
		for last < len(kept) && kept[last].Kind == store.EntryToolResult {
			last++ // results go with their call
		}
		if last >= len(kept) {
			break // the newest turn stays whole
		}
		for _, e := range kept[first:last] {
			total -= e.Tokens
		}
		kept = append(kept[:first:first], kept[last:]...)
	}
	for i := 0; i < len(kept) && total > limit; i++ {
		e := clipEntry(kept[i])
		total -= kept[i].Tokens - e.Tokens
		kept[i] = e
	}
	c.Entries = kept
	return c
}

// clipEntry shortens the texts of an entry; the stored entry stays as it is.
func clipEntry(e store.Entry) store.Entry {
	blocks := append([]llm.Block(nil), e.Body.Blocks...)
	for i := range blocks {
		if len(blocks[i].Text) > clippedResult && (blocks[i].Kind == llm.BlockToolResult || blocks[i].Kind == llm.BlockText) {
			blocks[i].Text = text.Head(blocks[i].Text, clippedResult/2) + "\n(shortened)\n" + text.Tail(blocks[i].Text, clippedResult/2)
		}
	}
	e.Body.Blocks = blocks
	e.Tokens = llm.Estimate([]llm.Message{{Blocks: blocks}})
	return e
}
