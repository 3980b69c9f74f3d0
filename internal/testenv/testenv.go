// Package testenv gives tests a real Postgres and a real Temporal.
//
// All test processes of a user share one of each. The first that needs them starts a keeper process, which starts the
// servers (package devstack, with the same order of search) and ends them with all their data some minutes after the
// last test process is gone. A test that sets MIKAN_DATABASE_URL or TEMPORAL_ADDRESS in its environment, before it
// starts, uses those instead.
//
// On a machine where the Temporal dev server was never built, the first use builds it, which takes about four minutes
// on two cores; `go run ./internal/testenv/prepare` does so in advance.
//
// The shared servers must not be killed or stopped by a test; one that needs to do that starts its own devstack.
package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/geminixiang/mikan/internal/devstack"
)

const (
	// patience bounds single operations on servers that run already.
	patience = time.Minute
	// dropTimeout is how long the removal of a schema waits for a connection that the test left open in a transaction.
	dropTimeout = "10s"
	// retention is how long closed workflows stay visible; the servers end long before.
	retention = 24 * time.Hour
)

// searchAttributes are those that every mikan namespace has, all of type Keyword.
var searchAttributes = []string{"MikanPlatform", "MikanOffice", "MikanSession", "MikanTrigger", "MikanOutcome"}

// PostgresURL returns the URL of an empty schema of the test's own, which is dropped when the test ends. The schema
// comes first in the URL's search_path, and public, for extensions, second.
func PostgresURL(t testing.TB) string {
	t.Helper()
	base := servers(t).DatabaseURL
	schema := "test_" + strings.ToLower(rand.Text())
	execute(t, base, "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		execute(t, base, "SET lock_timeout = '"+dropTimeout+"'", "DROP SCHEMA "+schema+" CASCADE")
	})
	return withSearchPath(base, schema+",public")
}

// withSearchPath adds a setting to an address in either form that Postgres knows: URL, or keywords and values.
func withSearchPath(address, path string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return address + " search_path=" + path
	}
	query := u.Query()
	query.Set("search_path", path)
	u.RawQuery = query.Encode()
	return u.String()
}

// execute runs statements on a connection of their own, outside the test's context: clean-ups run after it ended.
func execute(t testing.TB, address string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Errorf("the tests' Postgres: %v", err)
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Errorf("%s: %v", statement, err)
			return
		}
	}
}

// Temporal returns the address of a Temporal and a namespace of the test's own, usable at once, that has mikan's
// search attributes. It stays until the server ends, so that a failed test can be looked at in the web UI (see UIURL).
func Temporal(t testing.TB) (address, namespace string) {
	t.Helper()
	return newNamespace(t, searchAttributes)
}

// TemporalWithoutSearchAttributes is Temporal for tests of the code that registers the search attributes.
func TemporalWithoutSearchAttributes(t testing.TB) (address, namespace string) {
	t.Helper()
	return newNamespace(t, nil)
}

// UIURL is where Temporal's web UI shows the tests' workflows; empty when TEMPORAL_ADDRESS names the server.
func UIURL(t testing.TB) string {
	t.Helper()
	return servers(t).UIURL
}

// TaskQueue returns the name of a task queue that no other test uses.
func TaskQueue(t testing.TB) string {
	t.Helper()
	return name(t)
}

func newNamespace(t testing.TB, attributes []string) (address, namespace string) {
	t.Helper()
	address = servers(t).TemporalAddress
	namespace = name(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := temporalClient(address)
	if err != nil {
		t.Fatalf("the tests' Temporal: %v", err)
	}
	err = patiently(ctx, func() error {
		_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
			Namespace:                        namespace,
			WorkflowExecutionRetentionPeriod: durationpb.New(retention),
		})
		if _, exists := errors.AsType[*serviceerror.NamespaceAlreadyExists](err); exists {
			return nil // an attempt whose answer was lost
		}
		return err
	})
	if err != nil {
		t.Fatalf("register namespace %s: %v", namespace, err)
	}
	if len(attributes) > 0 {
		request := &operatorservice.AddSearchAttributesRequest{
			Namespace:        namespace,
			SearchAttributes: map[string]enumspb.IndexedValueType{},
		}
		for _, attribute := range attributes {
			request.SearchAttributes[attribute] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
		}
		err = patiently(ctx, func() error {
			_, err := c.OperatorService().AddSearchAttributes(ctx, request)
			return err
		})
		if err != nil {
			t.Fatalf("search attributes of namespace %s: %v", namespace, err)
		}
		// The server reads a namespace's attributes anew once a second; until then it refuses workflows that name them.
		question := &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace, Query: strings.Join(attributes, " = 'none' AND ") + " = 'none'"}
		err = patiently(ctx, func() error {
			_, err := c.CountWorkflow(ctx, question)
			return err
		})
		if err != nil {
			t.Fatalf("search attributes of namespace %s are not usable: %v", namespace, err)
		}
	}
	err = patiently(ctx, func() error { return devstack.TemporalServes(ctx, c.WorkflowService(), namespace) })
	if err != nil {
		t.Fatalf("namespace %s: %v", namespace, err)
	}
	return address, namespace
}

// temporalClient is one connection for all tests of the process.
var temporalClient = func() func(address string) (client.Client, error) {
	var (
		once sync.Once
		c    client.Client
		err  error
	)
	return func(address string) (client.Client, error) {
		once.Do(func() {
			options := client.Options{HostPort: address}
			if os.Getenv("TEMPORAL_ADDRESS") != "" {
				// A server of one's own may want TLS or a key.
				if options, err = envconfig.LoadDefaultClientOptions(); err != nil {
					return
				}
			}
			c, err = client.Dial(options)
		})
		return c, err
	}
}()

// patiently repeats what a server that does not know a new namespace yet, or is short of breath, refuses.
func patiently(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9]+`)

// name makes a unique name that tells which test it belongs to.
func name(t testing.TB) string {
	readable := strings.Trim(notInNames.ReplaceAllString(t.Name(), "-"), "-")
	if len(readable) > 60 {
		readable = readable[:60]
	}
	return "test-" + readable + "-" + strings.ToLower(rand.Text()[:10])
}
