package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // the last version with the GenAI conventions
	"go.opentelemetry.io/otel/trace"
	temporalotel "go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
)

// Tracing makes spans by OpenTelemetry's GenAI conventions. They hold names, ids, token counts and error codes, never
// text. A nil *Tracing is tracing turned off: its methods do nothing and allocate nothing.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// TracingConfigured tells whether the environment names an OTLP endpoint and does not turn tracing off.
func TracingConfigured(getenv func(string) string) bool {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// StartTracing returns nil when tracing is not configured. The exporter reads endpoint, headers, sampler and so on
// from OpenTelemetry's own variables; it speaks http/protobuf. service is the process's name where OTEL_SERVICE_NAME
// gives none. An endpoint that cannot be reached is no error: spans are dropped, runs go on.
func StartTracing(ctx context.Context, service string) (*Tracing, error) {
	if !TracingConfigured(os.Getenv) {
		return nil, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := os.Getenv(name); protocol != "" && protocol != "http/protobuf" {
			return nil, fault.New(fault.Invalid, "%s is %q, but mikan exports traces by http/protobuf only; set it to that, "+
				"and the endpoint to the collector's HTTP port (4318 by default)", name, protocol)
		}
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("exporting traces: %w", err)
	}
	// What the environment says comes last, and so wins.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", service)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describing this process for traces: %w", err)
	}
	return newTracing(sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))), nil
}

func newTracing(provider *sdktrace.TracerProvider) *Tracing {
	return &Tracing{provider: provider, tracer: provider.Tracer("github.com/geminixiang/mikan")}
}

// Stop sends what is still buffered, as long as ctx lets it.
func (t *Tracing) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Interceptors are for client.Options.Interceptors: they make Temporal's spans, and carry them from process to
// process. None when tracing is off.
func (t *Tracing) Interceptors() ([]interceptor.ClientInterceptor, error) {
	if t == nil {
		return nil, nil
	}
	i, err := temporalotel.NewTracingInterceptor(temporalotel.TracerOptions{
		Tracer:         t.tracer,
		DisableBaggage: true, // baggage is other services' content, and would end up in histories
		SpanStarter: func(ctx context.Context, t trace.Tracer, name string, o ...trace.SpanStartOption) trace.Span {
			_, span := t.Start(ctx, name, o...)
			return contentless{span}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("tracing Temporal: %w", err)
	}
	return []interceptor.ClientInterceptor{i}, nil
}

// contentless is a span of Temporal's interceptor, which would put the text of errors into it.
type contentless struct{ trace.Span }

func (s contentless) SetStatus(code codes.Code, _ string) { s.Span.SetStatus(code, "") }

func (s contentless) RecordError(err error, _ ...trace.EventOption) {
	var application *temporal.ApplicationError
	switch {
	case err == nil:
	case errors.As(err, &application) && application.Type() != "":
		s.SetAttributes(semconv.ErrorTypeKey.String(application.Type()))
	default:
		s.SetAttributes(semconv.ErrorTypeKey.String(string(fault.CodeOf(err))))
	}
}

// Span is a span under way; the zero value is one that is not recorded.
type Span struct{ span trace.Span }

// StartModel begins the span of one model call. conversation is the session's address, an id.
func (t *Tracing) StartModel(ctx context.Context, model llm.Ref, conversation string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, "chat "+model.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		semconv.GenAIOperationNameChat,
		semconv.GenAIProviderNameKey.String(providerName(model.Provider)),
		semconv.GenAIRequestModel(model.Model),
		semconv.GenAIRequestStream(true),
		semconv.GenAIConversationID(conversation),
	))
	return ctx, Span{span}
}

// EndModel ends a span of StartModel.
func (s Span) EndModel(response llm.Response, err error) {
	if s.span == nil {
		return
	}
	if err == nil {
		u := response.Usage
		s.span.SetAttributes(
			semconv.GenAIResponseModel(response.Model),
			semconv.GenAIResponseFinishReasons(string(response.Stop)),
			// The conventions count cached tokens as input; mikan keeps them apart.
			semconv.GenAIUsageInputTokens(int(u.Input+u.CacheRead+u.CacheWrite)),
			semconv.GenAIUsageOutputTokens(int(u.Output)),
			semconv.GenAIUsageCacheReadInputTokens(int(u.CacheRead)),
			semconv.GenAIUsageCacheCreationInputTokens(int(u.CacheWrite)),
		)
	}
	s.End(err)
}

// StartTool begins the span of one tool call. callID is the provider's id of the call.
func (t *Tracing) StartTool(ctx context.Context, tool, callID string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, "execute_tool "+tool, trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(
		semconv.GenAIOperationNameExecuteTool,
		semconv.GenAIToolName(tool),
		semconv.GenAIToolCallID(callID),
		semconv.GenAIToolType("function"),
	))
	return ctx, Span{span}
}

// End ends the span. Of an error only the code is told: its text may quote what was said.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if code := fault.CodeOf(err); code != "" {
		s.span.SetAttributes(semconv.ErrorTypeKey.String(string(code)))
		s.span.SetStatus(codes.Error, string(code))
	}
	s.span.End()
}

// providerName is the convention's name of a provider.
func providerName(provider string) string {
	if name, _, found := strings.Cut(provider, "-"); found {
		return name // openai-chat and openai-responses are one provider's two interfaces
	}
	return provider
}
