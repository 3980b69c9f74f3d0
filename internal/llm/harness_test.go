package llm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

const testKey = "sk-test-0123456789abcdef"

// dialect is one way to reach a model in the tests.
type dialect struct {
	name  string
	ref   llm.Ref
	wire  llmtest.Dialect
	opens func(base string, client *http.Client, idle time.Duration) llm.Model
}

var dialects = []dialect{
	{"anthropic", llm.Ref{Provider: llm.ProviderAnthropic, Model: "claude-opus-5-5"}, llmtest.Anthropic,
		func(base string, c *http.Client, idle time.Duration) llm.Model {
			return llm.NewAnthropic(llm.AnthropicOptions{APIKey: testKey, BaseURL: base, HTTPClient: c, IdleTimeout: idle})
		}},
	{"openai-chat", llm.Ref{Provider: llm.ProviderOpenAIChat, Model: "gpt-5.5"}, llmtest.Chat,
		func(base string, c *http.Client, idle time.Duration) llm.Model {
			return llm.NewOpenAIChat(llm.OpenAIOptions{APIKey: testKey, BaseURL: base + "/v1", HTTPClient: c, IdleTimeout: idle})
		}},
	{"openai-responses", llm.Ref{Provider: llm.ProviderOpenAIResponses, Model: "gpt-6.1-sol"}, llmtest.Responses,
		func(base string, c *http.Client, idle time.Duration) llm.Model {
			return llm.NewOpenAIResponses(llm.OpenAIOptions{APIKey: testKey, BaseURL: base + "/v1", HTTPClient: c, IdleTimeout: idle})
		}},
	{"openrouter", llm.Ref{Provider: llm.ProviderOpenRouter, Model: "anthropic/claude-opus-5.5"}, llmtest.Chat,
		func(base string, c *http.Client, idle time.Duration) llm.Model {
			return llm.NewOpenAIChat(llm.OpenAIOptions{Provider: llm.ProviderOpenRouter, APIKey: testKey,
				BaseURL: base + "/api/v1", HTTPClient: c, IdleTimeout: idle})
		}},
}

// eachDialect runs f against a server with the script, once per dialect.
func eachDialect(t *testing.T, script llmtest.Script, f func(t *testing.T, d dialect, m llm.Model, s *llmtest.Server)) {
	t.Helper()
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.NewServer(t, script)
			s.Key = testKey
			f(t, d, d.opens(s.URL, nil, 0), s)
		})
	}
}

func userSays(text string) []llm.Message {
	return []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{{Kind: llm.BlockText, Text: text}}}}
}

var bash = llm.ToolSpec{Name: "bash", Description: "Runs a command.",
	Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"},"limit":{"type":"integer","maximum":2932809024865746956}},"required":["command"]}`)}

func (d dialect) request(messages []llm.Message) llm.Request {
	return llm.Request{Model: d.ref.Model, System: "You are a test.", Messages: messages, Tools: []llm.ToolSpec{bash},
		Thinking: llm.ThinkingLow, CacheKey: "session-1"}
}

func ignore(llm.Event) {}

func complete(t *testing.T, m llm.Model, req llm.Request) llm.Response {
	t.Helper()
	resp, err := m.Complete(t.Context(), req, ignore)
	if err != nil {
		t.Fatalf("Complete: %v", err)
	}
	return resp
}

func calls(resp llm.Response) []llm.Block {
	var out []llm.Block
	for _, b := range resp.Blocks {
		if b.Kind == llm.BlockToolCall {
			out = append(out, b)
		}
	}
	return out
}

func textOf(resp llm.Response) string {
	var out strings.Builder
	for _, b := range resp.Blocks {
		if b.Kind == llm.BlockText {
			out.WriteString(b.Text)
		}
	}
	return out.String()
}

// accepted fails the test when the server refused a request.
func accepted(t *testing.T, s *llmtest.Server) []llmtest.Request {
	t.Helper()
	requests := s.Requests()
	for _, r := range requests {
		if r.Refused != "" {
			t.Errorf("request %d was refused: %s\n%s", r.Number, r.Refused, r.Body)
		}
	}
	return requests
}

// strip is a PNG of one row.
func strip(t testing.TB, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 1))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// direct is a transport that calls a handler without a socket.
type direct struct{ handler http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func timeoutContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
