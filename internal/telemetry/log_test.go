package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/secret"
	"github.com/geminixiang/mikan/internal/telemetry"
)

const hidden = `xoxb-"very"-secret`

func redactor() *secret.Redactor {
	return secret.NewRedactor(map[string]string{"SLACK_BOT_TOKEN": hidden})
}

type holder struct {
	Token string
	Other int
}

type lazy struct{ value any }

func (l lazy) LogValue() slog.Value { return slog.AnyValue(l.value) }

type stringer struct{}

func (stringer) String() string { return "is " + hidden }

func TestNoLogLineShowsASecret(t *testing.T) {
	t.Parallel()
	for _, format := range []telemetry.LogFormat{telemetry.LogText, telemetry.LogJSON} {
		for name, log := range map[string]func(*slog.Logger){
			"message":         func(l *slog.Logger) { l.Info("token " + hidden) },
			"string":          func(l *slog.Logger) { l.Info("m", "k", hidden) },
			"error":           func(l *slog.Logger) { l.Info("m", "k", fmt.Errorf("post: %w", errors.New("bad "+hidden))) },
			"bound attribute": func(l *slog.Logger) { l.With("k", hidden).Info("m") },
			"group":           func(l *slog.Logger) { l.WithGroup("g").Info("m", slog.Group("h", "k", hidden)) },
			"LogValuer":       func(l *slog.Logger) { l.Info("m", "k", lazy{hidden}) },
			"lazy group":      func(l *slog.Logger) { l.Info("m", "k", lazy{[]slog.Attr{slog.String("x", hidden)}}) },
			"struct":          func(l *slog.Logger) { l.Info("m", "k", holder{Token: hidden}) },
			"pointer":         func(l *slog.Logger) { l.Info("m", "k", &holder{Token: hidden}) },
			"nested pointer":  func(l *slog.Logger) { l.Info("m", "k", []*holder{{Token: hidden}}) },
			"slice":           func(l *slog.Logger) { l.Info("m", "k", []string{"a", hidden}) },
			"map":             func(l *slog.Logger) { l.Info("m", "k", map[string]any{"a": hidden}) },
			"Stringer":        func(l *slog.Logger) { l.Info("m", "k", stringer{}) },
			"bytes":           func(l *slog.Logger) { l.Info("m", "k", []byte(hidden)) },
		} {
			t.Run(string(format)+"/"+name, func(t *testing.T) {
				t.Parallel()
				var out bytes.Buffer
				log(telemetry.NewLogger(&out, format, slog.LevelInfo, redactor()))
				if out.Len() == 0 {
					t.Fatal("nothing was logged")
				}
				if strings.Contains(out.String(), "very") {
					t.Errorf("the line shows the secret: %s", out.String())
				}
				if format == telemetry.LogJSON && !json.Valid(out.Bytes()) {
					t.Errorf("the line is no JSON: %s", out.String())
				}
			})
		}
	}
}

func TestWhatHoldsNoSecretIsLoggedAsItIs(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	telemetry.NewLogger(&out, telemetry.LogJSON, slog.LevelInfo, redactor()).
		Info("started", "n", 3, "ok", true, "err", errors.New("refused"), "v", holder{"x", 1})
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line["msg"] != "started" || line["n"] != 3.0 || line["ok"] != true || line["err"] != "refused" || line["level"] != "INFO" {
		t.Errorf("logged %v", line)
	}
	if v, ok := line["v"].(map[string]any); !ok || v["Token"] != "x" {
		t.Errorf("the struct became %v", line["v"])
	}
}

func TestFilesGetJSON(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if got := telemetry.LogFormatFor(f); got != telemetry.LogJSON {
		t.Errorf("a file gets %s", got)
	}
}

func TestTemporalIsQuietUnlessSomethingIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		level slog.Level
		want  []string
		not   []string
	}{
		"at info":  {slog.LevelInfo, []string{"warned", "failed", "component=temporal"}, []string{"started", "polled"}},
		"at debug": {slog.LevelDebug, []string{"warned", "failed", "level=DEBUG msg=started", "polled"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			l := telemetry.TemporalLogger(telemetry.NewLogger(&out, telemetry.LogText, c.level, redactor()))
			l.Debug("polled")
			l.Info("started")
			l.Warn("warned", "WorkflowID", "w")
			l.Error("failed", "Error", errors.New(hidden))
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in %s", want, out.String())
				}
			}
			for _, not := range append(c.not, "very") {
				if strings.Contains(out.String(), not) {
					t.Errorf("%q stands in %s", not, out.String())
				}
			}
		})
	}
}
