package llmtest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// bodies wraps messages into a whole request.
func body(d llmtest.Dialect, messages, extra string) []byte {
	if extra != "" {
		extra = "," + extra
	}
	switch d {
	case llmtest.Anthropic:
		return fmt.Appendf(nil, `{"model":"claude-opus-5-5","max_tokens":100,"stream":true,"messages":%s%s}`, messages, extra)
	case llmtest.Chat:
		return fmt.Appendf(nil, `{"model":"m","stream":true,"messages":%s%s}`, messages, extra)
	default:
		return fmt.Appendf(nil, `{"model":"m","stream":true,"store":false,"input":%s%s}`, messages, extra)
	}
}

const tools = `"tools":[{"name":"bash","input_schema":{"type":"object"}}]`

func TestValidateRefusesWhatProvidersRefuse(t *testing.T) {
	t.Parallel()
	a, c, r := llmtest.Anthropic, llmtest.Chat, llmtest.Responses
	use := `{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"bash","input":{}}]}`
	user := `{"role":"user","content":"hi"}`
	chatUse := `{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"bash","arguments":"{}"}}]}`
	tests := []struct {
		name     string
		dialect  llmtest.Dialect
		messages string
		extra    string
		says     string // "" = accepted
	}{
		{"good", a, `[` + user + `]`, "", ""},
		{"good with tools", a, `[` + user + `,` + use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"},{"type":"text","text":"and?"}]}]`, tools, ""},
		{"no messages", a, `[]`, "", "at least one message"},
		{"two user turns", a, `[` + user + `,` + user + `]`, "", "must alternate"},
		{"assistant first", a, `[{"role":"assistant","content":"hi"}]`, "", "first message"},
		{"assistant last", a, `[` + user + `,{"role":"assistant","content":"hi"}]`, "", "prefill"},
		{"unanswered call", a, `[` + user + `,` + use + `,` + user + `]`, tools, "without `tool_result` blocks immediately after: x"},
		{"unanswered call at the end", a, `[` + user + `,` + use + `]`, tools, "without `tool_result`"},
		{"result without a call", a, `[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}]`, tools, "unexpected `tool_use_id`"},
		{"two results for a call", a, `[` + user + `,` + use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"},{"type":"tool_result","tool_use_id":"x","content":"1"}]}]`, tools, "unexpected `tool_use_id`"},
		{"no tools declared", a, `[` + user + `,` + use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}]`, "", "must define tools"},
		{"empty text", a, `[{"role":"user","content":[{"type":"text","text":" "}]}]`, "", "non-whitespace"},
		{"empty content", a, `[{"role":"user","content":[]}]`, "", "non-empty content"},
		{"no picture", a, `[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"PGh0bWw+"}}]}]`, "", "Could not process image"},
		{"forged thinking", a, `[` + user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"forged"},{"type":"text","text":"x"}]},` + user + `]`, `"thinking":{"type":"adaptive"}`, "Invalid `signature`"},
		{"thinking switched off where it cannot be", a, `[` + user + `]`, `"thinking":{"type":"disabled"}`, "not supported for this model"},
		{"a sampling parameter", a, `[` + user + `]`, `"temperature":1`, "Extra inputs are not permitted"},
		{"too many cache marks", a, `[{"role":"user","content":[` + strings.Repeat(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},`, 4) + `{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}]`, "", "maximum of 4 blocks"},
		{"half a character", a, `[{"role":"user","content":"\ud83d"}]`, "", "no low surrogate"},
		{"a whole emoji", a, `[{"role":"user","content":"\ud83c\udf4a \\ud83d"}]`, "", ""},
		{"NUL", a, `[{"role":"user","content":"\u0000"}]`, "", "NUL"},

		{"good", c, `[{"role":"system","content":"s"},` + user + `]`, "", ""},
		{"two user turns", c, `[` + user + `,` + user + `]`, "", "must alternate"},
		{"unanswered call", c, `[` + user + `,` + chatUse + `,` + user + `]`, "", "did not have response messages: x"},
		{"result without a call", c, `[` + user + `,{"role":"tool","tool_call_id":"x","content":"1"}]`, "", "must be a response to a preceeding message"},
		{"empty answer", c, `[` + user + `,{"role":"assistant","content":""},` + user + `]`, "", "expected a string"},
		{"broken arguments", c, `[` + user + `,{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"bash","arguments":"{"}}]},{"role":"tool","tool_call_id":"x","content":"1"}]`, "", "not a JSON object"},

		{"good", r, `[{"role":"user","content":"hi"}]`, "", ""},
		{"unanswered call", r, `[{"role":"user","content":"hi"},{"type":"function_call","call_id":"x","name":"bash","arguments":"{}"}]`, "", "No tool output found for function call x"},
		{"result without a call", r, `[{"type":"function_call_output","call_id":"x","output":"1"}]`, "", "No tool call found"},
		{"reasoning alone", r, `[{"role":"user","content":"hi"},{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"enc-1"},{"role":"user","content":"hi"}]`, "", "without its required following item"},
		{"forged reasoning", r, `[{"role":"user","content":"hi"},{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"x"}]`, "", "could not be verified"},
	}
	for _, tt := range tests {
		t.Run(string(tt.dialect)+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			err := llmtest.Validate(tt.dialect, body(tt.dialect, tt.messages, tt.extra))
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}

// ask sends a chat request and returns the answer's text and calls.
func ask(t *testing.T, s *llmtest.Server, messages string) (status int, text, arguments string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.OpenAIURL()+"/chat/completions",
		bytes.NewReader(body(llmtest.Chat, messages, `"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object"}}}]`)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content   string
					ToolCalls []struct {
						Function struct{ Arguments string }
					} `json:"tool_calls"`
				}
			}
		}
		if !ok || json.Unmarshal([]byte(data), &chunk) != nil {
			continue
		}
		for _, c := range chunk.Choices {
			text += c.Delta.Content
			for _, call := range c.Delta.ToolCalls {
				arguments += call.Function.Arguments
			}
		}
	}
	return resp.StatusCode, text, arguments
}

func TestEcho(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Echo(llmtest.EchoOptions{}))
	if _, text, _ := ask(t, s, `[{"role":"user","content":"[10:00] [bob]: earlier\n[10:01] [ana]: <@U1> hello there"}]`); text != "echo: hello there" {
		t.Errorf("%q", text)
	}
	if _, _, arguments := ask(t, s, `[{"role":"user","content":"[10:01] [ana]: run: date -u"}]`); arguments != `{"command":"date -u"}` {
		t.Errorf("%q", arguments)
	}
	if _, text, _ := ask(t, s, `[{"role":"user","content":"run: date"},{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"bash","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"Monday"}]`); text != "ran: Monday" {
		t.Errorf("%q", text)
	}
	if _, text, _ := ask(t, s, `[{"role":"user","content":"long 5000"}]`); len(text) != 5000 {
		t.Errorf("%d characters", len(text))
	}
	for _, r := range s.Requests() {
		if r.Refused != "" {
			t.Error(r.Refused)
		}
	}
}

func TestEchoFailsAsOftenAsAsked(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Echo(llmtest.EchoOptions{FailEvery: 2, FailStatus: 429}))
	var statuses []int
	for range 4 {
		status, _, _ := ask(t, s, `[{"role":"user","content":"hi"}]`)
		statuses = append(statuses, status)
	}
	if fmt.Sprint(statuses) != "[200 429 200 429]" {
		t.Errorf("%v", statuses)
	}
}
