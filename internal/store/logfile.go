package store

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
)

// LogFile is how the readable copy of a chat log was left.
type LogFile struct {
	LastID   int64 `json:"-"`
	Messages int64 `json:"messages"`
	Bytes    int64 `json:"bytes"`
}

// LogWriter writes the readable copy of a chat log.
type LogWriter interface {
	// Append adds messages to the copy, which was left with so many bytes, and returns its new length. It is
	// ErrNotAsLeft, and nothing was written, when the copy is not as it was left.
	Append(left int64, messages []ChatMessage) (bytes int64, err error)
	// Rewrite writes the copy anew from all messages and returns its length.
	Rewrite(each func(write func(ChatMessage) error) error) (bytes int64, err error)
}

// ErrNotAsLeft tells that a copy of a chat log was touched by somebody else.
var ErrNotAsLeft = errors.New("the copy of the chat log is not as it was left")

// Renewal tells how a copy is brought up to date.
type Renewal int

// The ways.
const (
	Continued Renewal = iota // append what is new, where that is enough
	Anew                     // write all
)

// appendAtMost is how many new messages are appended; with more of them a copy is written anew, without holding them
// all in memory.
const appendAtMost = 5000

// CopyChat brings a copy of an office's chat log up to date: one line for each message as it reads now. Calls for one
// office wait for each other.
func (s *Store) CopyChat(ctx context.Context, officeKey string, how Renewal, to LogWriter) (file LogFile, err error) {
	err = s.tx(ctx, "log_file", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('log.jsonl/' || $1, 0))`, officeKey); err != nil {
			return err
		}
		done := false
		if how == Continued {
			if file, done, err = continueCopy(ctx, tx, officeKey, to); err != nil {
				return err
			}
		}
		if !done {
			if file, err = rewriteCopy(ctx, tx, officeKey, to); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO log_files (office_key, last_id, messages, bytes) VALUES ($1, $2, $3, $4)
			ON CONFLICT (office_key) DO UPDATE SET last_id = excluded.last_id, messages = excluded.messages, bytes = excluded.bytes`,
			officeKey, file.LastID, file.Messages, file.Bytes)
		return err
	})
	return file, err
}

// continueCopy appends what is new; false when only writing anew will do.
func continueCopy(ctx context.Context, tx pgx.Tx, officeKey string, to LogWriter) (file LogFile, done bool, err error) {
	var known int64
	err = tx.QueryRow(ctx, `
		SELECT f.last_id, f.messages, f.bytes,
			(SELECT count(*) FROM chat_log c WHERE c.office_key = f.office_key AND c.newest AND NOT c.deleted AND c.id <= f.last_id)
		FROM log_files f WHERE f.office_key = $1`, officeKey).Scan(&file.LastID, &file.Messages, &file.Bytes, &known)
	if ok, err := found(err); !ok || known != file.Messages {
		return LogFile{}, false, err
	}
	rows, err := tx.Query(ctx, `
		SELECT `+chatColumns+` FROM chat_log WHERE office_key = $1 AND newest AND NOT deleted AND id > $2
		ORDER BY id LIMIT $3`, officeKey, file.LastID, appendAtMost+1)
	added, err := collect(rows, err, scanCollectedChat)
	if err != nil || len(added) > appendAtMost {
		return LogFile{}, false, err
	}
	file.Bytes, err = to.Append(file.Bytes, added)
	if errors.Is(err, ErrNotAsLeft) {
		return LogFile{}, false, nil
	}
	if err != nil {
		return LogFile{}, false, err
	}
	file.Messages += int64(len(added))
	for _, m := range added {
		file.LastID = max(file.LastID, m.ID)
	}
	return file, true, nil
}

func rewriteCopy(ctx context.Context, tx pgx.Tx, officeKey string, to LogWriter) (file LogFile, err error) {
	rows, err := tx.Query(ctx, `
		SELECT `+chatColumns+` FROM chat_log WHERE office_key = $1 AND newest AND NOT deleted ORDER BY sent_at, id`, officeKey)
	if err != nil {
		return LogFile{}, err
	}
	defer rows.Close()
	file.Bytes, err = to.Rewrite(func(write func(ChatMessage) error) error {
		for rows.Next() {
			m, err := scanChat(rows)
			if err != nil {
				return err
			}
			file.Messages++
			file.LastID = max(file.LastID, m.ID)
			if err := write(m); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	return file, err
}

// FirstTools tells whether a tool step belongs to the first of its run's turns that had tools carried out. Retried, or
// run beside others of the same turn, it still does.
func (s *Store) FirstTools(ctx context.Context, step Step) (bool, error) {
	turn := step.Slot[:strings.LastIndexByte(step.Slot, '/')+1]
	first := false
	err := s.pool.QueryRow(ctx, `
		SELECT NOT EXISTS (SELECT 1 FROM run_steps WHERE run_id = $1 AND starts_with(slot, 'tool/') AND NOT starts_with(slot, $2))`,
		step.Run.ID, turn).Scan(&first)
	return first, translate(err)
}
