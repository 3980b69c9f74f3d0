// Package telemetry is how a process tells what it does: logs, metrics, traces and health. None of them holds message
// text, and none a configured secret.
package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/term"

	"github.com/geminixiang/mikan/internal/secret"
)

// LogFormat is how log lines look.
type LogFormat string

// The formats.
const (
	LogText LogFormat = "text" // for people: key=value
	LogJSON LogFormat = "json" // for log collectors: one object a line
)

// LogFormatFor chooses text on a terminal and JSON anywhere else.
func LogFormatFor(f *os.File) LogFormat {
	if term.IsTerminal(int(f.Fd())) {
		return LogText
	}
	return LogJSON
}

// NewLogger makes the process's logger. What redactor knows is replaced in the message and in every value, however
// deep; a nil redactor replaces nothing.
func NewLogger(w io.Writer, format LogFormat, level slog.Leveler, redactor *secret.Redactor) *slog.Logger {
	o := &slog.HandlerOptions{
		Level: level,
		// slog calls this for the message, too, and with values whose LogValue is already resolved.
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			return slog.Attr{Key: a.Key, Value: redactValue(redactor, a.Value)}
		},
	}
	if format == LogText {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

func redactValue(r *secret.Redactor, v slog.Value) slog.Value {
	switch v.Kind() {
	case slog.KindString:
		return slog.StringValue(r.String(v.String()))
	case slog.KindAny:
		// A handler prints such a value as text or as JSON. It keeps its shape unless one of the two shows a secret.
		text := fmt.Sprintf("%+v", v.Any())
		if clean := r.String(text); clean != text {
			return slog.StringValue(clean)
		}
		if _, isError := v.Any().(error); isError {
			return v // printed by its Error method in both formats
		}
		if encoded, err := json.Marshal(v.Any()); err == nil {
			if clean := r.String(string(encoded)); clean != string(encoded) {
				return slog.StringValue(clean)
			}
		}
	}
	return v
}

// TemporalLogger hands Temporal's log lines to logger. The SDK tells at level info what is of use only to who debugs
// it (every poller that starts, every retried task), so that level becomes debug; workflow and activity code that logs
// through the SDK is as quiet. Warnings and errors stay what they are.
func TemporalLogger(logger *slog.Logger) temporallog.Logger {
	return temporallog.NewStructuredLogger(slog.New(quieter{logger.With("component", "temporal").Handler()}))
}

type quieter struct{ next slog.Handler }

func lowered(l slog.Level) slog.Level {
	if l == slog.LevelInfo {
		return slog.LevelDebug
	}
	return l
}

func (q quieter) Enabled(ctx context.Context, l slog.Level) bool {
	return q.next.Enabled(ctx, lowered(l))
}

func (q quieter) Handle(ctx context.Context, r slog.Record) error {
	r.Level = lowered(r.Level)
	if ordinary(r) {
		r.Level = slog.LevelDebug
	}
	if !q.next.Enabled(ctx, r.Level) {
		return nil
	}
	return q.next.Handle(ctx, r)
}

// ordinary recognises what the SDK reports as trouble although it is how every stopped run ends: a heartbeat that
// learns of the cancellation, and an activity that ends because of it.
func ordinary(r slog.Record) bool {
	switch r.Message {
	case "RecordActivityHeartbeat with error":
		return true
	case "Activity error.":
		canceled := false
		r.Attrs(func(a slog.Attr) bool {
			err, ok := a.Value.Any().(error)
			canceled = canceled || ok && (errors.Is(err, context.Canceled) || temporal.IsCanceledError(err))
			return !canceled
		})
		return canceled
	}
	return false
}

func (q quieter) WithAttrs(attrs []slog.Attr) slog.Handler { return quieter{q.next.WithAttrs(attrs)} }
func (q quieter) WithGroup(name string) slog.Handler       { return quieter{q.next.WithGroup(name)} }
