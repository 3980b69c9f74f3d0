package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/jev/jevtest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// capturePoints are where a worker dies in a capture: around each commit, each call, and the replacement of the file.
func capturePoints(t *testing.T) []string {
	points := []string{"file.replace.before", "file.replace.after"}
	for _, point := range e2etest.Failpoints(t) {
		if strings.HasPrefix(point, "capture_") && !strings.HasPrefix(point, "capture_revert") || strings.HasPrefix(point, "gate.") || strings.HasPrefix(point, "extract.") {
			points = append(points, point)
		}
	}
	return points
}

func TestACaptureSurvivesADeathAtEachOfItsSteps(t *testing.T) {
	t.Parallel()
	points := capturePoints(t)
	if len(points) < 18 {
		t.Fatalf("only %d fail points are found: %v", len(points), points)
	}
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, knowing())
			gate := jevtest.NewServer(t, jevtest.Say(0.8))
			w.Env["OPENROUTER_API_KEY"], w.Env["OPENROUTER_BASE_URL"] = "key-of-the-gate", gate.OpenRouterURL()
			first := w.Worker("MIKAN_FAILPOINT=" + point)
			t.Cleanup(first.Kill)
			a := w.Ask("Deploys run on Fridays.")
			if a.Outcome != "answered" {
				t.Fatalf("the run ended as %+v", a)
			}
			select {
			case <-first.Ended:
			case <-t.Context().Done():
			}
			if !first.Killed() {
				t.Fatal("the worker did not come to this point")
			}
			w.LaunchWorker()
			db := w.DB()
			e2etest.Eventually(t, "the capture ends", func(ctx context.Context) error {
				found, err := e2etest.Rows(ctx, db, `SELECT outcome FROM captures WHERE state = 'ended'`)
				if err != nil || !slices.Equal(found, []string{"written"}) {
					return errors.Join(err, errors.New("captures that ended: "+strings.Join(found, " ")))
				}
				return nil
			})
			content, err := os.ReadFile(filepath.Join(w.Workspace, a.OfficeKey, "MEMORY.md"))
			if err != nil || strings.Count(string(content), "- Deploys run on Fridays. (captured ") != 1 || strings.Count(string(content), "\n") != 3 {
				t.Errorf("the memory is %q (%v)", content, err)
			}
			effects, err := e2etest.Rows(t.Context(), db, `SELECT effects->0->>'now' FROM captures`)
			if err != nil || len(effects) != 1 || !strings.Contains(string(content), effects[0]+"\n") || effects[0] == "" {
				t.Errorf("recorded %q (%v), the file is %q", effects, err, content)
			}
			if reverted := w.Mikan("memory", "revert", a.RunID); reverted.Code != 0 || !strings.HasPrefix(reverted.Stdout, "removed - Deploys") {
				t.Errorf("revert: %+v", reverted)
			}
		})
	}
}

// knowing is a model that extracts one line from every exchange.
func knowing() llmtest.Script {
	echo := llmtest.Echo(llmtest.EchoOptions{})
	return func(r llmtest.Request) llmtest.Reply {
		var evidence struct {
			Message string `json:"user_message"`
		}
		if json.Unmarshal([]byte(r.LastUserText()), &evidence) != nil || evidence.Message == "" {
			return echo(r)
		}
		answer, _ := json.Marshal(map[string]any{"operations": []any{map[string]string{"op": "add", "text": evidence.Message, "line": ""}}})
		return llmtest.Say("%s", answer)
	}
}
