package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

func TestAnswerStreamsAndCounts(t *testing.T) {
	t.Parallel()
	reply := llmtest.Say("Hello, this is an answer with an emoji 🍊.")
	reply.Usage = llmtest.Usage{Input: 100, Output: 20, CacheRead: 3000, CacheWrite: 40}
	reply.Pings = 2
	eachDialect(t, llmtest.Always(reply), func(t *testing.T, d dialect, m llm.Model, s *llmtest.Server) {
		var streamed strings.Builder
		pieces, alive := 0, 0
		resp, err := m.Complete(t.Context(), d.request(userSays("Hi")), func(e llm.Event) {
			switch e.Kind {
			case llm.EventText:
				streamed.WriteString(e.Text)
				pieces++
			case llm.EventActivity:
				alive++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		want := "Hello, this is an answer with an emoji 🍊."
		if textOf(resp) != want || streamed.String() != want {
			t.Errorf("answer %q, streamed %q", textOf(resp), streamed.String())
		}
		if pieces < 2 || alive == 0 {
			t.Errorf("%d pieces, %d signs of life", pieces, alive)
		}
		if (resp.Usage != llm.Usage{Input: 100, Output: 20, CacheRead: 3000, CacheWrite: 40}) {
			t.Errorf("usage %+v", resp.Usage)
		}
		if resp.Stop != llm.StopEnd || resp.Model != d.ref.Model {
			t.Errorf("stop %q, model %q", resp.Stop, resp.Model)
		}
		if n := len(accepted(t, s)); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestToolCallsKeepTheirDigitsAndRoundTrip(t *testing.T) {
	t.Parallel()
	script := llmtest.InOrder(
		llmtest.Reply{Parts: []llmtest.Part{
			llmtest.Thinking("I should look."), llmtest.Redacted(), llmtest.Text("Looking."),
			llmtest.ToolCall("call-a", "bash", `{"command": "id 2932809024865746956", "limit": 2932809024865746956, "x": 1.10}`),
			llmtest.ToolCall("call-b", "bash", ``),
		}},
		llmtest.Say("Done."),
	)
	eachDialect(t, script, func(t *testing.T, d dialect, m llm.Model, s *llmtest.Server) {
		messages := userSays("Go")
		resp := complete(t, m, d.request(messages))
		if resp.Stop != llm.StopTools {
			t.Errorf("stop %q", resp.Stop)
		}
		made := calls(resp)
		if len(made) != 2 || made[0].CallID != "call-a" || made[1].Arguments != "{}" || made[1].Invalid != "" {
			t.Fatalf("calls %+v", made)
		}
		if want := `{"command": "id 2932809024865746956", "limit": 2932809024865746956, "x": 1.10}`; made[0].Arguments != want {
			t.Errorf("arguments %s", made[0].Arguments)
		}
		picture := llm.Block{Kind: llm.BlockImage, Data: strip(t, 4)}
		messages = append(messages, llm.Message{Role: llm.RoleAssistant, Blocks: resp.Blocks},
			llm.Message{Role: llm.RoleTool, Blocks: []llm.Block{
				{Kind: llm.BlockToolResult, CallID: "call-b", Text: "nothing given", IsError: true},
				{Kind: llm.BlockToolResult, CallID: "call-a", Text: "uid=0", Images: []llm.Block{picture}},
			}})
		repaired, notes := llm.Repair(messages)
		if len(notes) != 0 {
			t.Errorf("a good conversation was repaired: %q", notes)
		}
		if got := textOf(complete(t, m, d.request(repaired))); got != "Done." {
			t.Errorf("answer %q", got)
		}
		second := accepted(t, s)[1]
		results := second.LastResults()
		if len(results) != 2 || results[0].CallID != "call-a" || results[0].Text != "uid=0" {
			t.Errorf("results %+v", results)
		}
		if !strings.Contains(string(second.Body), "2932809024865746956") || strings.Contains(string(second.Body), "e+18") {
			t.Error("a number changed on its way back")
		}
		thinking := 0
		for _, msg := range second.Messages {
			thinking += msg.Thinking
		}
		if wantBack := d.name != "openai-chat"; (thinking > 0) != wantBack {
			t.Errorf("%d blocks of thinking sent back", thinking)
		}
	})
}

func TestMalformedAnswersBecomeSentences(t *testing.T) {
	t.Parallel()
	call := llmtest.ToolCall
	good := `{"command":"ls"}`
	tests := []struct {
		name  string
		reply llmtest.Reply
		check func(t *testing.T, r llm.Response)
	}{
		{"broken JSON is marked", llmtest.Reply{Parts: []llmtest.Part{call("a", "bash", `{"command": "echo half`)}},
			func(t *testing.T, r llm.Response) {
				if c := calls(r); len(c) != 1 || !strings.Contains(c[0].Invalid, "not valid JSON") || r.Stop != llm.StopTools {
					t.Errorf("%+v", r)
				}
			}},
		{"arguments that are no object are marked", llmtest.Reply{Parts: []llmtest.Part{call("a", "bash", `["ls"]`)}},
			func(t *testing.T, r llm.Response) {
				if c := calls(r); len(c) != 1 || !strings.Contains(c[0].Invalid, "JSON object") {
					t.Errorf("%+v", r)
				}
			}},
		{"equal ids become unique", llmtest.Reply{Parts: []llmtest.Part{call("a", "bash", good), call("a", "bash", good)}},
			func(t *testing.T, r llm.Response) {
				if c := calls(r); len(c) == 2 && c[0].CallID == c[1].CallID || len(c) == 0 {
					t.Errorf("%+v", c)
				}
			}},
		{"an id of an earlier turn is not used again", llmtest.Reply{Parts: []llmtest.Part{call("earlier", "bash", good)}},
			func(t *testing.T, r llm.Response) {
				if c := calls(r); len(c) != 1 || c[0].CallID == "earlier" {
					t.Errorf("%+v", c)
				}
			}},
		{"ids and names fit the providers' patterns", llmtest.Reply{Parts: []llmtest.Part{call("functions.bash:0", "functions.bash", good)}},
			func(t *testing.T, r llm.Response) {
				if c := calls(r); len(c) != 1 || c[0].CallID != "functions_bash_0" || c[0].Name != "functions_bash" {
					t.Errorf("%+v", c)
				}
			}},
		{"a missing id is made up", llmtest.Reply{Parts: []llmtest.Part{call("", "bash", good)}},
			func(t *testing.T, r llm.Response) {
				if c := calls(r); len(c) != 1 || c[0].CallID == "" {
					t.Errorf("%+v", c)
				}
			}},
		{"half a character in arguments is replaced", llmtest.Reply{Parts: []llmtest.Part{call("a", "bash", `{"command":"\ud83d \u0000 \ud83c\udf4a \\u0000"}`)}},
			func(t *testing.T, r llm.Response) {
				if c := calls(r); len(c) != 1 || c[0].Arguments != `{"command":"\ufffd \ufffd \ud83c\udf4a \\u0000"}` || c[0].Invalid != "" {
					t.Errorf("%+v", c)
				}
			}},
		{"NUL in text is replaced", llmtest.Say("a\x00b 🍊"),
			func(t *testing.T, r llm.Response) {
				if textOf(r) != "a\uFFFDb 🍊" {
					t.Errorf("%q", textOf(r))
				}
			}},
		{"an empty answer is empty", llmtest.Reply{},
			func(t *testing.T, r llm.Response) {
				if len(r.Blocks) != 0 || r.Stop != llm.StopEnd {
					t.Errorf("%+v", r)
				}
			}},
		{"blank text is dropped", llmtest.Say(" \n\t "),
			func(t *testing.T, r llm.Response) {
				if len(r.Blocks) != 0 {
					t.Errorf("%+v", r)
				}
			}},
		{"a call cut by the length limit is dropped", llmtest.Reply{Stop: llmtest.StopLength,
			Parts: []llmtest.Part{llmtest.Text("Going to"), call("a", "bash", `{"command":"rm -rf /tmp/x`)}},
			func(t *testing.T, r llm.Response) {
				if len(calls(r)) != 0 || r.Stop != llm.StopLength || textOf(r) != "Going to" {
					t.Errorf("%+v", r)
				}
			}},
		{"an empty call cut by the length limit is dropped", llmtest.Reply{Stop: llmtest.StopLength,
			Parts: []llmtest.Part{llmtest.Text("Going to"), call("a", "bash", ``)}},
			func(t *testing.T, r llm.Response) {
				if len(calls(r)) != 0 || r.Stop != llm.StopLength {
					t.Errorf("%+v", r)
				}
			}},
		{"a whole call before the length limit is not executable", llmtest.Reply{Stop: llmtest.StopLength,
			Parts: []llmtest.Part{call("a", "bash", good), call("b", "bash", `{"comm`)}},
			func(t *testing.T, r llm.Response) {
				if c := calls(r); len(c) != 1 || !strings.Contains(c[0].Invalid, "output limit") {
					t.Errorf("%+v", r)
				}
			}},
		{"length on text is told", llmtest.Reply{Stop: llmtest.StopLength, Parts: []llmtest.Part{llmtest.Text("half a sen")}},
			func(t *testing.T, r llm.Response) {
				if r.Stop != llm.StopLength || textOf(r) != "half a sen" {
					t.Errorf("%+v", r)
				}
			}},
		{"a refusal is told", llmtest.Reply{Stop: llmtest.StopRefused, Parts: []llmtest.Part{llmtest.Text("I will not.")}},
			func(t *testing.T, r llm.Response) {
				if r.Stop != llm.StopRefused {
					t.Errorf("%+v", r)
				}
			}},
		{"a normal stop beside calls means tools", llmtest.Reply{Stop: llmtest.StopNormal, Parts: []llmtest.Part{call("a", "bash", good)}},
			func(t *testing.T, r llm.Response) {
				if r.Stop != llm.StopTools {
					t.Errorf("%+v", r)
				}
			}},
	}
	history := []llm.Message{
		{Role: llm.RoleUser, Blocks: []llm.Block{{Kind: llm.BlockText, Text: "Hi"}}},
		{Role: llm.RoleAssistant, Blocks: []llm.Block{{Kind: llm.BlockToolCall, CallID: "earlier", Name: "bash", Arguments: good}}},
		{Role: llm.RoleTool, Blocks: []llm.Block{{Kind: llm.BlockToolResult, CallID: "earlier", Text: "ok"}}},
		{Role: llm.RoleUser, Blocks: []llm.Block{{Kind: llm.BlockText, Text: "Go on"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachDialect(t, llmtest.InOrder(tt.reply, llmtest.Say("fine")), func(t *testing.T, d dialect, m llm.Model, s *llmtest.Server) {
				resp := complete(t, m, d.request(history))
				tt.check(t, resp)
				// Whatever came, the conversation can go on.
				next := append(slices.Clone(history), llm.Message{Role: llm.RoleAssistant, Blocks: resp.Blocks})
				next = append(next, userSays("And now?")...)
				repaired, _ := llm.Repair(next)
				complete(t, m, d.request(repaired))
				accepted(t, s)
			})
		})
	}
}

func TestCancelClosesTheStream(t *testing.T) {
	t.Parallel()
	reply := llmtest.Say("Thinking about it")
	reply.Ending = llmtest.EndStall
	eachDialect(t, llmtest.Always(reply), func(t *testing.T, d dialect, m llm.Model, s *llmtest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := m.Complete(ctx, d.request(userSays("Hi")), func(e llm.Event) {
			if e.Kind == llm.EventText {
				cancel()
			}
		})
		if fault.CodeOf(err) != fault.Interrupted || !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if _, err := s.Wait(timeoutContext(t), func(r []llmtest.Request) bool { return len(r) == 1 && r[0].Canceled }); err != nil {
			t.Errorf("the server did not see the client leave: %v", err)
		}
	})
}

func TestPromptCacheBreakpoints(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Always(llmtest.Say("ok")))
	messages := append(userSays("first"), llm.Message{Role: llm.RoleAssistant, Blocks: []llm.Block{{Kind: llm.BlockText, Text: "yes"}}})
	messages = append(messages, userSays("second")...)
	for _, d := range dialects {
		complete(t, d.opens(s.URL, nil, 0), d.request(messages))
	}
	requests := accepted(t, s)
	var body struct {
		System []struct {
			CacheControl any `json:"cache_control"`
		}
		Messages []struct {
			Content []struct {
				CacheControl any `json:"cache_control"`
			}
		}
	}
	if err := json.Unmarshal(requests[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	if body.System[0].CacheControl == nil || body.Messages[0].Content[0].CacheControl == nil || body.Messages[2].Content[0].CacheControl == nil {
		t.Errorf("breakpoints are missing: %s", requests[0].Body)
	}
	if strings.Contains(string(requests[1].Body), "cache_control") {
		t.Error("a compatible server got a parameter that it may refuse")
	}
	if !strings.Contains(string(requests[2].Body), `"prompt_cache_key":"session-1"`) {
		t.Errorf("no cache key: %s", requests[2].Body)
	}
	if !strings.Contains(string(requests[3].Body), `"cache_control":{"type":"ephemeral"}`) {
		t.Errorf("OpenRouter is not asked to cache: %s", requests[3].Body)
	}
}

func TestThinkingLevelsAreWhatEachModelTakes(t *testing.T) {
	t.Parallel()
	models := map[string][]string{
		llm.ProviderAnthropic: {"claude-fable-5-2", "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-opus-5",
			"claude-sonnet-5", "claude-opus-4-8", "claude-sonnet-4-6", "claude-opus-4-5", "claude-haiku-4-5-20251001", "claude-next-9"},
		llm.ProviderOpenAIResponses: {"gpt-6-astra", "gpt-6.1-sol", "gpt-6.1-terra", "gpt-5-mini", "gpt-4.1", "unheard-of"},
	}
	want := map[string]string{ // what "off" becomes
		"claude-opus-5-5": `"adaptive"`, "claude-sonnet-5-5": `"between_tools"`, "claude-haiku-5-5": `"disabled"`,
		"gpt-6.1-sol": `"effort":"low"`, "gpt-6.1-terra": `"effort":"none"`, "gpt-5-mini": `"effort":"minimal"`,
	}
	for _, d := range dialects {
		for _, name := range models[d.ref.Provider] {
			for _, level := range []llm.Thinking{"", llm.ThinkingOff, llm.ThinkingLow, llm.ThinkingMedium, llm.ThinkingHigh} {
				t.Run(name+":"+string(level), func(t *testing.T) {
					t.Parallel()
					s := llmtest.NewServer(t, llmtest.InOrder(
						llmtest.Reply{Parts: []llmtest.Part{llmtest.Thinking("hm"), llmtest.ToolCall("c1", "bash", `{}`)}}, llmtest.Say("ok")))
					m := d.opens(s.URL, nil, 0)
					req := d.request(userSays("Hi"))
					req.Model, req.Thinking = name, level
					resp := complete(t, m, req)
					req.Messages, _ = llm.Repair(append(req.Messages, llm.Message{Role: llm.RoleAssistant, Blocks: resp.Blocks}))
					complete(t, m, req)
					requests := accepted(t, s)
					if w := want[name]; level == llm.ThinkingOff && !strings.Contains(string(requests[0].Body), w) {
						t.Errorf("want %s in %s", w, requests[0].Body)
					}
				})
			}
		}
	}
}

func TestPreservedThinkingIsDroppedNotRefused(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Always(llmtest.Say("ok")))
	d := dialects[0]
	complete(t, d.opens(s.URL, nil, 0), d.request(userSays("Hi")))
	r := accepted(t, s)[0]
	if !strings.Contains(string(r.Body), `"prefix_mismatch_behavior":"drop_block"`) ||
		r.Header.Get("Anthropic-Beta") != "thinking-binding-controls-2026-08-01" {
		t.Errorf("beta %q, body %s", r.Header.Get("Anthropic-Beta"), r.Body)
	}
}

func TestCallWithoutToolsMayShowToolCalls(t *testing.T) {
	t.Parallel()
	eachDialect(t, llmtest.Always(llmtest.Say("a summary")), func(t *testing.T, d dialect, m llm.Model, s *llmtest.Server) {
		req := d.request([]llm.Message{
			{Role: llm.RoleUser, Blocks: []llm.Block{{Kind: llm.BlockText, Text: "Hi"}}},
			{Role: llm.RoleAssistant, Blocks: []llm.Block{{Kind: llm.BlockToolCall, CallID: "c1", Name: "bash", Arguments: `{}`}}},
			{Role: llm.RoleTool, Blocks: []llm.Block{{Kind: llm.BlockToolResult, CallID: "c1", Text: "ok"}}},
		})
		req.Tools, req.System, req.MaxTokens = nil, "", 500
		complete(t, m, req)
		accepted(t, s)
	})
}

func TestStructuredOutputIsAskedForInEveryDialect(t *testing.T) {
	t.Parallel()
	schema := `{"type":"object","properties":{"sure":{"type":"number"}},"required":["sure"],"additionalProperties":false}`
	want := map[string]string{
		llm.ProviderAnthropic:       `"format":{"schema":{"additionalProperties":false,`,
		llm.ProviderOpenAIChat:      `"response_format":{"json_schema":{"name":"answer"`,
		llm.ProviderOpenAIResponses: `"text":{"format":{"name":"answer"`,
		llm.ProviderOpenRouter:      `"response_format":{"json_schema":{"name":"answer"`,
	}
	eachDialect(t, llmtest.Always(llmtest.Say(`{"sure":1}`)), func(t *testing.T, d dialect, m llm.Model, s *llmtest.Server) {
		req := d.request(userSays("Hi"))
		req.Schema, req.Thinking = json.RawMessage(schema), llm.ThinkingOff
		if got := textOf(complete(t, m, req)); got != `{"sure":1}` {
			t.Errorf("answer %q", got)
		}
		body := string(accepted(t, s)[0].Body)
		if part, ok := want[d.ref.Provider]; ok && !strings.Contains(body, part) {
			t.Errorf("want %s in %s", part, body)
		}
		if !strings.Contains(body, `"additionalProperties":false`) {
			t.Errorf("the schema is not in %s", body)
		}
	})
}
