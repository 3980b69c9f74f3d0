package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
)

// EnsureAttributes registers mikan's search attributes in a namespace and waits until they can really be used: servers
// cache them for up to a minute. say is told what is waited for, before anything that takes time. Where the namespace does not let us
// register (Temporal Cloud), the error is forbidden and holds the commands that an administrator runs.
func EnsureAttributes(ctx context.Context, c client.Client, namespace string, say func(string)) error {
	if usable(ctx, c, namespace) == nil {
		return nil
	}
	say("Temporal does not know mikan's search attributes yet; registering them and waiting (up to a minute on a fresh server)")
	if err := register(ctx, c, namespace); err != nil {
		return err
	}
	for {
		err := usable(ctx, c, namespace)
		if err == nil {
			return nil
		}
		var unknown *serviceerror.InvalidArgument
		if !errors.As(err, &unknown) {
			return translate(err)
		}
		select {
		case <-ctx.Done():
			return fault.Wrap(fault.Unavailable, ctx.Err(), "Temporal does not know mikan's search attributes yet")
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// usable asks a question that only a server that knows all the attributes can answer.
func usable(ctx context.Context, c client.Client, namespace string) error {
	conditions := make([]string, 0, len(run.AttributeNames()))
	for _, name := range run.AttributeNames() {
		conditions = append(conditions, name+" = 'none'")
	}
	_, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: namespace, Query: strings.Join(conditions, " AND "),
	})
	return err
}

func register(ctx context.Context, c client.Client, namespace string) error {
	attributes := map[string]enumspb.IndexedValueType{}
	for _, name := range run.AttributeNames() {
		attributes[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	existing, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err == nil {
		for name := range existing.GetCustomAttributes() {
			delete(attributes, name)
		}
	}
	if err == nil && len(attributes) == 0 {
		return nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: attributes,
	})
	var exists *serviceerror.AlreadyExists
	var denied *serviceerror.PermissionDenied
	var unknown *serviceerror.Unimplemented
	switch {
	case err == nil || errors.As(err, &exists):
		return nil
	case errors.As(err, &denied) || errors.As(err, &unknown):
		return fault.New(fault.Forbidden, "this Temporal does not let mikan register its search attributes; run:\n%s", cloudCommands(namespace))
	}
	return translate(err)
}

func cloudCommands(namespace string) string {
	var b strings.Builder
	for _, name := range run.AttributeNames() {
		fmt.Fprintf(&b, "  temporal cloud namespace search-attribute create --namespace %s --name %s --type Keyword\n", namespace, name)
	}
	return b.String()
}

// MissingAttributes tells whether the namespace does not know all of mikan's search attributes yet.
func MissingAttributes(ctx context.Context, c client.Client, namespace string) (bool, error) {
	err := usable(ctx, c, namespace)
	var unknown *serviceerror.InvalidArgument
	if errors.As(err, &unknown) {
		return true, nil
	}
	return false, translate(err)
}
