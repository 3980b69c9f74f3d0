package llm_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

const secretPrompt = "the launch code of the purple submarine is nine four seven"

func TestEveryFailureHasItsCodeAndCostsOneRequest(t *testing.T) {
	t.Parallel()
	header := func(key, value string) http.Header { return http.Header{key: {value}} }
	with := func(r llmtest.Reply, h http.Header) llmtest.Reply { r.Header = h; return r }
	cut := func(e llmtest.Ending) llmtest.Reply {
		return llmtest.Reply{Parts: []llmtest.Part{llmtest.Text("half an ans")}, Ending: e}
	}
	inStream := func(kind, message string) llmtest.Reply {
		r := cut(llmtest.EndError)
		r.Kind, r.Message = kind, message
		return r
	}
	body := func(status int, body string) llmtest.Reply { return llmtest.Reply{Status: status, Body: body} }
	tests := []struct {
		name    string
		reply   llmtest.Reply
		code    fault.Code
		after   time.Duration // RetryAfter; -1 = some
		tooLong bool
		only    string // dialect; "" = all
	}{
		{name: "400", reply: llmtest.Fail(400, "invalid_request_error", "messages: nonsense"), code: fault.Invalid},
		{name: "401", reply: llmtest.Fail(401, "authentication_error", "Incorrect API key provided: "+testKey), code: fault.Forbidden},
		{name: "402", reply: llmtest.Fail(402, "billing_error", "no credit"), code: fault.Forbidden},
		{name: "403", reply: llmtest.Fail(403, "permission_error", "not for you"), code: fault.Forbidden},
		{name: "404", reply: llmtest.Fail(404, "not_found_error", "model: nope"), code: fault.Invalid},
		{name: "408", reply: llmtest.Fail(408, "timeout", "timed out"), code: fault.Unavailable},
		{name: "409", reply: llmtest.Fail(409, "conflict_error", "conflict"), code: fault.Unavailable},
		{name: "413", reply: llmtest.Fail(413, "request_too_large", "too large"), code: fault.TooLarge, tooLong: true},
		{name: "422", reply: llmtest.Fail(422, "unprocessable", "no"), code: fault.Invalid},
		{name: "429 in seconds", reply: with(llmtest.Fail(429, "rate_limit_error", "slow down"), header("Retry-After", "7")), code: fault.RateLimited, after: 7 * time.Second},
		{name: "429 in milliseconds", reply: with(llmtest.Fail(429, "rate_limit_error", "slow down"), header("Retry-After-Ms", "1500")), code: fault.RateLimited, after: 1500 * time.Millisecond},
		{name: "429 with a date", reply: with(llmtest.Fail(429, "rate_limit_error", "slow down"), header("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))), code: fault.RateLimited, after: -1},
		{name: "429 with nonsense", reply: with(llmtest.Fail(429, "rate_limit_error", "slow down"), header("Retry-After", "soon")), code: fault.RateLimited},
		{name: "500", reply: llmtest.Fail(500, "api_error", "Internal server error"), code: fault.Unavailable},
		{name: "502 as a page", reply: body(502, "<html><body>Bad Gateway</body></html>"), code: fault.Unavailable},
		{name: "503 in seconds", reply: with(llmtest.Fail(503, "api_error", "busy"), header("Retry-After", "3")), code: fault.Unavailable, after: 3 * time.Second},
		{name: "504", reply: body(504, ""), code: fault.Unavailable},
		{name: "529", reply: llmtest.Fail(529, "overloaded_error", "Overloaded"), code: fault.Unavailable},
		{name: "x-should-retry is not obeyed", reply: with(llmtest.Fail(529, "overloaded_error", "Overloaded"), header("X-Should-Retry", "true")), code: fault.Unavailable},
		{name: "redirect", reply: with(body(307, ""), header("Location", "http://127.0.0.1:1/elsewhere")), code: fault.Invalid},
		{name: "a page instead of a stream", reply: body(200, "<html>Welcome</html>"), code: fault.Invalid},
		{name: "a whole answer instead of a stream", reply: with(body(200, `{"choices":[{"message":{"content":"hi"}}]}`), header("Content-Type", "application/json")), code: fault.Invalid},

		{name: "connection breaks", reply: cut(llmtest.EndCut), code: fault.Unavailable},
		{name: "no terminal event", reply: cut(llmtest.EndUnfinished), code: fault.Unavailable},
		{name: "nothing but a start", reply: llmtest.Reply{Ending: llmtest.EndUnfinished}, code: fault.Unavailable},
		{name: "half a tool call", reply: llmtest.Reply{Ending: llmtest.EndCut, Parts: []llmtest.Part{llmtest.ToolCall("a", "bash", `{"comm`)}}, code: fault.Unavailable},
		{name: "overloaded in the stream", reply: inStream("overloaded_error", "Overloaded"), code: fault.Unavailable},
		{name: "rate limit in the stream", reply: inStream("rate_limit_exceeded", "slow down"), code: fault.RateLimited},
		{name: "api_error in the stream", reply: inStream("api_error", "oops"), code: fault.Unavailable},
		{name: "server_error in the stream", reply: inStream("server_error", "oops"), code: fault.Unavailable},
		{name: "invalid request in the stream", reply: inStream("invalid_request_error", "bad"), code: fault.Invalid},

		{name: "Anthropic: prompt too long", reply: llmtest.Fail(400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"), code: fault.TooLarge, tooLong: true, only: "anthropic"},
		{name: "Anthropic: input and max_tokens", reply: llmtest.Fail(400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000"), code: fault.TooLarge, tooLong: true, only: "anthropic"},
		{name: "OpenAI: context length", reply: llmtest.Fail(400, "context_length_exceeded", "This model's maximum context length is 16385 tokens. However, your messages resulted in 31228 tokens."), code: fault.TooLarge, tooLong: true, only: "openai-chat"},
		{name: "Responses: in the stream", reply: inStream("context_length_exceeded", "Your input exceeds the context window of this model."), code: fault.TooLarge, tooLong: true, only: "openai-responses"},
		{name: "OpenAI: one request over the rate", reply: llmtest.Fail(429, "rate_limit_exceeded", "Request too large for gpt-5.5 on tokens per min (TPM): Limit 30000, Requested 54321."), code: fault.TooLarge, tooLong: true, only: "openai-chat"},
		{name: "vLLM: context length", reply: body(400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the messages.","type":"BadRequestError","code":400}`), code: fault.TooLarge, tooLong: true, only: "openai-chat"},
		{name: "vLLM: model length", reply: body(400, `{"error":{"message":"The decoder prompt (length 9000) is longer than the maximum model length of 8192.","type":"BadRequestError","param":null,"code":400}}`), code: fault.TooLarge, tooLong: true, only: "openai-chat"},
		{name: "llama.cpp: context size", reply: body(400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`), code: fault.TooLarge, tooLong: true, only: "openai-chat"},
		{name: "OpenRouter: context length", reply: body(400, `{"error":{"message":"This endpoint's maximum context length is 131072 tokens.","code":400}}`), code: fault.TooLarge, tooLong: true, only: "openrouter"},
		{name: "OpenRouter: hidden behind the provider's error", reply: body(400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 1 tokens > 0\"}}","provider_name":"Anthropic"}}}`), code: fault.TooLarge, tooLong: true, only: "openrouter"},
		{name: "OpenRouter: the code is the status", reply: body(200, `{"error":{"message":"Rate limit exceeded","code":429}}`), code: fault.RateLimited, only: "openrouter"},
		{name: "Ollama: a bare string", reply: body(404, `{"error":"model 'nope' not found"}`), code: fault.Invalid, only: "openai-chat"},
		{name: "FastAPI: detail", reply: body(422, `{"detail":"bad"}`), code: fault.Invalid, only: "openai-chat"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			script := func(llmtest.Request) llmtest.Reply { return tt.reply }
			eachDialect(t, script, func(t *testing.T, d dialect, m llm.Model, s *llmtest.Server) {
				if tt.only != "" && tt.only != d.name {
					t.Log("another provider's words")
					return
				}
				resp, err := m.Complete(t.Context(), d.request(userSays(secretPrompt)), ignore)
				if code := fault.CodeOf(err); code != tt.code {
					t.Fatalf("code %q, want %q: %v", code, tt.code, err)
				}
				if len(resp.Blocks) != 0 {
					t.Errorf("a failed call gave %+v", resp.Blocks)
				}
				if after := fault.RetryAfter(err); after != tt.after && (tt.after >= 0 || after <= 0) {
					t.Errorf("retry after %v, want %v", after, tt.after)
				}
				if llm.IsContextTooLong(err) != tt.tooLong {
					t.Errorf("too long: %v for %v", !tt.tooLong, err)
				}
				if n := len(s.Requests()); n != 1 {
					t.Errorf("%d requests for one call", n)
				}
				text := err.Error()
				if strings.Contains(text, testKey) || strings.Contains(text, "purple submarine") || len(text) > 450 || strings.Contains(text, "\n") {
					t.Errorf("unfit text: %s", text)
				}
			})
		})
	}
}

func TestErrorTextsKeepKeysAndPromptsOut(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{
		"quotes the prompt": "Invalid value: '" + secretPrompt + "'",
		"quotes the key":    "the key " + testKey + " may not do this",
		"quotes some key":   "the key sk-proj-********************abcd may not do this",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachDialect(t, llmtest.Always(llmtest.Fail(400, "invalid_request_error", message)), func(t *testing.T, d dialect, m llm.Model, _ *llmtest.Server) {
				_, err := m.Complete(t.Context(), d.request(userSays(secretPrompt)), ignore)
				for _, secret := range []string{testKey, "launch code", "purple submarine", "sk-proj"} {
					if err == nil || strings.Contains(err.Error(), secret) {
						t.Errorf("%q in %v", secret, err)
					}
				}
			})
		})
	}
}

func TestSilentStreamIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]llmtest.Reply{
		"before the first byte": {Hold: make(chan struct{})},
		"in the middle":         {Parts: []llmtest.Part{llmtest.Text("half")}, Ending: llmtest.EndStall},
	} {
		for _, d := range dialects {
			t.Run(d.name+" "+name, func(t *testing.T) {
				t.Parallel()
				s := llmtest.NewServer(t, llmtest.Always(reply))
				_, err := d.opens(s.URL, nil, 50*time.Millisecond).Complete(t.Context(), d.request(userSays("Hi")), ignore)
				if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "sent nothing for") {
					t.Errorf("error %v", err)
				}
				// On a busy machine the call may be given up before the server saw it.
				closed := func(r []llmtest.Request) bool { return len(r) == 0 || r[0].Canceled }
				if _, err := s.Wait(timeoutContext(t), closed); err != nil {
					t.Errorf("the connection stayed open: %v", err)
				}
			})
		}
	}
}

func TestUnreachableServerIsUnavailable(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for _, d := range dialects {
		_, err := d.opens(closed.URL, nil, 0).Complete(t.Context(), d.request(userSays(secretPrompt)), ignore)
		if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "cannot be reached") {
			t.Errorf("%s: %v", d.name, err)
		}
	}
}

func TestPassedDeadlineIsUnavailable(t *testing.T) {
	t.Parallel()
	eachDialect(t, llmtest.Always(llmtest.Reply{Ending: llmtest.EndStall}), func(t *testing.T, d dialect, m llm.Model, _ *llmtest.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := m.Complete(ctx, d.request(userSays("Hi")), ignore); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("error %v", err)
		}
	})
}

func TestRejectedPartsCanBeLeftOut(t *testing.T) {
	t.Parallel()
	messages := []llm.Message{
		{Role: llm.RoleUser, Blocks: []llm.Block{{Kind: llm.BlockText, Text: "See"}, {Kind: llm.BlockImage, Data: strip(t, 2), MediaType: "image/png"}}},
		{Role: llm.RoleAssistant, Blocks: []llm.Block{{Kind: llm.BlockThinking, Text: "hm"}, {Kind: llm.BlockText, Text: "yes"}}},
		{Role: llm.RoleUser, Blocks: []llm.Block{{Kind: llm.BlockText, Text: "And?"}}},
	}
	has := func(messages []llm.Message, kind llm.BlockKind) bool {
		for _, m := range messages {
			for _, b := range m.Blocks {
				if b.Kind == kind {
					return true
				}
			}
		}
		return false
	}
	tests := []struct {
		name  string
		reply llmtest.Reply
		gone  llm.BlockKind // "" = nothing to be done
	}{
		{"a picture", llmtest.Fail(400, "invalid_request_error", "messages.0.content.1.image.source.base64: Could not process image"), llm.BlockImage},
		{"a picture at OpenAI", llmtest.Fail(400, "invalid_image_format", "You uploaded an unsupported image."), llm.BlockImage},
		{"a model without eyes at OpenRouter", llmtest.Fail(404, "not_found_error", "No endpoints found that support image input"), llm.BlockImage},
		{"a signature", llmtest.Fail(400, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block"), llm.BlockThinking},
		{"encrypted reasoning", llmtest.Fail(400, "invalid_encrypted_content", "The encrypted content for item rs_1 could not be verified."), llm.BlockThinking},
		{"something else", llmtest.Fail(400, "invalid_request_error", "tools.0: bad"), ""},
		{"an overload", llmtest.Fail(529, "overloaded_error", "Overloaded"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachDialect(t, llmtest.Always(tt.reply), func(t *testing.T, d dialect, m llm.Model, _ *llmtest.Server) {
				_, err := m.Complete(t.Context(), d.request(messages), ignore)
				rest, again := llm.WithoutRejected(messages, err)
				if again != (tt.gone != "") {
					t.Fatalf("again %v for %v", again, err)
				}
				if tt.gone != "" && has(rest, tt.gone) {
					t.Errorf("%s is still there", tt.gone)
				}
				if _, twice := llm.WithoutRejected(rest, err); twice {
					t.Error("the same is left out twice")
				}
				if !has(messages, llm.BlockImage) || !has(messages, llm.BlockThinking) {
					t.Error("the messages themselves changed")
				}
			})
		})
	}
}
