package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
)

// Compact lets a summary stand, for the model, for everything before the entry kept. basis is the session as it was
// when the summary was made: when its window has moved since (another compaction, a reset), nothing is written and the
// error is conflict.
func (s *Store) Compact(ctx context.Context, step Step, basis Session, summary string, kept Entry, spent Spent) error {
	return s.tx(ctx, "compact", func(tx pgx.Tx) error {
		current, err := scanSession(tx.QueryRow(ctx, `SELECT `+sessionColumns+` FROM sessions WHERE id = $1 FOR UPDATE`, basis.ID))
		if err != nil {
			return err
		}
		if current.Epoch != basis.Epoch || current.WindowSession != basis.WindowSession || current.WindowSeq != basis.WindowSeq ||
			current.SummaryEntry != basis.SummaryEntry {
			return fault.New(fault.Conflict, "the session's context has moved since the summary was made")
		}
		var token int64
		if err := tx.QueryRow(ctx, `SELECT token FROM run_steps WHERE run_id = $1 AND slot = $2 FOR UPDATE`,
			step.Run.ID, step.Slot).Scan(&token); err != nil {
			return err
		}
		if token != step.Token {
			return overtaken()
		}
		entry := []Entry{{Kind: EntryCompaction, RunID: step.Run.ID, Slot: step.Slot, Body: Body{
			Summary: summary, KeptSession: kept.SessionID, KeptSeq: kept.Seq,
		}}}
		if err := appendEntries(ctx, tx, basis.ID, basis.Epoch, entry); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE sessions SET window_session = $2, window_seq = $3, summary_entry = $4 WHERE id = $1`,
			basis.ID, kept.SessionID, kept.Seq, entry[0].ID)
		if err != nil {
			return err
		}
		// The run may have settled meanwhile: a summary made beside it belongs to it, but not to what a fork of it sees.
		_, err = tx.Exec(ctx, `
			UPDATE runs SET last_seq = CASE WHEN state = 'running' THEN $2 ELSE last_seq END,
				input_tokens = input_tokens + $3, output_tokens = output_tokens + $4, cache_read_tokens = cache_read_tokens + $5,
				cache_write_tokens = cache_write_tokens + $6, cost_micros = cost_micros + $7
			WHERE id = $1`, step.Run.ID, entry[0].Seq, spent.Usage.Input, spent.Usage.Output, spent.Usage.CacheRead,
			spent.Usage.CacheWrite, spent.CostMicros)
		return err
	})
}
