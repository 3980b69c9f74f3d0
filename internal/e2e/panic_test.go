package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// changed builds a worker in which one line of a source file is another.
func changed(t testing.TB, name, file, line, replacement string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(moduleRoot, file))
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
	return program(t, name, "./worker", "-overlay", overlay)
}

func TestAPanicInTheWorkflowEndsTheRunForEverybody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const work = "step, err := e.work(in.Step)"
	p := start(t, "broken-worker", changed(t, "broken-worker", "workflows/run.go", work, `panic("forced"); `+work), w.environ(), "-data-dir", w.dataDir)
	p.says(t, "the worker is ready")
	wantAnswer(t, w.ask("hello"), "failed", "interrupted", 1)
	w.settled()
	w.wellFormed()
	p.end(t)
	w.worker()
	wantAnswer(t, w.ask("again"), "answered", "echo: again", 0)
}

func TestAPanicInAnActivityIsToldWithoutItsWords(t *testing.T) {
	t.Parallel()
	const marker = "Zebrastreifen4712"
	w := newWorld(t, nil)
	const run = "result, err := chosen.Run(ctx, call)"
	p := start(t, "panicking-worker", changed(t, "panicking-worker", "activities/tools.go", run, `if true { panic(string(call.Arguments)) }; `+run), w.environ(), "-data-dir", w.dataDir)
	p.says(t, "the worker is ready")
	wantAnswer(t, w.ask("run: echo "+marker), "answered", "interrupted", 0)
	w.settled()
	w.wellFormed()
	for _, text := range append(w.everything(w.temporal()), p.output()) {
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
			if _, err := w.db().Exec(t.Context(), test.sql); err != nil {
				t.Fatal(err)
			}
			w.worker()
			a := w.ask("hello")
			wantAnswer(t, a, "failed", test.says, 1)
			attempts := 0
			for _, event := range w.history(a.WorkflowID, a.TemporalRunID).events {
				attempts = max(attempts, int(event.GetActivityTaskStartedEventAttributes().GetAttempt()))
			}
			if calls := len(w.model.Requests()); calls != attempts {
				t.Errorf("%d model calls in %d attempts", calls, attempts)
			}
			w.settled()
			w.wellFormed()
		})
	}
}
