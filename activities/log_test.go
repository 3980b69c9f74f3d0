package activities_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"github.com/geminixiang/mikan/activities"
	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/chatfile"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/tool"
)

const officeKey = "v1-slack-c1-0123456789abcdef"

// peek is a tool that tells what log.jsonl holds when it starts.
type peek struct{}

func (peek) Spec() llm.ToolSpec {
	return llm.ToolSpec{Name: "peek", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (peek) Replay() tool.Replay { return tool.Safe }

func (peek) Run(_ context.Context, call tool.Call) (tool.Result, error) {
	raw, err := os.ReadFile(filepath.Join(call.Place.Dir, chatfile.Name))
	if err != nil {
		return tool.Result{Text: "no file"}, nil
	}
	return tool.Result{Text: string(raw)}, nil
}

// toolRun is a run whose model has asked for tools.
type toolRun struct {
	t         *testing.T
	s         *store.Store
	workspace string
	run       store.Run
	tools     *activities.Tools
	log       strings.Builder
}

func newToolRun(t *testing.T) *toolRun {
	t.Helper()
	s := storetest.Open(t)
	r := &toolRun{t: t, s: s, workspace: t.TempDir()}
	r.say("1", "first", &store.InboxRow{OfficeKey: officeKey, SessionKey: "C1", Kind: store.InboxTrigger, Trigger: run.Human, MessageID: "1"})
	claim, err := s.Claim(t.Context(), store.Address{OfficeKey: officeKey, SessionKey: "C1"},
		store.Execution{WorkflowID: "w", OriginRun: "w", RunID: "w"}, store.Now, store.Terms{Model: "demo/demo", Zone: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	r.run = claim.Run
	registry, err := tool.NewRegistry(nil, peek{})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	metrics, err := telemetry.NewMetrics(log)
	if err != nil {
		t.Fatal(err)
	}
	delivery := &adapters.Delivery{Store: s, Metrics: metrics, Log: log}
	r.tools = &activities.Tools{Store: s, Registry: registry, Workspace: &activities.Workspace{Root: r.workspace}, Delivery: delivery, Metrics: metrics, Log: log}
	return r
}

func (r *toolRun) say(id, said string, row *store.InboxRow) {
	r.t.Helper()
	_, err := r.s.Receive(r.t.Context(), store.Arrival{
		Office: store.Office{Key: officeKey, Platform: "slack", ConversationID: "C1", Audience: store.Shared},
		Message: store.ChatMessage{
			OfficeKey: officeKey, MessageID: id, SessionKey: "C1", AuthorID: "U1", AuthorName: "ann", AuthorKind: store.AuthorHuman,
			Kind: store.ChatMessageKind, Text: said, SentAt: time.Now(),
		},
		Row: row,
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// think has the model ask for so many calls.
func (r *toolRun) think(step, calls int) {
	r.t.Helper()
	attempt, err := r.s.BeginStep(r.t.Context(), r.run.ID, store.ThinkSlot(step))
	if err != nil {
		r.t.Fatal(err)
	}
	var blocks []llm.Block
	for i := range calls {
		blocks = append(blocks, llm.Block{Kind: llm.BlockToolCall, CallID: store.CallSlot(store.ThinkSlot(step), i), Name: "peek", Arguments: "{}"})
	}
	if _, err := r.s.CommitStep(r.t.Context(), attempt, store.Spent{}, store.Entry{Kind: store.EntryAssistant, Body: store.Body{Blocks: blocks}}); err != nil {
		r.t.Fatal(err)
	}
}

// call carries out a call and returns what the model reads.
func (r *toolRun) call(step, index int) string {
	r.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(r.tools)
	if _, err := env.ExecuteActivity(r.tools.Tool, activities.ToolInput{RunID: r.run.ID, Step: step, Index: index}); err != nil {
		r.t.Fatal(err)
	}
	e, err := r.s.StepEntry(r.t.Context(), r.run.ID, store.CallSlot(store.ThinkSlot(step), index))
	if err != nil {
		r.t.Fatal(err)
	}
	return e.Body.Text()
}

func TestTheFirstToolsOfARunSeeAnUpToDateLog(t *testing.T) {
	t.Parallel()
	r := newToolRun(t)
	r.think(1, 2)
	if got := r.call(1, 0); !strings.Contains(got, `"text":"first"`) {
		t.Errorf("the first tool saw %s", got)
	}
	r.say("2", "second", nil)
	if got := r.call(1, 1); !strings.Contains(got, `"text":"second"`) {
		t.Errorf("another tool of the first turn saw %s", got)
	}
	r.say("3", "third", nil)
	r.think(2, 1)
	if got := r.call(2, 0); strings.Contains(got, `"text":"third"`) {
		t.Errorf("the file was written for a later turn: %s", got)
	}
}

func TestALinkInThePlaceOfTheLogDoesNotEndTheRun(t *testing.T) {
	t.Parallel()
	r := newToolRun(t)
	dir := filepath.Join(r.workspace, officeKey)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, chatfile.Name)); err != nil {
		t.Fatal(err)
	}
	r.think(1, 1)
	if got := r.call(1, 0); got != "mine" {
		t.Errorf("the tool saw %q", got)
	}
	if !strings.Contains(r.log.String(), "log.jsonl is not up to date") || strings.Contains(r.log.String(), "first") {
		t.Errorf("the operator reads %q", r.log.String())
	}
}
