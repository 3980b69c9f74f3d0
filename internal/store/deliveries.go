package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/text"
)

// DeliveryKind tells what a delivery says.
type DeliveryKind string

// The kinds of delivery.
const (
	AnswerDelivery DeliveryKind = "answer"
	NoticeDelivery DeliveryKind = "notice"
)

// DeliveryState tells how far a delivery came.
type DeliveryState string

// The states of a delivery.
const (
	Intended DeliveryState = "intended" // may or may not be on the platform
	Posted   DeliveryState = "posted"   // on the platform, its text not final
	Final    DeliveryState = "final"
	Refused  DeliveryState = "refused" // the platform will never take it
	Deleted  DeliveryState = "deleted" // taken back: the run stayed silent
)

// Delivery is one visible message that mikan puts on a platform.
type Delivery struct {
	Key        string          `json:"key"`
	OfficeKey  string          `json:"office_key"`
	SessionKey string          `json:"session_key"`
	RunID      string          `json:"run_id,omitempty"`
	CauseID    string          `json:"cause_message_id,omitempty"`
	Kind       DeliveryKind    `json:"kind"`
	Part       int             `json:"part"`
	Reply      json.RawMessage `json:"-"`
	State      DeliveryState   `json:"state"`
	Text       string          `json:"text"`
	MessageID  string          `json:"message_id,omitempty"`
	Token      int64           `json:"-"`
	Deadline   *time.Time      `json:"-"`
	ErrorCode  fault.Code      `json:"error_code,omitempty"`
	ErrorText  string          `json:"error_text,omitempty"`
	CreatedAt  time.Time       `json:"created_at"`
	UpdatedAt  time.Time       `json:"updated_at"`
}

const deliveryColumns = `key, office_key, session_key, coalesce(run_id, ''), coalesce(cause_message_id, ''), kind, part, reply, state, text, coalesce(message_id, ''),
	token, deadline, coalesce(error_code, ''), coalesce(error_text, ''), created_at, updated_at`

func scanDelivery(row pgx.Row) (Delivery, error) {
	var d Delivery
	err := row.Scan(&d.Key, &d.OfficeKey, &d.SessionKey, &d.RunID, &d.CauseID, &d.Kind, &d.Part, &d.Reply, &d.State, &d.Text, &d.MessageID,
		&d.Token, &d.Deadline, &d.ErrorCode, &d.ErrorText, &d.CreatedAt, &d.UpdatedAt)
	return d, err
}

// Intent is an attempt's right to post one delivery.
type Intent struct {
	Delivery
	// Ambiguous: an earlier attempt may have posted it. Wait is how long until that attempt's deadline has passed: the
	// platform can then be searched, and no edit of that attempt's comes any more. Zero when no attempt is in flight.
	Ambiguous bool
	Wait      time.Duration
}

// Promise tells what an intent is for.
type Promise string

// The promises. A repeatable post is the same message however often it is made, so its intent may be lost.
const (
	PostOnce   Promise = "once"
	Repeatable Promise = "repeatable"
)

// Intend commits the intent to post, with a hard deadline by the database's clock, before the platform is called. An
// earlier intent without a message id makes the new one ambiguous.
func (s *Store) Intend(ctx context.Context, d Delivery, within time.Duration, promise Promise) (Intent, error) {
	var intent Intent
	if d.Reply == nil {
		d.Reply = json.RawMessage(`{}`)
	}
	begin := s.tx
	if promise == Repeatable {
		begin = s.txUnforced
	}
	err := begin(ctx, "intend", func(tx pgx.Tx) error {
		var waitSeconds float64
		var had, known, raced bool
		batch := &pgx.Batch{}
		batch.Queue(`
			SELECT state = 'intended', greatest(extract(epoch FROM deadline - clock_timestamp()), 0)::float8
			FROM deliveries WHERE key = $1 FOR UPDATE`, d.Key).QueryRow(func(row pgx.Row) (err error) {
			known, err = found(row.Scan(&had, &waitSeconds))
			return err
		})
		batch.Queue(`
			INSERT INTO deliveries (key, office_key, session_key, run_id, kind, part, reply, state, text, deadline, cause_message_id)
			VALUES ($1, $2, $3, nullif($4, ''), $5, $6, $7, 'intended', $8, clock_timestamp() + make_interval(secs => $9), nullif($10, ''))
			ON CONFLICT (key) DO UPDATE SET token = deliveries.token + 1, updated_at = clock_timestamp(),
				deadline = greatest(deliveries.deadline, clock_timestamp()) + make_interval(secs => $9),
				state = CASE WHEN deliveries.state = 'deleted' THEN 'intended' ELSE deliveries.state END,
				text = CASE WHEN deliveries.state = 'final' THEN deliveries.text ELSE excluded.text END,
				kind = CASE WHEN deliveries.state = 'final' THEN deliveries.kind ELSE excluded.kind END
			RETURNING `+deliveryColumns+`, xmax <> 0`, d.Key, d.OfficeKey, d.SessionKey, d.RunID, d.Kind, d.Part, d.Reply, text.Storable(d.Text), within.Seconds(), d.CauseID).
			QueryRow(func(row pgx.Row) (err error) {
				intent.Delivery, err = scanDelivery(longerRow{into: &raced, Row: row})
				return err
			})
		err := tx.SendBatch(ctx, batch).Close()
		intent.Ambiguous, intent.Wait = had, time.Duration(waitSeconds*float64(time.Second))
		if !known && raced { // somebody else's first intent came between the two statements
			intent.Ambiguous, intent.Wait = true, within
		}
		return err
	})
	return intent, err
}

// IntendFirst is Intend for what must never be said twice, even if it is then never said: false when there was an intent
// before, which keeps its right to post.
func (s *Store) IntendFirst(ctx context.Context, d Delivery, within time.Duration) (intent Intent, first bool, err error) {
	if d.Reply == nil {
		d.Reply = json.RawMessage(`{}`)
	}
	err = s.tx(ctx, "intend_first", func(tx pgx.Tx) error {
		intent.Delivery, err = scanDelivery(tx.QueryRow(ctx, `
			INSERT INTO deliveries (key, office_key, session_key, run_id, kind, part, reply, state, text, deadline, cause_message_id)
			VALUES ($1, $2, $3, nullif($4, ''), $5, $6, $7, 'intended', $8, clock_timestamp() + make_interval(secs => $9), nullif($10, ''))
			ON CONFLICT DO NOTHING
			RETURNING `+deliveryColumns, d.Key, d.OfficeKey, d.SessionKey, d.RunID, d.Kind, d.Part, d.Reply, text.Storable(d.Text), within.Seconds(), d.CauseID))
		first, err = found(err)
		return err
	})
	return intent, first, err
}

// longerRow is a row with one column more than its reader knows.
type longerRow struct {
	pgx.Row
	into any
}

// Scan reads the columns that the reader knows, and the last one.
func (r longerRow) Scan(known ...any) error { return r.Row.Scan(append(known, r.into)...) }

// Forgo gives an intent back that the platform has refused for now, and so has not carried out for certain: the next
// attempt need not look for it.
func (s *Store) Forgo(ctx context.Context, i Intent) error {
	_, err := s.exec(ctx, "forgo", `
		UPDATE deliveries SET deadline = NULL, state = CASE WHEN state = 'intended' THEN 'deleted' ELSE state END
		WHERE key = $1 AND token = $2`, i.Key, i.Token)
	return translate(err)
}

// Confirmation is what became of an intent.
type Confirmation struct {
	Key       string
	Token     int64
	State     DeliveryState
	MessageID string
	Text      string
	ErrorCode fault.Code
	ErrorText string
	Log       *ChatMessage // the chat log row, for a final or refused state; written in the same transaction
	// Contested is how long an edit by an earlier attempt may still come after this one; it is not stored.
	Contested time.Duration
}

// Confirm records what became of an intent, together with the chat log row. An overtaken attempt is refused. What is
// final stays so, whatever a late draft says.
func (s *Store) Confirm(ctx context.Context, c Confirmation) error {
	return s.tx(ctx, "confirm", func(tx pgx.Tx) error { return confirm(ctx, tx, c) })
}

func confirm(ctx context.Context, tx pgx.Tx, c Confirmation) error {
	tag, err := tx.Exec(ctx, `
		UPDATE deliveries SET state = CASE WHEN state = 'final' AND $3 = 'posted' THEN state ELSE $3 END, message_id = coalesce(nullif($4, ''), message_id), text = $5,
			error_code = nullif($6, ''), error_text = nullif($7, ''), deadline = NULL, updated_at = clock_timestamp()
		WHERE key = $1 AND token = $2`, c.Key, c.Token, c.State, c.MessageID, text.Storable(c.Text), string(c.ErrorCode), text.Storable(c.ErrorText))
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return overtaken()
	}
	if c.Log == nil {
		return nil
	}
	return logOwn(ctx, tx, *c.Log)
}

// logOwn records a message of ours. The platform's echo may have come first and been taken for another's: the row then
// becomes ours, with its cause.
func logOwn(ctx context.Context, tx pgx.Tx, m ChatMessage) error {
	logged, err := logChat(ctx, tx, m)
	if err != nil || logged {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE chat_log SET author_id = $3, author_name = $4, author_kind = 'mikan', kind = $5, session_key = $6, text = $7,
			cause_message_id = nullif($8, ''), run_id = nullif($9, '')
		WHERE office_key = $1 AND message_id = $2 AND newest`, m.OfficeKey, m.MessageID, m.AuthorID, m.AuthorName, m.Kind,
		m.SessionKey, text.Storable(m.Text), m.CauseMessageID, m.RunID)
	return err
}

// Finish records a run's final deliveries and settles the run, in one transaction.
func (s *Store) Finish(ctx context.Context, runID string, deliveries []Confirmation, with Settlement) (after After, err error) {
	err = s.tx(ctx, "settle", func(tx pgx.Tx) error {
		for _, c := range deliveries {
			if err := confirm(ctx, tx, c); err != nil {
				return err
			}
		}
		after, err = settle(ctx, tx, runID, with)
		return err
	})
	return after, err
}

// RunDeliveries lists what a run said, in order.
func (s *Store) RunDeliveries(ctx context.Context, runID string) ([]Delivery, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+deliveryColumns+` FROM deliveries WHERE run_id = $1 ORDER BY kind, part, created_at`, runID)
	if err != nil {
		return nil, translate(err)
	}
	deliveries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Delivery, error) { return scanDelivery(row) })
	return deliveries, translate(err)
}

// Delivery finds a delivery by its key; false when nothing was intended under it.
func (s *Store) Delivery(ctx context.Context, key string) (Delivery, bool, error) {
	d, err := scanDelivery(s.pool.QueryRow(ctx, `SELECT `+deliveryColumns+` FROM deliveries WHERE key = $1`, key))
	ok, err := found(err)
	return d, ok, err
}

// NoticeFor finds the notice that a control word got; false before there is one.
func (s *Store) NoticeFor(ctx context.Context, officeKey, messageID string) (Delivery, bool, error) {
	d, err := scanDelivery(s.pool.QueryRow(ctx, `
		SELECT `+deliveryColumns+` FROM deliveries
		WHERE office_key = $1 AND cause_message_id = $2 AND kind = 'notice' ORDER BY created_at DESC LIMIT 1`, officeKey, messageID))
	ok, err := found(err)
	return d, ok, err
}
