package llm

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/geminixiang/mikan/internal/text"
)

// Token budgets of models that think to a budget. The API wants at least minBudget and less than max_tokens.
const minBudget = 1024

var budgets = map[Thinking]int64{ThinkingLow: 4096, ThinkingMedium: 16384, ThinkingHigh: 32768}

// anthropicRequest builds the request. Messages are taken as Repair leaves them.
func anthropicRequest(req Request) (anthropic.MessageNewParams, []option.RequestOption) {
	info := Lookup(ProviderAnthropic, req.Model)
	maxTokens := int64(req.MaxTokens)
	if maxTokens <= 0 {
		maxTokens = info.MaxOutput
	}
	params := anthropic.MessageNewParams{Model: req.Model, MaxTokens: maxTokens}
	thinks := anthropicThinking(&params, req, info)
	turns := anthropicTurns(req.Messages, thinks)
	params.Tools, params.ToolChoice = anthropicTools(req)
	if len(req.Schema) > 0 {
		params.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: schemaObject(req.Schema)}
	}
	if req.System != "" {
		params.System = []anthropic.TextBlockParam{{Text: text.Storable(req.System)}}
	}
	markCache(&params, turns)
	params.Messages = anthropicMessages(turns)

	var options []option.RequestOption
	if info.PreservedThinking && thinks {
		// These models tie thinking to everything before it and refuse the request when that changed, as it does by
		// compaction, repairs and a new system prompt. Dropping the block is what we want instead of a dead session.
		options = append(options,
			option.WithHeaderAdd("anthropic-beta", string(anthropic.AnthropicBetaThinkingBindingControls2026_08_01)),
			option.WithJSONSet("thinking.block_binding.prefix_mismatch_behavior", "drop_block"))
	}
	return params, options
}

// schemaObject gives a schema the type that the SDKs want. Schemas are our own constants.
func schemaObject(schema json.RawMessage) map[string]any {
	var object map[string]any
	_ = json.Unmarshal(schema, &object)
	return object
}

// anthropicThinking sets thinking and effort for the level and tells whether earlier thinking may be sent back.
func anthropicThinking(params *anthropic.MessageNewParams, req Request, info ModelInfo) (sendBack bool) {
	off := req.Thinking == ThinkingOff || req.Thinking == ""
	effort := anthropic.OutputConfigEffort(req.Thinking)
	adaptive := anthropic.ThinkingConfigParamUnion{OfAdaptive: &anthropic.ThinkingConfigAdaptiveParam{
		// The default of newer models leaves the text of thinking empty, and with it what the model says between tools.
		Display: anthropic.ThinkingConfigAdaptiveDisplaySummarized,
	}}
	switch info.Thinking {
	case ThinkingBudget:
		// A turn that began without thinking cannot go on with it: the API wants the open tool loop to start with a
		// thinking block.
		budget := min(budgets[req.Thinking], params.MaxTokens/2)
		if off || budget < minBudget || openLoopLacksThinking(req.Messages) {
			return false
		}
		params.Thinking = anthropic.ThinkingConfigParamOfEnabled(budget)
		return true
	case ThinkingAdaptive:
		switch {
		case !off:
			params.Thinking = adaptive
			params.OutputConfig.Effort = effort
			return true
		case info.ThinkingOff == "disabled":
			disabled := anthropic.NewThinkingConfigDisabledParam()
			params.Thinking.OfDisabled = &disabled
			return false
		case info.ThinkingOff == "between_tools":
			between := anthropic.NewThinkingConfigBetweenToolsParam()
			params.Thinking.OfBetweenTools = &between
			return true
		case info.ThinkingOff == "low": // cannot be switched off
			params.Thinking = adaptive
			params.OutputConfig.Effort = anthropic.OutputConfigEffortLow
			return true
		default:
			return false
		}
	default:
		return false
	}
}

// openLoopLacksThinking tells whether the last assistant turn waits for tool results and does not start with thinking.
func openLoopLacksThinking(messages []Message) bool {
	if len(messages) == 0 || messages[len(messages)-1].Role != RoleTool {
		return false
	}
	for _, m := range slices.Backward(messages) {
		if m.Role == RoleAssistant {
			return len(m.Blocks) == 0 || !anthropicThought(m.Blocks[0])
		}
	}
	return false
}

func anthropicThought(b Block) bool {
	return b.Kind == BlockThinking && b.Provider == dialectAnthropic && (b.Signature != "" || b.Opaque != "")
}

// anthropicTurn is one message of the request before it takes the SDK's shape.
type anthropicTurn struct {
	assistant bool
	blocks    []anthropic.ContentBlockParamUnion
}

// anthropicTurns joins tool results with the user turn that follows them: for this API both are one user message.
func anthropicTurns(messages []Message, sendThinking bool) []anthropicTurn {
	var turns []anthropicTurn
	for _, m := range messages {
		t := anthropicTurn{assistant: m.Role == RoleAssistant}
		for _, b := range m.Blocks {
			if block, ok := anthropicBlock(b, sendThinking); ok {
				t.blocks = append(t.blocks, block)
			}
		}
		if t.assistant {
			// The API takes no assistant turn that ends in thinking.
			for n := len(t.blocks); n > 0 && (t.blocks[n-1].OfThinking != nil || t.blocks[n-1].OfRedactedThinking != nil); n-- {
				t.blocks = t.blocks[:n-1]
			}
		}
		if len(t.blocks) == 0 {
			continue
		}
		if n := len(turns); n > 0 && turns[n-1].assistant == t.assistant {
			turns[n-1].blocks = append(turns[n-1].blocks, t.blocks...)
			continue
		}
		turns = append(turns, t)
	}
	return turns
}

func anthropicMessages(turns []anthropicTurn) []anthropic.MessageParam {
	out := make([]anthropic.MessageParam, 0, len(turns))
	for _, t := range turns {
		if t.assistant {
			out = append(out, anthropic.NewAssistantMessage(t.blocks...))
		} else {
			out = append(out, anthropic.NewUserMessage(t.blocks...))
		}
	}
	return out
}

func anthropicBlock(b Block, sendThinking bool) (anthropic.ContentBlockParamUnion, bool) {
	switch b.Kind {
	case BlockText:
		return anthropic.NewTextBlock(b.Text), true
	case BlockThinking:
		switch {
		case !sendThinking || !anthropicThought(b):
			return anthropic.ContentBlockParamUnion{}, false
		case b.Opaque != "":
			return anthropic.NewRedactedThinkingBlock(b.Opaque), true
		default:
			return anthropic.NewThinkingBlock(b.Signature, b.Text), true
		}
	case BlockToolCall:
		return anthropic.NewToolUseBlock(b.CallID, wireArguments(b), b.Name), true
	case BlockToolResult:
		return anthropic.ContentBlockParamUnion{OfToolResult: anthropicResult(b)}, true
	case BlockImage:
		return anthropic.NewImageBlockBase64(b.MediaType, base64.StdEncoding.EncodeToString(b.Data)), true
	}
	return anthropic.ContentBlockParamUnion{}, false
}

func anthropicResult(b Block) *anthropic.ToolResultBlockParam {
	r := &anthropic.ToolResultBlockParam{ToolUseID: b.CallID}
	if b.Text != "" {
		r.Content = append(r.Content, anthropic.ToolResultBlockParamContentUnion{OfText: &anthropic.TextBlockParam{Text: b.Text}})
	}
	if b.IsError {
		r.IsError = anthropic.Bool(true)
		return r // the API takes nothing but text in a failed result
	}
	for _, image := range b.Images {
		block := anthropic.NewImageBlockBase64(image.MediaType, base64.StdEncoding.EncodeToString(image.Data))
		r.Content = append(r.Content, anthropic.ToolResultBlockParamContentUnion{OfImage: block.OfImage})
	}
	return r
}

// anthropicTools describes the tools. A request that shows tool calls must define tools, so a call without tools (a
// summary, say) declares the names it shows and forbids their use.
func anthropicTools(req Request) (tools []anthropic.ToolUnionParam, choice anthropic.ToolChoiceUnionParam) {
	specs := req.Tools
	if len(specs) == 0 {
		seen := make(map[string]bool)
		for _, m := range req.Messages {
			for _, b := range m.Blocks {
				if b.Kind == BlockToolCall && !seen[b.Name] {
					seen[b.Name] = true
					specs = append(specs, ToolSpec{Name: b.Name, Description: "Not available in this turn."})
				}
			}
		}
		if len(specs) > 0 {
			none := anthropic.NewToolChoiceNoneParam()
			choice.OfNone = &none
		}
	}
	for _, s := range specs {
		tools = append(tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name:        s.Name,
			Description: anthropic.String(s.Description),
			InputSchema: param.Override[anthropic.ToolInputSchemaParam](schemaOf(s)),
		}})
	}
	return tools, choice
}

// schemaOf is the tool's schema as its author wrote it, so that numbers in it keep their digits.
func schemaOf(s ToolSpec) json.RawMessage {
	if len(s.Schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return s.Schema
}

// markCache sets the breakpoints of prompt caching: behind the system prompt (which covers the tools before it) and
// behind the last two user turns, so that the next call finds this one's prefix even when this turn had many blocks.
func markCache(params *anthropic.MessageNewParams, turns []anthropicTurn) {
	mark := anthropic.NewCacheControlEphemeralParam()
	if n := len(params.System); n > 0 {
		params.System[n-1].CacheControl = mark
	} else if n := len(params.Tools); n > 0 {
		params.Tools[n-1].OfTool.CacheControl = mark
	}
	marked := 0
	for i := len(turns) - 1; i >= 0 && marked < 2; i-- {
		if turns[i].assistant {
			continue
		}
		switch last := &turns[i].blocks[len(turns[i].blocks)-1]; {
		case last.OfText != nil:
			last.OfText.CacheControl = mark
		case last.OfImage != nil:
			last.OfImage.CacheControl = mark
		case last.OfToolResult != nil:
			last.OfToolResult.CacheControl = mark
		}
		marked++
	}
}
