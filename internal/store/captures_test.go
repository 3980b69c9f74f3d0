package store_test

import (
	"testing"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/memory"
	"github.com/geminixiang/mikan/internal/store"
)

func TestOneCaptureAtATimeHasAnOfficesMemory(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "one")
	c.ask("C1:t", "ann", "two")
	one, two := c.claim("C1"), c.claim("C1:t")
	for _, id := range []string{one.ID, two.ID} {
		begun, err := c.s.BeginCapture(c.ctx(), id)
		c.must(err)
		capture, err := c.s.BeginCapture(c.ctx(), id)
		c.must(err)
		if begun.CreatedAt != capture.CreatedAt || capture.State != store.CaptureGate || capture.MessageID == "" {
			t.Errorf("begun %+v", capture)
		}
		c.must(c.s.Judged(c.ctx(), id, store.JudgedCapture{Model: "jev", Probability: 0.5, Threshold: 0.4}))
	}
	first, held, err := c.s.LeaseMemory(c.ctx(), one.OfficeKey, one.ID)
	if err != nil || !held {
		t.Fatal(held, err)
	}
	if again, held, err := c.s.LeaseMemory(c.ctx(), one.OfficeKey, one.ID); err != nil || !held || again.Token != first.Token {
		t.Errorf("its holder gets %+v, %t, %v", again, held, err)
	}
	if _, held, err := c.s.LeaseMemory(c.ctx(), one.OfficeKey, two.ID); err != nil || held {
		t.Errorf("another gets it, too (%v)", err)
	}
	c.must(c.s.KeepMemory(c.ctx(), first, "# M\x00", []string{"gone"}))

	// The holder falls silent until its lease has passed.
	_, err = c.s.Pool().Exec(c.ctx(), `UPDATE leases SET expires_at = clock_timestamp() - interval '1 second'`)
	c.must(err)
	second, held, err := c.s.LeaseMemory(c.ctx(), one.OfficeKey, two.ID)
	if err != nil || !held || second.Token == first.Token {
		t.Fatalf("taken over: %+v, %t, %v", second, held, err)
	}
	for what, err := range map[string]error{
		"keep":    c.s.KeepMemory(c.ctx(), first, "", nil),
		"extract": c.s.Extracted(c.ctx(), first, nil, nil, llm.Usage{}),
		"intend":  c.s.IntendCapture(c.ctx(), first, nil),
	} {
		if fault.CodeOf(err) != fault.Conflict {
			t.Errorf("%s with a lost lease: %v", what, err)
		}
	}
	c.must(c.s.KeepMemory(c.ctx(), second, "", nil))
	c.must(c.s.Extracted(c.ctx(), second, []memory.Operation{{Kind: memory.Add, Text: "A."}}, nil, llm.Usage{Input: 5}))
	c.must(c.s.IntendCapture(c.ctx(), second, []memory.Effect{{Operation: memory.Operation{Kind: memory.Add, Text: "A."}, Kind: memory.Added, Now: "- A."}}))
	outcome, changed, err := c.s.EndCapture(c.ctx(), two.ID, store.CaptureEnding{Outcome: store.CaptureFailed, Code: fault.Unavailable})
	if err != nil || !changed || outcome != store.CaptureFailed {
		t.Errorf("ended: %s, %t, %v", outcome, changed, err)
	}
	if outcome, changed, err := c.s.EndCapture(c.ctx(), two.ID, store.CaptureEnding{Outcome: store.CaptureWritten}); err != nil || changed || outcome != store.CaptureFailed {
		t.Errorf("ended twice: %s, %t, %v", outcome, changed, err)
	}
	ended, err := c.s.Capture(c.ctx(), two.ID)
	c.must(err)
	if len(ended.Effects) != 0 || len(ended.Operations) != 1 || ended.Usage.Input != 5 || ended.Memory != nil {
		t.Errorf("a failed capture claims lines that it did not write: %+v", ended)
	}
	if lease, held, err := c.s.LeaseMemory(c.ctx(), one.OfficeKey, one.ID); err != nil || !held || lease.Token <= second.Token {
		t.Errorf("after the end: %+v, %t, %v", lease, held, err)
	}
}
