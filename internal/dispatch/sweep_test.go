package dispatch_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/geminixiang/mikan/internal/dispatch"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/testenv"
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

func TestADecisionThatHangsHoldsUpNoWord(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), testenv.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	exec(`INSERT INTO offices (key, platform, conversation_id, audience) VALUES ('o', 'slack', 'C1', 'shared')`)
	exec(`INSERT INTO inbox (office_key, session_key, kind, state, trigger, word, message_id, received_at) VALUES ('o', 'C1', 'trigger', 'undecided', 'human', '', 'm1', now() - interval '1 minute')`)
	deciding, carried := make(hung, 10), make(carrier)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		(&dispatch.Sweeper{Store: s, Carrier: carried, Decider: deciding, Metrics: metrics, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
	}()
	<-deciding
	exec(`INSERT INTO inbox (office_key, session_key, kind, state, trigger, word, message_id, received_at) VALUES ('o', 'C1', 'control', 'waiting', 'command', 'stop', 'm2', now() - interval '1 minute')`)
	if row := <-carried; row.MessageID != "m2" {
		t.Errorf("carried out %+v", row)
	}
	if len(deciding) != 0 {
		t.Error("the decision did not hang")
	}
	cancel()
	<-ended
}
