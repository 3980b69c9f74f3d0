package adapters_test

import (
	"context"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

// leavesSign makes a run whose message got a sign and that has not ended.
func leavesSign(p *pipelines, s *stage) store.Run {
	p.Helper()
	s.can.Waiting = adapters.WaitingMarked
	first := p.says("U1", "first", adapters.Mention)
	r := p.receive(first)
	running := p.claim("C1", r)
	second := p.says("U1", "second", adapters.Mention)
	p.receive(second)
	p.eventually("the second is marked", func() bool { return s.signed("+queued " + second.ID) })
	p.finish(running, "done")
	return p.claim("C1", r)
}

// signed are the runs whose signs are left, for who looks after them for the given time.
func (p *pipelines) signed(again time.Duration) []store.Run {
	p.Helper()
	runs, err := p.store.Signed(p.Context(), office.Slack, 0, again, 10)
	if err != nil {
		p.Fatal(err)
	}
	return runs
}

// TestASignThatADeadWorkerLeftIsTakenOff has a run end without anybody who takes the sign off its message.
func TestASignThatADeadWorkerLeftIsTakenOff(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	waited := leavesSign(p, s)
	if len(p.signed(0)) > 0 {
		t.Error("a run that goes on takes the sign off by itself")
	}
	if _, err := p.store.Finish(t.Context(), waited.ID, nil, store.Settlement{Outcome: run.Silent}); err != nil {
		t.Fatal(err)
	}
	takeOff := func() {
		t.Helper()
		runs := p.signed(0)
		if len(runs) != 1 || runs[0].ID != waited.ID {
			t.Fatalf("%d runs have a sign left", len(runs))
		}
		if err := p.delivery.TakeOff(t.Context(), runs[0]); err != nil {
			t.Fatal(err)
		}
		if !s.signed("-queued " + waited.TriggerMessageID) {
			t.Error("the sign is not taken off")
		}
	}
	takeOff()
	if len(p.signed(time.Minute)) > 0 {
		t.Error("two processes look after one sign at once")
	}
	takeOff() // the sign may just be on its way
	if _, err := p.store.Pool().Exec(t.Context(), `UPDATE runs SET received_at = received_at - interval '1 minute'`); err != nil {
		t.Fatal(err)
	}
	takeOff()
	if len(p.signed(0)) > 0 {
		t.Error("a sign that is off is taken off for ever")
	}
}

// handless is a platform that refuses to take signs off.
type handless struct {
	*stage
	with fault.Code
}

func (h handless) Unmark(context.Context, adapters.Outgoing, adapters.Mark) error {
	return fault.New(h.with, "the sign stays")
}

func TestASignThatCannotBeTakenOffIsLeftAloneButNotForARate(t *testing.T) {
	t.Parallel()
	for code, stays := range map[fault.Code]int{fault.RateLimited: 1, fault.Forbidden: 0, fault.NotFound: 0} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			p, s := onStage(t)
			waited := leavesSign(p, s)
			if _, err := p.store.Finish(t.Context(), waited.ID, nil, store.Settlement{Outcome: run.Silent}); err != nil {
				t.Fatal(err)
			}
			p.delivery.Outbounds[office.Slack] = handless{s, code}
			if err := p.delivery.TakeOff(t.Context(), waited); (err != nil) != (stays > 0) {
				t.Errorf("it is said to be off: %v", err)
			}
			if left := p.signed(0); len(left) != stays {
				t.Errorf("%d are looked after further, not %d", len(left), stays)
			}
		})
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

// TestANoticeWhoseSenderDiedIsGivenUpOnceNobodyRepeatsIt leaves a notice on its way.
func TestANoticeWhoseSenderDiedIsGivenUpOnceNobodyRepeatsIt(t *testing.T) {
	t.Parallel()
	p, _ := onStage(t)
	r := p.receive(p.says("U1", "first", adapters.Mention))
	state := func() (state string) {
		t.Helper()
		if err := p.store.Pool().QueryRow(t.Context(), `SELECT state FROM deliveries WHERE key = 'k'`).Scan(&state); err != nil {
			t.Fatal(err)
		}
		return state
	}
	if _, err := p.store.Pool().Exec(t.Context(), `
		INSERT INTO deliveries (key, office_key, session_key, cause_message_id, kind, state, text, deadline)
		SELECT 'k', office_key, session_key, message_id, 'notice', 'intended', 'wait', now() - interval '1 minute' FROM inbox`); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"intended", "refused"} {
		if err := p.store.Abandon(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if got := state(); got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
		if want == "intended" {
			p.claim("C1", r) // the row is gone
		}
	}
}
