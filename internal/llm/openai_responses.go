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
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/geminixiang/mikan/internal/text"
)

// dialectResponses marks blocks that only the Responses API can read.
const dialectResponses = "openai-responses"

type responsesModel struct {
	openAIModel
	responses responses.ResponseService
}

// reasoningItem is what must come back verbatim to go on reasoning.
type reasoningItem struct {
	ID               string `json:"id"`
	EncryptedContent string `json:"encrypted_content"`
}

// Complete implements Model.
func (m *responsesModel) Complete(ctx context.Context, req Request, on func(Event)) (Response, error) {
	ctx, x := watch(ctx, m.idle, func() { on(Event{Kind: EventActivity}) })
	defer x.close()
	stream := m.responses.NewStreaming(ctx, m.request(req), option.WithMiddleware(x.do))
	defer func() { _ = stream.Close() }()

	a := responsesAnswer{items: make(map[int64]*draft)}
	for stream.Next() {
		a.take(stream.Current(), on)
	}
	err := streamFailure(stream.Err())
	if err == nil {
		err = a.err
	}
	if err == nil && !a.ended {
		err = errors.New("the stream ended without response.completed")
	}
	if err != nil {
		return Response{}, m.failure(ctx, x, req, err)
	}
	resp := finish(req, a.order, a.stop)
	resp.Usage, resp.Model = a.usage, a.model
	return resp, nil
}

func (m *responsesModel) request(req Request) responses.ResponseNewParams {
	info := Lookup(m.provider, req.Model)
	params := responses.ResponseNewParams{
		Model: req.Model,
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responsesInput(req.Messages)},
		Store: openai.Bool(false),
	}
	if req.System != "" {
		params.Instructions = openai.String(text.Storable(req.System))
	}
	if req.MaxTokens > 0 {
		params.MaxOutputTokens = openai.Int(int64(req.MaxTokens))
	}
	if req.CacheKey != "" {
		params.PromptCacheKey = openai.String(cacheKey(req))
	}
	if info.Thinking == ThinkingEffort {
		params.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
		if e := effort(req.Thinking, info); e != "" {
			params.Reasoning.Effort = shared.ReasoningEffort(e)
		}
		if req.Thinking != ThinkingOff && req.Thinking != "" {
			params.Reasoning.Summary = shared.ReasoningSummaryAuto
		}
	}
	if len(req.Schema) > 0 {
		params.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{
			Name: schemaName, Schema: schemaObject(req.Schema), Strict: openai.Bool(true),
		}
	}
	for _, t := range req.Tools {
		params.Tools = append(params.Tools, param.Override[responses.ToolUnionParam](functionTool{
			Type: "function", Name: t.Name, Description: t.Description, Parameters: schemaOf(t),
		}))
	}
	return params
}

// functionTool is a tool on the wire. Strict is false since it would refuse schemas with optional properties.
type functionTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

func responsesInput(messages []Message) responses.ResponseInputParam {
	var input responses.ResponseInputParam
	for _, m := range messages {
		switch m.Role {
		case RoleUser:
			input = append(input, responsesUser(m))
		case RoleAssistant:
			input = append(input, responsesAssistant(m)...)
		case RoleTool:
			for _, b := range m.Blocks {
				if b.Kind == BlockToolResult {
					input = append(input, responsesResult(b))
				}
			}
		}
	}
	return input
}

func responsesUser(m Message) responses.ResponseInputItemUnionParam {
	var content responses.ResponseInputMessageContentListParam
	for _, b := range m.Blocks {
		switch b.Kind {
		case BlockText:
			content = append(content, responses.ResponseInputContentParamOfInputText(b.Text))
		case BlockImage:
			image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
			image.OfInputImage.ImageURL = openai.String(dataURL(b))
			content = append(content, image)
		}
	}
	return responses.ResponseInputItemParamOfMessage(content, responses.EasyInputMessageRoleUser)
}

func responsesAssistant(m Message) []responses.ResponseInputItemUnionParam {
	var items, reasoning []responses.ResponseInputItemUnionParam
	add := func(item responses.ResponseInputItemUnionParam) {
		// The API refuses reasoning without the item that came out of it.
		items = append(append(items, reasoning...), item)
		reasoning = nil
	}
	for _, b := range m.Blocks {
		switch b.Kind {
		case BlockThinking:
			var kept reasoningItem
			if b.Provider != dialectResponses || json.Unmarshal([]byte(b.Opaque), &kept) != nil || kept.EncryptedContent == "" {
				continue
			}
			summary := []responses.ResponseReasoningItemSummaryParam{}
			if b.Text != "" {
				summary = append(summary, responses.ResponseReasoningItemSummaryParam{Text: b.Text})
			}
			item := responses.ResponseInputItemParamOfReasoning(kept.ID, summary)
			item.OfReasoning.EncryptedContent = openai.String(kept.EncryptedContent)
			reasoning = append(reasoning, item)
		case BlockText:
			item := responses.ResponseInputItemParamOfMessage(b.Text, responses.EasyInputMessageRoleAssistant)
			if b.Provider == dialectResponses {
				item.OfMessage.Phase = responses.EasyInputMessagePhase(b.Opaque)
			}
			add(item)
		case BlockToolCall:
			add(responses.ResponseInputItemParamOfFunctionCall(string(wireArguments(b)), b.CallID, b.Name))
		}
	}
	return items
}

func responsesResult(b Block) responses.ResponseInputItemUnionParam {
	var item responses.ResponseInputItemUnionParam
	if len(b.Images) == 0 {
		item = responses.ResponseInputItemParamOfFunctionCallOutput(resultText(b))
	} else {
		list := responses.ResponseFunctionCallOutputItemListParam{{OfInputText: &responses.ResponseInputTextContentParam{Text: resultText(b)}}}
		for _, image := range b.Images {
			list = append(list, responses.ResponseFunctionCallOutputItemUnionParam{
				OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: openai.String(dataURL(image))},
			})
		}
		item = responses.ResponseInputItemParamOfFunctionCallOutput(list)
	}
	item.OfFunctionCallOutput.CallID = openai.String(b.CallID)
	return item
}

// resultText marks a failed result: OpenAI's protocols have no flag for it.
func resultText(b Block) string {
	switch {
	case b.Text == "":
		return emptyResult
	case b.IsError && !strings.HasPrefix(strings.ToLower(b.Text), "error"):
		return "Error: " + b.Text
	default:
		return b.Text
	}
}

// responsesAnswer gathers the events of one stream.
type responsesAnswer struct {
	order []*draft
	items map[int64]*draft
	stop  StopReason
	ended bool
	err   error
	usage Usage
	model string
}

func (a *responsesAnswer) take(e responses.ResponseStreamEventUnion, on func(Event)) {
	switch e.Type {
	case "response.output_item.added":
		a.item(e.OutputIndex, e.Item)
	case "response.output_text.delta", "response.refusal.delta":
		if d := a.items[e.OutputIndex]; d != nil && d.kind == BlockText {
			d.text.WriteString(e.Delta)
			emit(on, EventText, e.Delta)
		}
		if e.Type == "response.refusal.delta" {
			a.stop = StopRefused
		}
	case "response.reasoning_summary_part.added":
		if d := a.items[e.OutputIndex]; d != nil && d.text.Len() > 0 {
			d.text.WriteString("\n\n")
			emit(on, EventThinking, "\n\n")
		}
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		if d := a.items[e.OutputIndex]; d != nil && d.kind == BlockThinking {
			d.text.WriteString(e.Delta)
			emit(on, EventThinking, e.Delta)
		}
	case "response.function_call_arguments.delta":
		if d := a.items[e.OutputIndex]; d != nil && d.kind == BlockToolCall {
			d.arguments.WriteString(e.Delta)
		}
	case "response.output_item.done":
		a.itemDone(e.OutputIndex, e.Item)
	case "response.completed", "response.incomplete", "response.failed":
		a.end(e)
	case "error":
		a.err = &refusal{status: statusOf(e.Code), kind: e.Code, message: e.Message}
	}
}

func (a *responsesAnswer) item(index int64, item responses.ResponseOutputItemUnion) *draft {
	if d := a.items[index]; d != nil {
		return d
	}
	d := &draft{provider: dialectResponses}
	switch item.Type {
	case "message":
		d.kind, d.opaque = BlockText, string(item.Phase)
	case "reasoning":
		d.kind = BlockThinking
	case "function_call":
		d.kind, d.callID, d.name = BlockToolCall, item.CallID, item.Name
	default:
		return nil
	}
	if d.kind == BlockText && d.opaque == "" {
		d.provider = ""
	}
	a.items[index] = d
	a.order = append(a.order, d)
	return d
}

// itemDone takes what the finished item says over what its deltas said.
func (a *responsesAnswer) itemDone(index int64, item responses.ResponseOutputItemUnion) {
	d := a.item(index, item)
	if d == nil {
		return
	}
	d.complete = item.Status != "incomplete" && item.Status != "in_progress"
	switch d.kind {
	case BlockText:
		var text strings.Builder
		for _, part := range item.Content {
			text.WriteString(part.Text)
			text.WriteString(part.Refusal)
		}
		replaceText(&d.text, text.String())
	case BlockThinking:
		var parts []string
		for _, s := range item.Summary {
			parts = append(parts, s.Text)
		}
		replaceText(&d.text, strings.Join(parts, "\n\n"))
		if item.EncryptedContent != "" {
			kept, err := json.Marshal(reasoningItem{ID: item.ID, EncryptedContent: item.EncryptedContent})
			if err == nil {
				d.opaque = string(kept)
			}
		}
	case BlockToolCall:
		call := item.AsFunctionCall()
		d.callID, d.name = call.CallID, call.Name
		replaceText(&d.arguments, call.Arguments)
	}
}

func replaceText(b *strings.Builder, text string) {
	if text != "" {
		b.Reset()
		b.WriteString(text)
	}
}

func (a *responsesAnswer) end(e responses.ResponseStreamEventUnion) {
	a.ended = true
	a.model = e.Response.Model
	u := e.Response.Usage
	read, write := u.InputTokensDetails.CachedTokens, u.InputTokensDetails.CacheWriteTokens
	a.usage = Usage{Input: max(0, u.InputTokens-read-write), Output: u.OutputTokens, CacheRead: read, CacheWrite: write}
	switch {
	case e.Type == "response.failed":
		said := e.Response.Error
		status := statusOf(string(said.Code))
		if strings.Contains(string(said.Code), "invalid_image") || strings.Contains(string(said.Code), "image_") {
			status = http.StatusBadRequest
		}
		a.err = &refusal{status: status, kind: string(said.Code), message: said.Message}
	case a.stop == StopRefused:
	case e.Type == "response.incomplete" && e.Response.IncompleteDetails.Reason == "content_filter":
		a.stop = StopRefused
	case e.Type == "response.incomplete":
		a.stop = StopLength
	default:
		a.stop = StopEnd
	}
}
