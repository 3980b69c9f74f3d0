package workflows_test

import (
	"context"
	"errors"
	"testing"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/activities"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/workflows"
)

func TestARunThatOutgrowsItsHistoryGoesOnAtItsNextStep(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(workflows.Run, workflow.RegisterOptions{Name: run.WorkflowType})
	named := func(name string) activity.RegisterOptions { return activity.RegisterOptions{Name: name} }
	env.RegisterActivityWithOptions(func(context.Context, activities.PrepareInput) (activities.Prepared, error) {
		return activities.Prepared{Kind: activities.Ready, Run: activities.Claimed{ID: "r1", Trigger: run.Human, Model: "demo/demo"}}, nil
	}, named("Prepare"))
	env.RegisterActivityWithOptions(func(context.Context, activities.ThinkInput) (activities.Thought, error) {
		return activities.Thought{Kind: activities.WantsTools, Calls: []activities.CallRef{{Index: 0, Tool: "bash"}}}, nil
	}, named("Think"))
	env.RegisterActivityWithOptions(func(context.Context, activities.ToolInput) error { return nil }, named("Tool"))
	env.SetContinueAsNewSuggested(true)
	env.ExecuteWorkflow(run.WorkflowType, run.Input{OfficeKey: "v1-terminal-cli-0123456789abcdef", SessionKey: "cli", RunID: "r1", Step: 7})
	var next *workflow.ContinueAsNewError
	if err := env.GetWorkflowError(); !errors.As(err, &next) {
		t.Fatalf("the execution ends with %v, want continue-as-new", err)
	}
	var in run.Input
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
		t.Fatal(err)
	}
	if want := (run.Input{OfficeKey: "v1-terminal-cli-0123456789abcdef", SessionKey: "cli", RunID: "r1", Step: 8}); in != want {
		t.Errorf("the next execution gets %+v, want %+v", in, want)
	}
	if next.InitialVersioningBehavior != workflow.ContinueAsNewVersioningBehaviorAutoUpgrade {
		t.Error("the next execution stays on the build of this one")
	}
}
