package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/internal/run"
)

// continueAsNew makes the end of an execution that another one of its session follows. Where workers are versioned, an
// execution is pinned to the build that began it; the next one begins on the build that is current then. Without this, a
// session that is never idle would stay on its first build for ever.
func continueAsNew(ctx workflow.Context, in run.Input) error {
	return workflow.NewContinueAsNewErrorWithOptions(ctx, workflow.ContinueAsNewErrorOptions{
		InitialVersioningBehavior: workflow.ContinueAsNewVersioningBehaviorAutoUpgrade,
	}, run.WorkflowType, in)
}
