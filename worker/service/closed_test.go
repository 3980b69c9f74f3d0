package service_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/run"
)

// forget deletes every closed history of the namespace, as a retention that has passed does.
func (m *mikan) forget() {
	m.Helper()
	namespace := m.worker.Backend.Config.Temporal.Namespace
	list, err := m.worker.Backend.Client.ListWorkflow(m.Context(), &workflowservice.ListWorkflowExecutionsRequest{Namespace: namespace})
	m.must(err)
	for _, e := range list.GetExecutions() {
		at := e.GetExecution()
		m.eventually("the execution closes", func() bool {
			description, err := m.worker.Backend.Client.DescribeWorkflowExecution(m.Context(), at.GetWorkflowId(), at.GetRunId())
			m.must(err)
			return description.GetWorkflowExecutionInfo().GetCloseTime() != nil
		})
		_, err := m.worker.Backend.Client.WorkflowService().DeleteWorkflowExecution(m.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
			Namespace: namespace, WorkflowExecution: at,
		})
		m.must(err)
	}
	for _, e := range list.GetExecutions() {
		m.eventually("its history is gone", func() bool {
			_, err := m.worker.Backend.Client.DescribeWorkflowExecution(m.Context(), e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId())
			var gone *serviceerror.NotFound
			return errors.As(err, &gone)
		})
	}
}

func TestNothingDependsOnClosedHistories(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		if broken.Load() {
			return llmtest.Fail(401, "authentication_error", "invalid x-api-key")
		}
		return llmtest.Echo(llmtest.EchoOptions{})(r)
	})
	first := m.ask("room", "", "run: echo forty-$((40+2))")
	m.wantOutcome(first, run.Answered)
	broken.Store(true)
	failed := m.ask("other", "", "hello")
	m.wantOutcome(failed, run.Failed)
	broken.Store(false)
	m.forget()

	m.wantOutcome(m.ask("room", "", "go on"), run.Answered)
	m.wantOutcome(m.ask("room", first.messageID, "what did it print?"), run.Answered)
	requests := m.Model.Requests()
	if read := everything(requests[len(requests)-1]); !strings.Contains(read, "forty-42") {
		t.Errorf("a thread under an answer whose history is gone does not know it:\n%s", read)
	}
	retried, err := m.worker.Platforms.Intake.Retry(t.Context(), failed.run.ID)
	m.must(err)
	m.wantOutcome(m.settled(retried.RunID), run.Answered)
	m.send("room", "", "/new")
	m.wantOutcome(m.ask("room", "", "and now?"), run.Answered)
}
