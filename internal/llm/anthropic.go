package llm

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/geminixiang/mikan/internal/text"
)

// AnthropicURL is the official address of the Messages API.
const AnthropicURL = "https://api.anthropic.com"

// AnthropicOptions configures NewAnthropic.
type AnthropicOptions struct {
	APIKey      string        // required by the official API
	BaseURL     string        // default AnthropicURL; a trailing /v1 is ignored
	HTTPClient  *http.Client  // default: http.DefaultTransport, no overall time-out
	IdleTimeout time.Duration // ends a call after so long without a byte; 0 = DefaultIdleTimeout
}

// NewAnthropic makes a Model on Anthropic's Messages API. It reads nothing from the environment.
func NewAnthropic(o AnthropicOptions) Model {
	base := strings.TrimSuffix(strings.TrimRight(o.BaseURL, "/"), "/v1")
	if base == "" {
		base = AnthropicURL
	}
	options := []option.RequestOption{
		option.WithBaseURL(base),
		option.WithHTTPClient(plainClient(o.HTTPClient)),
		option.WithMaxRetries(0), // retries belong to the activity: one call is one request
		option.WithoutOpenTelemetry(),
	}
	if o.APIKey != "" {
		options = append(options, option.WithAPIKey(o.APIKey)) // as a bearer token
		if base != AnthropicURL {
			options = append(options, option.WithHeader("X-Api-Key", o.APIKey)) // what older gateways look at
		}
	}
	return &anthropicModel{
		client:   client{name: "anthropic", keyName: "ANTHROPIC_API_KEY", apiKey: o.APIKey},
		messages: anthropic.NewMessageService(options...),
		idle:     o.IdleTimeout,
	}
}

type anthropicModel struct {
	client
	messages anthropic.MessageService
	idle     time.Duration
}

// dialectAnthropic marks thinking that only the Messages API can read.
const dialectAnthropic = "anthropic"

// Complete implements Model.
func (m *anthropicModel) Complete(ctx context.Context, req Request, on func(Event)) (Response, error) {
	params, options := anthropicRequest(req)
	ctx, x := watch(ctx, m.idle, func() { on(Event{Kind: EventActivity}) })
	defer x.close()

	stream := m.messages.NewStreaming(ctx, params, append(options, option.WithMiddleware(x.do))...)
	defer func() { _ = stream.Close() }()

	a := anthropicAnswer{blocks: make(map[int64]*draft)}
	for stream.Next() {
		a.take(stream.Current(), on)
	}
	err := stream.Err()
	if err == nil && !a.stopped {
		err = errors.New("the stream ended without message_stop")
	}
	if err != nil {
		var said *anthropic.Error
		if errors.As(err, &said) && x.status == http.StatusOK {
			err = parseRefusal(http.StatusOK, []byte(said.RawJSON()))
		}
		return Response{}, m.failure(ctx, x, req, err)
	}
	resp := finish(req, a.order, a.stop)
	resp.Usage, resp.Model = a.usage, a.model
	return resp, nil
}

// anthropicAnswer gathers the events of one stream.
type anthropicAnswer struct {
	order   []*draft
	blocks  map[int64]*draft
	stop    StopReason
	stopped bool
	usage   Usage
	model   string
}

func (a *anthropicAnswer) take(e anthropic.MessageStreamEventUnion, on func(Event)) {
	switch e.Type {
	case "message_start":
		a.model = e.Message.Model
		u := e.Message.Usage
		a.usage = Usage{Input: u.InputTokens, Output: u.OutputTokens, CacheRead: u.CacheReadInputTokens,
			CacheWrite: u.CacheCreationInputTokens}
	case "content_block_start":
		a.start(e.Index, e.ContentBlock, on)
	case "content_block_delta":
		if d := a.blocks[e.Index]; d != nil {
			a.delta(d, e.Delta, on)
		}
	case "content_block_stop":
		if d := a.blocks[e.Index]; d != nil {
			d.complete = true
		}
	case "message_delta":
		a.stop = anthropicStop(e.Delta.StopReason)
		// Counts are cumulative; some compatible servers tell the input only here.
		a.usage.Output = max(a.usage.Output, e.Usage.OutputTokens)
		a.usage.Input = max(a.usage.Input, e.Usage.InputTokens)
		a.usage.CacheRead = max(a.usage.CacheRead, e.Usage.CacheReadInputTokens)
		a.usage.CacheWrite = max(a.usage.CacheWrite, e.Usage.CacheCreationInputTokens)
	case "message_stop":
		a.stopped = true
	}
}

func (a *anthropicAnswer) start(index int64, b anthropic.ContentBlockStartEventContentBlockUnion, on func(Event)) {
	d := &draft{}
	switch b.Type {
	case "text":
		d.kind = BlockText
		d.text.WriteString(b.Text)
		emit(on, EventText, b.Text)
	case "thinking":
		d.kind, d.provider = BlockThinking, dialectAnthropic
		d.text.WriteString(b.Thinking)
		d.signature.WriteString(b.Signature)
		emit(on, EventThinking, b.Thinking)
	case "redacted_thinking":
		d.kind, d.provider, d.opaque = BlockThinking, dialectAnthropic, b.Data
	case "tool_use":
		d.kind, d.callID, d.name = BlockToolCall, b.ID, b.Name
	default:
		return // a block of a server-side tool that we never ask for
	}
	a.blocks[index] = d
	a.order = append(a.order, d)
}

func (a *anthropicAnswer) delta(d *draft, delta anthropic.MessageStreamEventUnionDelta, on func(Event)) {
	switch delta.Type {
	case "text_delta":
		d.text.WriteString(delta.Text)
		emit(on, EventText, delta.Text)
	case "thinking_delta":
		d.text.WriteString(delta.Thinking)
		emit(on, EventThinking, delta.Thinking)
	case "signature_delta":
		d.signature.WriteString(delta.Signature)
	case "input_json_delta":
		d.arguments.WriteString(delta.PartialJSON)
	}
}

func anthropicStop(reason anthropic.StopReason) StopReason {
	switch reason {
	case anthropic.StopReasonToolUse:
		return StopTools
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		return StopLength
	case anthropic.StopReasonRefusal:
		return StopRefused
	default: // end_turn, stop_sequence, pause_turn
		return StopEnd
	}
}

func emit(on func(Event), kind EventKind, delta string) {
	if delta = text.Storable(delta); delta != "" {
		on(Event{Kind: kind, Text: delta})
	}
}
