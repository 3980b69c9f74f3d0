package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
)

// PortPolicy says what to do when a port is taken.
type PortPolicy string

// The policies.
const (
	ExactPort  PortPolicy = "exact"   // refuse: others expect the process there
	OrFreePort PortPolicy = "or free" // take a free port of the same host; the caller says which
)

// Listen opens a TCP listener. variable is the name of the setting that address comes from, for the refusal's
// sentence, which is of code fault.Conflict when the port is taken and fault.Invalid otherwise.
func Listen(ctx context.Context, variable, address string, policy PortPolicy) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	taken := errors.Is(err, syscall.EADDRINUSE)
	if taken && policy == OrFreePort {
		host, _, splitErr := net.SplitHostPort(address)
		if splitErr == nil {
			return lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
		}
	}
	switch {
	case err == nil:
		return ln, nil
	case taken:
		return nil, fault.New(fault.Conflict, "%s is %s, where another process listens; stop that one, or set %s to another address",
			variable, address, variable)
	default:
		return nil, fault.Wrap(fault.Invalid, err, "%s is %s, where this machine cannot listen", variable, address)
	}
}

// Time limits of the servers. There is none for a whole request or answer: pages of the session view stay open.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
)

// Serve serves handler on ln until ctx ends, then gives open requests the time of drain to end and closes the rest.
// It returns nil after such an end. A handler whose answers stay open on purpose, as event streams do, has to end them
// with ctx by itself, or they use up the whole of drain.
func Serve(ctx context.Context, ln net.Listener, handler http.Handler, drain time.Duration, logger *slog.Logger) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug), // clients that hang up are no news
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	select {
	case err := <-failed:
		return fault.Wrap(fault.Internal, err, "the server on %s ended", ln.Addr())
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(stop); err != nil {
		return server.Close()
	}
	return nil
}
