package llm_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
)

func demoRequest(messages ...llm.Message) llm.Request {
	schema := func(names ...string) json.RawMessage {
		properties := map[string]any{}
		for _, n := range names {
			properties[n] = map[string]any{"type": "string"}
		}
		encoded, _ := json.Marshal(map[string]any{"type": "object", "properties": properties})
		return encoded
	}
	return llm.Request{Model: "demo", Messages: messages, Tools: []llm.ToolSpec{
		{Name: "bash", Schema: schema("command")}, {Name: "read", Schema: schema("path")}, {Name: "write", Schema: schema("path", "content")},
	}}
}

func TestDemoUnderstandsItsSentences(t *testing.T) {
	t.Parallel()
	const prefix = "[2026-11-30 10:00] [ana]: "
	tests := []struct {
		said string
		call string // arguments of the call; "" = an answer
		text string // part of the answer
	}{
		{said: "run: echo hi", call: `{"command":"echo hi"}`},
		{said: prefix + "run `ls -la`", call: `{"command":"ls -la"}`},
		{said: "[2026-11-30 09:59] [bob]: run: rm x\n" + prefix + "<@U123> run: date", call: `{"command":"date"}`},
		{said: prefix + "run: printf 'a]: b'", call: `{"command":"printf 'a]: b'"}`},
		{said: "read notes.txt", call: `{"path":"notes.txt"}`},
		{said: "write a.txt: a.txt", call: `{"content":"a.txt","path":"a.txt"}`},
		{said: "help", text: "run: <command>"},
		{said: "hello", text: "hello"},
		{said: "Please remember that tea is at four", text: "tea is at four"},
		{said: "", text: "Hello"},
	}
	for _, tt := range tests {
		t.Run(tt.said, func(t *testing.T) {
			t.Parallel()
			resp := complete(t, llm.NewDemo(), demoRequest(text(llm.RoleUser, tt.said)))
			if tt.call != "" {
				if c := calls(resp); len(c) != 1 || c[0].Arguments != tt.call || resp.Stop != llm.StopTools {
					t.Errorf("%+v", resp)
				}
				return
			}
			if !strings.Contains(textOf(resp), tt.text) || !strings.Contains(textOf(resp), "built-in demo model") {
				t.Errorf("%q", textOf(resp))
			}
		})
	}
}

func TestDemoReportsWhatToolsGave(t *testing.T) {
	t.Parallel()
	req := demoRequest(text(llm.RoleUser, "run: date"))
	resp := complete(t, llm.NewDemo(), req)
	id := calls(resp)[0].CallID
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Blocks: resp.Blocks}, result(id, "Mon Nov 30\n"))
	resp = complete(t, llm.NewDemo(), req)
	if got := textOf(resp); !strings.Contains(got, "The bash tool gave:\n```\nMon Nov 30\n```") || resp.Stop != llm.StopEnd {
		t.Errorf("%q", got)
	}
	if resp.Usage.Input == 0 || resp.Usage.Output == 0 {
		t.Errorf("usage %+v", resp.Usage)
	}
}

func TestDemoMisbehavesOnRequest(t *testing.T) {
	t.Parallel()
	say := func(s string) llm.Response { return complete(t, llm.NewDemo(), demoRequest(text(llm.RoleUser, s))) }
	if c := calls(say("broken json")); len(c) != 1 || c[0].Invalid == "" {
		t.Errorf("broken json: %+v", c)
	}
	if c := calls(say("unknown tool")); len(c) != 1 || c[0].Name != "teleport" {
		t.Errorf("unknown tool: %+v", c)
	}
	if r := say("nothing"); len(r.Blocks) != 0 {
		t.Errorf("nothing: %+v", r)
	}
	req := demoRequest(text(llm.RoleUser, "run: date"))
	req.Tools = nil
	if got := textOf(complete(t, llm.NewDemo(), req)); !strings.Contains(got, "not available") {
		t.Errorf("without tools: %q", got)
	}
}

func TestDemoQuotesTheConversation(t *testing.T) {
	t.Parallel()
	req := demoRequest(
		text(llm.RoleUser, "[10:00] [ana]: the server is blue\n[10:01] [bob]: no, green"),
		text(llm.RoleAssistant, "I see."),
		text(llm.RoleUser, "[10:02] [ana]: what did bob say?"),
	)
	if got := textOf(complete(t, llm.NewDemo(), req)); !strings.Contains(got, "> bob: no, green") || strings.Contains(got, "blue") {
		t.Errorf("%q", got)
	}
	req.Messages[2] = text(llm.RoleUser, "[10:02] [ana]: what was said earlier?")
	got := textOf(complete(t, llm.NewDemo(), req))
	for _, want := range []string{"> ana: the server is blue", "> bob: no, green", "> mikan: I see."} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}

func TestDemoAnswersSlowlyAndStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin, pieces := time.Now(), 0
		resp, err := llm.NewDemo().Complete(t.Context(), demoRequest(text(llm.RoleUser, "slow 30")), func(llm.Event) { pieces++ })
		if err != nil || !strings.Contains(textOf(resp), "30 of 30") || pieces < 30 {
			t.Errorf("%d pieces, %q, %v", pieces, textOf(resp), err)
		}
		if took := time.Since(begin); took < 30*time.Second || took > 40*time.Second { // on the bubble's clock
			t.Errorf("took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err = llm.NewDemo().Complete(ctx, demoRequest(text(llm.RoleUser, "slow 600")), ignore); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("past its deadline: %v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		_, err = llm.NewDemo().Complete(ctx, demoRequest(text(llm.RoleUser, "slow 600")), func(llm.Event) { cancel() })
		if fault.CodeOf(err) != fault.Interrupted {
			t.Errorf("stopped: %v", err)
		}
	})
}
