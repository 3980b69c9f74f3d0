package store

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
)

// Doubt is what is still to be found out about an undecided row, in the words of whoever decides.
type Doubt struct {
	Standing     bool            `json:"standing,omitempty"` // whether the author may talk to mikan
	Ambient      bool            `json:"ambient,omitempty"`  // whether it is meant for mikan at all
	Installation string          `json:"installation,omitempty"`
	Groups       json.RawMessage `json:"groups,omitempty"`
}

// Undecided is a row with its doubt.
type Undecided struct {
	InboxRow
	Doubt Doubt
}

// Undecideds lists rows that nobody has decided about, oldest first.
func (s *Store) Undecideds(ctx context.Context, o Overdue) ([]Undecided, error) {
	rows, err := s.pool.Query(ctx, undecidedsSQL, o.args()...)
	if err != nil {
		return nil, translate(err)
	}
	undecided, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Undecided, error) {
		var u Undecided
		err := row.Scan(&u.ID, &u.OfficeKey, &u.SessionKey, &u.Kind, &u.Trigger, &u.Word, &u.MessageID, &u.Attempt, &u.Reply, &u.ReceivedAt, &u.Marked, &u.Doubt)
		return u, err
	})
	return undecided, translate(err)
}

const undecidedsSQL = `SELECT ` + inboxColumns + `, coalesce(doubt, '{}') FROM inbox WHERE state = 'undecided' AND ` + overdue

// Admit makes an undecided row wait like any other; false when somebody else decided about it.
func (s *Store) Admit(ctx context.Context, id int64) (first bool, err error) {
	err = s.tx(ctx, "admit", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE inbox SET state = 'waiting', doubt = NULL WHERE id = $1 AND state = 'undecided'`, id)
		first = tag.RowsAffected() == 1
		return err
	})
	return first, err
}

// Traces tells what of a refused message stays.
type Traces int

// The choices.
const (
	KeepLogged Traces = iota // the chat log keeps it like any talk
	KeepNone                 // as if it had never come
)

// TurnAway removes an undecided row; false when somebody else decided about it, also only that it is meant for mikan.
func (s *Store) TurnAway(ctx context.Context, row Undecided, keep Traces) (first bool, err error) {
	err = s.tx(ctx, "turn_away", func(tx pgx.Tx) error {
		if keep == KeepNone { // before its rows, as whoever takes a message in
			if _, err := tx.Exec(ctx, `SELECT FROM offices WHERE key = $1 FOR UPDATE`, row.OfficeKey); err != nil {
				return err
			}
		}
		tag, err := tx.Exec(ctx, `DELETE FROM inbox WHERE id = $1 AND state = 'undecided' AND doubt ? 'ambient' = $2`, row.ID, row.Doubt.Ambient)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		first = true
		if keep == KeepNone {
			return leaveNothing(ctx, tx, row.InboxRow)
		}
		return nil
	})
	return first, err
}

// leaveNothing forgets a message, and the office if it held nothing else.
func leaveNothing(ctx context.Context, tx pgx.Tx, row InboxRow) error {
	if _, err := tx.Exec(ctx, `DELETE FROM chat_log WHERE office_key = $1 AND message_id = $2`, row.OfficeKey, row.MessageID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		DELETE FROM offices WHERE key = $1
			AND NOT EXISTS (SELECT FROM chat_log WHERE office_key = $1) AND NOT EXISTS (SELECT FROM inbox WHERE office_key = $1)
			AND NOT EXISTS (SELECT FROM sessions WHERE office_key = $1) AND NOT EXISTS (SELECT FROM runs WHERE office_key = $1)
			AND NOT EXISTS (SELECT FROM deliveries WHERE office_key = $1) AND NOT EXISTS (SELECT FROM schedules WHERE office_key = $1)
			AND NOT EXISTS (SELECT FROM import_offices WHERE office_key = $1) AND NOT EXISTS (SELECT FROM settings WHERE scope = $1)`, row.OfficeKey)
	return err
}

// TakesPart tells whether a session has ever had a run, or has one waiting.
func (s *Store) TakesPart(ctx context.Context, officeKey, sessionKey string) (bool, error) {
	var takes bool
	err := s.pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM runs WHERE office_key = $1 AND session_key = $2 AND trigger <> 'command')
			OR EXISTS (SELECT 1 FROM inbox WHERE office_key = $1 AND session_key = $2 AND kind = 'trigger')`, officeKey, sessionKey).Scan(&takes)
	return takes, translate(err)
}

// Answers tells whether a message ever became a run, or waits to. One that may not be meant for mikan does not yet.
func (s *Store) Answers(ctx context.Context, officeKey, messageID string) (bool, error) {
	var answers bool
	err := s.pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM runs WHERE office_key = $1 AND trigger_message_id = $2)
			OR EXISTS (SELECT 1 FROM inbox WHERE office_key = $1 AND message_id = $2 AND NOT coalesce(doubt ? 'ambient', false))`,
		officeKey, messageID).Scan(&answers)
	return answers, translate(err)
}

// MarkWaiting notes that a message gets a sign that it waits, if it does: something is ahead of it in its session.
func (s *Store) MarkWaiting(ctx context.Context, row InboxRow) (waits bool, err error) {
	err = s.tx(ctx, "mark", func(tx pgx.Tx) error {
		// A claim that has read the row and not yet taken it out would leave the run without a word of the sign.
		if err := lockSession(ctx, tx, row.OfficeKey, row.SessionKey); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE inbox SET marked = true WHERE id = $1 AND state = 'waiting' AND (
				EXISTS (SELECT 1 FROM runs WHERE office_key = $2 AND session_key = $3 AND state = 'running')
				OR EXISTS (SELECT 1 FROM inbox ahead WHERE ahead.office_key = $2 AND ahead.session_key = $3
					AND ahead.kind = 'trigger' AND ahead.state = 'waiting' AND ahead.id < $1))`, row.ID, row.OfficeKey, row.SessionKey)
		waits = tag.RowsAffected() == 1
		return err
	})
	return waits, err
}

// Waits tells whether a row is still in the inbox.
func (s *Store) Waits(ctx context.Context, id int64) (bool, error) {
	var waits bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM inbox WHERE id = $1)`, id).Scan(&waits)
	return waits, translate(err)
}

// RecentTalk is what was said in a scope before a message, oldest first.
func (s *Store) RecentTalk(ctx context.Context, m ChatMessage, limit int) ([]ChatMessage, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+chatColumns+` FROM chat_log
		WHERE office_key = $1 AND session_key = $2 AND newest AND NOT deleted AND id < $3 AND kind IN ('message', 'answer')
		ORDER BY sent_at DESC, id DESC LIMIT $4`, m.OfficeKey, m.SessionKey, m.ID, limit)
	if err != nil {
		return nil, translate(err)
	}
	talk, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ChatMessage, error) { return scanChat(row) })
	for i, j := 0, len(talk)-1; i < j; i, j = i+1, j-1 {
		talk[i], talk[j] = talk[j], talk[i]
	}
	return talk, translate(err)
}
