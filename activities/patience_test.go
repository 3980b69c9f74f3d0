package activities_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/geminixiang/mikan/activities"
	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// fullBoard is a platform whose rate is used up until it is not.
type fullBoard struct {
	adapters.Outbound
	full   bool
	posted []string
}

func (b *fullBoard) Capabilities(office.Address) adapters.Capabilities {
	return adapters.Capabilities{}
}

func (b *fullBoard) Split(markdown string) []string { return []string{markdown} }

func (b *fullBoard) Post(_ context.Context, m adapters.Outgoing) (string, error) {
	if b.full {
		return "", fault.New(fault.RateLimited, "too many").After(time.Millisecond)
	}
	b.posted = append(b.posted, m.Markdown)
	return "p1", nil
}

// The number of attempts is bounded: what only takes its time must not use them up within a minute.
func TestWhatARatePutsOffIsTriedAgainLater(t *testing.T) {
	t.Parallel()
	r := newToolRun(t)
	board := &fullBoard{full: true}
	r.tools.Delivery.Outbounds = map[office.Platform]adapters.Outbound{office.Slack: board}
	metrics, err := telemetry.NewMetrics(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	answers := &activities.Answers{Store: r.s, Delivery: r.tools.Delivery, Metrics: metrics, Log: slog.New(slog.DiscardHandler)}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(answers)
	in := activities.SettleInput{RunID: r.run.ID, Outcome: run.Failed, Code: fault.Unavailable, Said: activities.SaidUnposted}
	_, err = env.ExecuteActivity(answers.Settle, in)
	var failed *temporal.ApplicationError
	if !errors.As(err, &failed) || failed.Type() != string(fault.RateLimited) || failed.NextRetryDelay() != time.Second {
		t.Fatalf("the first attempt: %v; want it repeated in a second", err)
	}
	board.full = false
	if _, err := env.ExecuteActivity(answers.Settle, in); err != nil {
		t.Fatal(err)
	}
	if len(board.posted) != 1 || !strings.Contains(board.posted[0], "could not post it here") {
		t.Errorf("people see %q", board.posted)
	}
}
