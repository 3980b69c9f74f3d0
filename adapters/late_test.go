package adapters_test

import (
	"context"
	"slices"
	"testing"
	"time"

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

// slowPosts is a platform on which posting one text takes until it is let go.
type slowPosts struct {
	*stage
	text    string
	waiting chan struct{}
	letGo   chan struct{}
}

func (s *slowPosts) Post(ctx context.Context, m adapters.Outgoing) (string, error) {
	if m.Markdown == s.text {
		close(s.waiting)
		<-s.letGo
	}
	return s.stage.Post(ctx, m)
}

func TestADraftPostedAfterItsRunHasEndedIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  adapters.Ending
		want []string
	}{
		"answered": {adapters.Ending{Kind: store.AnswerDelivery, Text: "the answer", Settlement: store.Settlement{Outcome: run.Answered}}, []string{"the answer"}},
		"silent":   {adapters.Ending{Settlement: store.Settlement{Outcome: run.Silent}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := onStage(t)
			slow := &slowPosts{stage: s, text: "a late draft", waiting: make(chan struct{}), letGo: make(chan struct{})}
			s.can.Redraws = adapters.EditRedraws
			p.delivery.Outbounds[office.Slack] = slow
			r := p.running("hello")
			late := make(chan error, 1)
			go func() { late <- p.delivery.Draw(t.Context(), r, "a late draft") }()
			<-slow.waiting
			p.letDeadlinesPass()
			if _, err := p.delivery.Finish(t.Context(), r.ID, c.end); err != nil {
				t.Fatal(err)
			}
			close(slow.letGo)
			if err := <-late; !store.Overtaken(err) {
				t.Errorf("the late draft: %v, want it overtaken", err)
			}
			if seen := s.seen(); !slices.Equal(seen, c.want) {
				t.Errorf("people see %q, want %q", seen, c.want)
			}
		})
	}
}

// A worker died while it posted a file: nobody knows whether the file is there, and nothing is said about it.
func TestTheEndOfARunSaysNothingInPlaceOfAFile(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	r := p.running("hello")
	_, err := p.store.Intend(t.Context(), store.Delivery{
		Key: run.DeliveryKey(r.ID, "file/tool"), OfficeKey: r.OfficeKey, SessionKey: r.SessionKey, RunID: r.ID, Kind: store.NoticeDelivery, Text: "(file: a.txt)",
	}, time.Minute, store.PostOnce)
	if err != nil {
		t.Fatal(err)
	}
	p.letDeadlinesPass()
	end := adapters.Ending{Kind: store.NoticeDelivery, Text: adapters.StoppedText, Settlement: store.Settlement{Outcome: run.Stopped}}
	after, err := p.delivery.Finish(t.Context(), r.ID, end)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.delivery.CloseNotices(t.Context(), after.Run); err != nil {
		t.Fatal(err)
	}
	if seen := s.seen(); !slices.Equal(seen, []string{adapters.StoppedText}) {
		t.Errorf("people see %q, want once that it was stopped", seen)
	}
	if p.rows("deliveries WHERE state IN ('intended', 'posted')") != 0 {
		t.Error("the file is waited for, which nobody posts any more")
	}
}
