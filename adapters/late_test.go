package adapters_test

import (
	"context"
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

// slowEdits is a platform on which the edit to one text takes until it is let go, and then may lose its reply.
type slowEdits struct {
	*stage
	text    string
	waiting chan struct{}
	letGo   chan struct{}
	reply   error
}

func (s *slowEdits) Edit(ctx context.Context, id string, m adapters.Outgoing) error {
	if m.Markdown != s.text {
		return s.stage.Edit(ctx, id, m)
	}
	close(s.waiting)
	<-s.letGo
	if err := s.stage.Edit(ctx, id, m); err != nil {
		return err
	}
	return s.reply
}

func TestADraftDrawnAfterTheAnswerIsRepaired(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]error{
		"its reply comes":    nil,
		"its reply was lost": fault.New(fault.Unavailable, "no reply"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := onStage(t)
			slow := &slowEdits{stage: s, text: "a late draft", waiting: make(chan struct{}), letGo: make(chan struct{}), reply: reply}
			s.can.Redraws = adapters.EditRedraws
			p.delivery.Outbounds[office.Slack] = slow
			r := p.claim("C1", p.receive(p.says("U1", "hello", adapters.Mention)))
			if err := p.delivery.Draw(t.Context(), r, "a draft"); err != nil {
				t.Fatal(err)
			}
			late := make(chan error, 1)
			go func() { late <- p.delivery.Draw(t.Context(), r, "a late draft") }()
			<-slow.waiting
			// Its successor finishes the run meanwhile.
			finished := make(chan error, 1)
			go func() {
				_, err := p.delivery.Finish(t.Context(), r.ID, adapters.Ending{
					Kind: store.AnswerDelivery, Text: "the answer", Settlement: store.Settlement{Outcome: run.Answered},
				})
				finished <- err
			}()
			p.eventually("the run is settled", func() bool {
				settled, err := p.store.Run(t.Context(), r.ID)
				return err == nil && settled.State == store.Settled
			})
			close(slow.letGo)
			if err := <-late; err == nil {
				t.Error("the late draft is confirmed")
			}
			if seen := s.seen(); len(seen) != 1 || seen[0] != "the answer" {
				t.Errorf("people see %q", seen)
			}
			if err := <-finished; err != nil {
				t.Error(err)
			}
		})
	}
}
