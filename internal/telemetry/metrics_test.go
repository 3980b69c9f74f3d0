package telemetry_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/telemetry"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newMetrics(t *testing.T) *telemetry.Metrics {
	t.Helper()
	m, err := telemetry.NewMetrics(quiet())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// scrape asks /metrics over HTTP and reads the answer as Prometheus does.
func scrape(t *testing.T, m *telemetry.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	server := httptest.NewServer(telemetry.NewHealth(m, quiet()).Handler())
	defer server.Close()
	response, err := http.Get(server.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		t.Fatalf("status %s: %s", response.Status, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation) // names that need no quoting anywhere
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// value finds the one series of a family with these labels, "name=value,…" in the order of the names.
func value(t *testing.T, families map[string]*dto.MetricFamily, name, labels string) float64 {
	t.Helper()
	family := families[name]
	if family == nil {
		t.Errorf("%s is missing", name)
		return 0
	}
	for _, m := range family.GetMetric() {
		var pairs []string
		for _, l := range m.GetLabel() {
			pairs = append(pairs, l.GetName()+"="+l.GetValue())
		}
		if strings.Join(pairs, ",") != labels {
			continue
		}
		switch {
		case m.Counter != nil:
			return m.GetCounter().GetValue()
		case m.Gauge != nil:
			return m.GetGauge().GetValue()
		default:
			return m.GetHistogram().GetSampleSum()
		}
	}
	t.Errorf("%s{%s} is missing among %v", name, labels, family.GetMetric())
	return 0
}

func TestEverythingThatHappensShowsInAScrape(t *testing.T) {
	t.Parallel()
	m := newMetrics(t)
	m.RunEnded(telemetry.Run{Platform: office.Slack, Trigger: run.Human, Outcome: run.Answered,
		Duration: 10 * time.Second, ModelTime: 6 * time.Second, ToolTime: 3500 * time.Millisecond})
	m.ModelCalled(telemetry.ModelCall{Model: llm.Ref{Provider: "openai", Model: "gpt"}, Outcome: "ok", Duration: 2 * time.Second,
		Usage: llm.Usage{Input: 100, Output: 20, CacheRead: 3}, CostMicroUSD: 2500})
	m.ModelCalled(telemetry.ModelCall{Model: llm.Ref{Provider: "openai", Model: "gpt"}, Outcome: "rate_limited"})
	m.ToolCalled("bash", "interrupted", time.Second)
	m.Delivered(office.Telegram, "resent")
	m.Received(office.GitHub, "duplicate")
	m.Refused(office.Discord, "bad key")
	m.Claimed(office.Terminal, 1500*time.Millisecond)
	m.Inbox(4, 2*time.Minute)
	m.Captured("full")
	m.Unserved(office.Discord, 3)
	m.Gated(0.39)
	m.Recovered(telemetry.Sweeper, "woken", 2)
	m.Recovered(telemetry.Reconciler, "settled", 1)

	families := scrape(t, m)
	for _, c := range []struct {
		name, labels string
		want         float64
	}{
		{"mikan_runs_total", "outcome=answered,platform=slack,trigger=human", 1},
		{"mikan_run_duration_seconds", "platform=slack,trigger=human", 10},
		{"mikan_run_overhead_seconds", "platform=slack", 0.5},
		{"mikan_model_calls_total", "model=openai/gpt,outcome=ok", 1},
		{"mikan_model_calls_total", "model=openai/gpt,outcome=rate_limited", 1},
		{"mikan_model_call_duration_seconds", "model=openai/gpt", 2},
		{"mikan_model_tokens_total", "kind=input,model=openai/gpt", 100},
		{"mikan_model_tokens_total", "kind=output,model=openai/gpt", 20},
		{"mikan_model_tokens_total", "kind=cache_read,model=openai/gpt", 3},
		{"mikan_model_cost_usd_total", "model=openai/gpt", 0.0025},
		{"mikan_tool_calls_total", "outcome=interrupted,tool=bash", 1},
		{"mikan_tool_call_duration_seconds", "tool=bash", 1},
		{"mikan_deliveries_total", "outcome=resent,platform=telegram", 1},
		{"mikan_messages_received_total", "platform=github,result=duplicate", 1},
		{"mikan_messages_refused_total", "platform=discord,reason=bad key", 1},
		{"mikan_inbox_lag_seconds", "platform=terminal", 1.5},
		{"mikan_inbox_waiting", "", 4},
		{"mikan_inbox_oldest_seconds", "", 120},
		{"mikan_inbox_unserved", "platform=discord", 3},
		{"mikan_captures_total", "outcome=full", 1},
		{"mikan_capture_probability", "", 0.39},
		{"mikan_recovered_total", "by=sweeper,what=woken", 2},
		{"mikan_recovered_total", "by=reconciler,what=settled", 1},
	} {
		if got := value(t, families, c.name, c.labels); got != c.want {
			t.Errorf("%s{%s} is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds", "mikan_build_info"} {
		if families[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestTemporalsMetricsAreThereInSeconds(t *testing.T) {
	t.Parallel()
	m := newMetrics(t)
	h := m.Temporal().WithTags(map[string]string{"namespace": "default", "operation": "StartWorkflowExecution"})
	h.Counter("temporal_request").Inc(3)
	h.Timer("temporal_request_latency").Record(20 * time.Millisecond)
	h.Gauge("temporal_num_pollers").Update(2)

	families := scrape(t, m)
	const labels = "namespace=default,operation=StartWorkflowExecution"
	for name, want := range map[string]float64{
		"temporal_request_total": 3, "temporal_request_latency_seconds": 0.02, "temporal_num_pollers": 2,
	} {
		if got := value(t, families, name, labels); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := families["temporal_request_total"].GetType(); got != dto.MetricType_COUNTER {
		t.Errorf("the counter is a %v", got)
	}
	// Bounds made for milliseconds would put every latency into the first bucket.
	counts := map[float64]uint64{}
	for _, b := range families["temporal_request_latency_seconds"].GetMetric()[0].GetHistogram().GetBucket() {
		counts[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	if below, ok := counts[0.01]; !ok || below != 0 || counts[0.025] != 1 {
		t.Errorf("the buckets are %v", counts)
	}
}

func TestStrangersCannotMakeSeriesWithoutBound(t *testing.T) {
	t.Parallel()
	m := newMetrics(t)
	for i := range 1000 {
		m.ToolCalled(fmt.Sprint("invented-", i), "error", 0)
		m.ModelCalled(telemetry.ModelCall{Model: llm.Ref{Provider: "openai", Model: fmt.Sprint("m", i)}, Outcome: "ok"})
		m.Received(office.Platform(fmt.Sprint("p", i)), "run")
		m.Refused(office.Slack, fmt.Sprint("reason ", i))
	}
	m.ToolCalled("bad\xffname", "error", 0)
	m.ToolCalled(strings.Repeat("x", 10_000), "error", 0)
	m.ToolCalled("", "", 0)
	families := scrape(t, m)
	for name, most := range map[string]int{
		"mikan_tool_calls_total": 103, "mikan_model_calls_total": 51, "mikan_messages_received_total": 1, "mikan_messages_refused_total": 101,
	} {
		if got := len(families[name].GetMetric()); got > most {
			t.Errorf("%s has %d series", name, got)
		}
	}
	if value(t, families, "mikan_messages_received_total", "platform=other,result=run") != 1000 {
		t.Error("what is over the limit is not counted")
	}
}

func TestClocksThatDisagreeMakeNoNegativeDurations(t *testing.T) {
	t.Parallel()
	m := newMetrics(t)
	m.RunEnded(telemetry.Run{Platform: office.Slack, Trigger: run.Human, Outcome: run.Answered, Duration: time.Second, ModelTime: time.Minute})
	m.Claimed(office.Slack, -time.Minute)
	families := scrape(t, m)
	for name, labels := range map[string]string{"mikan_run_overhead_seconds": "platform=slack", "mikan_inbox_lag_seconds": "platform=slack"} {
		if got := value(t, families, name, labels); got != 0 {
			t.Errorf("%s sums to %v", name, got)
		}
	}
}
