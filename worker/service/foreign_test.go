package service_test

import (
	"testing"

	"go.temporal.io/sdk/client"

	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/run"
)

func TestAWorkflowStartedForAForeignSessionDoesNothing(t *testing.T) {
	t.Parallel()
	m := start(t, llmtest.Echo(llmtest.EchoOptions{}))
	a := m.ask("C1", "", "hello")
	b := m.ask("C10", "", "hello")
	for _, key := range []string{"C10", "C1:../x", "", "c1"} {
		in := run.Input{OfficeKey: a.run.OfficeKey, SessionKey: key}
		handle, err := m.worker.Backend.Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
			ID: "forged-" + key, TaskQueue: m.worker.Backend.Config.TaskQueue,
		}, run.WorkflowType, in)
		m.must(err)
		if err := handle.Get(t.Context(), nil); err == nil {
			t.Errorf("a run of session %q in the office of C1 ended without an error", key)
		}
	}
	sessions, err := m.Store.Sessions(t.Context(), "", 10)
	m.must(err)
	if len(sessions) != 2 || len(m.Model.Requests()) != 2 {
		t.Errorf("%d sessions and %d model calls, want those of C1 and C10 (%s) alone", len(sessions), len(m.Model.Requests()), b.run.OfficeKey)
	}
}
