package adapters_test

import (
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

// TestASignThatADeadWorkerLeftIsTakenOff has a run end without anybody who takes the sign off its message.
func TestASignThatADeadWorkerLeftIsTakenOff(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	s.can.Waiting = adapters.WaitingMarked
	first := p.says("U1", "first", adapters.Mention)
	r := p.receive(first)
	running := p.claim("C1", r)
	second := p.says("U1", "second", adapters.Mention)
	p.receive(second)
	p.eventually("the second is marked", func() bool { return s.signed("+queued " + second.ID) })
	p.finish(running, "done")
	waited := p.claim("C1", r)
	signed := func(again time.Duration) []store.Run {
		t.Helper()
		runs, err := p.store.Signed(t.Context(), []office.Platform{office.Slack}, 0, again, 10)
		if err != nil {
			t.Fatal(err)
		}
		return runs
	}
	if len(signed(0)) > 0 {
		t.Error("a run that goes on takes the sign off by itself")
	}
	if _, err := p.store.Finish(t.Context(), waited.ID, nil, store.Settlement{Outcome: run.Silent}); err != nil {
		t.Fatal(err)
	}
	takeOff := func() {
		t.Helper()
		runs := signed(0)
		if len(runs) != 1 || runs[0].ID != waited.ID {
			t.Fatalf("%d runs have a sign left", len(runs))
		}
		if err := p.delivery.TakeOff(t.Context(), runs[0]); err != nil {
			t.Fatal(err)
		}
		if !s.signed("-queued " + second.ID) {
			t.Error("the sign is not taken off")
		}
	}
	takeOff()
	if len(signed(time.Minute)) > 0 {
		t.Error("two processes look after one sign at once")
	}
	takeOff() // the sign may just be on its way
	if _, err := p.store.Pool().Exec(t.Context(), `UPDATE runs SET received_at = received_at - interval '1 minute'`); err != nil {
		t.Fatal(err)
	}
	takeOff()
	if len(signed(0)) > 0 {
		t.Error("a sign that is off is taken off for ever")
	}
}

// TestASignThatWasNotPutOnIsNotTakenOff has the platform's rate be used up when a message begins to wait.
func TestASignThatWasNotPutOnIsNotTakenOff(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	s.can.Waiting = adapters.WaitingMarked
	s.refuse = fault.New(fault.RateLimited, "too many signs")
	running := p.running("first")
	second := p.says("U1", "second", adapters.Mention)
	r := p.receive(second)
	p.eventually("the second was to be marked", func() bool { return s.signed("+queued " + second.ID) })
	marked := func(table string) bool {
		var is bool
		if err := p.store.Pool().QueryRow(t.Context(), `SELECT bool_or(marked) FROM `+table).Scan(&is); err != nil {
			t.Fatal(err)
		}
		return is
	}
	p.eventually("it is not taken for marked", func() bool { return !marked("inbox") })
	p.finish(running, "done")
	if p.claim("C1", r).Marked {
		t.Error("the run is to take off what is not there")
	}
}
