package telemetry

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/singleflight"

	"github.com/geminixiang/mikan/internal/fault"
)

// Weight says what a failing check means.
type Weight string

// The weights.
const (
	Required Weight = "required" // the process cannot do its work: not ready
	Advisory Weight = "advisory" // it works, but worse: ready and degraded
)

// Check asks whether something that the process depends on is there.
type Check struct {
	Name    string
	Weight  Weight                      // "" = Required
	Timeout time.Duration               // 0 = 2 s; a check that does not answer in time has failed
	Probe   func(context.Context) error // must return when its context ends, or its goroutine is left behind
}

const defaultCheckTimeout = 2 * time.Second

// Health answers /healthz, /readyz and /metrics.
type Health struct {
	checks   []Check
	metrics  *Metrics
	logger   *slog.Logger
	draining atomic.Bool
	inFlight singleflight.Group

	mu     sync.Mutex
	failed map[string]bool // by check, as last seen: a change is logged, a state is not
}

// NewHealth makes a Health. Without checks a process is ready as long as it is not draining.
func NewHealth(metrics *Metrics, logger *slog.Logger, checks ...Check) *Health {
	return &Health{checks: checks, metrics: metrics, logger: logger, failed: map[string]bool{}}
}

// Watch adds a check. It is called before the paths are served.
func (h *Health) Watch(c Check) { h.checks = append(h.checks, c) }

// Drain makes the process unready for good, so that nothing new is sent to it while it finishes what it has.
func (h *Health) Drain() { h.draining.Store(true) }

// Mount puts the three paths on a mux of whoever serves other things, too.
func (h *Health) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", h.serveReady)
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.metrics.Gatherer(), promhttp.HandlerOpts{
		// One broken collector must not take the others' figures away.
		ErrorHandling: promhttp.ContinueOnError,
		Timeout:       10 * time.Second,
	}))
}

// Handler serves the three paths and nothing else.
func (h *Health) Handler() http.Handler {
	mux := http.NewServeMux()
	h.Mount(mux)
	return mux
}

// Readiness is the body of /readyz. It names checks and error codes only: whoever can reach the port may read it.
type Readiness struct {
	Ready    bool                   `json:"ready"`
	Degraded bool                   `json:"degraded,omitempty"`
	Draining bool                   `json:"draining,omitempty"`
	Checks   map[string]CheckResult `json:"checks"`
}

// CheckResult is one check's part of a Readiness.
type CheckResult struct {
	OK   bool       `json:"ok"`
	Code fault.Code `json:"code,omitempty"` // of the failure; the text is in the log
}

// Ready runs all checks at once. Callers that come while a round is under way share its result, so that no number of
// them puts load on what is checked.
func (h *Health) Ready(ctx context.Context) Readiness {
	// The round outlives the caller that began it, because others may be waiting for it.
	v, _, _ := h.inFlight.Do("", func() (any, error) { return h.round(context.WithoutCancel(ctx)), nil })
	r := v.(Readiness)
	if h.draining.Load() {
		r.Ready, r.Draining = false, true
	}
	return r
}

func (h *Health) round(ctx context.Context) Readiness {
	errs := make([]error, len(h.checks))
	var wg sync.WaitGroup
	for i, c := range h.checks {
		wg.Go(func() { errs[i] = c.run(ctx) })
	}
	wg.Wait()
	r := Readiness{Ready: true, Checks: map[string]CheckResult{}}
	for i, c := range h.checks {
		result := CheckResult{OK: errs[i] == nil, Code: fault.CodeOf(errs[i])}
		r.Checks[c.Name] = result
		h.log(c, errs[i])
		switch {
		case result.OK:
		case c.Weight == Advisory:
			r.Degraded = true
		default:
			r.Ready = false
		}
	}
	return r
}

func (c Check) run(ctx context.Context) error {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = defaultCheckTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Probe(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fault.Wrap(fault.Unavailable, ctx.Err(), "no answer within %s", timeout)
	}
}

func (h *Health) log(c Check, err error) {
	h.mu.Lock()
	changed := h.failed[c.Name] != (err != nil)
	h.failed[c.Name] = err != nil
	h.mu.Unlock()
	switch {
	case changed && err != nil:
		h.logger.Warn("a check fails", "check", c.Name, "error", err)
	case changed:
		h.logger.Info("a check is well again", "check", c.Name)
	}
}

func (h *Health) serveReady(w http.ResponseWriter, r *http.Request) {
	ready := h.Ready(r.Context())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ready.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(ready)
}
