package service_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"google.golang.org/protobuf/proto"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
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

// TestALongQueueIsAnsweredInOrder has MIKAN_QUEUED messages wait in one session (default 40; 1000 for a release).
func TestALongQueueIsAnsweredInOrder(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		reply := llmtest.Say("an answer")
		if r.Number == 1 {
			reply.Hold = release
		}
		return reply
	}, wideWindow...)
	var runs []string
	for i := range setting(t, "MIKAN_QUEUED", 40) {
		_, receipt := m.send("room", "", fmt.Sprintf("message %d", i))
		runs = append(runs, receipt.RunID)
	}
	_, elsewhere := m.send("another room", "", "hello")
	m.wantOutcome(m.settled(elsewhere.RunID), run.Answered) // a long queue starves nobody
	close(release)
	var last int64
	for _, id := range runs {
		a := m.settled(id)
		m.wantOutcome(a, run.Answered)
		if a.run.FirstSeq <= last {
			t.Errorf("run %s came before one that was said earlier", id)
		}
		last = a.run.FirstSeq
	}
}

// TestARunOfManyStepsStaysWithinTemporalsLimits makes a run of MIKAN_STEPS steps (default 30, which one execution holds;
// 10000 for a release, in as many executions as it takes).
func TestARunOfManyStepsStaysWithinTemporalsLimits(t *testing.T) {
	t.Parallel()
	steps := setting(t, "MIKAN_STEPS", 30)
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		if r.Number > steps {
			return llmtest.Say("done")
		}
		return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall(fmt.Sprintf("c%d", r.Number), "bash", `{"command":"echo >> ran"}`)}}
	}, wideWindow...)
	_, receipt := m.send("room", "", "go on for long")
	var executions int
	var seen string
	a := m.patiently(receipt.RunID, func(temporalRunID string) {
		if temporalRunID != seen {
			seen = temporalRunID
			executions++
		}
	})
	m.wantOutcome(a, run.Answered)
	if a.text != "done" || a.run.Steps != steps+1 {
		t.Errorf("it said %q after %d steps, want %d", a.text, a.run.Steps, steps+1)
	}
	history := m.history(a.run.WorkflowID, a.run.TemporalRunID)
	if n := len(history.Events); n > 6000 {
		t.Errorf("the last execution has %d events", n)
	}
	if history.Events[len(history.Events)-1].GetEventType() != enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED {
		t.Errorf("it ends with %s", history.Events[len(history.Events)-1].GetEventType())
	}
	t.Logf("%d steps in %d executions; the last has %d events and %d bytes", a.run.Steps, executions, len(history.Events), proto.Size(history))
}

// patiently waits for a run of any length, as long as it takes its steps.
func (m *mikan) patiently(runID string, look func(temporalRunID string)) answer {
	m.Helper()
	for last, since := -1, time.Now(); time.Since(since) < 2*time.Minute; time.Sleep(50 * time.Millisecond) {
		r, err := m.Store.Run(m.Context(), runID)
		if fault.CodeOf(err) == fault.NotFound {
			continue
		}
		m.must(err)
		look(r.TemporalRunID)
		if r.State == store.Settled {
			return m.settled(runID)
		}
		if r.Steps != last {
			last, since = r.Steps, time.Now()
		}
	}
	m.Fatalf("run %s stands still", runID)
	return answer{}
}
