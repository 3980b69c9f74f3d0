package llm

import (
	"fmt"
	"strings"

	"github.com/geminixiang/mikan/internal/text"
)

// draft is one block of a response while it streams. Providers fill it from their events; finish turns it into Blocks.
type draft struct {
	kind      BlockKind
	provider  string
	text      strings.Builder
	signature strings.Builder
	opaque    string
	callID    string
	name      string
	arguments strings.Builder
	complete  bool // the provider said that the block ended
}

const cutOffCall = "The call was not executed: the answer reached the output limit while it was being written, so it may be " +
	"incomplete. Make the call again, in smaller steps if it is long."

// finish turns drafts into a response whatever the model did: empty text is dropped, call ids become unique within the
// request and the response, broken arguments are marked, and what the output limit cut off is dropped.
func finish(req Request, drafts []*draft, stop StopReason) Response {
	used := make(map[string]bool)
	for _, m := range req.Messages {
		for _, b := range m.Blocks {
			if b.Kind == BlockToolCall {
				used[b.CallID] = true
			}
		}
	}
	resp := Response{Stop: stop}
	calls := 0
	for i, d := range drafts {
		switch d.kind {
		case BlockText:
			said := text.Storable(d.text.String())
			if strings.TrimSpace(said) == "" {
				continue
			}
			resp.Blocks = append(resp.Blocks, Block{Kind: BlockText, Text: said, Provider: d.provider, Opaque: d.opaque})
		case BlockThinking:
			b := Block{Kind: BlockThinking, Text: text.Storable(d.text.String()), Provider: d.provider,
				Signature: text.Storable(d.signature.String()), Opaque: text.Storable(d.opaque)}
			if b.Text == "" && b.Signature == "" && b.Opaque == "" {
				continue
			}
			resp.Blocks = append(resp.Blocks, b)
		case BlockToolCall:
			if stop == StopRefused {
				continue
			}
			raw := d.arguments.String()
			arguments, invalid := cleanArguments(raw)
			if stop == StopLength {
				// A half-written call is no call: a result for it would be a result without a call.
				if !d.complete || invalid != "" || strings.TrimSpace(raw) == "" {
					continue
				}
				invalid = cutOffCall
			}
			id := identifier(d.callID, fmt.Sprintf("call_%d_%d", len(req.Messages), i))
			resp.Blocks = append(resp.Blocks, Block{
				Kind: BlockToolCall, CallID: uniqueIdentifier(id, used),
				Name: identifier(d.name, "unnamed"), Arguments: arguments, Invalid: invalid,
			})
			calls++
		}
	}
	// Compatible servers say "stop" beside tool calls, or "tool_calls" beside none.
	switch {
	case stop == StopEnd && calls > 0:
		resp.Stop = StopTools
	case stop == StopTools && calls == 0:
		resp.Stop = StopEnd
	}
	return resp
}
