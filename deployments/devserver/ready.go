package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// readyPoll is how long a start waits between two looks.
const readyPoll = 10 * time.Millisecond

// awaitReady returns when every namespace can start workflows (frontend,
// history and matching answer for it), has its search attributes, and the web
// UI answers.
func (s *server) awaitReady(ctx context.Context) error {
	conn, err := grpc.NewClient(s.frontendAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	workflows := workflowservice.NewWorkflowServiceClient(conn)
	operator := operatorservice.NewOperatorServiceClient(conn)
	for _, namespace := range s.opts.namespaces {
		if err := poll(ctx, func() error { return serves(ctx, workflows, namespace) }); err != nil {
			return fmt.Errorf("namespace %s: %w", namespace, err)
		}
		// A new namespace was created with them; one of an earlier start may
		// lack some.
		if err := poll(ctx, func() error { return s.addSearchAttributes(ctx, operator, namespace) }); err != nil {
			return fmt.Errorf("search attributes of namespace %s: %w", namespace, err)
		}
	}
	return poll(ctx, func() error { return s.uiAnswers(ctx) })
}

// poll calls try until it succeeds or ctx ends, and then returns what try said
// last.
func poll(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(readyPoll):
		}
	}
}

// serves asks one question each of frontend, history and matching.
func serves(ctx context.Context, client workflowservice.WorkflowServiceClient, namespace string) error {
	_, err := client.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	_, err = client.GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: namespace,
		Execution: &commonpb.WorkflowExecution{WorkflowId: "ready-probe"},
	})
	// "No such workflow" is an answer of the history service.
	var missing *serviceerror.NotFound
	if err != nil && !errors.As(serviceerror.FromStatus(status.Convert(err)), &missing) {
		return err
	}
	_, err = client.DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace:     namespace,
		TaskQueue:     &taskqueuepb.TaskQueue{Name: "ready-probe", Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW,
	})
	return err
}

func (s *server) addSearchAttributes(ctx context.Context, client operatorservice.OperatorServiceClient, namespace string) error {
	if len(s.opts.searchAttributes) == 0 {
		return nil
	}
	have, err := client.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return err
	}
	missing := map[string]enumspb.IndexedValueType{}
	for name, kind := range s.opts.searchAttributes {
		if _, ok := have.GetCustomAttributes()[name]; !ok {
			missing[name] = kind
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = client.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace:        namespace,
		SearchAttributes: missing,
	})
	return err
}

func (s *server) uiAnswers(ctx context.Context) error {
	select {
	case err := <-s.uiFailed:
		return fmt.Errorf("web UI: %w", err)
	default:
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.uiURL()+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("web UI: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("web UI answers %s", resp.Status)
	}
	return nil
}
