package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
)

// InboxKind tells whether a row becomes a run or is carried out at once.
type InboxKind string

// The kinds of inbox row.
const (
	InboxTrigger InboxKind = "trigger"
	InboxControl InboxKind = "control"
)

// InboxRow is something that a platform delivered and nobody has run or carried out yet.
type InboxRow struct {
	ID         int64           `json:"id"`
	OfficeKey  string          `json:"office_key"`
	SessionKey string          `json:"session_key"`
	Kind       InboxKind       `json:"kind"`
	Trigger    run.Trigger     `json:"trigger"`
	Word       string          `json:"word,omitempty"`
	MessageID  string          `json:"message_id"`
	Attempt    int             `json:"attempt"`
	Reply      json.RawMessage `json:"reply"`
	ReceivedAt time.Time       `json:"received_at"`
	// Marked: the message carries a sign that it waits.
	Marked bool `json:"marked,omitempty"`
}

const inboxColumns = `id, office_key, session_key, kind, trigger, word, message_id, attempt, reply, received_at, marked`

func scanInbox(row pgx.Row) (InboxRow, error) {
	var r InboxRow
	err := row.Scan(&r.ID, &r.OfficeKey, &r.SessionKey, &r.Kind, &r.Trigger, &r.Word, &r.MessageID, &r.Attempt, &r.Reply, &r.ReceivedAt, &r.Marked)
	return r, err
}

// Arrival is one message with what intake decided about it.
type Arrival struct {
	Office  Office
	Message ChatMessage
	Row     *InboxRow // nil: logged only
	Doubt   *Doubt    // set: the row is undecided
}

// errKnown ends a transaction that found the message logged already.
var errKnown = errors.New("known")

// Receive commits an arrival: office, chat log row and inbox row in one transaction, and fills in the row's id and time.
// It returns false when the log has the message already: a redelivery, which changes nothing.
func (s *Store) Receive(ctx context.Context, a Arrival) (fresh bool, err error) {
	err = s.tx(ctx, "receive", func(tx pgx.Tx) error {
		if err := ensureOffice(ctx, tx, a.Office); err != nil {
			return err
		}
		logged, err := logChat(ctx, tx, a.Message)
		if err != nil {
			return err
		}
		if !logged {
			return errKnown
		}
		if a.Row == nil {
			return nil
		}
		return queue(ctx, tx, a.Row, a.Doubt, a.Message.SentAt)
	})
	if errors.Is(err, errKnown) {
		return false, nil
	}
	return err == nil, err
}

// QueueLate queues a message that the log has already; false when it waits or waited as the same attempt. Of one that
// waits for the decision whether it is meant for mikan, that decision is made: it is.
func (s *Store) QueueLate(ctx context.Context, a Arrival) (fresh bool, err error) {
	err = s.tx(ctx, "queue_late", func(tx pgx.Tx) error {
		err := queue(ctx, tx, a.Row, a.Doubt, a.Message.SentAt)
		fresh = a.Row.ID != 0
		if err != nil || fresh {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE inbox SET doubt = doubt - 'ambient' WHERE office_key = $1 AND message_id = $2 AND state = 'undecided'`, a.Row.OfficeKey, a.Row.MessageID)
		return err
	})
	return fresh, err
}

// queue inserts a row and fills in its id and time; a row that is there already stays as it is, and leaves them zero.
func queue(ctx context.Context, tx pgx.Tx, r *InboxRow, doubt *Doubt, saidAt time.Time) error {
	if r.Reply == nil {
		r.Reply = json.RawMessage(`{}`)
	}
	r.Attempt = max(r.Attempt, 1)
	_, err := found(tx.QueryRow(ctx, `
		INSERT INTO inbox (office_key, session_key, kind, trigger, word, message_id, attempt, reply, state, doubt, said_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, CASE WHEN $9::jsonb IS NULL THEN 'waiting' ELSE 'undecided' END, $9, $10)
		ON CONFLICT DO NOTHING RETURNING id, received_at`,
		r.OfficeKey, r.SessionKey, r.Kind, r.Trigger, r.Word, r.MessageID, r.Attempt, r.Reply, doubt, saidAt).Scan(&r.ID, &r.ReceivedAt))
	return err
}

// Woken notes that the workflow of a session was signalled, so that the sweeper leaves its rows alone for a while.
func (s *Store) Woken(ctx context.Context, officeKey, sessionKey string) error {
	_, err := s.exec(ctx, "woken", `
		UPDATE inbox SET woken_at = clock_timestamp()
		WHERE office_key = $1 AND session_key = $2 AND kind = 'trigger' AND state = 'waiting'`, officeKey, sessionKey)
	return translate(err)
}

// Address names a session by where it is.
type Address struct {
	OfficeKey  string
	SessionKey string
}

// Unwoken lists the sessions with rows that have waited for longer than fresh and were never signalled, or not within
// patience: what the sweeper wakes. A row behind a run was signalled too; its session takes it when the run ends.
func (s *Store) Unwoken(ctx context.Context, fresh, patience time.Duration, limit int) ([]Address, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT office_key, session_key FROM inbox
		WHERE kind = 'trigger' AND state = 'waiting'
		  AND received_at < clock_timestamp() - make_interval(secs => $1)
		  AND (woken_at IS NULL OR woken_at < clock_timestamp() - make_interval(secs => $2))
		GROUP BY 1, 2 ORDER BY min(id) LIMIT $3`, fresh.Seconds(), patience.Seconds(), limit)
	if err != nil {
		return nil, translate(err)
	}
	sessions, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Address])
	return sessions, translate(err)
}

// Overdue says which rows of the inbox whoever sweeps it takes.
type Overdue struct {
	Platform office.Platform // only of this one
	Age      time.Duration   // only those that have waited for so long
	After    int64           // only with a higher id: where the last list has ended
	Limit    int
}

// Controls lists control rows that nobody has carried out, oldest first.
func (s *Store) Controls(ctx context.Context, o Overdue) ([]InboxRow, error) {
	rows, err := s.pool.Query(ctx, controlsSQL, o.args()...)
	if err != nil {
		return nil, translate(err)
	}
	controls, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (InboxRow, error) { return scanInbox(row) })
	return controls, translate(err)
}

const controlsSQL = `SELECT ` + inboxColumns + ` FROM inbox WHERE kind = 'control' AND state = 'waiting' AND ` + overdue

const overdue = `received_at < clock_timestamp() - make_interval(secs => $1) AND id > $2
	AND EXISTS (SELECT 1 FROM offices o WHERE o.key = office_key AND o.platform = $3)
	ORDER BY id LIMIT $4`

func (o Overdue) args() []any { return []any{o.Age.Seconds(), o.After, o.Platform, o.Limit} }

func names(platforms []office.Platform) []string {
	all := make([]string, len(platforms))
	for i, p := range platforms {
		all[i] = string(p)
	}
	return all
}

// Unserved counts, by platform, the words and decisions that have waited for the given age on platforms other than those
// given: nobody carries them out who has no token there.
func (s *Store) Unserved(ctx context.Context, served []office.Platform, age time.Duration) (map[office.Platform]int64, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT o.platform, count(*) FROM inbox i JOIN offices o ON o.key = i.office_key
		WHERE (i.kind = 'control' OR i.state = 'undecided') AND i.received_at < clock_timestamp() - make_interval(secs => $1)
		  AND o.platform <> ALL($2) GROUP BY 1`, age.Seconds(), names(served))
	if err != nil {
		return nil, translate(err)
	}
	counts := map[office.Platform]int64{}
	var platform office.Platform
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&platform, &n}, func() error {
		counts[platform] = n
		return nil
	})
	return counts, translate(err)
}

// Done removes a control row that was carried out.
func (s *Store) Done(ctx context.Context, id int64) error {
	_, err := s.exec(ctx, "done", `DELETE FROM inbox WHERE id = $1 AND kind = 'control'`, id)
	return translate(err)
}

// EmptyQueue drops the triggers that waited in a session when a control row came, and returns them. What came after the
// row stays, however late the row is carried out. The row keeps what it dropped: repeated, it drops nothing more and
// returns the same, until it is done.
func (s *Store) EmptyQueue(ctx context.Context, control InboxRow) (dropped []InboxRow, err error) {
	err = s.tx(ctx, "empty_queue", func(tx pgx.Tx) error {
		if err := lockSession(ctx, tx, control.OfficeKey, control.SessionKey); err != nil {
			return err
		}
		var emptied bool
		waits, err := found(tx.QueryRow(ctx, `SELECT dropped IS NOT NULL, coalesce(dropped, '[]') FROM inbox WHERE id = $1`, control.ID).Scan(&emptied, &dropped))
		if err != nil || emptied || !waits {
			return err
		}
		rows, err := tx.Query(ctx, `
			DELETE FROM inbox WHERE office_key = $1 AND session_key = $2 AND kind = 'trigger' AND id < $3
			RETURNING `+inboxColumns, control.OfficeKey, control.SessionKey, control.ID)
		if err != nil {
			return err
		}
		dropped, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (InboxRow, error) { return scanInbox(row) })
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE inbox SET dropped = $2 WHERE id = $1`, control.ID, append([]InboxRow{}, dropped...))
		return err
	})
	return dropped, err
}

// WaitsBefore tells whether a trigger that came before a control row still waits in its session, to be decided about or
// to be run.
func (s *Store) WaitsBefore(ctx context.Context, control InboxRow) (bool, error) {
	var waits bool
	err := s.pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM inbox WHERE office_key = $1 AND session_key = $2 AND kind = 'trigger' AND id < $3)`,
		control.OfficeKey, control.SessionKey, control.ID).Scan(&waits)
	return waits, translate(err)
}

// Waiting counts the triggers of an office's sessions that wait: "" counts all offices.
func (s *Store) Waiting(ctx context.Context, officeKey string) (count int64, oldest time.Duration, err error) {
	var seconds float64
	err = s.pool.QueryRow(ctx, `
		SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(received_at)), 0)::float8
		FROM inbox WHERE kind = 'trigger' AND ($1 = '' OR office_key = $1)`, officeKey).Scan(&count, &seconds)
	return count, time.Duration(seconds * float64(time.Second)), translate(err)
}

// InboxHas tells whether a message still waits in the inbox.
func (s *Store) InboxHas(ctx context.Context, officeKey, messageID string) (bool, error) {
	var has bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM inbox WHERE office_key = $1 AND message_id = $2)`, officeKey, messageID).Scan(&has)
	return has, translate(err)
}
