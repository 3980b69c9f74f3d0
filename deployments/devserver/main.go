// Command devserver is a Temporal server with its web UI in one process, for
// development and tests: SQLite file storage, no other service needed.
//
// It differs from a stock development server in its settings: the history
// queues are polled up to 2,000 times a second instead of 20, which takes the
// wait of up to 50 ms out of every hop; task queue fairness is on; and
// namespaces and search attributes exist before it says that it is ready.
//
// On standard output it prints one JSON line when it really serves:
//
//	{"frontend":"127.0.0.1:7233","ui":"http://127.0.0.1:8233"}
//
// Logs go to standard error. SIGTERM and SIGINT end it in order; after a
// SIGKILL the next start on the same file goes on where the last one was.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	enumspb "go.temporal.io/api/enums/v1"
)

const (
	// readyTimeout bounds a start; a cold start takes about 1 s on two cores.
	readyTimeout = 60 * time.Second
	// stopTimeout bounds an orderly stop. Everything acknowledged is in the
	// file by then, so ending without the rest of the stop loses nothing.
	stopTimeout = 5 * time.Second
	// lockTimeout is how long a start waits for a predecessor on the same file.
	lockTimeout = 10 * time.Second
)

// options is what the command line says.
type options struct {
	ip               string
	port             int
	httpPort         int
	uiPort           int
	metricsPort      int
	databaseFile     string
	namespaces       []string
	searchAttributes map[string]enumspb.IndexedValueType
	logLevel         string
	exitWithStdin    bool
}

func main() {
	opts, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			os.Exit(0)
		}
		fmt.Fprintln(os.Stderr, "devserver:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if opts.exitWithStdin {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	if err := run(ctx, opts, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "devserver:", err)
		os.Exit(1)
	}
}

// parse reads the command line; its errors are sentences for the person who
// typed it.
func parse(args []string, usage io.Writer) (options, error) {
	opts := options{searchAttributes: map[string]enumspb.IndexedValueType{}}
	fs := flag.NewFlagSet("devserver", flag.ContinueOnError)
	fs.SetOutput(usage)
	fs.StringVar(&opts.ip, "ip", "127.0.0.1", "`address` to listen on")
	fs.IntVar(&opts.port, "port", 7233, "gRPC `port` of the frontend")
	fs.IntVar(&opts.httpPort, "http-port", 0, "`port` of the HTTP API; 0 takes a free one")
	fs.IntVar(&opts.uiPort, "ui-port", 0, "`port` of the web UI; 0 takes --port + 1000")
	fs.IntVar(&opts.metricsPort, "metrics-port", 0, "`port` of Prometheus metrics; 0 serves none")
	fs.StringVar(&opts.databaseFile, "db-filename", "", "SQLite `file` that holds everything (required; created when missing)")
	fs.StringVar(&opts.logLevel, "log-level", "warn", "debug, info, warn, error or fatal")
	fs.BoolVar(&opts.exitWithStdin, "exit-with-stdin", false, "end in order when standard input is closed")
	fs.Func("namespace", "`name` of a namespace to create when missing (repeatable; default \"default\")", func(name string) error {
		if name == "" {
			return errors.New("the name is empty")
		}
		opts.namespaces = append(opts.namespaces, name)
		return nil
	})
	fs.Func("search-attribute", "`Name=Type` of a search attribute that each --namespace gets (repeatable)", func(value string) error {
		name, kind, found := strings.Cut(value, "=")
		if !found || name == "" {
			return errors.New("want Name=Type, such as CustomerId=Keyword")
		}
		t, err := enumspb.IndexedValueTypeFromString(kind)
		if err != nil || t == enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED {
			return fmt.Errorf("%q is no search attribute type; want Text, Keyword, Int, Double, Bool, Datetime or KeywordList", kind)
		}
		opts.searchAttributes[name] = t
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if opts.databaseFile == "" {
		return options{}, errors.New("--db-filename is required")
	}
	if net.ParseIP(opts.ip) == nil {
		return options{}, fmt.Errorf("--ip wants an IP address, not %q", opts.ip)
	}
	if len(opts.namespaces) == 0 {
		opts.namespaces = []string{"default"}
	}
	if opts.uiPort == 0 {
		opts.uiPort = opts.port + 1000
	}
	return opts, nil
}

// run serves until ctx ends. It returns nil after an orderly stop.
func run(ctx context.Context, opts options, stdout io.Writer) error {
	// Two servers on one SQLite file would corrupt each other's shard leases.
	lock := flock.New(opts.databaseFile + ".lock")
	lockCtx, cancelLock := context.WithTimeout(ctx, lockTimeout)
	locked, err := lock.TryLockContext(lockCtx, 20*time.Millisecond)
	cancelLock()
	if ctx.Err() != nil {
		return nil
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("cannot lock %s: %w", opts.databaseFile, err)
	}
	if !locked {
		return fmt.Errorf("another server is using %s", opts.databaseFile)
	}
	defer func() { _ = lock.Unlock() }()

	srv, err := newServer(opts)
	if err != nil {
		return err
	}
	if err := srv.start(); err != nil {
		return err
	}

	readyCtx, cancelReady := context.WithTimeout(ctx, readyTimeout)
	err = srv.awaitReady(readyCtx)
	cancelReady()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		return fmt.Errorf("not ready after %v: %w", readyTimeout, err)
	default:
		line := struct {
			Frontend string `json:"frontend"`
			UI       string `json:"ui"`
		}{srv.frontendAddress(), srv.uiURL()}
		if err := json.NewEncoder(stdout).Encode(line); err != nil {
			return fmt.Errorf("cannot say that it is ready: %w", err)
		}
		select {
		case <-ctx.Done():
		case err := <-srv.uiFailed:
			return fmt.Errorf("the web UI ended: %w", err)
		}
	}

	stopped := make(chan error, 1)
	go func() { stopped <- srv.stop() }()
	select {
	case err := <-stopped:
		return err
	case <-time.After(stopTimeout):
		return nil
	}
}
