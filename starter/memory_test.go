package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/jev/jevtest"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/memory"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/testenv"
)

// TestOperatorsSeeAndTakeBackWhatIsRemembered runs in order: the process's environment names the database.
func TestOperatorsSeeAndTakeBackWhatIsRemembered(t *testing.T) {
	url, workspace := testenv.PostgresURL(t), t.TempDir()
	t.Setenv("MIKAN_DATABASE_URL", url)
	t.Setenv("MIKAN_WORKSPACE", workspace)
	ctx := t.Context()
	s := storetest.At(t, url)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := office.Address{Platform: office.Slack, ConversationID: "C1"}.Key()
	must(err)
	k := string(key)
	_, err = s.Receive(ctx, store.Arrival{
		Office: store.Office{Key: k, Platform: "slack", ConversationID: "C1", Audience: store.Shared},
		Message: store.ChatMessage{OfficeKey: k, MessageID: "m1", SessionKey: "C1", AuthorID: "U1", AuthorName: "ann",
			AuthorKind: store.AuthorHuman, Kind: store.ChatMessageKind, Text: "Two facts.", SentAt: time.Now()},
		Row: &store.InboxRow{OfficeKey: k, SessionKey: "C1", Kind: store.InboxTrigger, Trigger: run.Human, MessageID: "m1"},
	})
	must(err)
	claim, err := s.Claim(ctx, store.Address{OfficeKey: k, SessionKey: "C1"},
		store.Execution{WorkflowID: "w", OriginRun: "o", RunID: "r"}, store.Now, store.Terms{Model: "demo/demo", Zone: time.UTC})
	must(err)
	id := claim.Run.ID
	if out, code := mikan(t, "memory", "show", "--office", k); out != "" || code != 0 {
		t.Errorf("without a file, show prints %q and exits with %d", out, code)
	}

	_, err = s.BeginCapture(ctx, id)
	must(err)
	must(s.Judged(ctx, id, store.JudgedCapture{Model: "jev", Probability: 0.75, Threshold: 0.4, Usage: llm.Usage{Input: 10}}))
	if _, code := mikan(t, "memory", "revert", id); code != 1 {
		t.Errorf("reverting a capture that wrote nothing exits with %d", code)
	}
	dir := filepath.Join(workspace, k)
	var effects []memory.Effect
	must(memory.Change(ctx, dir, func(content []byte) (after []byte, err error) {
		after, effects, err = memory.Apply(content, []memory.Operation{{Kind: memory.Add, Text: "First."}, {Kind: memory.Add, Text: "Second."}},
			memory.Origin{Date: time.Now(), MessageID: "m1"}, nil)
		return after, err
	}))
	_, changed, err := s.EndCapture(ctx, id, store.CaptureEnding{Outcome: store.CaptureWritten, Effects: effects})
	if err != nil || !changed {
		t.Fatal(changed, err)
	}

	path := filepath.Join(dir, memory.File)
	before, err := os.ReadFile(path)
	must(err)
	if out, code := mikan(t, "memory", "show", "--office", k); out != string(before) || code != 0 {
		t.Errorf("show prints %q and exits with %d", out, code)
	}
	out, code := mikan(t, "memory", "log", "--office", k)
	if code != 0 || !strings.Contains(out, "0.75") || !strings.Contains(out, "m1") || !strings.Contains(out, effects[0].Now) {
		t.Errorf("log prints %q and exits with %d", out, code)
	}
	var logged []store.Capture
	out, _ = mikan(t, "memory", "log", "--office", k, "--json")
	if err := json.Unmarshal([]byte(out), &logged); err != nil || len(logged) != 1 || logged[0].RunID != id || len(logged[0].Effects) != 2 {
		t.Errorf("log --json prints %s (%v)", out, err)
	}

	must(os.WriteFile(path, []byte(strings.Replace(string(before), "- Second.", "- Second, edited.", 1)), 0o644))
	out, code = mikan(t, "memory", "revert", id[:10])
	if code != 0 || !strings.Contains(out, "removed "+effects[0].Now) || !strings.Contains(out, "left alone, since it was edited or removed after it was captured: "+effects[1].Now) {
		t.Errorf("revert prints %q and exits with %d", out, code)
	}
	after, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(after), "First.") || !strings.Contains(string(after), "- Second, edited.") {
		t.Errorf("the file is %q (%v)", after, err)
	}
	for args, want := range map[string]int{
		"revert " + id: 1, "revert short": 2, "revert 0000000000000000": 5, "log": 2, "log --limit 0 --office " + k: 2,
		"show --office nowhere": 2, "show --office v1-slack-c9-0123456789abcdef": 5, "score --threshold 2": 2, "score": 2,
	} {
		if _, code := mikan(t, append([]string{"memory"}, strings.Fields(args)...)...); code != want {
			t.Errorf("memory %s exits with %d, want %d", args, code, want)
		}
	}
	must(os.Remove(path))
	must(os.Symlink("/etc/hostname", path))
	if out, code := mikan(t, "memory", "show", "--office", k); out != "" || code != 1 {
		t.Errorf("through a link, show prints %q and exits with %d", out, code)
	}
}

func TestScoreAsksTheConfiguredModel(t *testing.T) {
	gate := jevtest.NewServer(t, func(r jevtest.Request) jevtest.Reply {
		if strings.Contains(r.State, "always") || strings.Contains(r.State, "never") {
			return jevtest.Reply{Probability: 0.9}
		}
		return jevtest.Reply{Probability: 0.1}
	})
	t.Setenv("OPENROUTER_API_KEY", "key-of-the-gate")
	t.Setenv("OPENROUTER_BASE_URL", gate.OpenRouterURL())
	out, code := mikan(t, "memory", "score", "--json")
	var report memory.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 {
		t.Fatalf("score prints %q and exits with %d (%v)", out, code, err)
	}
	if asked := len(gate.Requests()); asked != report.Examples || asked < 120 || report.AUC <= 0.4 || report.Model != "openrouter/~typesafe/jev-latest" {
		t.Errorf("%d asked, %+v", asked, report)
	}
	if out, _ := mikan(t, "memory", "score", "--threshold", "0.95"); !strings.Contains(out, "at 0.95: precision 1.00, recall 0.00") {
		t.Errorf("score prints %q", out)
	}
}
