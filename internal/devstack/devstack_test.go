package devstack_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/internal/devstack"
)

// patience bounds every wait. It is no claim about speed: it is far beyond what a loaded machine needs.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	// The first build takes minutes; no test's own bound should run meanwhile.
	if err := devstack.Prepare(context.Background(), devstack.Options{Getenv: bare, Progress: os.Stderr}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// bare is an environment that names no service.
func bare(name string) string {
	if name == "PATH" {
		return os.Getenv("PATH")
	}
	return ""
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func start(t *testing.T, options devstack.Options) *devstack.Stack {
	t.Helper()
	if options.Getenv == nil {
		options.Getenv = bare
	}
	options.Log = quiet()
	options.Durability = devstack.Disposable
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stack, err := devstack.Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Close(); err != nil {
			t.Error(err)
		}
	})
	return stack
}

func query[T any](ctx context.Context, databaseURL, sql string) (value T, err error) {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return value, err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, sql).Scan(&value)
	return value, err
}

// eventually repeats check until it succeeds.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func pid(t *testing.T, dataDir, service string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dataDir, "run", service+".pid"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, stack *devstack.Stack) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{
		HostPort:  stack.TemporalAddress,
		Namespace: stack.TemporalNamespace,
		Logger:    tlog.NewStructuredLogger(quiet()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func awaitSignal(ctx workflow.Context) (string, error) {
	var text string
	workflow.GetSignalChannel(ctx, "go").Receive(ctx, &text)
	return text, nil
}

func TestAFirstStartServesAndKeepsItsDataPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	stack := start(t, devstack.Options{DataDir: dir, Namespace: "team", SearchAttributes: []string{"MikanOffice"}})

	if name, err := query[string](t.Context(), stack.DatabaseURL, "SELECT current_database()"); err != nil || name != "mikan" {
		t.Fatalf("database %q, %v", name, err)
	}
	if stack.TemporalNamespace != "team" {
		t.Errorf("namespace %q", stack.TemporalNamespace)
	}
	c := dial(t, stack)
	attributes, err := c.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: "team"})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := attributes.GetCustomAttributes()["MikanOffice"]; !ok {
		t.Errorf("search attributes %v", attributes.GetCustomAttributes())
	}
	resp, err := http.Get(stack.TemporalUIURL + "/api/v1/namespaces")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || !bytes.Contains(body, []byte(`"team"`)) {
		t.Errorf("the web UI answers %s, %v: %s", resp.Status, err, body)
	}
	want := map[string]string{
		"MIKAN_DATABASE_URL": stack.DatabaseURL,
		"TEMPORAL_ADDRESS":   stack.TemporalAddress,
		"TEMPORAL_NAMESPACE": "team",
	}
	for name, value := range stack.Env() {
		if want[name] != value {
			t.Errorf("%s is %q in Env, want %q", name, value, want[name])
		}
	}
	for _, service := range []string{"postgres", "temporal"} {
		if _, err := os.Stat(filepath.Join(stack.LogDir, service+".log")); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode&0o067 != 0 {
		t.Errorf("the data directory has mode %o", mode)
	}
	info, err = os.Stat(filepath.Join(dir, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o700 {
		t.Errorf("the database's directory has mode %o", mode)
	}
	info, err = os.Stat(filepath.Join(dir, "stack.json"))
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the file with the password has mode %o", mode)
	}
}

func TestPostgresWantsThePassword(t *testing.T) {
	t.Parallel()
	stack := start(t, devstack.Options{DataDir: t.TempDir()})
	good, err := url.Parse(stack.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	if host := good.Hostname(); host != "127.0.0.1" {
		t.Errorf("host %s", host)
	}
	for _, user := range []*url.Userinfo{url.UserPassword("mikan", "wrong"), url.User("mikan"), url.UserPassword("postgres", "postgres")} {
		bad := *good
		bad.User = user
		_, err := query[int](t.Context(), bad.String(), "SELECT 1")
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "28P01" {
			t.Errorf("as %s: %v", user.Username(), err)
		}
	}
	sockets, err := query[string](t.Context(), stack.DatabaseURL, "SHOW unix_socket_directories")
	if err != nil || sockets != "" {
		t.Errorf("sockets in %q, %v", sockets, err)
	}
	listen, err := query[string](t.Context(), stack.DatabaseURL, "SHOW listen_addresses")
	if err != nil || listen != "127.0.0.1" {
		t.Errorf("listens on %q, %v", listen, err)
	}
}

func TestKilledServicesComeBackOnTheSameAddressesAndData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stack := start(t, devstack.Options{DataDir: dir})
	if _, err := query[int](t.Context(), stack.DatabaseURL, "WITH t AS (SELECT 1) SELECT 1 FROM t"); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), stack.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	// An open connection must not keep the new postmaster from starting.
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS n"); err != nil {
		t.Fatal(err)
	}
	c := dial(t, stack)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "open", TaskQueue: "q"}, awaitSignal)
	if err != nil {
		t.Fatal(err)
	}

	for range 2 {
		kill(t, pid(t, dir, "postgres"))
		kill(t, pid(t, dir, "temporal"))
		eventually(t, "Postgres", func() error {
			n, err := query[int](t.Context(), stack.DatabaseURL, "SELECT n FROM kept")
			if err == nil && n != 42 {
				t.Fatalf("read %d", n)
			}
			return err
		})
		eventually(t, "Temporal", func() error {
			_, err := c.DescribeWorkflowExecution(t.Context(), "open", run.GetRunID())
			return err
		})
	}

	w := worker.New(c, "q", worker.Options{})
	w.RegisterWorkflow(awaitSignal)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := c.SignalWorkflow(t.Context(), "open", run.GetRunID(), "go", "on"); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := run.Get(t.Context(), &got); err != nil || got != "on" {
		t.Errorf("the open workflow returned %q, %v", got, err)
	}
}

func TestALaterStartHasTheDataAndThePorts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, devstack.Options{DataDir: dir})
	if _, err := query[int](t.Context(), first.DatabaseURL, "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	c := dial(t, first)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "open", TaskQueue: "q"}, awaitSignal)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if _, err := query[int](t.Context(), first.DatabaseURL, "SELECT 1"); err == nil {
		t.Error("Postgres still answers after Close")
	}

	var said lines
	second := start(t, devstack.Options{DataDir: dir, SearchAttributes: []string{"Later"}, Progress: &said})
	for _, pair := range [][2]string{
		{hostOf(t, first.DatabaseURL), hostOf(t, second.DatabaseURL)},
		{first.TemporalAddress, second.TemporalAddress},
		{hostOf(t, first.TemporalUIURL), hostOf(t, second.TemporalUIURL)},
	} {
		sameUnlessTaken(t, pair[0], pair[1], said.String())
	}
	c = dial(t, second)
	if _, err := c.DescribeWorkflowExecution(t.Context(), "open", run.GetRunID()); err != nil {
		t.Error(err)
	}
	attributes, err := c.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := attributes.GetCustomAttributes()["Later"]; !ok {
		t.Error("an attribute named at a later start is missing in a namespace of the first")
	}
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// sameUnlessTaken fails when an address changed though nothing was said of its port. Another stack on this machine may
// get a port while the one that had it is stopped.
func sameUnlessTaken(t *testing.T, before, after, said string) {
	t.Helper()
	_, port, err := net.SplitHostPort(before)
	if err != nil {
		t.Fatal(err)
	}
	if before != after && !strings.Contains(said, "port "+port+" is taken") {
		t.Errorf("%s became %s, and what was said is %q", before, after, said)
	}
}

func TestASecondStackOnTheSameDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, devstack.Options{DataDir: dir})
	_, err := devstack.Start(t.Context(), devstack.Options{DataDir: dir, Getenv: bare, Log: quiet()})
	var inUse *devstack.InUseError
	if !errors.As(err, &inUse) || !strings.Contains(err.Error(), inUse.DataDir) {
		t.Errorf("refused with %v", err)
	}
}

func TestATakenPortIsReplacedAndSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, devstack.Options{DataDir: dir})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(first.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{u.Host, first.TemporalAddress, hostOf(t, first.TemporalUIURL)}
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			// Another stack of these tests took it in between, which serves as well.
			continue
		}
		defer func() { _ = l.Close() }()
	}
	var said lines
	second := start(t, devstack.Options{DataDir: dir, Progress: &said})
	if _, err := query[int](t.Context(), second.DatabaseURL, "SELECT 1"); err != nil {
		t.Error(err)
	}
	if _, err := dial(t, second).WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "default"}); err != nil {
		t.Error(err)
	}
	if second.DatabaseURL == first.DatabaseURL || second.TemporalAddress == first.TemporalAddress || second.TemporalUIURL == first.TemporalUIURL {
		t.Error("a taken address was kept")
	}
	for _, address := range addresses {
		_, port, _ := net.SplitHostPort(address)
		if !strings.Contains(said.String(), "port "+port+" is taken") {
			t.Errorf("nothing was said of port %s in %q", port, said.String())
		}
	}
}

// lines is a writer that can be read while it is written to.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestNamedServicesAreUsedAsTheyAre(t *testing.T) {
	t.Parallel()
	named := map[string]string{
		"MIKAN_DATABASE_URL": "postgres://somewhere.example/db",
		"TEMPORAL_ADDRESS":   "temporal.example:7233",
		"TEMPORAL_NAMESPACE": "prod",
	}
	stack := start(t, devstack.Options{DataDir: t.TempDir(), Getenv: func(name string) string { return named[name] }})
	for name, value := range stack.Env() {
		if named[name] != value {
			t.Errorf("%s is %q, want %q", name, value, named[name])
		}
	}
	if stack.TemporalUIURL != "" {
		t.Errorf("UI at %s", stack.TemporalUIURL)
	}
}

func TestPlacesThatHoldOtherThingsAreRefused(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(dir string) string{
		"a file": func(dir string) string {
			path := filepath.Join(dir, "file")
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			return path
		},
		"an open directory with things in it": func(dir string) string {
			path := filepath.Join(dir, "home")
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(path, "letter"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			return path
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := make(t.TempDir())
			before, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := devstack.Start(t.Context(), devstack.Options{DataDir: path, Getenv: bare, Log: quiet()}); err == nil {
				t.Fatal("accepted")
			}
			after, err := os.Stat(path)
			if err != nil || after.Mode() != before.Mode() {
				t.Errorf("mode was %v, is %v, %v", before.Mode(), after.Mode(), err)
			}
		})
	}
}
