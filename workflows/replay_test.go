package workflows_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/workflows"
)

func replayer(t *testing.T) worker.WorkflowReplayer {
	t.Helper()
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(workflows.Run, workflow.RegisterOptions{Name: run.WorkflowType})
	r.RegisterWorkflowWithOptions(workflows.CaptureMemory, workflow.RegisterOptions{Name: run.MemoryWorkflowType})
	return r
}

func read(t *testing.T, path string) *historypb.History {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	history, err := client.HistoryFromJSON(file, client.HistoryJSONOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return history
}

// TestStoredHistoriesReplay guards open runs across a deployment: the workflow code must still make the commands that
// every released version made. deployments/record-histories records those of a new release; old ones are never replaced.
func TestStoredHistoriesReplay(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/histories/*/*.json")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d stored histories (%v), want at least the eight shapes of the first release", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			t.Parallel()
			if err := replayer(t).ReplayWorkflowHistory(nil, read(t, path)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAReorderedActivityFailsTheReplay(t *testing.T) {
	t.Parallel()
	history := read(t, "testdata/histories/v1/tool.json")
	names := map[string]string{"Think": "Tool", "Tool": "Think"}
	for _, event := range history.Events {
		if event.GetEventType() == enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
			kind := event.GetActivityTaskScheduledEventAttributes().GetActivityType()
			if other, ok := names[kind.Name]; ok {
				kind.Name = other
			}
		}
	}
	if err := replayer(t).ReplayWorkflowHistory(nil, history); err == nil {
		t.Error("a history whose model call and tool call are exchanged replays without an error")
	}
}
