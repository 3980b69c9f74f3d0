package llmtest

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Dialect is a model API's protocol.
type Dialect string

// The protocols that the servers speak.
const (
	Anthropic Dialect = "anthropic" // Messages, POST /v1/messages
	Chat      Dialect = "chat"      // OpenAI chat completions, POST /v1/chat/completions
	Responses Dialect = "responses" // OpenAI Responses, POST /v1/responses
)

// Request is one request as a server received it.
type Request struct {
	Number   int // from 1, in order of arrival
	Dialect  Dialect
	Path     string
	Header   http.Header
	Body     []byte
	Model    string
	System   string
	Messages []Message
	Tools    []string // names

	// Refused is the server's own objection to the request; "" for a request that the provider would take.
	Refused string
	// Canceled: the client closed the connection before the reply was complete.
	Canceled bool
}

// Message is one turn of a request, the same for every dialect: role is "user", "assistant" or "tool".
type Message struct {
	Role     string
	Text     string // texts joined by newlines
	Calls    []Call
	Results  []Result
	Images   int
	Thinking int // thinking, redacted thinking and reasoning items
}

// Call is a tool call as it stands in a request or is to be made in a reply. Arguments is sent as it is, so it may be
// broken JSON.
type Call struct {
	ID, Name, Arguments string
}

// Result is a tool result.
type Result struct {
	CallID  string
	Text    string
	IsError bool // only Anthropic says so
	Images  int
}

// LastUserText is the text of the last user turn; "" when the request ends in tool results.
func (r Request) LastUserText() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		switch m := r.Messages[i]; {
		case m.Role == "user" && m.Text != "":
			return m.Text
		case m.Role == "tool":
			return ""
		}
	}
	return ""
}

// LastResults are the tool results that the request ends in; nil when a user's text follows them.
func (r Request) LastResults() []Result {
	var results []Result
	for i := len(r.Messages) - 1; i >= 0; i-- {
		m := r.Messages[i]
		if m.Role != "tool" {
			if m.Role == "user" && m.Images > 0 && (m.Text == "" || strings.HasPrefix(m.Text, "[Pictures from the tool results")) {
				continue // chat completions have no other place for the pictures of a result
			}
			break
		}
		results = append(append([]Result(nil), m.Results...), results...)
	}
	return results
}

// parse reads what scripts look at. The body was validated before.
func parse(d Dialect, body []byte) (Request, error) {
	r := Request{Dialect: d, Body: body}
	var o object
	if err := decode(body, &o); err != nil {
		return r, err
	}
	r.Model, _ = o["model"].(string)
	for _, t := range o.list("tools") {
		tool := toObject(t)
		name := tool.text("name")
		if f, ok := tool["function"].(map[string]any); ok {
			name = object(f).text("name")
		}
		r.Tools = append(r.Tools, name)
	}
	switch d {
	case Anthropic:
		r.System = contentText(o["system"])
		for _, m := range o.list("messages") {
			r.Messages = append(r.Messages, anthropicMessage(toObject(m))...)
		}
	case Chat:
		for _, m := range o.list("messages") {
			r.chatMessage(toObject(m))
		}
	case Responses:
		r.System = o.text("instructions")
		for _, item := range o.list("input") {
			r.responsesItem(toObject(item))
		}
	}
	return r, nil
}

func anthropicMessage(m object) []Message {
	turn := Message{Role: m.text("role")}
	if s, ok := m["content"].(string); ok {
		turn.Text = s
		return []Message{turn}
	}
	results := Message{Role: "tool"}
	var texts []string
	for _, b := range m.list("content") {
		block := toObject(b)
		switch block.text("type") {
		case "text":
			texts = append(texts, block.text("text"))
		case "image":
			turn.Images++
		case "thinking", "redacted_thinking":
			turn.Thinking++
		case "tool_use":
			input, _ := json.Marshal(block["input"])
			turn.Calls = append(turn.Calls, Call{block.text("id"), block.text("name"), string(input)})
		case "tool_result":
			failed, _ := block["is_error"].(bool)
			results.Results = append(results.Results, Result{CallID: block.text("tool_use_id"),
				Text: contentText(block["content"]), IsError: failed, Images: countType(block["content"], "image")})
		}
	}
	turn.Text = strings.Join(texts, "\n")
	var out []Message
	if len(results.Results) > 0 {
		out = append(out, results)
	}
	if turn.Text != "" || turn.Images > 0 || len(turn.Calls) > 0 || turn.Thinking > 0 {
		out = append(out, turn)
	}
	return out
}

func (r *Request) chatMessage(m object) {
	switch role := m.text("role"); role {
	case "system", "developer":
		r.System = contentText(m["content"])
	case "tool":
		r.addResult(Result{CallID: m.text("tool_call_id"), Text: contentText(m["content"])})
	default:
		turn := Message{Role: role, Text: contentText(m["content"]), Images: countType(m["content"], "image_url")}
		if _, ok := m["reasoning_details"]; ok {
			turn.Thinking++
		}
		for _, c := range m.list("tool_calls") {
			f := toObject(toObject(c)["function"])
			turn.Calls = append(turn.Calls, Call{toObject(c).text("id"), f.text("name"), f.text("arguments")})
		}
		r.Messages = append(r.Messages, turn)
	}
}

func (r *Request) responsesItem(item object) {
	assistant := func() *Message {
		if n := len(r.Messages); n == 0 || r.Messages[n-1].Role != "assistant" {
			r.Messages = append(r.Messages, Message{Role: "assistant"})
		}
		return &r.Messages[len(r.Messages)-1]
	}
	switch item.text("type") {
	case "reasoning":
		assistant().Thinking++
	case "function_call":
		a := assistant()
		a.Calls = append(a.Calls, Call{item.text("call_id"), item.text("name"), item.text("arguments")})
	case "function_call_output":
		r.addResult(Result{CallID: item.text("call_id"), Text: contentText(item["output"]),
			Images: countType(item["output"], "input_image")})
	default:
		if item.text("role") == "assistant" {
			a := assistant()
			a.Text = strings.TrimPrefix(a.Text+"\n"+contentText(item["content"]), "\n")
			return
		}
		r.Messages = append(r.Messages, Message{Role: item.text("role"), Text: contentText(item["content"]),
			Images: countType(item["content"], "input_image")})
	}
}

func (r *Request) addResult(result Result) {
	if n := len(r.Messages); n == 0 || r.Messages[n-1].Role != "tool" {
		r.Messages = append(r.Messages, Message{Role: "tool"})
	}
	last := &r.Messages[len(r.Messages)-1]
	last.Results = append(last.Results, result)
}

// contentText joins the texts of a content, be it a string or a list of parts.
func contentText(content any) string {
	if s, ok := content.(string); ok {
		return s
	}
	var texts []string
	parts, _ := content.([]any)
	for _, p := range parts {
		if t, ok := toObject(p)["text"].(string); ok {
			texts = append(texts, t)
		}
	}
	return strings.Join(texts, "\n")
}

func countType(content any, kind string) int {
	n := 0
	parts, _ := content.([]any)
	for _, p := range parts {
		if toObject(p).text("type") == kind {
			n++
		}
	}
	return n
}

// object is a JSON object whose numbers are json.Number.
type object map[string]any

func toObject(v any) object {
	m, _ := v.(map[string]any)
	return m
}

func (o object) text(key string) string {
	s, _ := o[key].(string)
	return s
}

func (o object) list(key string) []any {
	l, _ := o[key].([]any)
	return l
}
