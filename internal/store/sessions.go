package store

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/text"
)

// Session is the structured context of one session key within one office.
type Session struct {
	ID            string     `json:"id"`
	OfficeKey     string     `json:"office_key"`
	SessionKey    string     `json:"session_key"`
	Title         string     `json:"title"`
	Epoch         int        `json:"epoch"`
	ParentID      string     `json:"parent_id,omitempty"`
	ForkSeq       int64      `json:"fork_seq,omitempty"`
	NextSeq       int64      `json:"next_seq"`
	WindowSession string     `json:"window_session"`
	WindowSeq     int64      `json:"window_seq"`
	SummaryEntry  int64      `json:"summary_entry,omitempty"`
	SyncFloor     *time.Time `json:"sync_floor,omitempty"`
	ArchivedAt    *time.Time `json:"archived_at,omitempty"`
	CreatedAt     time.Time  `json:"created_at"`
	UpdatedAt     time.Time  `json:"updated_at"`
	// Whole: an imported fork, which holds copies of what it inherited.
	Whole bool `json:"whole,omitempty"`
}

const sessionColumns = `id, office_key, session_key, title, epoch, coalesce(parent_id, ''), coalesce(fork_seq, 0), next_seq,
	window_session, window_seq, coalesce(summary_entry, 0), sync_floor, archived_at, created_at, updated_at, whole`

func scanSession(row pgx.Row) (Session, error) {
	var s Session
	err := row.Scan(&s.ID, &s.OfficeKey, &s.SessionKey, &s.Title, &s.Epoch, &s.ParentID, &s.ForkSeq, &s.NextSeq,
		&s.WindowSession, &s.WindowSeq, &s.SummaryEntry, &s.SyncFloor, &s.ArchivedAt, &s.CreatedAt, &s.UpdatedAt, &s.Whole)
	return s, err
}

func sessionByID(ctx context.Context, q querier, id string) (Session, error) {
	session, err := scanSession(q.QueryRow(ctx, sessionSQL, id))
	if ok, err := found(err); !ok {
		if err != nil {
			return Session{}, err
		}
		return Session{}, noSession(id)
	}
	return session, nil
}

const sessionSQL = `SELECT ` + sessionColumns + ` FROM sessions WHERE id = $1`

func noSession(id string) error { return fault.New(fault.NotFound, "there is no session %s", id) }

func currentSession(ctx context.Context, q querier, officeKey, sessionKey string) (Session, bool, error) {
	session, err := scanSession(q.QueryRow(ctx, `
		SELECT `+sessionColumns+` FROM sessions
		WHERE office_key = $1 AND session_key = $2 AND archived_at IS NULL`, officeKey, sessionKey))
	ok, err := found(err)
	return session, ok, err
}

// CurrentSession finds the session that a session key names now; false when there is none yet.
func (s *Store) CurrentSession(ctx context.Context, officeKey, sessionKey string) (Session, bool, error) {
	return currentSession(ctx, s.pool, officeKey, sessionKey)
}

// FindSession finds a session of any office by its id or a prefix of at least 8 characters.
func (s *Store) FindSession(ctx context.Context, idOrPrefix string) (Session, error) {
	if len(idOrPrefix) < 8 {
		return Session{}, fault.New(fault.Invalid, "%q is too short for a session id; give at least 8 characters", idOrPrefix)
	}
	rows, err := s.pool.Query(ctx, `SELECT `+sessionColumns+` FROM sessions WHERE starts_with(id, $1) ORDER BY id LIMIT 2`, idOrPrefix)
	if err != nil {
		return Session{}, translate(err)
	}
	sessions, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Session, error) { return scanSession(row) })
	switch {
	case err != nil:
		return Session{}, translate(err)
	case len(sessions) == 0:
		return Session{}, fault.New(fault.NotFound, "there is no session %s", idOrPrefix)
	case len(sessions) > 1:
		return Session{}, fault.New(fault.Invalid, "several sessions begin with %s; give more of the id", idOrPrefix)
	}
	return sessions[0], nil
}

// Sessions lists sessions, newest activity first; officeKey "" lists those of all offices.
func (s *Store) Sessions(ctx context.Context, officeKey string, limit int) ([]Session, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+sessionColumns+` FROM sessions WHERE $1 = '' OR office_key = $1
		ORDER BY updated_at DESC, id LIMIT $2`, officeKey, limit)
	if err != nil {
		return nil, translate(err)
	}
	sessions, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Session, error) { return scanSession(row) })
	return sessions, translate(err)
}

// Entries pages through the entries that a session owns, oldest first, from position after+1.
func (s *Store) Entries(ctx context.Context, sessionID string, after int64, limit int) ([]Entry, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+entryColumns+` FROM entries WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`, sessionID, after, limit)
	if err != nil {
		return nil, translate(err)
	}
	entries, err := pgx.CollectRows(rows, scanEntry)
	return entries, translate(err)
}

// opening is how a session comes to be.
type opening struct {
	Session Session
	New     bool
	WaitFor string // run id: the run to fork is still going; nothing was written
}

// openSession finds the session of a key or makes it: forked from the run that the thread grew from, or empty. The
// caller holds the session's lock. With patience "wait" it asks to wait for a cause that is still running; with "now"
// it forks at the last entry there is.
func openSession(ctx context.Context, tx pgx.Tx, officeKey, sessionKey string, patience Patience) (opening, error) {
	existing, ok, err := currentSession(ctx, tx, officeKey, sessionKey)
	if err != nil || ok {
		return opening{Session: existing}, err
	}
	key, err := session.ParseKey(sessionKey)
	if err != nil {
		return opening{}, fault.Wrap(fault.Invalid, err, "the session key is refused")
	}
	made := Session{ID: uuid.Must(uuid.NewV7()).String(), OfficeKey: officeKey, SessionKey: sessionKey, NextSeq: 1}
	made.WindowSession, made.WindowSeq = made.ID, 1
	if root, scoped := key.Suffix(); scoped {
		cause, err := findCause(ctx, tx, officeKey, sessionKey, root)
		if err != nil {
			return opening{}, err
		}
		if cause.RunID != "" && !cause.Settled && patience == Wait {
			return opening{WaitFor: cause.RunID}, nil
		}
		if cause.SessionID != "" {
			start, err := windowAt(ctx, tx, cause.SessionID, cause.LastSeq)
			if err != nil {
				return opening{}, err
			}
			made.ParentID, made.ForkSeq = cause.SessionID, cause.LastSeq
			made.WindowSession, made.WindowSeq, made.SummaryEntry = start.Session, start.Seq, start.Summary
		}
		made.Title = cause.Title
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO sessions (id, office_key, session_key, title, parent_id, fork_seq, window_session, window_seq, summary_entry)
		VALUES ($1, $2, $3, $4, nullif($5, ''), nullif($6::bigint, 0), $7, $8, nullif($9::bigint, 0))`,
		made.ID, officeKey, sessionKey, made.Title, made.ParentID, made.ForkSeq, made.WindowSession, made.WindowSeq, made.SummaryEntry)
	return opening{Session: made, New: true}, err
}

// Patience tells whether a thread's first run waits for the run that it forks.
type Patience string

// The choices.
const (
	Wait Patience = "wait"
	Now  Patience = "now"
)

// cause is the run that a thread grew from.
type cause struct {
	RunID     string
	SessionID string // empty when there is nothing to fork yet
	LastSeq   int64
	Settled   bool
	Title     string
}

// titleLength is how much of the root's first line names a scoped session.
const titleLength = 80

// findCause looks up what a thread grew from: if its root is a run's answer, that run; if it is a human's message, the
// first run it triggered; otherwise nothing. A cause in the thread's own session is none.
func findCause(ctx context.Context, tx pgx.Tx, officeKey, sessionKey, root string) (cause, error) {
	var c cause
	var author, line, kind, runID string
	err := tx.QueryRow(ctx, `
		SELECT author_name, text, kind, coalesce(run_id, '') FROM chat_log
		WHERE office_key = $1 AND message_id = $2 AND newest`, officeKey, root).Scan(&author, &line, &kind, &runID)
	known, err := found(err)
	if err != nil {
		return c, err
	}
	if known {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "\n")
		c.Title = text.Clip("["+author+"]: "+line, titleLength)
	}
	if known && kind == "answer" && runID == "" {
		return c, nil
	}
	if known && kind != "answer" && kind != "message" {
		return c, nil
	}
	var state, causeKey string
	err = tx.QueryRow(ctx, `
		SELECT id, session_id, session_key, last_seq, state FROM runs
		WHERE office_key = $1 AND (CASE WHEN $3 <> '' THEN id = $3 ELSE trigger_message_id = $2 END)
		ORDER BY started_at LIMIT 1`, officeKey, root, answerRun(kind, runID)).
		Scan(&c.RunID, &c.SessionID, &causeKey, &c.LastSeq, &state)
	ran, err := found(err)
	if err != nil {
		return c, err
	}
	if ran {
		c.Settled = state == "settled"
		if causeKey == sessionKey {
			return cause{Title: c.Title}, nil
		}
		return c, nil
	}
	// Not run yet, but waiting for its turn: its run will have this id.
	var waitingKey string
	var attempt int
	err = tx.QueryRow(ctx, `
		SELECT session_key, attempt FROM inbox
		WHERE office_key = $1 AND message_id = $2 AND kind = 'trigger' AND session_key <> $3
		ORDER BY attempt LIMIT 1`, officeKey, root, sessionKey).Scan(&waitingKey, &attempt)
	waiting, err := found(err)
	if err != nil || !waiting {
		return c, err
	}
	c.RunID = run.ID(officeKey, waitingKey, root, attempt)
	return c, nil
}

func answerRun(kind, runID string) string {
	if kind == "answer" {
		return runID
	}
	return ""
}

// Reset gives a session a new epoch: the model starts from an empty context, earlier entries stay, and whatever an
// open run of the old epoch still tries to write is refused. messageID is the command that asked for it: repeated, it
// resets nothing more. at is the command's time by the platform's clock; messages up to it never come back by sync. It
// returns the open run of an older epoch, if there is one, for the caller to stop.
func (s *Store) Reset(ctx context.Context, officeKey, sessionKey, messageID string, at time.Time) (open Run, running bool, err error) {
	err = s.tx(ctx, "reset", func(tx pgx.Tx) error {
		if err := lockSession(ctx, tx, officeKey, sessionKey); err != nil {
			return err
		}
		epoch, err := resetSession(ctx, tx, officeKey, sessionKey, messageID, at)
		if err != nil {
			return err
		}
		open, err = scanRun(tx.QueryRow(ctx, `
			SELECT `+runColumns+` FROM runs
			WHERE office_key = $1 AND session_key = $2 AND state = 'running' AND epoch < $3`, officeKey, sessionKey, epoch))
		running, err = found(err)
		return err
	})
	return open, running, err
}

func resetSession(ctx context.Context, tx pgx.Tx, officeKey, sessionKey, messageID string, at time.Time) (epoch int, err error) {
	opened, err := openSession(ctx, tx, officeKey, sessionKey, Now)
	if err != nil {
		return 0, err
	}
	id, epoch := opened.Session.ID, opened.Session.Epoch
	var done bool
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM entries WHERE session_id = $1 AND message_id = $2 AND kind = 'reset')`,
		id, messageID).Scan(&done)
	if err != nil || done {
		return epoch, err
	}
	epoch++
	if _, err := tx.Exec(ctx, `UPDATE sessions SET epoch = $2, sync_floor = $3 WHERE id = $1`, id, epoch, at); err != nil {
		return 0, err
	}
	entry := []Entry{{Kind: EntryReset, MessageID: messageID}}
	if err := appendEntries(ctx, tx, id, epoch, entry); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, `
		UPDATE sessions SET window_session = id, window_seq = $2, summary_entry = NULL WHERE id = $1`, id, entry[0].Seq+1)
	return epoch, err
}
