package adapters_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

func TestBotsAndOurselvesNeverTrigger(t *testing.T) {
	t.Parallel()
	p, _ := onStage(t)
	bot := p.says("B1", "@mikan hello", adapters.Mention)
	bot.Author.Kind = store.AuthorBot
	if got := p.receive(bot).Decision; got != adapters.Logged {
		t.Errorf("another bot: %s", got)
	}
	echo := p.says("U0", "an answer", adapters.Mention)
	echo.Author.Kind, echo.SentAt = store.AuthorMikan, time.Now()
	if got := p.receive(echo).Decision; got != adapters.Own {
		t.Errorf("an echo: %s", got)
	}
	echo.Change = adapters.Edited
	if got := p.receive(echo).Decision; got != adapters.Own {
		t.Errorf("the echo of a redraw: %s", got)
	}
	found := p.says("U0", "what I said before", adapters.NotAddressed)
	found.Author.Kind, found.SentAt = store.AuthorMikan, time.Now().Add(-time.Hour)
	if got := p.receive(found).Decision; got != adapters.Logged {
		t.Errorf("something said earlier: %s", got)
	}
	if p.rows("chat_log") != 2 || p.rows("inbox") != 0 {
		t.Errorf("%d logged, %d wait", p.rows("chat_log"), p.rows("inbox"))
	}
}

func TestOldMessagesAndThePastOfAConversationAreLoggedOnly(t *testing.T) {
	t.Parallel()
	p, _ := onStage(t)
	p.intake.AnswerAge = 24 * time.Hour
	old := p.says("U1", "hello", adapters.Mention)
	old.SentAt = time.Now().Add(-25 * time.Hour)
	if got := p.receive(old).Decision; got != adapters.Logged {
		t.Errorf("an old mention: %s", got)
	}
	past := p.says("U1", "/new", adapters.Mention)
	past.Purpose = adapters.ForContext
	if got := p.receive(past).Decision; got != adapters.Logged {
		t.Errorf("the past: %s", got)
	}
	missed := p.says("U1", "hello", adapters.Mention)
	missed.SentAt = time.Now().Add(-23 * time.Hour)
	if got := p.receive(missed).Decision; got != adapters.Queued {
		t.Errorf("one that was missed: %s", got)
	}
}

func TestAnEditThatMentionsStartsTheOneRunOfItsMessage(t *testing.T) {
	t.Parallel()
	p, _ := onStage(t)
	m := p.says("U1", "the build is red", adapters.Ambient)
	p.receive(m)
	edit := func(text string, why adapters.Reason) adapters.Decision {
		e := m
		e.Change, e.Text, e.Addressed = adapters.Edited, text, why
		return p.receive(e).Decision
	}
	if got := edit("the build is red, again", adapters.Ambient); got != adapters.Revised {
		t.Errorf("an edit without a mention: %s", got)
	}
	if got := edit("the build is red, again", adapters.Ambient); got != adapters.Repeated {
		t.Errorf("only a preview: %s", got)
	}
	if got := edit("@mikan the build is red", adapters.Mention); got != adapters.Queued {
		t.Errorf("the edit that mentions: %s", got)
	}
	if got := edit("@mikan the build is green", adapters.Mention); got != adapters.Revised {
		t.Errorf("a further edit: %s", got)
	}
	p.claim("C1", adapters.Receipt{OfficeKey: p.receive(m).OfficeKey})
	if got := edit("@mikan the build is gone", adapters.Mention); got != adapters.Revised {
		t.Errorf("an edit after the run began: %s", got)
	}
	if p.rows("inbox") != 0 {
		t.Error("a second run waits")
	}
	bare := p.says("U1", "look at this", adapters.Ambient)
	p.receive(bare)
	bare.Change, bare.Addressed = adapters.Edited, adapters.Mention // the mention itself is stripped from the text
	if got := p.receive(bare).Decision; got != adapters.Queued {
		t.Errorf("an edit that adds nothing but the mention: %s", got)
	}
	if got := p.receive(bare).Decision; got != adapters.Repeated {
		t.Errorf("the same edit again: %s", got)
	}
	unseen := p.says("U1", "@mikan hello", adapters.Mention)
	unseen.Change = adapters.Edited
	if got := p.receive(unseen).Decision; got != adapters.Queued {
		t.Errorf("an edit of a message from before mikan's time: %s", got)
	}
}

func TestWordsAmongPeopleAreTheirs(t *testing.T) {
	t.Parallel()
	p, _ := onStage(t)
	for _, c := range []struct {
		text string
		why  adapters.Reason
		want adapters.Decision
	}{
		{"/help", adapters.Ambient, adapters.Logged},
		{"/help", adapters.NotAddressed, adapters.Logged},
		{"/help", adapters.Mention, adapters.Commanded},
		{"/mikan-help", adapters.Pressed, adapters.Commanded},
		{"stop", adapters.Ambient, adapters.Commanded},
		{"help", adapters.Mention, adapters.Queued},
	} {
		if got := p.receive(p.says("U1", c.text, c.why)).Decision; got != c.want {
			t.Errorf("%q (%s): %s, want %s", c.text, c.why, got, c.want)
		}
	}
}

func TestAMessageThatWaitsCarriesASignUntilItsRunStarts(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	s.can.Waiting = adapters.WaitingMarked
	first := p.says("U1", "first", adapters.Mention)
	r := p.receive(first)
	p.eventually("the first is seen", func() bool { return s.signed("+seen " + first.ID) })
	running := p.claim("C1", r)
	second := p.says("U1", "second", adapters.Mention)
	p.receive(second)
	p.eventually("the second is marked", func() bool { return s.signed("+queued " + second.ID) })
	if s.signed("+queued " + first.ID) {
		t.Error("the first is marked, too")
	}
	p.finish(running, "done")
	waited := p.claim("C1", r)
	if !waited.Marked {
		t.Fatal("the run does not know of the sign")
	}
	p.delivery.Accompany(t.Context(), waited, "is thinking…")
	p.eventually("the sign is gone", func() bool { return s.signed("-queued " + second.ID) })
}

func TestAMessageThatIsDroppedLosesItsSign(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	s.can.Waiting = adapters.WaitingMarked
	p.running("first")
	second := p.says("U1", "second", adapters.Mention)
	p.receive(second)
	p.eventually("the second is marked", func() bool { return s.signed("+queued " + second.ID) })
	p.receive(p.says("U1", "stop all", adapters.Mention))
	p.eventually("the sign is gone", func() bool { return s.signed("-queued " + second.ID) })
}

func TestAMessageThatWaitsIsToldWhereThereAreNoSigns(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	s.can.Waiting = adapters.WaitingNoticed
	r := p.receive(p.says("U1", "first", adapters.Mention))
	p.claim("C1", r)
	p.receive(p.says("U1", "second", adapters.Mention))
	p.eventually("it is told once", func() bool { return len(s.seen()) == 1 && strings.Contains(s.seen()[0], "after") })
}

// finish ends a run with an answer.
func (p *pipelines) finish(r store.Run, text string) store.After {
	p.Helper()
	after, err := p.delivery.Finish(p.Context(), r.ID, adapters.Ending{Kind: store.AnswerDelivery, Text: text, Settlement: store.Settlement{Outcome: run.Answered}})
	if err != nil {
		p.Fatal(err)
	}
	return after
}

// letDeadlinesPass has every attempt in flight be over, as if one had waited.
func (p *pipelines) letDeadlinesPass() {
	p.Helper()
	if _, err := p.store.Pool().Exec(p.Context(), `UPDATE deliveries SET deadline = clock_timestamp() WHERE deadline IS NOT NULL`); err != nil {
		p.Fatal(err)
	}
}

func (p *pipelines) running(text string) store.Run {
	p.Helper()
	m := p.says("U1", text, adapters.Mention)
	return p.claim("C1", p.receive(m))
}

func TestALongAnswerIsPostedInPartsEachOnce(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	s.limit = 4
	r := p.running("hello")
	if err := p.delivery.Draw(t.Context(), r, "abcdef"); err != nil {
		t.Fatal(err)
	}
	if got := s.seen(); !slices.Equal(got, []string{"abcd"}) {
		t.Errorf("the draft shows %q", got)
	}
	failed := false
	s.fail = func(call string, m adapters.Outgoing) error {
		if call == "post" && m.Part == 1 && !failed {
			failed = true
			return fault.New(fault.RateLimited, "slow down").After(time.Millisecond)
		}
		return nil
	}
	end := adapters.Ending{Kind: store.AnswerDelivery, Text: "abcdefghij", Settlement: store.Settlement{Outcome: run.Answered}}
	if _, err := p.delivery.Finish(t.Context(), r.ID, end); fault.CodeOf(err) != fault.RateLimited {
		t.Fatalf("part 1 failed with %v", err)
	}
	if _, err := p.delivery.Finish(t.Context(), r.ID, end); err != nil {
		t.Fatal(err)
	}
	if got := s.seen(); !slices.Equal(got, []string{"abcd", "efgh", "ij"}) {
		t.Errorf("people see %q", got)
	}
	if got := len(s.edits); got != 1 {
		t.Errorf("%d edits of part 0, want the final one alone", got)
	}
	said, err := p.store.RunDeliveries(t.Context(), r.ID)
	if err != nil || len(said) != 3 {
		t.Fatalf("%d deliveries, %v", len(said), err)
	}
	for i, d := range said {
		if d.State != store.Final || d.Part != i {
			t.Errorf("delivery %d: part %d, %s", i, d.Part, d.State)
		}
	}
	if p.rows("chat_log WHERE kind = 'answer' AND cause_message_id IS NOT NULL") != 3 {
		t.Error("the log does not have each part with its cause")
	}
}

func TestADraftThatSomebodyDeletedIsNotDrawnButTheAnswerIsPostedAnew(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	r := p.running("hello")
	if err := p.delivery.Draw(t.Context(), r, "grow"); err != nil {
		t.Fatal(err)
	}
	clear(s.messages)
	if err := p.delivery.Draw(t.Context(), r, "growing"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("drawn with %v", err)
	}
	lost := false
	s.lose = func(call string, _ adapters.Outgoing) error {
		if call == "post" && !lost {
			lost = true
			return fault.New(fault.Unavailable, "no reply")
		}
		return nil
	}
	end := adapters.Ending{Kind: store.AnswerDelivery, Text: "grown", Settlement: store.Settlement{Outcome: run.Answered}}
	if _, err := p.delivery.Finish(t.Context(), r.ID, end); fault.CodeOf(err) != fault.Unavailable {
		t.Fatalf("a lost reply: %v", err)
	}
	p.letDeadlinesPass()
	if _, err := p.delivery.Finish(t.Context(), r.ID, end); err != nil {
		t.Fatal(err)
	}
	if got := s.seen(); !slices.Equal(got, []string{"grown"}) {
		t.Errorf("people see %q", got)
	}
}

func TestARefusedPostEndsTheRunAsFailed(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	s.fail = func(string, adapters.Outgoing) error { return fault.New(fault.Forbidden, "the channel is archived") }
	after := p.finish(p.running("hello"), "an answer")
	settled, err := p.store.Run(t.Context(), after.Run.ID)
	if err != nil || settled.Outcome != run.Failed || settled.ErrorCode != fault.Forbidden || settled.ErrorText != "the channel is archived" {
		t.Errorf("%+v, %v", settled, err)
	}
}

func TestALostReplyIsNotPostedAgain(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	r := p.running("hello")
	s.lose = func(string, adapters.Outgoing) error { return fault.New(fault.Unavailable, "no reply") }
	end := adapters.Ending{Kind: store.AnswerDelivery, Text: "an answer", Settlement: store.Settlement{Outcome: run.Answered}}
	if _, err := p.delivery.Finish(t.Context(), r.ID, end); fault.CodeOf(err) != fault.Unavailable {
		t.Fatalf("a lost reply: %v", err)
	}
	p.letDeadlinesPass()
	s.lose = nil
	if _, err := p.delivery.Finish(t.Context(), r.ID, end); err != nil {
		t.Fatal(err)
	}
	if got := s.seen(); !slices.Equal(got, []string{"an answer"}) {
		t.Errorf("people see %q", got)
	}
}
