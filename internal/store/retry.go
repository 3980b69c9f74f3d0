package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
)

// Retry puts the trigger of a run that failed or was stopped back into the inbox, as a new attempt with a run id of its
// own, and returns the row. What the earlier attempt did stays in its session: the model sees it. Errors: not_found, and
// conflict where there is nothing to try again: the run is open, was answered, or is not the newest attempt, another
// attempt waits already, or the message is gone.
func (s *Store) Retry(ctx context.Context, runID string) (row InboxRow, err error) {
	err = s.tx(ctx, "retry", func(tx pgx.Tx) error {
		r, err := runByID(ctx, tx, runID)
		if err != nil {
			return err
		}
		if err := lockSession(ctx, tx, r.OfficeKey, r.SessionKey); err != nil {
			return err
		}
		// Read again: the session's own transactions have had their turn.
		if r, err = runByID(ctx, tx, runID); err != nil {
			return err
		}
		if err := retriable(ctx, tx, r); err != nil {
			return err
		}
		row = InboxRow{
			OfficeKey: r.OfficeKey, SessionKey: r.SessionKey, Kind: InboxTrigger, Trigger: r.Trigger, Word: r.Word,
			MessageID: r.TriggerMessageID, Attempt: r.Attempt + 1, Reply: r.Reply,
		}
		if err := queue(ctx, tx, &row, nil, time.Now()); err != nil {
			return err
		}
		if row.ID == 0 {
			return fault.New(fault.Conflict, "attempt %d of the run's message waits already", row.Attempt)
		}
		return nil
	})
	return row, err
}

func retriable(ctx context.Context, tx pgx.Tx, r Run) error {
	switch {
	case r.State != Settled:
		return fault.New(fault.Conflict, "the run is open; stop it first, or let it end")
	case r.Outcome != run.Failed && r.Outcome != run.Stopped:
		return fault.New(fault.Conflict, "the run was not in vain (%s); only one that failed or was stopped is run again", r.Outcome)
	}
	var newer string
	later, err := found(tx.QueryRow(ctx, `
		SELECT id FROM runs WHERE office_key = $1 AND trigger_message_id = $2 AND session_key = $3 AND attempt > $4
		ORDER BY attempt DESC LIMIT 1`, r.OfficeKey, r.TriggerMessageID, r.SessionKey, r.Attempt).Scan(&newer))
	if err != nil {
		return err
	}
	if later {
		return fault.New(fault.Conflict, "its message was run again already, as %s", newer)
	}
	message, err := scanChat(tx.QueryRow(ctx, `
		SELECT `+chatColumns+` FROM chat_log WHERE office_key = $1 AND message_id = $2 AND newest`, r.OfficeKey, r.TriggerMessageID))
	known, err := found(err)
	if err == nil && (!known || message.Deleted) {
		return fault.New(fault.Conflict, "its message was deleted")
	}
	return err
}
