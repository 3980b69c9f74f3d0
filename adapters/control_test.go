package adapters_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/settings"
	"github.com/geminixiang/mikan/internal/store"
)

// begin has a run going in each of the session keys.
func (p *pipelines) begin(keys ...string) map[string]store.Run {
	p.Helper()
	runs := map[string]store.Run{}
	for _, key := range keys {
		runs[key] = p.claim(key, p.receive(p.message("C1", key, "work")))
	}
	return runs
}

func TestStopNamesItsRunByScope(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		running []string
		said    string // session key in which stop is said
		stopped string // session key of the run that it stops
		notice  string
	}{
		{"its own session", []string{"C1", "C1:1", "C1:2"}, "C1:2", "C1:2", "Stopping"},
		{"else the top level", []string{"C1", "C1:1"}, "C1:9", "C1", "Stopping"},
		{"at top level the only thread", []string{"C1:1"}, "C1", "C1:1", "Stopping"},
		{"at top level several threads", []string{"C1:1", "C1:2", "C1:3"}, "C1", "", "3 runs"},
		{"in a thread never another thread", []string{"C1:1"}, "C1:2", "", "Nothing is running"},
		{"at top level, where each message has its scope", []string{"C1:1"}, "C1:m3", "C1:1", "Stopping"},
		{"there, too, none of several threads", []string{"C1:1", "C1:2"}, "C1:m5", "", "2 runs"},
		{"nothing runs", nil, "C1", "", "Nothing is running"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPipelines(t)
			runs := p.begin(c.running...)
			m := p.message("C1", c.said, "stop")
			r := p.receive(m)
			var want []string
			if c.stopped != "" {
				want = []string{runs[c.stopped].WorkflowID + "@" + runs[c.stopped].TemporalRunID}
			}
			if !slices.Equal(p.temporal.cancelled, want) {
				t.Errorf("cancelled %v, want %v", p.temporal.cancelled, want)
			}
			notice, found, err := p.store.NoticeFor(t.Context(), r.OfficeKey, m.ID)
			if err != nil || !found || !strings.Contains(notice.Text, c.notice) || notice.SessionKey != c.said {
				t.Errorf("the notice is %+v, %v; want %q in %s", notice, err, c.notice, c.said)
			}
			if p.rows("inbox") != 0 {
				t.Error("the word is still in the inbox")
			}
		})
	}
}

func TestStopKeepsWhatWaitsAndStopAllDropsIt(t *testing.T) {
	t.Parallel()
	p := newPipelines(t)
	p.begin("C1")
	p.receive(p.message("C1", "C1", "next"))
	p.receive(p.message("C1", "C1:1", "elsewhere"))
	p.receive(p.message("C1", "C1", "stop"))
	if n := p.rows("inbox"); n != 2 {
		t.Errorf("stop left %d waiting, want both", n)
	}
	m := p.message("C1", "C1", "stop all")
	r := p.receive(m)
	if n := p.rows("inbox"); n != 1 {
		t.Errorf("stop all left %d waiting, want the other session's", n)
	}
	notice, _, err := p.store.NoticeFor(t.Context(), r.OfficeKey, m.ID)
	if err != nil || !strings.HasPrefix(notice.Text, "Dropped 1 waiting.") {
		t.Errorf("it said %q, %v", notice.Text, err)
	}
}

func TestStopAllCarriedOutAgainSaysWhatItDropped(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	s.can.Waiting = adapters.WaitingMarked
	p.running("first")
	second := p.says("U1", "second", adapters.Mention)
	p.receive(second)
	p.eventually("the second is marked", func() bool { return s.signed("+queued " + second.ID) })
	delete(p.delivery.Outbounds, office.Slack) // the first attempt ends before it has said anything
	word := p.says("U1", "stop all", adapters.Mention)
	r := p.receive(word)
	p.delivery.Outbounds[office.Slack] = s
	if n := p.rows("deliveries"); n != 0 || p.rows("inbox") != 1 {
		t.Fatalf("%d notices, %d wait; want the word alone", n, p.rows("inbox"))
	}
	third := p.says("U1", "third", adapters.Mention)
	p.receive(third)
	words, err := p.store.Controls(t.Context(), overdue(office.Slack))
	if err != nil || len(words) != 1 {
		t.Fatalf("the sweeper sees %v, %v", words, err)
	}
	s.mu.Lock()
	s.signs = nil
	s.mu.Unlock()
	if err := p.intake.Control.CarryOut(t.Context(), words[0]); err != nil {
		t.Fatal(err)
	}
	notice, _, err := p.store.NoticeFor(t.Context(), r.OfficeKey, word.ID)
	if err != nil || !strings.HasPrefix(notice.Text, "Dropped 1 waiting.") {
		t.Errorf("repeated, it said %q, %v", notice.Text, err)
	}
	p.eventually("the sign is gone", func() bool { return s.signed("-queued " + second.ID) })
	if n := p.rows("inbox"); n != 1 {
		t.Errorf("%d wait; want the one that came after the word", n)
	}
}

func TestTheStopNoticeIsEditedWhenTheRunHasSettled(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[run.Outcome]string{run.Stopped: "Stopped.", run.Answered: "It had already finished."} {
		p := newPipelines(t)
		r := p.begin("C1")["C1"]
		m := p.message("C1", "C1", "stop")
		p.receive(m)
		end := adapters.Ending{Kind: store.AnswerDelivery, Text: "the answer", Settlement: store.Settlement{Outcome: outcome}}
		after, err := p.delivery.Finish(t.Context(), r.ID, end)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.delivery.CloseNotices(t.Context(), after.Run); err != nil {
			t.Fatal(err)
		}
		notice, _, err := p.store.NoticeFor(t.Context(), r.OfficeKey, m.ID)
		if err != nil || notice.Text != want || notice.State != store.Final {
			t.Errorf("%s: the notice says %q (%s), %v; want %q", outcome, notice.Text, notice.State, err, want)
		}
	}
}

func TestAWordWhoseGatewayDiedIsCarriedOutAgain(t *testing.T) {
	t.Parallel()
	p := newPipelines(t)
	runs := p.begin("C1")
	p.temporal.down = fault.New(fault.Unavailable, "Temporal is down")
	m := p.message("C1", "C1", "stop")
	r := p.receive(m)
	if r.Decision != adapters.Commanded || p.rows("inbox") != 1 {
		t.Fatalf("%s with %d rows; the word must be kept", r.Decision, p.rows("inbox"))
	}
	p.temporal.down = nil
	words, err := p.store.Controls(t.Context(), overdue(office.Terminal))
	if err != nil || len(words) != 1 {
		t.Fatalf("the sweeper sees %v, %v", words, err)
	}
	if err := p.intake.Control.CarryOut(t.Context(), words[0]); err != nil {
		t.Fatal(err)
	}
	want := runs["C1"].WorkflowID + "@" + runs["C1"].TemporalRunID
	if !slices.Equal(p.temporal.cancelled, []string{want, want}) || p.rows("inbox") != 0 || p.rows("deliveries") != 1 {
		t.Errorf("cancelled %v, %d rows, %d notices", p.temporal.cancelled, p.rows("inbox"), p.rows("deliveries"))
	}
}

func TestNewStopsTheRunOfTheOldEpochOnly(t *testing.T) {
	t.Parallel()
	p := newPipelines(t)
	old := p.begin("C1")["C1"]
	m := p.message("C1", "C1", "/new")
	r := p.receive(m)
	if want := []string{old.WorkflowID + "@" + old.TemporalRunID}; !slices.Equal(p.temporal.cancelled, want) {
		t.Fatalf("cancelled %v, want %v", p.temporal.cancelled, want)
	}
	if _, err := p.delivery.Finish(t.Context(), old.ID, adapters.Ending{Settlement: store.Settlement{Outcome: run.Stopped}}); err != nil {
		t.Fatal(err)
	}
	p.begin("C1")
	// The same command carried out once more: by a sweeper that saw the row before it was removed.
	row := store.InboxRow{OfficeKey: r.OfficeKey, SessionKey: "C1", Kind: store.InboxControl, Word: "new", MessageID: m.ID}
	if err := p.intake.Control.CarryOut(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if len(p.temporal.cancelled) != 1 {
		t.Errorf("a repeated /new cancelled the new run: %v", p.temporal.cancelled)
	}
}

func TestAListOfManyTasksFitsOneMessage(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	s.limit = 2000
	p.intake.Control.Settings = func(context.Context, string) (settings.Office, error) { return settings.Office{Zone: time.UTC}, nil }
	r := p.receive(p.says("U1", "hello", adapters.Mention))
	if _, err := p.store.Pool().Exec(t.Context(), `
		INSERT INTO schedules (id, office_key, kind, once_at, text)
		SELECT n, $1, 'once', clock_timestamp() + interval '1 year' * n, 'task ' || n || ': ' || repeat('water the plums, ', 9) FROM generate_series(1, 40) n`, r.OfficeKey); err != nil {
		t.Fatal(err)
	}
	p.receive(p.says("U1", "/events", adapters.Mention))
	seen := s.seen()
	if len(seen) != 1 {
		t.Fatalf("people see %q", seen)
	}
	listed := strings.Count(seen[0], "\n- ")
	if !strings.Contains(seen[0], ": task 1: ") || listed < 5 || !strings.HasSuffix(seen[0], fmt.Sprintf("_…and %d more._", 40-listed)) {
		t.Errorf("people see %q", seen[0])
	}
}

func TestAWordsAnswerThatIsTooLongForThePlatformIsCut(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	s.limit = 20
	p.receive(p.says("U1", "/help", adapters.Mention))
	if seen := s.seen(); !slices.Equal(seen, []string{"Write what you want "}) {
		t.Errorf("people see %q", seen)
	}
	if n := p.rows("deliveries WHERE state = 'final'"); n != 1 || p.rows("inbox") != 0 {
		t.Errorf("%d deliveries are final, %d words wait", n, p.rows("inbox"))
	}
}
