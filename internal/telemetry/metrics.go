package telemetry

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/otlptranslator"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	temporalotel "go.temporal.io/sdk/contrib/opentelemetry"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
)

// Metrics counts what a process does. Durations are in seconds and cost in US dollars, as Prometheus wants base units.
// Every label has a bounded number of values: what a stranger or a model chose is counted as "other" beyond a limit.
type Metrics struct {
	registry *prometheus.Registry
	temporal client.MetricsHandler
	provider *sdkmetric.MeterProvider

	models, tools, words *limit

	runs         *prometheus.CounterVec
	runDuration  *prometheus.HistogramVec
	overhead     *prometheus.HistogramVec
	modelCalls   *prometheus.CounterVec
	modelTime    *prometheus.HistogramVec
	tokens       *prometheus.CounterVec
	cost         *prometheus.CounterVec
	toolCalls    *prometheus.CounterVec
	toolTime     *prometheus.HistogramVec
	deliveries   *prometheus.CounterVec
	resent       *prometheus.CounterVec
	received     *prometheus.CounterVec
	refused      *prometheus.CounterVec
	inboxLag     *prometheus.HistogramVec
	inboxWaiting prometheus.Gauge
	inboxOldest  prometheus.Gauge
	unserved     *prometheus.GaugeVec
	captures     *prometheus.CounterVec
	probability  prometheus.Histogram
	recovered    *prometheus.CounterVec
}

// Bounds of histograms, in seconds. A run lasts from a tenth of a second to an hour; what mikan adds to it should stay
// in the milliseconds.
var (
	runBounds      = []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
	overheadBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
	requestBounds  = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
)

// NewMetrics makes the process's one registry, with the Go runtime's and the Temporal SDK's metrics in it. logger
// hears of metrics that cannot be recorded.
func NewMetrics(logger *slog.Logger) (*Metrics, error) {
	r := prometheus.NewRegistry()
	m := &Metrics{
		registry: r,
		models:   &limit{most: 50},
		tools:    &limit{most: 100},
		words:    &limit{most: 100},
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mikan_" + name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	histogram := func(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "mikan_" + name, Help: help, Buckets: bounds}, labels)
		r.MustRegister(h)
		return h
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "mikan_" + name, Help: help})
		r.MustRegister(g)
		return g
	}
	m.runs = counter("runs_total", "Runs that ended.", "platform", "trigger", "outcome")
	m.runDuration = histogram("run_duration_seconds", "Time from a run's claim to its settlement.", runBounds, "platform", "trigger")
	m.overhead = histogram("run_overhead_seconds", "Run duration less the time of its model and tool calls.", overheadBounds, "platform")
	m.modelCalls = counter("model_calls_total", "Model calls by outcome: ok or an error code.", "model", "outcome")
	m.modelTime = histogram("model_call_duration_seconds", "Time of a model call, streaming included.", runBounds, "model")
	m.tokens = counter("model_tokens_total", "Tokens by kind: input, output, cache_read, cache_write.", "model", "kind")
	m.cost = counter("model_cost_usd_total", "Cost of model calls whose price is known, in US dollars.", "model")
	m.toolCalls = counter("tool_calls_total", "Tool calls by outcome.", "tool", "outcome")
	m.toolTime = histogram("tool_call_duration_seconds", "Time of a tool call.", runBounds, "tool")
	m.deliveries = counter("deliveries_total", "Visible messages by outcome.", "platform", "outcome")
	m.resent = counter("deliveries_resent_total", "Visible messages that may stand twice: nobody can tell whether an earlier attempt arrived.", "platform", "part")
	m.received = counter("messages_received_total", "Platform messages by what became of them.", "platform", "result")
	m.refused = counter("messages_refused_total", "Platform messages that were not taken in, by reason.", "platform", "reason")
	m.inboxLag = histogram("inbox_lag_seconds", "Time from storing a trigger to the claim by its run.", runBounds, "platform")
	m.inboxWaiting = gauge("inbox_waiting", "Triggers that no run has claimed yet.")
	m.inboxOldest = gauge("inbox_oldest_seconds", "Age of the oldest trigger that no run has claimed yet.")
	m.unserved = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mikan_inbox_unserved", Help: "Words and decisions that have waited for a minute on a platform that this process has no token for.",
	}, []string{"platform"})
	m.captures = counter("captures_total", "Memory captures by outcome.", "outcome")
	m.recovered = counter("recovered_total", "What the sweeper or the reconciler set going again or settled.", "by", "what")
	m.probability = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "mikan_capture_probability", Help: "The capture gate's probability that something durable was said.",
		Buckets: prometheus.LinearBuckets(0.1, 0.1, 10),
	})
	r.MustRegister(m.probability, m.unserved, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(buildInfo())

	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(r), otelprometheus.WithoutTargetInfo(),
		otelprometheus.WithoutScopeInfo(), otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		return nil, fmt.Errorf("exporting Temporal's metrics: %w", err)
	}
	// OpenTelemetry's default bounds are made for milliseconds; Temporal's timers are in seconds.
	seconds := sdkmetric.NewView(sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram, Unit: "s"},
		sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: requestBounds}})
	m.provider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithView(seconds))
	m.temporal = temporalotel.NewMetricsHandler(temporalotel.MetricsHandlerOptions{
		Meter:                m.provider.Meter("temporal-sdk-go"),
		OnError:              func(err error) { logger.Warn("a Temporal metric cannot be recorded", "error", err) },
		UseMonotonicCounters: true, // else counters come out as gauges, on which rate() is meaningless
	})
	return m, nil
}

func buildInfo() prometheus.Collector {
	version, revision := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mikan_build_info", Help: "1; the labels tell which build this is.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision},
	})
	g.Set(1)
	return g
}

// Gatherer is what /metrics serves.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Registerer takes collectors of other packages, such as a connection pool's.
func (m *Metrics) Registerer() prometheus.Registerer { return m.registry }

// Temporal is for client.Options.MetricsHandler.
func (m *Metrics) Temporal() client.MetricsHandler { return m.temporal }

// Run is what is observed when a run ends.
type Run struct {
	Platform  office.Platform
	Trigger   run.Trigger
	Outcome   run.Outcome
	Duration  time.Duration // from claim to settlement
	ModelTime time.Duration // sum of its model calls
	ToolTime  time.Duration // time in which at least one tool ran
}

// RunEnded observes a run.
func (m *Metrics) RunEnded(o Run) {
	platform := platformLabel(o.Platform)
	m.runs.WithLabelValues(platform, m.words.label(string(o.Trigger)), m.words.label(string(o.Outcome))).Inc()
	m.runDuration.WithLabelValues(platform, m.words.label(string(o.Trigger))).Observe(o.Duration.Seconds())
	// Clocks of several processes are in this: a difference below zero is none.
	m.overhead.WithLabelValues(platform).Observe(max(0, o.Duration-o.ModelTime-o.ToolTime).Seconds())
}

// ModelCall is what is observed of one model call.
type ModelCall struct {
	Model        llm.Ref
	Outcome      string // "ok" or a fault code
	Duration     time.Duration
	Usage        llm.Usage
	CostMicroUSD int64 // 0 when the price is unknown
}

// ModelCalled observes a model call.
func (m *Metrics) ModelCalled(o ModelCall) {
	model := m.models.label(o.Model.Provider + "/" + o.Model.Model)
	m.modelCalls.WithLabelValues(model, m.words.label(o.Outcome)).Inc()
	m.modelTime.WithLabelValues(model).Observe(o.Duration.Seconds())
	for kind, n := range map[string]int64{
		"input": o.Usage.Input, "output": o.Usage.Output, "cache_read": o.Usage.CacheRead, "cache_write": o.Usage.CacheWrite,
	} {
		if n > 0 {
			m.tokens.WithLabelValues(model, kind).Add(float64(n))
		}
	}
	if o.CostMicroUSD > 0 {
		m.cost.WithLabelValues(model).Add(float64(o.CostMicroUSD) / 1e6)
	}
}

// ToolCalled observes a tool call. The name is the model's choice; names of no known tool should come as "unknown".
func (m *Metrics) ToolCalled(tool, outcome string, d time.Duration) {
	tool = m.tools.label(tool)
	m.toolCalls.WithLabelValues(tool, m.words.label(outcome)).Inc()
	m.toolTime.WithLabelValues(tool).Observe(d.Seconds())
}

// Delivered counts a visible message whose fate is known: confirmed, refused, failed, or sent again although the first
// attempt may have arrived.
func (m *Metrics) Delivered(p office.Platform, outcome string) {
	m.deliveries.WithLabelValues(platformLabel(p), m.words.label(outcome)).Inc()
}

// Resent counts a visible message that is sent again although an earlier attempt may have arrived, where the platform
// gives no means to find out. part is 0 for the first message of an answer.
func (m *Metrics) Resent(p office.Platform, part int) {
	which := "first"
	if part > 0 {
		which = "later"
	}
	m.resent.WithLabelValues(platformLabel(p), which).Inc()
}

// Received counts a platform message by what became of it: run, logged, command, control, duplicate.
func (m *Metrics) Received(p office.Platform, result string) {
	m.received.WithLabelValues(platformLabel(p), m.words.label(result)).Inc()
}

// Refused counts a message that was not taken in. The reason is one of a fixed vocabulary and holds nothing of the
// message.
func (m *Metrics) Refused(p office.Platform, reason string) {
	m.refused.WithLabelValues(platformLabel(p), m.words.label(reason)).Inc()
}

// Claimed observes how long a trigger waited in the inbox.
func (m *Metrics) Claimed(p office.Platform, waited time.Duration) {
	m.inboxLag.WithLabelValues(platformLabel(p)).Observe(max(0, waited).Seconds())
}

// Inbox sets how much waits in the inbox now, and since when.
func (m *Metrics) Inbox(waiting int, oldest time.Duration) {
	m.inboxWaiting.Set(float64(waiting))
	m.inboxOldest.Set(max(0, oldest).Seconds())
}

// Unserved sets how many words and decisions wait for a token of the platform.
func (m *Metrics) Unserved(p office.Platform, waiting int64) {
	m.unserved.WithLabelValues(platformLabel(p)).Set(float64(waiting))
}

// Captured counts a capture by its outcome.
func (m *Metrics) Captured(outcome string) { m.captures.WithLabelValues(m.words.label(outcome)).Inc() }

// Gated observes the capture gate's probability, 0 to 1.
func (m *Metrics) Gated(probability float64) { m.probability.Observe(probability) }

// Recoverer is a background service that mends what a crash left behind.
type Recoverer string

// The recoverers.
const (
	Sweeper    Recoverer = "sweeper"    // starts runs for inbox rows that nobody woke
	Reconciler Recoverer = "reconciler" // settles runs whose workflow is gone
)

// Recovered counts what a recoverer did; what is one of its fixed words, like "woken" or "settled".
func (m *Metrics) Recovered(by Recoverer, what string, n int) {
	m.recovered.WithLabelValues(string(by), m.words.label(what)).Add(float64(n))
}

func platformLabel(p office.Platform) string {
	if known, err := office.ParsePlatform(string(p)); err == nil {
		return string(known)
	}
	return other
}

// other stands for every label value beyond a limit.
const other = "other"

// maxLabel is the longest label value, in bytes: longer ones are no names.
const maxLabel = 100

// limit bounds the number of a label's values: first come, first served.
type limit struct {
	most int
	mu   sync.Mutex
	seen map[string]struct{}
}

func (l *limit) label(s string) string {
	if s == "" || len(s) > maxLabel || !utf8.ValidString(s) {
		return other
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.seen[s]; ok {
		return s
	}
	if len(l.seen) >= l.most {
		return other
	}
	if l.seen == nil {
		l.seen = map[string]struct{}{}
	}
	l.seen[s] = struct{}{}
	return s
}
