package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// changed builds a worker in which one line of a source file is another.
func changed(t testing.TB, name, file, line, replacement string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(e2etest.ModuleRoot(t), file))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(source), line) != 1 {
		t.Fatalf("%s does not have the line %q once", file, line)
	}
	dir := t.TempDir()
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{path: filepath.Join(dir, "changed.go")}})
	if err == nil {
		err = os.WriteFile(overlay, text, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "changed.go"), []byte(strings.Replace(string(source), line, replacement, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e2etest.Program(t, name, "./worker", "-overlay", overlay)
}

func TestAPanicInTheWorkflowEndsTheRunForEverybody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const work = "step, err := e.work(in.Step)"
	p := e2etest.Start(t, "broken-worker", changed(t, "broken-worker", "workflows/run.go", work, `panic("forced"); `+work), w.Environ(), "-data-dir", w.DataDir)
	p.Says(t, "the worker is ready")
	e2etest.WantAnswer(t, w.Ask("hello"), "failed", "interrupted", 1)
	w.Settled()
	w.WellFormed()
	p.End(t)
	w.Worker()
	e2etest.WantAnswer(t, w.Ask("again"), "answered", "echo: again", 0)
}

func TestAPanicInAnActivityIsToldWithoutItsWords(t *testing.T) {
	t.Parallel()
	const marker = "Zebrastreifen4712"
	w := newWorld(t, nil)
	const run = "result, err := chosen.Run(ctx, call)"
	p := e2etest.Start(t, "panicking-worker", changed(t, "panicking-worker", "activities/tools.go", run, `if true { panic(string(call.Arguments)) }; `+run), w.Environ(), "-data-dir", w.DataDir)
	p.Says(t, "the worker is ready")
	e2etest.WantAnswer(t, w.Ask("run: echo "+marker), "answered", "interrupted", 0)
	w.Settled()
	w.WellFormed()
	for _, text := range append(w.everything(w.Temporal()), p.Output()) {
		if strings.Contains(text, marker) {
			t.Errorf("the marker is told: …%s…", around(text, marker))
		}
	}
}

func TestAnActivityThatCannotSucceedEndsItsRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script llmtest.Script
		sql    string
		says   string
	}{
		"the model never answers": {
			llmtest.Always(llmtest.Fail(529, "overloaded_error", "Overloaded")), `SELECT 1`, "did not answer",
		},
		"an answer cannot be stored": {
			nil, `ALTER TABLE entries ADD CHECK (kind <> 'assistant')`, "went wrong inside mikan",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.script)
			if _, err := w.DB().Exec(t.Context(), test.sql); err != nil {
				t.Fatal(err)
			}
			w.Worker()
			a := w.Ask("hello")
			e2etest.WantAnswer(t, a, "failed", test.says, 1)
			attempts := 0
			for _, event := range w.history(a.WorkflowID, a.TemporalRunID).events {
				attempts = max(attempts, int(event.GetActivityTaskStartedEventAttributes().GetAttempt()))
			}
			if calls := len(w.Model.Requests()); calls != attempts {
				t.Errorf("%d model calls in %d attempts", calls, attempts)
			}
			w.Settled()
			w.WellFormed()
		})
	}
}
