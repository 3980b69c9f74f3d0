// Package process starts what every long-running process of mikan has: logs, metrics, traces, the database and
// Temporal.
package process

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/secret"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// Process is what a running process is made of.
type Process struct {
	*backend.Backend
	Metrics *telemetry.Metrics
	Health  *telemetry.Health
	tracing *telemetry.Tracing
}

// NewLog makes the process's log on standard error, without configured secrets.
func NewLog(c config.Config) *slog.Logger {
	return telemetry.NewLogger(os.Stderr, telemetry.LogFormatFor(os.Stderr), c.LogLevel, secret.NewRedactor(c.Secrets()))
}

// Start connects a process. name is how it appears in traces.
func Start(ctx context.Context, c config.Config, log *slog.Logger, name string) (*Process, error) {
	metrics, err := telemetry.NewMetrics(log)
	if err != nil {
		return nil, err
	}
	p := &Process{Metrics: metrics}
	with := backend.Instruments{Metrics: metrics.Temporal(), TemporalLog: telemetry.TemporalLogger(log)}
	if telemetry.TracingConfigured(os.Getenv) {
		if p.tracing, err = telemetry.StartTracing(ctx, name); err != nil {
			return nil, err
		}
		interceptors, err := p.tracing.Interceptors()
		if err != nil {
			return nil, errors.Join(err, p.tracing.Stop(ctx))
		}
		with.Interceptors = interceptors
	}
	if p.Backend, err = backend.Open(ctx, c, log, with); err != nil {
		if p.tracing != nil {
			err = errors.Join(err, p.tracing.Stop(ctx))
		}
		return nil, err
	}
	p.Health = telemetry.NewHealth(metrics, log,
		telemetry.Check{Name: "database", Probe: p.Store.Ping},
		telemetry.Check{Name: "temporal", Probe: p.Reachable},
	)
	return p, nil
}

// Close ends the process's connections.
func (p *Process) Close() {
	p.Backend.Close()
	if p.tracing != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = p.tracing.Stop(ctx)
	}
}
