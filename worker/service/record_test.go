package service_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/run"
)

// record writes the history of an execution to the directory that MIKAN_RECORD names, for the replay tests of the
// workflows; deployments/record-histories sets it.
func (m *mikan) record(name, workflowID, runID string) {
	m.Helper()
	history := m.history(workflowID, runID)
	dir := os.Getenv("MIKAN_RECORD")
	if dir == "" {
		return
	}
	m.must(os.MkdirAll(dir, 0o755))
	raw, err := protojson.MarshalOptions{Indent: " "}.Marshal(history)
	m.must(err)
	m.must(os.WriteFile(filepath.Join(dir, name+".json"), raw, 0o644))
}

func (m *mikan) history(workflowID, runID string) *historypb.History {
	m.Helper()
	history := &historypb.History{}
	m.eventually("the execution closes", func() bool {
		description, err := m.worker.Backend.Client.DescribeWorkflowExecution(m.Context(), workflowID, runID)
		m.must(err)
		return description.GetWorkflowExecutionInfo().GetCloseTime() != nil
	})
	events := m.worker.Backend.Client.GetWorkflowHistory(m.Context(), workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		m.must(err)
		history.Events = append(history.Events, event)
	}
	return history
}

// TestShapesOfRuns plays every way in which a run goes, and records the histories when asked to.
func TestShapesOfRuns(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		said := r.Messages[len(r.Messages)-1].Text
		switch {
		case strings.HasSuffix(said, "hang"):
			return llmtest.Reply{Ending: llmtest.EndStall}
		case strings.HasSuffix(said, "fail"):
			return llmtest.Fail(401, "authentication_error", "invalid x-api-key")
		case strings.HasSuffix(said, "be silent"):
			return llmtest.Say("[SILENT]")
		case strings.HasSuffix(said, "wait"):
			reply := llmtest.Say("waited")
			reply.Hold = release
			return reply
		}
		return llmtest.Echo(llmtest.EchoOptions{})(r)
	})
	shapes := map[string]answer{
		"plain":  m.ask("plain", "", "hello"),
		"tool":   m.ask("tool", "", "run: true"),
		"failed": m.ask("failed", "", "fail"),
		"silent": m.ask("silent", "", "be silent"),
	}
	shapes["compact"] = m.ask("tool", "", "/compact")
	m.wantOutcome(shapes["plain"], run.Answered)
	m.wantOutcome(shapes["failed"], run.Failed)
	m.wantOutcome(shapes["silent"], run.Silent)

	_, stuck := m.send("stopped", "", "hang")
	m.eventually("the model is called", func() bool { return strings.HasSuffix(lastText(m), "hang") })
	m.send("stopped", "", "stop")
	shapes["stopped"] = m.settled(stuck.RunID)
	m.wantOutcome(shapes["stopped"], run.Stopped)

	trigger, first := m.send("chain", "", "wait")
	_, second := m.send("chain", "", "after it")
	_, thread := m.send("chain", trigger.ID, "in a thread")
	m.eventually("the model is called", func() bool { return strings.HasSuffix(lastText(m), "wait") })
	m.eventually("the thread waits", func() bool {
		var waits int
		m.must(m.Store.Pool().QueryRow(t.Context(), `SELECT count(*) FROM run_waits`).Scan(&waits))
		return waits == 1
	})
	close(release)
	shapes["continued-as-new"] = m.settled(first.RunID)
	shapes["chained"] = m.settled(second.RunID)
	shapes["forked-after-waiting"] = m.settled(thread.RunID)

	for name, a := range shapes {
		m.record(name, a.run.WorkflowID, a.run.TemporalRunID)
	}
	m.must(m.worker.Backend.Dispatcher.Wake(t.Context(), shapes["plain"].run.OfficeKey, "plain"))
	m.eventually("a wake-up without a row ends as a duplicate", func() bool {
		description, err := m.worker.Backend.Client.DescribeWorkflowExecution(t.Context(), shapes["plain"].run.WorkflowID, "")
		m.must(err)
		id := description.GetWorkflowExecutionInfo().GetExecution().GetRunId()
		if id == shapes["plain"].run.TemporalRunID || description.GetWorkflowExecutionInfo().GetCloseTime() == nil {
			return false
		}
		m.record("duplicate", shapes["plain"].run.WorkflowID, id)
		return true
	})
}

func lastText(m *mikan) string {
	requests := m.Model.Requests()
	if len(requests) == 0 {
		return ""
	}
	messages := requests[len(requests)-1].Messages
	return messages[len(messages)-1].Text
}
