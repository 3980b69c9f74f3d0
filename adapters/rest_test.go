package adapters_test

import (
	"slices"
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

const restWord = "The rest of this answer could not be shown."

// begun has a run whose answer ends after its first part, since something breaks.
func begun(t *testing.T, breaks func(*stage)) (*pipelines, *stage, store.Run) {
	t.Helper()
	p, s := onStage(t)
	s.limit = 4
	r := p.running("hello")
	breaks(s)
	end := adapters.Ending{Kind: store.AnswerDelivery, Text: "abcdefghij", Settlement: store.Settlement{Outcome: run.Answered}}
	if _, err := p.delivery.Finish(t.Context(), r.ID, end); fault.CodeOf(err) != fault.Unavailable {
		t.Fatalf("what comes after the first part: %v", err)
	}
	p.letDeadlinesPass()
	s.fail, s.lose = nil, nil
	return p, s, r
}

// laterParts fails whatever belongs to a part but the first.
func laterParts(err error) func(string, adapters.Outgoing) error {
	return func(_ string, m adapters.Outgoing) error {
		if m.Part > 0 {
			return err
		}
		return nil
	}
}

// goesDown is a platform that nobody reaches after the first part.
func goesDown(s *stage) { s.fail = laterParts(fault.New(fault.Unavailable, "the platform is down")) }

// failed is how the workflow ends a run whose answer could not be delivered.
var failed = adapters.Ending{
	Kind: store.NoticeDelivery, Text: "It did not work.", Settlement: store.Settlement{Outcome: run.Failed, ErrorCode: fault.Unavailable},
}

func TestARunThatFailsAfterTheBeginningOfItsAnswerSaysSoOnce(t *testing.T) {
	t.Parallel()
	p, s, r := begun(t, goesDown)
	s.lose = func(string, adapters.Outgoing) error { return fault.New(fault.Unavailable, "no reply") }
	if _, err := p.delivery.Finish(t.Context(), r.ID, failed); fault.CodeOf(err) != fault.Unavailable {
		t.Fatalf("a lost reply: %v", err)
	}
	p.letDeadlinesPass()
	s.lose = nil
	for range 2 {
		if _, err := p.delivery.Finish(t.Context(), r.ID, failed); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := s.seen(), []string{"abcd", restWord}; !slices.Equal(got, want) {
		t.Errorf("people see %q, want %q", got, want)
	}
	if n := p.rows("chat_log WHERE kind = 'notice' AND text = '" + restWord + "'"); n != 1 {
		t.Errorf("the log has the word %d times", n)
	}
	if n := p.rows("deliveries WHERE state <> 'final'"); n != 0 {
		t.Errorf("%d deliveries are left open", n)
	}
}

func TestThePartThatWasOnItsWayBecomesTheLastWord(t *testing.T) {
	t.Parallel()
	p, s, r := begun(t, func(s *stage) { s.lose = laterParts(fault.New(fault.Unavailable, "no reply")) })
	if _, err := p.delivery.Finish(t.Context(), r.ID, failed); err != nil {
		t.Fatal(err)
	}
	if got, want := s.seen(), []string{"abcd", restWord}; !slices.Equal(got, want) {
		t.Errorf("people see %q, want %q", got, want)
	}
}

func TestAnAnswerWhoseLaterPartIsRefusedSaysSoOnce(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]func(adapters.Outgoing) bool{
		"a part in the middle": func(m adapters.Outgoing) bool { return m.Markdown == "efgh" },
		"the last part":        func(m adapters.Outgoing) bool { return m.Markdown == "ij" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s, r := begun(t, func(s *stage) {
				s.fail = func(_ string, m adapters.Outgoing) error {
					if refused(m) {
						return fault.New(fault.Invalid, "not this text")
					}
					return nil
				}
				s.lose = func(_ string, m adapters.Outgoing) error {
					if m.Markdown == restWord {
						return fault.New(fault.Unavailable, "no reply")
					}
					return nil
				}
			})
			// Whoever ends the run in place of its answer finds the word, too.
			after, err := p.delivery.Finish(t.Context(), r.ID, failed)
			if err != nil || after.Run.Outcome != run.Failed {
				t.Fatalf("%+v, %v", after.Run, err)
			}
			got := s.seen()
			if slices.Index(got, restWord) != len(got)-1 {
				t.Errorf("people see %q, want the word once, at the end", got)
			}
		})
	}
}

func TestAPlatformThatRefusesAllLaterPartsEndsTheRun(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	s.limit = 4
	r := p.running("hello")
	s.fail = laterParts(fault.New(fault.Forbidden, "the channel is archived"))
	after := p.finish(r, "abcdefghij")
	if got := s.seen(); !slices.Equal(got, []string{"abcd"}) || after.Run.Outcome != run.Failed || after.Run.ErrorCode != fault.Forbidden {
		t.Errorf("people see %q, the run: %+v", got, after.Run)
	}
}

func TestARunThatIsStoppedAfterTheBeginningOfItsAnswerSaysSoOnce(t *testing.T) {
	t.Parallel()
	stopped := adapters.Ending{Kind: store.NoticeDelivery, Text: adapters.StoppedText, Settlement: store.Settlement{Outcome: run.Stopped}}
	for name, word := range map[string]string{"by the operator": "", "in chat": "stop"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s, r := begun(t, goesDown)
			s.limit = 0
			if word != "" {
				p.receive(p.says("U1", word, adapters.Mention))
			}
			after, err := p.delivery.Finish(t.Context(), r.ID, stopped)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.delivery.CloseNotices(t.Context(), after.Run); err != nil {
				t.Fatal(err)
			}
			if got, want := s.seen(), []string{"abcd", "Stopped."}; !slices.Equal(got, want) {
				t.Errorf("people see %q, want %q", got, want)
			}
			if p.rows("chat_log WHERE kind = 'answer' AND cause_message_id IS NOT NULL AND text = 'abcd'") != 1 {
				t.Error("what was shown of the answer has lost its cause")
			}
		})
	}
}
