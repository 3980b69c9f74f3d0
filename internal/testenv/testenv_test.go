package testenv_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/internal/testenv"
)

// patience bounds every wait; it is no claim about speed.
const patience = 2 * time.Minute

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestSchemasAreEmptySeparateAndDropped(t *testing.T) {
	t.Parallel()
	outer := connect(t, testenv.PostgresURL(t))
	var schema string
	t.Run("inner", func(t *testing.T) {
		for range 2 {
			conn := connect(t, testenv.PostgresURL(t))
			if _, err := conn.Exec(t.Context(), "CREATE TABLE things (n int)"); err != nil {
				t.Fatal(err)
			}
			if err := conn.QueryRow(t.Context(), "SELECT current_schema()").Scan(&schema); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := outer.Exec(t.Context(), "SELECT FROM things"); err == nil {
			t.Error("another test's table is visible")
		}
	})
	var left bool
	err := outer.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&left)
	if err != nil || left {
		t.Errorf("schema %s is left: %v, %v", schema, left, err)
	}
}

var outcome = temporal.NewSearchAttributeKeyKeyword("MikanOutcome")

func settle(ctx workflow.Context) error {
	return workflow.UpsertTypedSearchAttributes(ctx, outcome.ValueSet("answered"))
}

func TestANamespaceIsUsableAtOnce(t *testing.T) {
	t.Parallel()
	for range 3 {
		address, namespace := testenv.Temporal(t)
		c, err := client.Dial(client.Options{HostPort: address, Namespace: namespace})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		queue := testenv.TaskQueue(t)
		w := worker.New(c, queue, worker.Options{})
		w.RegisterWorkflow(settle)
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
			TaskQueue:             queue,
			TypedSearchAttributes: temporal.NewSearchAttributes(outcome.ValueSet("silent")),
		}, settle)
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Get(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNamespacesWithAndWithoutSearchAttributes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		make func(testing.TB) (string, string)
		want []string
	}{
		{"with", testenv.Temporal, []string{"MikanPlatform", "MikanOffice", "MikanSession", "MikanTrigger", "MikanOutcome"}},
		{"without", testenv.TemporalWithoutSearchAttributes, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			address, namespace := test.make(t)
			c, err := client.Dial(client.Options{HostPort: address})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			have, err := c.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
			if err != nil {
				t.Fatal(err)
			}
			count := 0
			for name := range have.GetCustomAttributes() {
				if strings.HasPrefix(name, "Mikan") {
					count++
				}
			}
			if count != len(test.want) {
				t.Errorf("attributes %v", have.GetCustomAttributes())
			}
			for _, name := range test.want {
				if _, ok := have.GetCustomAttributes()[name]; !ok {
					t.Errorf("%s is missing", name)
				}
			}
		})
	}
}

// TestPrintsItsServers is what the tests below run in other processes.
func TestPrintsItsServers(t *testing.T) {
	database, err := url.Parse(testenv.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	database.RawQuery = "sslmode=disable"
	address, namespace := testenv.Temporal(t)
	if address == "" || namespace == "" {
		t.Fatalf("Temporal at %q, namespace %q", address, namespace)
	}
	if os.Getenv(printEnv) != "" {
		fmt.Println("servers", database, address)
	}
}

const printEnv = "TESTENV_TEST_PRINT"

// serversOf runs TestPrintsItsServers in another process and returns what it used.
func serversOf(t *testing.T, environment ...string) (database, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestPrintsItsServers$", "-test.count=1")
	cmd.Env = append(append(os.Environ(), printEnv+"=1"), environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "servers" {
			return fields[1], fields[2]
		}
	}
	t.Fatalf("no servers in %s", out)
	return "", ""
}

func TestProcessesShareTheServers(t *testing.T) {
	t.Parallel()
	firstDatabase, firstAddress := serversOf(t)
	secondDatabase, secondAddress := serversOf(t)
	if firstDatabase != secondDatabase || firstAddress != secondAddress {
		t.Errorf("one process used %s, the next %s", firstAddress, secondAddress)
	}
}

func TestNamedServersAreUsed(t *testing.T) {
	t.Parallel()
	database, address := serversOf(t)
	temp := t.TempDir()
	namedDatabase, namedAddress := serversOf(t, "TMPDIR="+temp, "MIKAN_DATABASE_URL="+database, "TEMPORAL_ADDRESS="+address)
	if namedDatabase != database || namedAddress != address {
		t.Errorf("used %s", namedAddress)
	}
	if started, err := filepath.Glob(filepath.Join(temp, "mikan-test-*")); err != nil || len(started) > 0 {
		t.Errorf("servers were started all the same: %v, %v", started, err)
	}
}

// openTempDir is a temporary directory of its own that a Postgres of root's can reach.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "testenv-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func stateOf(t *testing.T, temp string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(temp, "mikan-test-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("state directories %v, %v", found, err)
	}
	return found[0]
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !check(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func refuses(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return true
	}
	_ = conn.Close()
	return false
}

func TestServersEndAfterTheLastProcess(t *testing.T) {
	t.Parallel()
	temp := openTempDir(t)
	_, address := serversOf(t, "TMPDIR="+temp, "MIKAN_TESTENV_IDLE=100ms")
	eventually(t, "Temporal never ended", func() bool { return refuses(address) })
	eventually(t, "the data stayed", func() bool {
		_, err := os.Stat(filepath.Join(stateOf(t, temp), "stack"))
		return errors.Is(err, os.ErrNotExist)
	})
}

func TestAKilledKeeperIsReplaced(t *testing.T) {
	t.Parallel()
	temp := openTempDir(t)
	environment := []string{"TMPDIR=" + temp, "MIKAN_TESTENV_IDLE=1m"}
	serversOf(t, environment...)
	first := keeperOf(t, temp)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the keeper did not die", func() bool { return !running(first) })
	serversOf(t, environment...)
	second := keeperOf(t, temp)
	if second == first {
		t.Error("the same keeper")
	}
	if err := syscall.Kill(second, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the data stayed", func() bool {
		_, err := os.Stat(filepath.Join(stateOf(t, temp), "stack"))
		return errors.Is(err, os.ErrNotExist)
	})
}

func keeperOf(t *testing.T, temp string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(stateOf(t, temp), "keeper.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// running tells whether a process holds its files still; one that waits to be reaped does not.
func running(pid int) bool {
	if text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat")); err == nil {
		_, after, _ := strings.Cut(string(text), ") ")
		return !strings.HasPrefix(after, "Z")
	}
	return syscall.Kill(pid, 0) == nil
}
