package activities_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"github.com/geminixiang/mikan/activities"
	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/tool"
)

// slowBoard is a platform that takes its time to show a message.
type slowBoard struct {
	adapters.Outbound
	posting, letGo chan struct{}
}

func (b *slowBoard) Capabilities(office.Address) adapters.Capabilities {
	return adapters.Capabilities{Redraws: adapters.EditRedraws}
}

func (b *slowBoard) Split(markdown string) []string { return []string{markdown} }

func (b *slowBoard) Post(context.Context, adapters.Outgoing) (string, error) {
	close(b.posting)
	<-b.letGo
	return "p1", nil
}

// long is a tool that works until people see it work.
type long struct{ until chan struct{} }

func (long) Spec() llm.ToolSpec {
	return llm.ToolSpec{Name: "peek", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (long) Replay() tool.Replay { return tool.Unsafe }

func (l long) Run(context.Context, tool.Call) (tool.Result, error) {
	<-l.until
	return tool.Result{Text: "done"}, nil
}

func TestAResultIsStoredWhileThePlatformIsSlow(t *testing.T) {
	t.Parallel()
	r := newToolRun(t)
	r.think(1, 1)
	board := &slowBoard{posting: make(chan struct{}), letGo: make(chan struct{})}
	r.tools.Delivery.Outbounds = map[office.Platform]adapters.Outbound{office.Slack: board}
	registry, err := tool.NewRegistry(nil, long{until: board.posting})
	if err != nil {
		t.Fatal(err)
	}
	r.tools.Registry = registry
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(r.tools)
	ended := make(chan error, 1)
	go func() {
		_, err := env.ExecuteActivity(r.tools.Tool, activities.ToolInput{RunID: r.run.ID, Step: 1, Index: 0})
		ended <- err
	}()
	<-board.posting
	stored := func() bool {
		_, err := r.s.StepEntry(t.Context(), r.run.ID, store.CallSlot(store.ThinkSlot(1), 0))
		return err == nil
	}
	for deadline := time.Now().Add(10 * time.Second); !stored(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("the result waits for the platform")
			break
		}
	}
	close(board.letGo)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
