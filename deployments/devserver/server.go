package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	clusterName = "active"
	storeName   = "sqlite"
	// historyShards is stored in the file at its first start and cannot change
	// afterwards. One shard is what `temporal server start-dev` uses, so either
	// program can open the other's file.
	historyShards = 1
	// queuePollRPS caps how often a history queue looks for new tasks. The
	// stock 20 lets a task wait up to 50 ms; 2,000 makes that 0.5 ms.
	queuePollRPS = 2000
)

// server is the Temporal server and its web UI.
type server struct {
	opts     options
	temporal temporal.Server
	ui       *uiserver.Server
	uiFailed chan error
}

// newServer prepares the file (schema, namespaces) and both servers, and
// starts neither.
func newServer(opts options) (*server, error) {
	internal, err := freePorts(opts.ip, 4)
	if err != nil {
		return nil, err
	}
	if opts.httpPort == 0 {
		opts.httpPort = internal[3]
	}
	for name, port := range map[string]int{"--port": opts.port, "--ui-port": opts.uiPort, "--http-port": opts.httpPort} {
		if err := checkFree(opts.ip, port); err != nil {
			return nil, fmt.Errorf("%s %d cannot be used: %w", name, port, err)
		}
	}
	storage, err := prepareStorage(opts)
	if err != nil {
		return nil, err
	}
	conf := serverConfig(opts, storage, internal)
	// Without stack traces: whoever reads why a start failed would see only their end.
	logger := log.NewZapLogger(log.BuildZapLogger(log.Config{Level: opts.logLevel, Format: "json"}).
		WithOptions(zap.AddStacktrace(zapcore.InvalidLevel)))
	authorizer, err := authorization.GetAuthorizerFromConfig(&conf.Global.Authorization)
	if err != nil {
		return nil, fmt.Errorf("authorizer: %w", err)
	}
	claims, err := authorization.GetClaimMapperFromConfig(&conf.Global.Authorization, logger)
	if err != nil {
		return nil, fmt.Errorf("claim mapper: %w", err)
	}
	host := func(service primitives.ServiceName) static.Hosts {
		port := conf.Services[string(service)].RPC.GRPCPort
		return static.SingleLocalHost(net.JoinHostPort(opts.ip, strconv.Itoa(port)))
	}
	srv, err := temporal.NewServer(
		temporal.WithConfig(conf),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(map[primitives.ServiceName]static.Hosts{
			primitives.FrontendService: host(primitives.FrontendService),
			primitives.HistoryService:  host(primitives.HistoryService),
			primitives.MatchingService: host(primitives.MatchingService),
			primitives.WorkerService:   host(primitives.WorkerService),
		}),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorizer),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return claims }),
		temporal.WithDynamicConfigClient(dynamicValues()),
	)
	if err != nil {
		return nil, fmt.Errorf("temporal server: %w", err)
	}
	ui := uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
		Host:                opts.ip,
		Port:                opts.uiPort,
		TemporalGRPCAddress: net.JoinHostPort(opts.ip, strconv.Itoa(opts.port)),
		DefaultNamespace:    opts.namespaces[0],
		EnableUI:            true,
		// The UI is served over plain HTTP on the loopback address.
		CORS:             uiconfig.CORS{CookieInsecure: true},
		DisableNewsFetch: true,
		HideLogs:         true,
	}))
	return &server{opts: opts, temporal: srv, ui: ui, uiFailed: make(chan error, 1)}, nil
}

// dynamicValues are the settings that make a small server answer quickly.
func dynamicValues() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		dynamicconfig.TransferProcessorMaxPollRPS.Key():   queuePollRPS,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():      queuePollRPS,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): queuePollRPS,
		dynamicconfig.OutboundProcessorMaxPollRPS.Key():   queuePollRPS,
		// By default an execution that continues a workflow begins no sooner than a second after the one before: the
		// messages of a busy session would be answered at most once a second.
		dynamicconfig.WorkflowIdReuseMinimalInterval.Key(): time.Duration(0),

		// New search attributes, which SQL storage keeps with the namespace, are
		// usable after a second, and new Nexus endpoints at once.
		dynamicconfig.MakeKey("system.forceNexusEndpointRefreshOnRead"): true,
		dynamicconfig.NamespaceCacheRefreshInterval.Key():               time.Second,
		// What the refresh would read is written at the first start and never
		// again; reading it at each use cost five queries a run.
		dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key(): false,

		// A worker that stands still keeps its connection, and the server goes
		// on giving work to its polls. It is found out before its heartbeats
		// are missed, so that what it had goes to another one.
		dynamicconfig.KeepAliveTime.Key():    2 * time.Second,
		dynamicconfig.KeepAliveTimeout.Key(): 2 * time.Second,

		// The stock limits would throttle a burst of runs.
		dynamicconfig.FrontendPersistenceMaxQPS.Key():                                          100_000,
		dynamicconfig.HistoryPersistenceMaxQPS.Key():                                           100_000,
		dynamicconfig.MatchingPersistenceMaxQPS.Key():                                          100_000,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key():                       1000,
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key():                                 20_000,
		dynamicconfig.FrontendMaxNamespaceNamespaceReplicationInducingAPIsRPSPerInstance.Key(): 1000,
		// Tests create a namespace each; the stock 20 a second would refuse some.
		dynamicconfig.FrontendNamespaceReplicationInducingAPIsRPS.Key(): 1000,
		dynamicconfig.WorkerPerNamespaceWorkerStartRate.Key():           1000.0,

		// One partition: more spread a small load over queues that must
		// forward to each other, which costs hops and breaks order.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		dynamicconfig.MatchingEnableFairness.Key():              true,

		dynamicconfig.EnableDeploymentVersions.Key():                   true,
		dynamicconfig.FrontendEnableWorkerVersioningWorkflowAPIs.Key(): true,

		dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): 8192,
	}
}

// prepareStorage creates the schema in a new file and the namespaces that are
// missing.
func prepareStorage(opts options) (*config.SQL, error) {
	storage := &config.SQL{
		PluginName:   sqlite.PluginName,
		DatabaseName: opts.databaseFile,
		ConnectAttributes: map[string]string{
			"mode": "rwc",
			// Keys without a leading underscore: with one they are ignored.
			"journal_mode": "WAL",
			// Under WAL a killed process loses nothing; only a power cut can
			// take the last commits, and never the file's consistency.
			"synchronous":  "NORMAL",
			"busy_timeout": "10000",
		},
	}
	_, err := os.Stat(opts.databaseFile)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := createSchema(*storage, opts.databaseFile); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("database file: %w", err)
	}
	namespaces := make([]*sqliteschema.NamespaceConfig, 0, len(opts.namespaces))
	for _, name := range opts.namespaces {
		ns, err := sqliteschema.NewNamespaceConfig(clusterName, name, false, opts.searchAttributes)
		if err != nil {
			return nil, fmt.Errorf("namespace %s: %w", name, err)
		}
		namespaces = append(namespaces, ns)
	}
	if err := sqliteschema.CreateNamespaces(storage, namespaces...); err != nil {
		return nil, fmt.Errorf("create namespaces: %w", err)
	}
	if err := dropIndexes(opts.databaseFile); err != nil {
		return nil, fmt.Errorf("drop unused indexes: %w", err)
	}
	return storage, nil
}

// keptIndexes are those that answer what the UI, the schedules and mikan ask
// for: executions by time, id, type, status, parent and search attribute.
var keptIndexes = []string{
	"default_idx", "by_execution_time", "by_workflow_id", "by_workflow_type", "by_status", "by_parent_workflow_id", "by_root_workflow_id",
	"by_temporal_namespace_division", "by_temporal_scheduled_by_id",
	"by_keyword_01", "by_keyword_02", "by_keyword_03", "by_keyword_04", "by_keyword_05",
	"by_keyword_06", "by_keyword_07", "by_keyword_08", "by_keyword_09", "by_keyword_10",
}

// dropIndexes drops the other indexes of the list of executions. The schema has
// 58, for every attribute that anybody may have, and three writes a run to all
// of them took a tenth of the server's time. Without its index a query is
// slower, and answers the same.
func dropIndexes(file string) error {
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.Query(`SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql IS NOT NULL`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var unused []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		if !slices.Contains(keptIndexes, name) {
			unused = append(unused, `DROP INDEX "`+name+`";`)
		}
	}
	if err := rows.Err(); err != nil || len(unused) == 0 {
		return err
	}
	_, err = db.Exec("BEGIN; " + strings.Join(unused, " ") + " COMMIT;")
	return err
}

// createSchema builds the schema beside the final name and renames it, so that
// a kill in the middle leaves no file with half a schema.
func createSchema(storage config.SQL, file string) error {
	building := file + ".new"
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(building + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("database file: %w", err)
		}
	}
	storage.DatabaseName = building
	// Without WAL everything is in the one file that is renamed.
	storage.ConnectAttributes = map[string]string{"mode": "rwc", "synchronous": "OFF"}
	if err := sqliteschema.SetupSchema(&storage); err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	if err := os.Chmod(building, 0o600); err != nil {
		return fmt.Errorf("database file: %w", err)
	}
	if err := os.Rename(building, file); err != nil {
		return fmt.Errorf("database file: %w", err)
	}
	return nil
}

func serverConfig(opts options, storage *config.SQL, internal []int) *config.Config {
	frontend := net.JoinHostPort(opts.ip, strconv.Itoa(opts.port))
	service := func(port int) config.Service {
		return config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: opts.ip}}
	}
	conf := &config.Config{
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: opts.ip},
		},
		Persistence: config.Persistence{
			DefaultStore:     storeName,
			VisibilityStore:  storeName,
			NumHistoryShards: historyShards,
			DataStores:       map[string]config.DataStore{storeName: {SQL: storage}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {
					Enabled:                true,
					InitialFailoverVersion: 1,
					RPCAddress:             frontend,
					HTTPAddress:            net.JoinHostPort(opts.ip, strconv.Itoa(opts.httpPort)),
					// Only a new file takes it; later starts read it from there.
					ClusterID: uuid.NewString(),
				},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services: map[string]config.Service{
			string(primitives.FrontendService): {
				RPC: config.RPC{GRPCPort: opts.port, BindOnIP: opts.ip, HTTPPort: opts.httpPort},
			},
			string(primitives.HistoryService):  service(internal[0]),
			string(primitives.MatchingService): service(internal[1]),
			string(primitives.WorkerService):   service(internal[2]),
		},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{
			Archival: config.ArchivalNamespaceDefaults{
				History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
				Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
			},
		},
		PublicClient: config.PublicClient{HostPort: frontend},
	}
	if opts.metricsPort != 0 {
		conf.Global.Metrics = &metrics.Config{Prometheus: &metrics.PrometheusConfig{
			ListenAddress: net.JoinHostPort(opts.ip, strconv.Itoa(opts.metricsPort)),
			HandlerPath:   "/metrics",
		}}
	}
	return conf
}

func (s *server) frontendAddress() string {
	return net.JoinHostPort(s.opts.ip, strconv.Itoa(s.opts.port))
}

func (s *server) uiURL() string {
	return "http://" + net.JoinHostPort(s.opts.ip, strconv.Itoa(s.opts.uiPort))
}

func (s *server) start() error {
	go func() {
		if err := s.ui.Start(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.uiFailed <- err
		}
	}()
	if err := s.temporal.Start(); err != nil {
		return fmt.Errorf("temporal server: %w", err)
	}
	return nil
}

func (s *server) stop() error {
	s.ui.Stop()
	return s.temporal.Stop()
}

// freePorts returns n different free TCP ports for the services that only this
// process talks to.
func freePorts(ip string, n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			return nil, fmt.Errorf("free port: %w", err)
		}
		// All are held until the last is found, so that they differ.
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func checkFree(ip string, port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}
