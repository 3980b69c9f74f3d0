package llm

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/geminixiang/mikan/internal/text"
)

// dialectChat marks thinking that came over chat completions. Only OpenRouter takes it back.
const dialectChat = "openai-chat"

type chatModel struct {
	openAIModel
	completions openai.ChatCompletionService
	official    bool // at OpenAI itself, whose newer parameters other servers refuse
}

// Complete implements Model.
func (m *chatModel) Complete(ctx context.Context, req Request, on func(Event)) (Response, error) {
	ctx, x := watch(ctx, m.idle, func() { on(Event{Kind: EventActivity}) })
	defer x.close()
	params, options := m.request(req)
	stream := m.completions.NewStreaming(ctx, params, append(options, option.WithMiddleware(x.do))...)
	defer func() { _ = stream.Close() }()

	a := chatAnswer{thinking: &draft{kind: BlockThinking, provider: dialectChat}, text: &draft{kind: BlockText}}
	for stream.Next() {
		a.take(stream.Current(), on)
	}
	err := streamFailure(stream.Err())
	switch {
	case err != nil:
	case a.finish == "":
		err = errors.New("the stream ended without a finish reason")
	case a.finish == "error":
		err = &refusal{status: http.StatusBadGateway, message: "the upstream provider failed in the middle of the answer"}
	}
	if err != nil {
		return Response{}, m.failure(ctx, x, req, err)
	}
	a.thinking.opaque = a.details.join()
	drafts := append([]*draft{a.thinking, a.text}, a.calls...)
	if a.finish != "length" {
		for _, d := range a.calls {
			d.complete = true
		}
	} else {
		for _, d := range a.calls[:max(0, len(a.calls)-1)] {
			d.complete = true // calls come one after the other: only the last can be cut
		}
	}
	resp := finish(req, drafts, a.stop())
	resp.Usage, resp.Model = a.usage, a.model
	return resp, nil
}

func (m *chatModel) request(req Request) (openai.ChatCompletionNewParams, []option.RequestOption) {
	info := Lookup(m.provider, req.Model)
	params := openai.ChatCompletionNewParams{
		Model:         req.Model,
		Messages:      m.messages(req),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	switch {
	case req.MaxTokens <= 0:
	case m.official:
		params.MaxCompletionTokens = openai.Int(int64(req.MaxTokens))
	default:
		params.MaxTokens = openai.Int(int64(req.MaxTokens))
	}
	if m.official && req.CacheKey != "" {
		params.PromptCacheKey = openai.String(cacheKey(req))
	}
	if e := effort(req.Thinking, info); e != "" {
		params.ReasoningEffort = shared.ReasoningEffort(e)
	}
	for _, t := range req.Tools {
		params.Tools = append(params.Tools, param.Override[openai.ChatCompletionToolUnionParam](chatTool{
			Type: "function", Function: chatFunction{Name: t.Name, Description: t.Description, Parameters: schemaOf(t)},
		}))
	}
	if len(req.Schema) > 0 {
		params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: schemaName, Schema: req.Schema, Strict: openai.Bool(true)},
		}
	}
	var options []option.RequestOption
	if m.cachesByRequest(req) {
		options = append(options, option.WithJSONSet("cache_control", cacheMark))
	}
	return params, options
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

var cacheMark = map[string]any{"type": "ephemeral"}

// cachesByRequest: OpenRouter caches the prompts of Claude models only when asked; others cache by themselves.
func (m *chatModel) cachesByRequest(req Request) bool {
	return m.provider == ProviderOpenRouter && strings.HasPrefix(req.Model, "anthropic/")
}

func (m *chatModel) messages(req Request) []openai.ChatCompletionMessageParamUnion {
	var out []openai.ChatCompletionMessageParamUnion
	if req.System != "" {
		system := openai.ChatCompletionContentPartTextParam{Text: text.Storable(req.System)}
		if m.cachesByRequest(req) {
			system.SetExtraFields(map[string]any{"cache_control": cacheMark})
			out = append(out, openai.SystemMessage([]openai.ChatCompletionContentPartTextParam{system}))
		} else {
			out = append(out, openai.SystemMessage(system.Text))
		}
	}
	var pictures []Block // of tool results, which hold text only in this protocol
	user := func(blocks []Block) {
		if len(pictures) > 0 {
			blocks = append([]Block{{Kind: BlockText, Text: "[Pictures from the tool results above:]"}}, append(pictures, blocks...)...)
			pictures = nil
		}
		out = append(out, chatUser(blocks))
	}
	for i, msg := range req.Messages {
		switch msg.Role {
		case RoleUser:
			user(msg.Blocks)
		case RoleAssistant:
			out = append(out, m.assistant(msg))
		case RoleTool:
			for _, b := range msg.Blocks {
				if b.Kind != BlockToolResult {
					continue
				}
				out = append(out, openai.ToolMessage(resultText(b), b.CallID))
				pictures = append(pictures, b.Images...)
			}
			if len(pictures) > 0 && (i+1 == len(req.Messages) || req.Messages[i+1].Role != RoleUser) {
				user(nil)
			}
		}
	}
	return out
}

func chatUser(blocks []Block) openai.ChatCompletionMessageParamUnion {
	if len(blocks) == 1 && blocks[0].Kind == BlockText {
		return openai.UserMessage(blocks[0].Text) // some servers take nothing but a string
	}
	var parts []openai.ChatCompletionContentPartUnionParam
	for _, b := range blocks {
		switch b.Kind {
		case BlockText:
			parts = append(parts, openai.TextContentPart(b.Text))
		case BlockImage:
			parts = append(parts, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: dataURL(b)}))
		}
	}
	if !hasImage(blocks) {
		var texts []string
		for _, b := range blocks {
			texts = append(texts, b.Text)
		}
		return openai.UserMessage(strings.Join(texts, "\n\n"))
	}
	return openai.UserMessage(parts)
}

func hasImage(blocks []Block) bool {
	for _, b := range blocks {
		if b.Kind == BlockImage {
			return true
		}
	}
	return false
}

func (m *chatModel) assistant(msg Message) openai.ChatCompletionMessageParamUnion {
	var p openai.ChatCompletionAssistantMessageParam
	var texts []string
	var details []json.RawMessage
	for _, b := range msg.Blocks {
		switch b.Kind {
		case BlockText:
			texts = append(texts, b.Text)
		case BlockThinking:
			var list []json.RawMessage
			if m.provider == ProviderOpenRouter && b.Provider == dialectChat && json.Unmarshal([]byte(b.Opaque), &list) == nil {
				details = append(details, list...)
			}
		case BlockToolCall:
			p.ToolCalls = append(p.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
					ID: b.CallID,
					Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
						Name: b.Name, Arguments: string(wireArguments(b)),
					},
				},
			})
		}
	}
	if len(texts) > 0 {
		p.Content.OfString = openai.String(strings.Join(texts, "\n\n"))
	}
	if len(details) > 0 {
		p.SetExtraFields(map[string]any{"reasoning_details": details})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &p}
}

// chatAnswer gathers the chunks of one stream.
type chatAnswer struct {
	thinking *draft
	text     *draft
	calls    []*draft
	indexes  []int64 // of calls, as the server counts them
	details  reasoningDetails
	finish   string
	refused  bool
	usage    Usage
	model    string
}

func (a *chatAnswer) take(c openai.ChatCompletionChunk, on func(Event)) {
	if c.Model != "" {
		a.model = c.Model
	}
	if c.Usage.PromptTokens > 0 || c.Usage.CompletionTokens > 0 {
		read, write := c.Usage.PromptTokensDetails.CachedTokens, c.Usage.PromptTokensDetails.CacheWriteTokens
		a.usage = Usage{Input: max(0, c.Usage.PromptTokens-read-write), Output: c.Usage.CompletionTokens,
			CacheRead: read, CacheWrite: write}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		a.delta(choice.Delta, on)
		if choice.FinishReason != "" {
			a.finish = choice.FinishReason
		}
	}
}

func (a *chatAnswer) delta(d openai.ChatCompletionChunkChoiceDelta, on func(Event)) {
	// The names of the thinking differ: "reasoning" (OpenRouter, vLLM), "reasoning_content" (DeepSeek, older vLLM).
	for _, name := range []string{"reasoning", "reasoning_content"} {
		var text string
		if f, ok := d.JSON.ExtraFields[name]; ok && json.Unmarshal([]byte(f.Raw()), &text) == nil && text != "" {
			a.thinking.text.WriteString(text)
			emit(on, EventThinking, text)
			break
		}
	}
	if f, ok := d.JSON.ExtraFields["reasoning_details"]; ok {
		a.details.add([]byte(f.Raw()))
	}
	a.text.text.WriteString(d.Content)
	emit(on, EventText, d.Content)
	if d.Refusal != "" {
		a.refused = true
		a.text.text.WriteString(d.Refusal)
		emit(on, EventText, d.Refusal)
	}
	for _, t := range d.ToolCalls {
		call := a.call(t.Index, t.ID)
		if call.name == "" {
			call.name = t.Function.Name
		}
		call.arguments.WriteString(t.Function.Arguments)
	}
}

// call finds the call that a piece belongs to. Some servers leave the index at 0 for every call: a new id is a new call.
func (a *chatAnswer) call(index int64, id string) *draft {
	for i := len(a.calls) - 1; i >= 0; i-- {
		if a.indexes[i] == index && (id == "" || a.calls[i].callID == id || a.calls[i].callID == "") {
			if a.calls[i].callID == "" {
				a.calls[i].callID = id
			}
			return a.calls[i]
		}
	}
	d := &draft{kind: BlockToolCall, callID: id}
	a.calls = append(a.calls, d)
	a.indexes = append(a.indexes, index)
	return d
}

func (a *chatAnswer) stop() StopReason {
	switch {
	case a.refused || a.finish == "content_filter":
		return StopRefused
	case a.finish == "length":
		return StopLength
	case a.finish == "tool_calls" || a.finish == "function_call":
		return StopTools
	default:
		return StopEnd
	}
}

// reasoningDetails gathers OpenRouter's structured reasoning, which Gemini and Claude models want back. Pieces of one
// block share type and index; their texts are joined.
type reasoningDetails struct {
	blocks []map[string]json.RawMessage
}

func (r *reasoningDetails) add(raw []byte) {
	var pieces []map[string]json.RawMessage
	if json.Unmarshal(raw, &pieces) != nil {
		return
	}
	for _, p := range pieces {
		n := len(r.blocks)
		if n == 0 || string(r.blocks[n-1]["index"]) != string(p["index"]) || string(r.blocks[n-1]["type"]) != string(p["type"]) {
			r.blocks = append(r.blocks, p)
			continue
		}
		last := r.blocks[n-1]
		for key, value := range p {
			switch key {
			case "text", "summary", "data":
				last[key] = joinJSONStrings(last[key], value)
			default:
				if string(value) != "null" {
					last[key] = value
				}
			}
		}
	}
}

func (r *reasoningDetails) join() string {
	if len(r.blocks) == 0 {
		return ""
	}
	joined, err := json.Marshal(r.blocks)
	if err != nil {
		return ""
	}
	return cleanEscapes(string(joined))
}

func joinJSONStrings(a, b json.RawMessage) json.RawMessage {
	var x, y string
	if json.Unmarshal(b, &y) != nil {
		return a
	}
	if json.Unmarshal(a, &x) != nil {
		return b
	}
	joined, err := json.Marshal(x + y)
	if err != nil {
		return a
	}
	return joined
}
