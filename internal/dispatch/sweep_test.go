package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/dispatch"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// hung decides nothing until its time is over.
type hung chan struct{}

func (h hung) Decide(ctx context.Context, _ store.Undecided) error {
	h <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

type carrier chan store.InboxRow

func (c carrier) CarryOut(ctx context.Context, row store.InboxRow) error {
	select {
	case c <- row:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// signs have nothing to take off.
type signs struct{}

func (signs) TakeOff(context.Context, store.Run) error { return nil }

// newSweeper makes a sweeper of Slack's rows on a database of its own.
func newSweeper(t *testing.T, carrier dispatch.Carrier, decider dispatch.Decider) (*dispatch.Sweeper, func(sql string)) {
	t.Helper()
	s := storetest.Open(t)
	metrics, err := telemetry.NewMetrics(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := s.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO offices (key, platform, conversation_id, audience) VALUES ('o', 'slack', 'C1', 'shared'), ('d', 'discord', 'C1', 'shared')`)
	return &dispatch.Sweeper{
		Store: s, Carrier: carrier, Decider: decider, Signs: signs{}, Platforms: []office.Platform{office.Slack}, Retention: time.Hour, Metrics: metrics, Log: slog.New(slog.DiscardHandler),
	}, exec
}

// sweep runs a sweeper until the test is over.
func sweep(t *testing.T, s *dispatch.Sweeper) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

func TestADecisionThatHangsHoldsUpNoWord(t *testing.T) {
	t.Parallel()
	deciding, carried := make(hung, 10), make(carrier)
	sweeper, exec := newSweeper(t, carried, deciding)
	exec(`INSERT INTO inbox (office_key, session_key, kind, state, trigger, word, message_id, received_at) VALUES ('o', 'C1', 'trigger', 'undecided', 'human', '', 'm1', now() - interval '1 minute')`)
	sweep(t, sweeper)
	<-deciding
	exec(`INSERT INTO inbox (office_key, session_key, kind, state, trigger, word, message_id, received_at) VALUES ('o', 'C1', 'control', 'waiting', 'command', 'stop', 'm2', now() - interval '1 minute')`)
	if row := <-carried; row.MessageID != "m2" {
		t.Errorf("carried out %+v", row)
	}
	if len(deciding) != 0 {
		t.Error("the decision did not hang")
	}
}

// halted is a carrier that goes on when it is told to.
type halted struct {
	begun    chan store.InboxRow
	released chan struct{}
}

func (h halted) CarryOut(ctx context.Context, row store.InboxRow) error {
	h.begun <- row
	select {
	case <-h.released:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// stuck carries out no word of Slack's office.
type stuck struct {
	begun chan store.InboxRow
	words carrier
}

func (s stuck) CarryOut(ctx context.Context, row store.InboxRow) error {
	if row.OfficeKey != "o" {
		return s.words.CarryOut(ctx, row)
	}
	select {
	case s.begun <- row:
	default:
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestAPlatformThatHangsHoldsUpNoWordOfAnother(t *testing.T) {
	t.Parallel()
	slow := stuck{begun: make(chan store.InboxRow, 1), words: make(carrier)}
	sweeper, exec := newSweeper(t, slow, make(hung))
	sweeper.Platforms = []office.Platform{office.Slack, office.Discord}
	const word = `INSERT INTO inbox (office_key, session_key, kind, state, trigger, word, message_id, received_at) VALUES ('%s', 'C1', 'control', 'waiting', 'command', 'stop', '%s', now() - interval '1 minute')`
	exec(fmt.Sprintf(word, "o", "of slack"))
	sweep(t, sweeper)
	<-slow.begun
	exec(fmt.Sprintf(word, "d", "of discord"))
	if row := <-slow.words; row.MessageID != "of discord" {
		t.Errorf("carried out %+v", row)
	}
}

func TestAWordIsCarriedOutByOneProcessAtATime(t *testing.T) {
	t.Parallel()
	slow := halted{begun: make(chan store.InboxRow, 10), released: make(chan struct{})}
	first, exec := newSweeper(t, slow, make(hung))
	carried := make(carrier)
	second := &dispatch.Sweeper{
		Store: first.Store, Carrier: carried, Decider: make(hung), Platforms: first.Platforms, Retention: time.Hour, Metrics: first.Metrics, Log: first.Log,
	}
	const word = `INSERT INTO inbox (office_key, session_key, kind, state, trigger, word, message_id, received_at) VALUES ('%s', 'C1', 'control', 'waiting', 'command', 'stop', '%s', now() - interval '1 minute')`
	exec(`INSERT INTO offices (key, platform, conversation_id, audience) VALUES ('p', 'slack', 'C2', 'shared')`)
	exec(fmt.Sprintf(word, "o", "one"))
	sweep(t, first)
	<-slow.begun
	exec(fmt.Sprintf(word, "p", "two"))
	sweep(t, second)
	// It comes to the second word after the first, which it has left alone.
	if row := <-carried; row.MessageID != "two" {
		t.Errorf("carried out %+v, at which another process is", row)
	}
	exec(`DELETE FROM inbox WHERE message_id = 'two'`)
	close(slow.released)
	for row := range carried { // the first word is not done, and nobody's any more
		if row.MessageID == "one" {
			break
		}
	}
}

// decider decides at once.
type decider chan store.Undecided

func (d decider) Decide(ctx context.Context, u store.Undecided) error {
	select {
	case d <- u:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// failing carries out and decides nothing but what is called "last".
type failing struct {
	words     carrier
	decisions decider
}

var errFails = errors.New("it cannot be done")

func (f failing) CarryOut(ctx context.Context, row store.InboxRow) error {
	if row.MessageID != "last word" {
		return errFails
	}
	return f.words.CarryOut(ctx, row)
}

func (f failing) Decide(ctx context.Context, u store.Undecided) error {
	if u.MessageID != "last talk" {
		return errFails
	}
	return f.decisions.Decide(ctx, u)
}

func TestRowsThatCannotBeServedKeepNoOthersWaiting(t *testing.T) {
	t.Parallel()
	fill := func(office string) string {
		return `INSERT INTO inbox (office_key, session_key, kind, state, trigger, word, message_id, received_at)
			SELECT '` + office + `', 'C1', kind, state, trigger, word, word || n, now() - interval '2 minutes' FROM generate_series(1, 150) n,
			(VALUES ('control', 'waiting', 'command', 'stop'), ('trigger', 'undecided', 'human', '')) AS k (kind, state, trigger, word)`
	}
	const last = `INSERT INTO inbox (office_key, session_key, kind, state, trigger, word, message_id, received_at) VALUES
		('o', 'C1', 'control', 'waiting', 'command', 'stop', 'last word', now() - interval '1 minute'),
		('o', 'C1', 'trigger', 'undecided', 'human', '', 'last talk', now() - interval '1 minute')`
	t.Run("of a platform whose token was removed", func(t *testing.T) {
		t.Parallel()
		words, decisions := make(carrier), make(decider)
		sweeper, exec := newSweeper(t, words, decisions)
		var log bytes.Buffer
		sweeper.Log = slog.New(slog.NewTextHandler(&log, nil))
		exec(fill("d"))
		exec(last)
		t.Run("sweep", func(t *testing.T) {
			sweep(t, sweeper)
			if row, u := <-words, <-decisions; row.MessageID != "last word" || u.MessageID != "last talk" {
				t.Errorf("carried out %+v, decided %+v", row, u)
			}
			gauge := func() float64 {
				families, err := sweeper.Metrics.Gatherer().Gather()
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range families {
					if f.GetName() == "mikan_inbox_unserved" {
						return f.GetMetric()[0].GetGauge().GetValue()
					}
				}
				return 0
			}
			for t.Context().Err() == nil && gauge() != 300 {
				select {
				case <-words:
				case <-decisions:
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
		if said := strings.Count(log.String(), "no token"); said != 1 || !strings.Contains(log.String(), "platform=discord waiting=300") {
			t.Errorf("operators read %d times: %s", said, log.String())
		}
	})
	t.Run("of one where nothing works", func(t *testing.T) {
		t.Parallel()
		all := failing{words: make(carrier), decisions: make(decider)}
		sweeper, exec := newSweeper(t, all, all)
		exec(fill("o"))
		exec(last)
		sweep(t, sweeper)
		if row, u := <-all.words, <-all.decisions; row.MessageID != "last word" || u.MessageID != "last talk" {
			t.Errorf("carried out %+v, decided %+v", row, u)
		}
	})
}
