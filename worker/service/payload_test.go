package service_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/run"
)

// wideWindow makes room in the model for whatever a test says.
var wideWindow = []string{"models:", "  anthropic/test-model: {context_window: 4000000, max_output: 1000}"}

func TestAMessageOfAMegabyteIsAnswered(t *testing.T) {
	t.Parallel()
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		return llmtest.Say("%d bytes", len(r.Messages[len(r.Messages)-1].Text))
	}, wideWindow...)
	a := m.ask("room", "", strings.Repeat("a megabyte of it ", 1<<20/17))
	m.wantOutcome(a, run.Answered)
	if !strings.HasPrefix(a.text, "1048") {
		t.Errorf("the model read %s", a.text)
	}
	if size := proto.Size(m.history(a.run.WorkflowID, a.run.TemporalRunID)); size > 12<<10 {
		t.Errorf("the history has %d bytes", size)
	}
	m.wantOutcome(m.ask("room", "", "and now?"), run.Answered)
}
