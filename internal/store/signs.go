package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/office"
)

// TakenOff notes that the sign that a run's message waits is off. It is noted only when the message came in longer ago
// than a sign can still be on its way: one that comes late is taken off by the next who looks.
func (s *Store) TakenOff(ctx context.Context, runID string, onItsWay time.Duration) error {
	_, err := s.exec(ctx, "mark", `
		UPDATE runs SET marked = false WHERE id = $1 AND marked AND received_at < clock_timestamp() - make_interval(secs => $2)`,
		runID, onItsWay.Seconds())
	return translate(err)
}

// NotMarked notes that a message did not get the sign that MarkWaiting announced, whether it still waits or has its run.
func (s *Store) NotMarked(ctx context.Context, row InboxRow) error {
	return s.tx(ctx, "mark", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE inbox SET marked = false WHERE id = $1`, row.ID)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE runs SET marked = false WHERE office_key = $1 AND trigger_message_id = $2 AND attempt = $3`,
			row.OfficeKey, row.MessageID, row.Attempt)
		return err
	})
}

// Abandon ends notices that were on their way when their sender died, and that nobody will repeat: what is repeated has
// its row in the inbox. So it is with the word that a message waits.
func (s *Store) Abandon(ctx context.Context, age time.Duration) error {
	_, err := s.exec(ctx, "signed", abandonSQL, age.Seconds())
	return translate(err)
}

const abandonSQL = `
	UPDATE deliveries d SET state = 'refused', error_code = 'interrupted', error_text = 'its sender has died', deadline = NULL, updated_at = clock_timestamp()
	WHERE d.state = 'intended' AND d.kind = 'notice' AND d.run_id IS NULL AND d.cause_message_id IS NOT NULL
		AND d.deadline < clock_timestamp() - make_interval(secs => $1)
		AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.office_key = d.office_key AND i.message_id = d.cause_message_id)`

// Signed takes the runs of a platform that ended at least so long ago, and at most a day, and whose messages still
// carry the sign that they wait. No other caller gets them for the given time.
func (s *Store) Signed(ctx context.Context, platform office.Platform, age, again time.Duration, limit int) ([]Run, error) {
	var runs []Run
	err := s.tx(ctx, "signed", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, signedSQL, platform, age.Seconds(), again.Seconds(), limit)
		if err != nil {
			return err
		}
		runs, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Run, error) { return scanRun(row) })
		return err
	})
	return runs, err
}

const signedSQL = `
	UPDATE runs SET checked_at = clock_timestamp()
	WHERE id IN (
		SELECT r.id FROM runs r JOIN offices o ON o.key = r.office_key
		WHERE r.marked AND r.state = 'settled' AND r.started_at > clock_timestamp() - interval '1 day' AND o.platform = $1
			AND r.settled_at < clock_timestamp() - make_interval(secs => $2)
			AND r.checked_at < clock_timestamp() - make_interval(secs => $3)
		ORDER BY r.checked_at LIMIT $4 FOR UPDATE OF r SKIP LOCKED)
	RETURNING ` + runColumns
