package deploy_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/internal/deploy"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/testenv"
)

// wait is a workflow that ends at a signal.
func wait(ctx workflow.Context) error {
	workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
	return nil
}

// scene is a namespace with a deployment.
type scene struct {
	*testing.T
	client client.Client
	deploy.Deployments
	queue string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	address, namespace := testenv.Temporal(t)
	c, err := client.Dial(client.Options{HostPort: address, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &scene{T: t, client: c, Deployments: deploy.Deployments{Client: c, Namespace: namespace}, queue: testenv.TaskQueue(t)}
}

// build starts a worker of a build; it is stopped by the returned function, at the latest with the test.
func (s *scene) build(id string) (stop func()) {
	s.Helper()
	w := worker.New(s.client, s.queue, worker.Options{DeploymentOptions: worker.DeploymentOptions{
		UseVersioning: true, Version: worker.WorkerDeploymentVersion{DeploymentName: "d", BuildID: id},
		DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
	}})
	w.RegisterWorkflowWithOptions(wait, workflow.RegisterOptions{Name: "wait"})
	if err := w.Start(); err != nil {
		s.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			w.Stop()
		}
	}
	s.Cleanup(stop)
	return stop
}

func (s *scene) begin() client.WorkflowRun {
	s.Helper()
	r, err := s.client.ExecuteWorkflow(s.Context(), client.StartWorkflowOptions{TaskQueue: s.queue}, "wait")
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// until waits for a build to be in a state, with a number of open executions.
func (s *scene) until(id string, state deploy.State, open int64) {
	s.Helper()
	var last any
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		status, err := s.Status(s.Context(), "d")
		i := slices.IndexFunc(status.Builds, func(b deploy.Build) bool { return b.BuildID == id })
		if err == nil && i >= 0 && status.Builds[i].State == state && status.Builds[i].Open == open {
			return
		}
		last = []any{status, err}
	}
	s.Fatalf("build %s does not become %s with %d open: %+v", id, state, open, last)
}

func (s *scene) promote(id string, percent float32) {
	s.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = s.Promote(s.Context(), "d", id, percent); err == nil {
			return
		}
	}
	s.Fatal(err)
}

func (s *scene) end(r client.WorkflowRun) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	if err := s.client.SignalWorkflow(ctx, r.GetID(), r.GetRunID(), "end", nil); err != nil {
		s.Fatal(err)
	}
	if err := r.Get(ctx, nil); err != nil {
		s.Fatalf("an open run does not end: %v", err)
	}
}

func TestAPromotionLeavesOpenRunsOnTheirBuild(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if _, err := s.Status(t.Context(), "d"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("an unknown deployment: %v", err)
	}
	s.build("1")
	s.until("1", deploy.Inactive, 0)
	s.promote("1", 100)
	first := s.begin()
	s.until("1", deploy.Current, 1)
	if err := s.Promote(t.Context(), "d", "2", 100); err == nil {
		t.Error("a build without a worker was promoted")
	}
	s.build("2")
	s.until("2", deploy.Inactive, 0)
	s.promote("2", 25)
	s.until("2", deploy.Ramping, 0)
	s.promote("2", 100)
	second := s.begin()
	s.until("2", deploy.Current, 1)
	s.until("1", deploy.Draining, 1)
	s.end(first)
	s.until("1", deploy.Drained, 0)
	s.end(second)
}

func TestRunsOfABuildWhoseWorkersAreGoneAreMoved(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	stop := s.build("1")
	s.promote("1", 100)
	r := s.begin()
	s.until("1", deploy.Current, 1)
	if _, err := s.Move(t.Context(), "d", "1"); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("there is nowhere to move to: %v", err)
	}
	s.build("2")
	s.promote("2", 100)
	stop()
	if moved, err := s.Move(t.Context(), "d", "1"); moved != 1 || err != nil {
		t.Errorf("%d moved, %v; want 1", moved, err)
	}
	s.end(r)
	s.until("1", deploy.Drained, 0)
}
