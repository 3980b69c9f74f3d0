package telemetry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/proto"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// receiver is an OTLP collector that keeps what it is sent.
type receiver struct {
	mu    sync.Mutex
	raw   []byte
	spans map[string]*otlp.Span
	about map[string]string // the resource
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{spans: map[string]*otlp.Span{}, about: map[string]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var sent collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		if err != nil || req.URL.Path != "/v1/traces" {
			http.Error(w, "not a trace", http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.raw = append(r.raw, body...)
		for _, rs := range sent.GetResourceSpans() {
			for _, a := range rs.GetResource().GetAttributes() {
				r.about[a.GetKey()] = a.GetValue().GetStringValue()
			}
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					r.spans[s.GetName()] = s
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	return r
}

func attributes(s *otlp.Span) map[string]any {
	all := map[string]any{}
	for _, a := range s.GetAttributes() {
		switch v := a.GetValue(); {
		case v.GetStringValue() != "":
			all[a.GetKey()] = v.GetStringValue()
		case v.GetArrayValue() != nil:
			all[a.GetKey()] = v.GetArrayValue().GetValues()[0].GetStringValue()
		default:
			all[a.GetKey()] = v.GetIntValue()
		}
	}
	return all
}

func TestSpansFollowTheGenAIConventionsAndHoldNoText(t *testing.T) {
	r := newReceiver(t)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	tracing, err := telemetry.StartTracing(t.Context(), "mikan-worker")
	if err != nil || tracing == nil {
		t.Fatalf("tracing is %v, %v", tracing, err)
	}
	ctx, outer := tracing.StartModel(t.Context(), llm.Ref{Provider: llm.ProviderOpenAIChat, Model: "gpt-x"}, "v1-slack-c1-0/C1")
	_, inner := tracing.StartTool(ctx, "bash", "call_1")
	inner.End(fault.New(fault.Interrupted, "while running rm private-text"))
	outer.EndModel(llm.Response{
		Blocks: []llm.Block{{Kind: llm.BlockText, Text: "private-text"}}, Stop: llm.StopTools, Model: "gpt-x-2026",
		Usage: llm.Usage{Input: 10, Output: 5, CacheRead: 30, CacheWrite: 2},
	}, nil)
	_, failed := tracing.StartModel(t.Context(), llm.Ref{Provider: llm.ProviderAnthropic, Model: "claude-x"}, "s")
	failed.EndModel(llm.Response{}, fault.Wrap(fault.Invalid, errors.New("private-text"), "refused private-text"))
	if err := tracing.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Contains(string(r.raw), "private-text") {
		t.Error("a span holds text")
	}
	if r.about["service.name"] != "mikan-worker" || r.about["deployment.environment.name"] != "test" {
		t.Errorf("the resource is %v", r.about)
	}
	chat, tool, refused := r.spans["chat gpt-x"], r.spans["execute_tool bash"], r.spans["chat claude-x"]
	if chat == nil || tool == nil || refused == nil {
		t.Fatalf("spans are %v", r.spans)
	}
	if string(tool.GetParentSpanId()) != string(chat.GetSpanId()) {
		t.Error("the tool's span is not inside the model's")
	}
	for name, c := range map[string]struct {
		got  map[string]any
		want map[string]any
	}{
		"model": {attributes(chat), map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-x",
			"gen_ai.response.model": "gpt-x-2026", "gen_ai.response.finish_reasons": "tools",
			"gen_ai.conversation.id": "v1-slack-c1-0/C1", "gen_ai.usage.input_tokens": int64(42),
			"gen_ai.usage.output_tokens": int64(5), "gen_ai.usage.cache_read.input_tokens": int64(30),
		}},
		"tool": {attributes(tool), map[string]any{
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "bash", "gen_ai.tool.call.id": "call_1", "error.type": "interrupted",
		}},
		"refused model": {attributes(refused), map[string]any{"error.type": "invalid", "gen_ai.provider.name": "anthropic"}},
	} {
		for key, want := range c.want {
			if c.got[key] != want {
				t.Errorf("%s: %s is %v, want %v", name, key, c.got[key], want)
			}
		}
	}
	if refused.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR || refused.GetStatus().GetMessage() != "invalid" {
		t.Errorf("the status of the refused call is %v", refused.GetStatus())
	}
}

func TestTemporalsSpansHoldNoErrorText(t *testing.T) {
	r := newReceiver(t)
	tracing, err := telemetry.StartTracing(t.Context(), "mikan-worker")
	if err != nil {
		t.Fatal(err)
	}
	clientInterceptors, err := tracing.Interceptors()
	if err != nil || len(clientInterceptors) != 1 {
		t.Fatalf("interceptors %v, %v", clientInterceptors, err)
	}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{clientInterceptors[0].(interceptor.WorkerInterceptor)}})
	fails := func(context.Context) error {
		return temporal.NewNonRetryableApplicationError("private-text", "forbidden", errors.New("private-text"))
	}
	env.RegisterActivity(fails)
	if _, err := env.ExecuteActivity(fails); err == nil {
		t.Fatal("the activity succeeded")
	}
	if err := tracing.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Contains(string(r.raw), "private-text") {
		t.Error("a span holds an error's text")
	}
	if len(r.spans) != 1 {
		t.Fatalf("spans are %v", r.spans)
	}
	for name, span := range r.spans {
		if span.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR || attributes(span)["error.type"] != "forbidden" {
			t.Errorf("%s ended with %v, %v", name, span.GetStatus(), attributes(span))
		}
	}
}

func TestTracingIsOffUnlessAnEndpointIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want bool
	}{
		"nothing":           {nil, false},
		"an endpoint":       {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, true},
		"one for traces":    {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, true},
		"turned off":        {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}, false},
		"traces turned off": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, false},
	} {
		if got := telemetry.TracingConfigured(func(n string) string { return c.env[n] }); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAProtocolThatIsNotSpokenIsRefused(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	_, err := telemetry.StartTracing(t.Context(), "mikan")
	if fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_PROTOCOL") {
		t.Errorf("got %v", err)
	}
}

func TestTracingTurnedOffCostsNothing(t *testing.T) {
	var off *telemetry.Tracing
	ctx := t.Context()
	ref := llm.Ref{Provider: "openai", Model: "gpt-x"}
	allocations := testing.AllocsPerRun(100, func() {
		inner, model := off.StartModel(ctx, ref, "s")
		_, tool := off.StartTool(inner, "bash", "c")
		tool.End(nil)
		model.EndModel(llm.Response{}, nil)
	})
	if allocations != 0 {
		t.Errorf("%v allocations a call", allocations)
	}
	if all, err := off.Interceptors(); err != nil || len(all) != 0 {
		t.Errorf("interceptors %v, %v", all, err)
	}
	if err := off.Stop(ctx); err != nil {
		t.Error(err)
	}
}
