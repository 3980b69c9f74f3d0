// Package deploy tells and changes which build of the workers gets new runs, where worker versioning is on.
package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/geminixiang/mikan/internal/fault"
)

// State tells what a build is there for.
type State string

// The states of a build.
const (
	Current  State = "current"  // new runs begin on it
	Ramping  State = "ramping"  // a share of the new runs begins on it
	Inactive State = "inactive" // it never got a run
	Draining State = "draining" // no new runs begin on it, and some that did are open: its workers must stay
	Drained  State = "drained"  // none of its runs is open: its workers can go
)

// Build is one version of the workers.
type Build struct {
	BuildID string    `json:"build_id"`
	State   State     `json:"state"`
	Percent float32   `json:"percent,omitempty"` // of the new runs, while it ramps
	Open    int64     `json:"open"`              // executions that are pinned to it
	Since   time.Time `json:"since"`             // when Temporal first saw a worker of it
}

// Status is a deployment with its builds, newest first.
type Status struct {
	Deployment string  `json:"deployment"`
	Builds     []Build `json:"builds"`
}

// Deployments asks a namespace about a deployment and changes it.
type Deployments struct {
	Client    client.Client
	Namespace string
}

// Status describes a deployment. Errors: not_found when no worker of it has ever polled.
func (d Deployments) Status(ctx context.Context, name string) (Status, error) {
	described, err := d.handle(name).Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return Status{}, translate(err, name)
	}
	status := Status{Deployment: name, Builds: []Build{}}
	routing := described.Info.RoutingConfig
	for _, v := range described.Info.VersionSummaries {
		b := Build{BuildID: v.Version.BuildID, State: Inactive, Since: v.CreateTime}
		if b.Open, err = d.open(ctx, v.Version); err != nil {
			return Status{}, translate(err, name)
		}
		switch {
		case routing.CurrentVersion != nil && routing.CurrentVersion.BuildID == b.BuildID:
			b.State = Current
		case routing.RampingVersion != nil && routing.RampingVersion.BuildID == b.BuildID:
			b.State, b.Percent = Ramping, routing.RampingVersionPercentage
		// Temporal looks at what is open only every few minutes; the count is newer.
		case b.Open > 0:
			b.State = Draining
		case v.DrainageStatus != client.WorkerDeploymentVersionDrainageStatusUnspecified:
			b.State = Drained
		}
		status.Builds = append(status.Builds, b)
	}
	slices.SortFunc(status.Builds, func(a, b Build) int { return cmp.Or(b.Since.Compare(a.Since), strings.Compare(a.BuildID, b.BuildID)) })
	return status, nil
}

// Promote makes a build the one that new runs begin on, or, with a share of less than 100 percent, one that this share of
// them begins on. Errors: conflict where its workers do not poll yet, or not all the queues that the current build's do.
func (d Deployments) Promote(ctx context.Context, name, buildID string, percent float32) error {
	var err error
	if percent < 100 {
		_, err = d.handle(name).SetRampingVersion(ctx, client.WorkerDeploymentSetRampingVersionOptions{BuildID: buildID, Percentage: percent})
	} else {
		_, err = d.handle(name).SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: buildID})
	}
	return translate(err, name)
}

// Move lets the open executions that are pinned to a build go on with the current one, and tells how many those were. It
// is for a build whose workers are gone: nobody else would go on with them.
func (d Deployments) Move(ctx context.Context, name, buildID string) (moved int, err error) {
	described, err := d.handle(name).Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return 0, translate(err, name)
	}
	to := described.Info.RoutingConfig.CurrentVersion
	if to == nil || to.BuildID == buildID {
		return 0, fault.New(fault.Conflict, "there is no other build to move to; promote one first")
	}
	from := worker.WorkerDeploymentVersion{DeploymentName: name, BuildID: buildID}
	var token []byte
	for {
		list, err := d.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: d.Namespace, Query: pinnedTo(from), NextPageToken: token,
		})
		if err != nil {
			return moved, translate(err, name)
		}
		for _, e := range list.GetExecutions() {
			_, err := d.Client.UpdateWorkflowExecutionOptions(ctx, client.UpdateWorkflowExecutionOptionsRequest{
				WorkflowId: e.GetExecution().GetWorkflowId(), RunId: e.GetExecution().GetRunId(),
				WorkflowExecutionOptionsChanges: client.WorkflowExecutionOptionsChanges{
					// For one workflow task: after it the execution is pinned to the build that took it.
					VersioningOverride: &client.VersioningOverrideChange{Value: &client.OneTimeVersioningOverride{TargetVersion: *to}},
				},
			})
			var ended *serviceerror.NotFound
			if errors.As(err, &ended) {
				continue
			}
			if err != nil {
				return moved, translate(err, name)
			}
			moved++
		}
		if token = list.GetNextPageToken(); len(token) == 0 {
			return moved, nil
		}
	}
}

func (d Deployments) handle(name string) client.WorkerDeploymentHandle {
	return d.Client.WorkerDeploymentClient().GetHandle(name)
}

func (d Deployments) open(ctx context.Context, v worker.WorkerDeploymentVersion) (int64, error) {
	count, err := d.Client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: d.Namespace, Query: pinnedTo(v)})
	return count.GetCount(), err
}

func pinnedTo(v worker.WorkerDeploymentVersion) string {
	return fmt.Sprintf("TemporalWorkerDeploymentVersion = '%s:%s' AND ExecutionStatus = 'Running'",
		strings.ReplaceAll(v.DeploymentName, "'", "''"), strings.ReplaceAll(v.BuildID, "'", "''"))
}

func translate(err error, name string) error {
	var missing *serviceerror.NotFound
	var refused *serviceerror.FailedPrecondition
	var invalid *serviceerror.InvalidArgument
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing):
		return fault.New(fault.NotFound, "Temporal knows nothing of this in deployment %q: %s; its workers announce it by polling, with MIKAN_DEPLOYMENT and MIKAN_BUILD_ID set", name, missing.Message)
	case errors.As(err, &refused):
		return fault.New(fault.Conflict, "Temporal refuses: %s", refused.Message)
	case errors.As(err, &invalid):
		return fault.New(fault.Invalid, "Temporal refuses: %s", invalid.Message)
	}
	return fault.Wrap(fault.Unavailable, err, "Temporal is not reachable")
}
