package devstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// temporalProgram is a way to run Temporal on one machine.
type temporalProgram string

const (
	temporalCLI       temporalProgram = "cli"       // `temporal server start-dev`
	temporalDevServer temporalProgram = "devserver" // the project's own, in deployments/devserver
)

// announcements are what the programs print once they serve.
var announcements = map[temporalProgram]string{
	temporalCLI:       "Temporal Server:",
	temporalDevServer: `{"frontend":`,
}

// oldestTemporal is the oldest server (major, minor) inside the CLI that will do: fairness keys of task queues, and
// worker deployments on by default, came by then.
var oldestTemporal = [2]int{1, 29}

// cliSettings make the CLI's server answer as quickly as the project's own, whose settings they repeat: see
// dynamicValues in deployments/devserver/server.go.
var cliSettings = []string{
	"--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000",
	"--dynamic-config-value", "history.timerProcessorMaxPollRPS=2000",
	"--dynamic-config-value", "history.visibilityProcessorMaxPollRPS=2000",
	"--dynamic-config-value", "history.outboundProcessorMaxPollRPS=2000",
	"--dynamic-config-value", `history.workflowIdReuseMinimalInterval="0s"`,
	"--dynamic-config-value", "system.forceSearchAttributesCacheRefreshOnRead=false",
	"--dynamic-config-value", `frontend.keepAliveTime="2s"`,
	"--dynamic-config-value", `frontend.keepAliveTimeout="2s"`,
	"--dynamic-config-value", "frontend.rps.namespaceReplicationInducingAPIs=1000",
	"--dynamic-config-value", "matching.numTaskqueueReadPartitions=1",
	"--dynamic-config-value", "matching.numTaskqueueWritePartitions=1",
	"--dynamic-config-value", "matching.enableFairness=true",
	"--sqlite-pragma", "journal_mode=WAL",
	"--sqlite-pragma", "synchronous=NORMAL",
	"--sqlite-pragma", "busy_timeout=10000",
}

// startTemporal finds or builds a server, launches it and returns the addresses of its frontend and its UI.
func startTemporal(ctx context.Context, o Options, dir *dataDir) (address, ui string, svc *service, err error) {
	database := dir.temporalDatabase()
	by, program, arguments, err := findTemporal(ctx, o, dir.recall().TemporalBy)
	if err != nil {
		return "", "", nil, err
	}
	svc = &service{
		name:      "temporal",
		dir:       dir,
		log:       o.Log,
		interrupt: syscall.SIGTERM,
		announces: announcements[by],
		leftovers: func() ([]process, error) { return runningWith("--db-filename", database) },
	}
	if err := svc.endLeftovers(); err != nil {
		return "", "", nil, err
	}
	var port, uiPort int
	svc.command = func() *exec.Cmd {
		args := append(slices.Clone(arguments),
			"--ip", loopback, "--port", strconv.Itoa(port), "--ui-port", strconv.Itoa(uiPort),
			"--db-filename", database, "--log-level", "warn", "--namespace", o.Namespace)
		for _, name := range o.SearchAttributes {
			args = append(args, "--search-attribute", name+"=Keyword")
		}
		cmd := exec.Command(program, args...)
		cmd.Dir = dir.path
		return cmd
	}
	err = onFreePorts(func() ([]int, error) {
		var err, uiErr error
		port, err = choosePort(o, dir.recall().TemporalPort, temporalPort, "Temporal")
		uiPort, uiErr = choosePort(o, dir.recall().TemporalUIPort, temporalUIPort, "Temporal's web UI")
		if err := errors.Join(err, uiErr); err != nil {
			return nil, err
		}
		err = dir.remember(func(m *memory) { m.TemporalPort, m.TemporalUIPort, m.TemporalBy = port, uiPort, by })
		if err != nil {
			return nil, err
		}
		conn, err := grpc.NewClient(loopbackAddress(port), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		client := workflowservice.NewWorkflowServiceClient(conn)
		svc.ready = func(ctx context.Context) error {
			return errors.Join(TemporalServes(ctx, client, o.Namespace), answers(ctx, "http://"+loopbackAddress(uiPort)))
		}
		return []int{port, uiPort}, svc.start(ctx)
	})
	if err != nil {
		return "", "", nil, err
	}
	return loopbackAddress(port), "http://" + loopbackAddress(uiPort), svc, nil
}

// TemporalServes asks one question each of frontend, history and matching for a namespace. It returns nil when all
// three answer, so that a workflow can be started there.
func TemporalServes(ctx context.Context, client workflowservice.WorkflowServiceClient, namespace string) error {
	_, err := client.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return err
	}
	// "No such workflow" is an answer of the history service.
	_, err = client.GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: namespace,
		Execution: &commonpb.WorkflowExecution{WorkflowId: "ready-probe"},
	})
	if err != nil && !isNotFound(err) {
		return err
	}
	_, err = client.DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace:     namespace,
		TaskQueue:     &taskqueuepb.TaskQueue{Name: "ready-probe", Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW,
	})
	return err
}

// isNotFound knows Temporal's answer from a plain connection and from one of the SDK's, which translates it.
func isNotFound(err error) bool {
	_, translated := errors.AsType[*serviceerror.NotFound](err)
	_, plain := errors.AsType[*serviceerror.NotFound](serviceerror.FromStatus(status.Convert(err)))
	return translated || plain
}

// answers tells whether a web server is there.
func answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// findTemporal returns a program and its first arguments. The CLI comes first, except for a database that the dev
// server made: the CLI's server may be older, and then could not read it.
func findTemporal(ctx context.Context, o Options, madeBy temporalProgram) (temporalProgram, string, []string, error) {
	cli, cliErr := findCLI(ctx, o.Getenv("PATH"))
	if cliErr == nil && madeBy != temporalDevServer {
		return temporalCLI, cli, append([]string{"server", "start-dev"}, cliSettings...), nil
	}
	o.Log.Debug("passed over", "temporal", "cli", "error", cliErr)
	program, err := devServer(ctx, o)
	if err == nil {
		return temporalDevServer, program, nil, nil
	}
	if cliErr == nil {
		o.Log.Warn("the dev server that made the database cannot be built; using the temporal CLI", "error", err)
		return temporalCLI, cli, append([]string{"server", "start-dev"}, cliSettings...), nil
	}
	return "", "", nil, err
}

var serverVersion = regexp.MustCompile(`Server (\d+)\.(\d+)\.`)

// findCLI looks for a `temporal` whose server is recent enough.
func findCLI(ctx context.Context, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		program, err := exec.LookPath(filepath.Join(dir, "temporal"))
		if err != nil || !filepath.IsAbs(program) {
			continue
		}
		out, err := exec.CommandContext(ctx, program, "--version").Output()
		if err != nil {
			return "", fmt.Errorf("%s --version: %w", program, err)
		}
		if err := recentEnough(string(out)); err != nil {
			return "", fmt.Errorf("%s: %w", program, err)
		}
		return program, nil
	}
	return "", errors.New("no temporal on the PATH")
}

// recentEnough reads what `temporal --version` prints: "temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)".
func recentEnough(printed string) error {
	found := serverVersion.FindStringSubmatch(printed)
	if found == nil {
		return fmt.Errorf("no server version in %q", printed)
	}
	major, majorErr := strconv.Atoi(found[1])
	minor, minorErr := strconv.Atoi(found[2])
	if err := errors.Join(majorErr, minorErr); err != nil {
		return err
	}
	if major < oldestTemporal[0] || major == oldestTemporal[0] && minor < oldestTemporal[1] {
		return fmt.Errorf("its server %d.%d is older than %d.%d", major, minor, oldestTemporal[0], oldestTemporal[1])
	}
	return nil
}
