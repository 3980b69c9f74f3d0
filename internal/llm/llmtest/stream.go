package llmtest

import "fmt"

// stream writes an answer in one dialect.
type stream interface {
	start()
	ping()
	part(index int, p Part, open bool) // open leaves the part unfinished
	fail(v *Violation)
	end()
}

func newStream(d Dialect, o *writer, req Request, reply Reply) stream {
	usage := reply.Usage
	if usage == (Usage{}) {
		usage = Usage{Input: int64(len(req.Body)/4 + 1), Output: 7}
	}
	b := base{writer: o, req: req, reply: reply, usage: usage}
	for _, p := range reply.Parts {
		b.calls = b.calls || p.kind == "call"
	}
	switch d {
	case Anthropic:
		return &anthropicStream{base: b}
	case Chat:
		return &chatStream{base: b}
	default:
		return &responsesStream{base: b}
	}
}

type base struct {
	*writer
	req   Request
	reply Reply
	usage Usage
	calls bool
}

type fields = map[string]any

// stopWord is the dialect's word for why the model stopped.
func (b base) stopWord(end, tools, length, refused string) string {
	switch {
	case b.reply.Stop == StopLength:
		return length
	case b.reply.Stop == StopRefused:
		return refused
	case b.calls && b.reply.Stop != StopNormal:
		return tools
	default:
		return end
	}
}

type anthropicStream struct{ base }

func (s *anthropicStream) start() {
	s.event("message_start", fields{"type": "message_start", "message": fields{
		"id": fmt.Sprintf("msg_%d", s.req.Number), "type": "message", "role": "assistant", "model": s.req.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": fields{"input_tokens": s.usage.Input, "output_tokens": 1, "cache_read_input_tokens": s.usage.CacheRead,
			"cache_creation_input_tokens": s.usage.CacheWrite},
	}})
}

func (s *anthropicStream) ping() { s.event("ping", fields{"type": "ping"}) }

func (s *anthropicStream) part(index int, p Part, open bool) {
	begin := func(block fields) {
		s.event("content_block_start", fields{"type": "content_block_start", "index": index, "content_block": block})
	}
	delta := func(d fields) {
		s.event("content_block_delta", fields{"type": "content_block_delta", "index": index, "delta": d})
	}
	switch p.kind {
	case "text":
		begin(fields{"type": "text", "text": ""})
		for _, piece := range pieces(p.text) {
			delta(fields{"type": "text_delta", "text": piece})
		}
	case "thinking":
		begin(fields{"type": "thinking", "thinking": "", "signature": ""})
		for _, piece := range pieces(p.text) {
			delta(fields{"type": "thinking_delta", "thinking": piece})
		}
		delta(fields{"type": "signature_delta", "signature": fmt.Sprintf("%s%d-%d", signaturePrefix, s.req.Number, index)})
	case "redacted":
		begin(fields{"type": "redacted_thinking", "data": fmt.Sprintf("%s%d-%d", redactedPrefix, s.req.Number, index)})
	case "call":
		begin(fields{"type": "tool_use", "id": p.call.ID, "name": p.call.Name, "input": fields{}})
		for _, piece := range pieces(p.call.Arguments) {
			delta(fields{"type": "input_json_delta", "partial_json": piece})
		}
	}
	if !open {
		s.event("content_block_stop", fields{"type": "content_block_stop", "index": index})
	}
}

func (s *anthropicStream) fail(v *Violation) {
	s.event("error", fields{"type": "error", "error": fields{"type": v.Kind, "message": v.Message}})
}

func (s *anthropicStream) end() {
	s.event("message_delta", fields{"type": "message_delta",
		"delta": fields{"stop_reason": s.stopWord("end_turn", "tool_use", "max_tokens", "refusal"), "stop_sequence": nil},
		"usage": fields{"output_tokens": s.usage.Output}})
	s.event("message_stop", fields{"type": "message_stop"})
}

type chatStream struct {
	base
	made int // calls so far
}

func (s *chatStream) chunk(delta fields, finish any) {
	s.event("", fields{"id": fmt.Sprintf("chatcmpl-%d", s.req.Number), "object": "chat.completion.chunk", "created": 1,
		"model": s.req.Model, "choices": []any{fields{"index": 0, "delta": delta, "finish_reason": finish}}})
}

func (s *chatStream) start() { s.chunk(fields{"role": "assistant", "content": ""}, nil) }

// ping is the comment that OpenRouter sends while it waits for a model.
func (s *chatStream) ping() { s.raw(": OPENROUTER PROCESSING\n\n") }

func (s *chatStream) part(index int, p Part, _ bool) {
	switch p.kind {
	case "text":
		for _, piece := range pieces(p.text) {
			s.chunk(fields{"content": piece}, nil)
		}
	case "thinking":
		for i, piece := range pieces(p.text) {
			detail := fields{"type": "reasoning.text", "index": index, "text": piece}
			if i == 0 {
				detail["signature"] = fmt.Sprintf("%s%d-%d", signaturePrefix, s.req.Number, index)
			}
			s.chunk(fields{"reasoning": piece, "reasoning_details": []any{detail}}, nil)
		}
	case "redacted":
		s.chunk(fields{"reasoning_details": []any{fields{"type": "reasoning.encrypted", "index": index,
			"data": fmt.Sprintf("%s%d-%d", redactedPrefix, s.req.Number, index)}}}, nil)
	case "call":
		n := s.made
		s.made++
		s.chunk(fields{"tool_calls": []any{fields{"index": n, "id": p.call.ID, "type": "function",
			"function": fields{"name": p.call.Name, "arguments": ""}}}}, nil)
		for _, piece := range pieces(p.call.Arguments) {
			s.chunk(fields{"tool_calls": []any{fields{"index": n, "function": fields{"arguments": piece}}}}, nil)
		}
	}
}

func (s *chatStream) fail(v *Violation) {
	s.event("", fields{"error": fields{"code": v.Kind, "message": v.Message}})
}

func (s *chatStream) end() {
	s.chunk(fields{}, s.stopWord("stop", "tool_calls", "length", "content_filter"))
	s.event("", fields{"id": fmt.Sprintf("chatcmpl-%d", s.req.Number), "object": "chat.completion.chunk", "created": 1,
		"model": s.req.Model, "choices": []any{}, "usage": fields{
			"prompt_tokens":     s.usage.Input + s.usage.CacheRead + s.usage.CacheWrite,
			"completion_tokens": s.usage.Output,
			"total_tokens":      s.usage.Input + s.usage.CacheRead + s.usage.CacheWrite + s.usage.Output,
			"prompt_tokens_details": fields{"cached_tokens": s.usage.CacheRead,
				"cache_write_tokens": s.usage.CacheWrite},
		}})
	s.raw("data: [DONE]\n\n")
}

type responsesStream struct {
	base
	sequence int
	output   []any
}

func (s *responsesStream) send(kind string, data fields) {
	data["type"] = kind
	data["sequence_number"] = s.sequence
	s.sequence++
	s.event(kind, data)
}

func (s *responsesStream) response(status string) fields {
	return fields{"id": fmt.Sprintf("resp_%d", s.req.Number), "object": "response", "created_at": 1, "status": status,
		"model": s.req.Model, "output": s.output, "error": nil, "incomplete_details": nil}
}

func (s *responsesStream) start() {
	s.send("response.created", fields{"response": s.response("in_progress")})
}

func (s *responsesStream) ping() {
	s.send("response.in_progress", fields{"response": s.response("in_progress")})
}

func (s *responsesStream) part(index int, p Part, open bool) {
	id := fmt.Sprintf("item_%d_%d", s.req.Number, index)
	item := fields{"id": id}
	added := func() { s.send("response.output_item.added", fields{"output_index": index, "item": item}) }
	delta := func(kind, text string) {
		for _, piece := range pieces(text) {
			s.send(kind, fields{"item_id": id, "output_index": index, "content_index": 0, "summary_index": 0, "delta": piece})
		}
	}
	switch p.kind {
	case "text":
		item["type"], item["role"], item["status"], item["content"] = "message", "assistant", "in_progress", []any{}
		added()
		kind := "response.output_text.delta"
		if s.reply.Stop == StopRefused {
			kind = "response.refusal.delta"
		}
		delta(kind, p.text)
		item["content"] = []any{fields{"type": "output_text", "text": p.text, "annotations": []any{}}}
		if s.reply.Stop == StopRefused {
			item["content"] = []any{fields{"type": "refusal", "refusal": p.text}}
		}
	case "thinking", "redacted":
		item["type"], item["summary"] = "reasoning", []any{}
		added()
		if p.text != "" {
			delta("response.reasoning_summary_text.delta", p.text)
			item["summary"] = []any{fields{"type": "summary_text", "text": p.text}}
		}
		item["encrypted_content"] = fmt.Sprintf("%s%d-%d", encryptedPrefix, s.req.Number, index)
	case "call":
		item["type"], item["call_id"], item["name"], item["arguments"] = "function_call", p.call.ID, p.call.Name, ""
		item["status"] = "in_progress"
		added()
		delta("response.function_call_arguments.delta", p.call.Arguments)
		item["arguments"] = p.call.Arguments
	}
	if item["status"] != nil {
		item["status"] = "completed"
		if open {
			item["status"] = "incomplete"
		}
	}
	if open && s.reply.Ending != EndNormal {
		return
	}
	s.output = append(s.output, item)
	s.send("response.output_item.done", fields{"output_index": index, "item": item})
}

func (s *responsesStream) fail(v *Violation) {
	r := s.response("failed")
	r["error"] = fields{"code": v.Kind, "message": v.Message}
	s.send("response.failed", fields{"response": r})
}

func (s *responsesStream) end() {
	kind, status := "response.completed", "completed"
	r := s.response(status)
	if s.reply.Stop == StopLength {
		kind = "response.incomplete"
		r["status"], r["incomplete_details"] = "incomplete", fields{"reason": "max_output_tokens"}
	}
	r["usage"] = fields{
		"input_tokens": s.usage.Input + s.usage.CacheRead + s.usage.CacheWrite,
		"input_tokens_details": fields{"cached_tokens": s.usage.CacheRead,
			"cache_write_tokens": s.usage.CacheWrite},
		"output_tokens": s.usage.Output, "output_tokens_details": fields{"reasoning_tokens": 0},
		"total_tokens": s.usage.Input + s.usage.CacheRead + s.usage.CacheWrite + s.usage.Output,
	}
	s.send(kind, fields{"response": r})
}
