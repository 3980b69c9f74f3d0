package service_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/run"
)

func TestAFailedRunIsRunAgainAndAnsweredOnce(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		if broken.Load() {
			return llmtest.Fail(401, "authentication_error", "invalid x-api-key")
		}
		return llmtest.Echo(llmtest.EchoOptions{})(r)
	})
	failed := m.ask("room", "", "hello")
	m.wantOutcome(failed, run.Failed)
	broken.Store(false)
	retried, err := m.worker.Platforms.Intake.Retry(t.Context(), failed.run.ID)
	m.must(err)
	again := m.settled(retried.RunID)
	m.wantOutcome(again, run.Answered)
	if again.run.Attempt != 2 || again.run.TriggerMessageID != failed.run.TriggerMessageID || !strings.Contains(again.text, "echo: hello") {
		t.Errorf("attempt %d of %s said %q", again.run.Attempt, again.run.TriggerMessageID, again.text)
	}
	if again.messageID == failed.messageID || again.messageID == "" {
		t.Errorf("the answer is message %q, the failure was %q", again.messageID, failed.messageID)
	}
	for _, id := range []string{failed.run.ID, again.run.ID} {
		if _, err := m.worker.Platforms.Intake.Retry(t.Context(), id); fault.CodeOf(err) != fault.Conflict {
			t.Errorf("run %s is taken once more: %v", id, err)
		}
	}
	m.wantOutcome(m.ask("room", "", "go on"), run.Answered)
}

func TestARetriedCommandKeepsItsWord(t *testing.T) {
	t.Parallel()
	var hangs atomic.Bool
	hangs.Store(true)
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		if len(r.Tools) == 0 && hangs.Load() {
			return llmtest.Reply{Ending: llmtest.EndStall}
		}
		return llmtest.Say("%s", strings.Repeat("plums ", 200))
	})
	for range 5 {
		m.ask("room", "", "tell me about plums")
	}
	_, receipt := m.send("room", "", "/compact")
	m.eventually("the summary is being made", func() bool {
		requests := m.Model.Requests()
		return len(requests[len(requests)-1].Tools) == 0
	})
	m.send("room", "", "stop")
	m.wantOutcome(m.settled(receipt.RunID), run.Stopped)
	hangs.Store(false)
	retried, err := m.worker.Platforms.Intake.Retry(t.Context(), receipt.RunID)
	m.must(err)
	again := m.settled(retried.RunID)
	m.wantOutcome(again, run.Answered)
	if again.run.Word != run.CompactWord || !strings.Contains(again.text, "summary") {
		t.Errorf("the run of %q said %q", again.run.Word, again.text)
	}
}
