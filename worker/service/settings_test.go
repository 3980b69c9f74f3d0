package service_test

import (
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/run"
)

func TestAnOfficesSettingsAreInForceFromTheNextRun(t *testing.T) {
	t.Parallel()
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		if strings.HasSuffix(r.Messages[len(r.Messages)-1].Text, "run: touch forbidden") {
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall("c1", "bash", `{"command":"touch forbidden"}`)}} // offered or not
		}
		return llmtest.Echo(llmtest.EchoOptions{})(r)
	}, "instructions: Be brief.", "models:", "  anthropic/test-model: {input_usd: 3, output_usd: 15}")
	first := m.ask("room", "", "run: true")
	m.wantOutcome(first, run.Answered)
	if first.run.CostMicros == nil {
		t.Fatal("the run has no cost although the model's price is configured")
	}
	set := func(name string, value any) {
		t.Helper()
		m.must(m.Store.SetSetting(t.Context(), first.run.OfficeKey, name, value))
	}
	set("timezone", "Asia/Tokyo")
	set("instructions", "Answer in rhymes.")
	set("tools", map[string]string{"bash": "off"})
	m.wantOutcome(m.ask("room", "", "run: touch forbidden"), run.Answered)
	requests := m.Model.Requests()
	r := requests[len(requests)-1]
	if !strings.Contains(r.System, "Be brief.\n\nAnswer in rhymes.") {
		t.Errorf("the system prompt lacks the instructions:\n%s", r.System)
	}
	if strings.Contains(strings.Join(r.Tools, " "), "bash") || len(r.Tools) == 0 {
		t.Errorf("tools offered: %v", r.Tools)
	}
	if read := everything(r); !strings.Contains(read, "+09:00] [ann]: run: touch") || !strings.Contains(read, "turned off") {
		t.Errorf("the model read:\n%s", read)
	}
	set("spend-limit", 0.000001)
	spent := m.ask("room", "", "one more")
	m.wantOutcome(spent, run.Failed)
	if !strings.Contains(spent.text, "spend") || len(m.Model.Requests()) != len(requests) {
		t.Errorf("over its limit the office was told %q after %d more model calls", spent.text, len(m.Model.Requests())-len(requests))
	}
}
