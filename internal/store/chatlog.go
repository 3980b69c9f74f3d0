package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/text"
)

// ChatKind tells what a chat message is to sessions.
type ChatKind string

// The kinds of chat message.
const (
	ChatMessageKind ChatKind = "message" // somebody's
	ChatAnswer      ChatKind = "answer"  // a run's
	ChatNotice      ChatKind = "notice"  // anything else that mikan said
	ChatCommand     ChatKind = "command" // never part of a context
	ChatUpload      ChatKind = "upload"
)

// AuthorKind tells who speaks.
type AuthorKind string

// The kinds of author.
const (
	AuthorHuman AuthorKind = "human"
	AuthorBot   AuthorKind = "bot"
	AuthorMikan AuthorKind = "mikan"
)

// Attachment is a file that came with a message.
type Attachment struct {
	Name      string `json:"name"`
	Path      string `json:"path,omitempty"` // below the office's directory
	MediaType string `json:"mediaType,omitempty"`
	Size      int64  `json:"size,omitempty"`
	Problem   string `json:"problem,omitempty"` // why it is not there, for the model and people
	// Source is where the adapter fetches it from, in its own terms; it holds no secret.
	Source string `json:"source,omitempty"`
}

// ChatMessage is one row of the chat log: a message as people read it now.
type ChatMessage struct {
	ID             int64        `json:"id"`
	OfficeKey      string       `json:"office_key"`
	MessageID      string       `json:"message_id"`
	Revision       int          `json:"revision"`
	SessionKey     string       `json:"session_key"`
	ThreadID       string       `json:"thread_id,omitempty"`
	ReplyTo        string       `json:"reply_to,omitempty"`
	AuthorID       string       `json:"author_id"`
	AuthorName     string       `json:"author_name"`
	AuthorKind     AuthorKind   `json:"author_kind"`
	Kind           ChatKind     `json:"kind"`
	Text           string       `json:"text"`
	Attachments    []Attachment `json:"attachments,omitempty"`
	Deleted        bool         `json:"deleted,omitempty"`
	CauseMessageID string       `json:"cause_message_id,omitempty"`
	RunID          string       `json:"run_id,omitempty"`
	SentAt         time.Time    `json:"sent_at"`
}

const chatColumns = `id, office_key, message_id, revision, session_key, thread_id, reply_to, author_id, author_name, author_kind,
	kind, text, attachments, deleted, coalesce(cause_message_id, ''), coalesce(run_id, ''), sent_at`

func scanChat(row pgx.Row) (ChatMessage, error) {
	var m ChatMessage
	err := row.Scan(&m.ID, &m.OfficeKey, &m.MessageID, &m.Revision, &m.SessionKey, &m.ThreadID, &m.ReplyTo, &m.AuthorID,
		&m.AuthorName, &m.AuthorKind, &m.Kind, &m.Text, &m.Attachments, &m.Deleted, &m.CauseMessageID, &m.RunID, &m.SentAt)
	return m, err
}

// logChat records a message the first time it is seen; false when the log has it already.
func logChat(ctx context.Context, tx pgx.Tx, m ChatMessage) (bool, error) {
	if m.Attachments == nil {
		m.Attachments = []Attachment{}
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO chat_log (office_key, message_id, session_key, thread_id, reply_to, author_id, author_name, author_kind,
			kind, text, attachments, cause_message_id, run_id, sent_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, nullif($12, ''), nullif($13, ''), $14)
		ON CONFLICT DO NOTHING`,
		m.OfficeKey, m.MessageID, m.SessionKey, m.ThreadID, m.ReplyTo, m.AuthorID, text.Storable(m.AuthorName), m.AuthorKind,
		m.Kind, text.Storable(m.Text), m.Attachments, m.CauseMessageID, m.RunID, m.SentAt)
	return tag.RowsAffected() == 1, err
}

// Revision is a change that the platform reports about a message.
type Revision struct {
	OfficeKey string
	MessageID string
	Text      string
	Deleted   bool
}

// Revise appends a revision to a message that the log has; false when it has not, or when nothing changed.
func (s *Store) Revise(ctx context.Context, r Revision) (changed bool, err error) {
	err = s.tx(ctx, "revise", func(tx pgx.Tx) error {
		current, err := scanChat(tx.QueryRow(ctx, `
			SELECT `+chatColumns+` FROM chat_log WHERE office_key = $1 AND message_id = $2 AND newest FOR UPDATE`, r.OfficeKey, r.MessageID))
		if ok, err := found(err); !ok {
			return err
		}
		if r.Deleted {
			r.Text = current.Text
		}
		if current.Deleted || (!r.Deleted && current.Text == text.Storable(r.Text)) {
			return nil
		}
		changed = true
		if _, err := tx.Exec(ctx, `UPDATE chat_log SET newest = false WHERE id = $1`, current.ID); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO chat_log (office_key, message_id, revision, session_key, thread_id, reply_to, author_id, author_name,
				author_kind, kind, text, attachments, deleted, cause_message_id, run_id, sent_at)
			SELECT office_key, message_id, revision + 1, session_key, thread_id, reply_to, author_id, author_name,
				author_kind, kind, $2, attachments, $3, cause_message_id, run_id, sent_at
			FROM chat_log WHERE id = $1`, current.ID, text.Storable(r.Text), r.Deleted)
		return err
	})
	return changed, err
}

// ChatMessage finds the newest revision of a message; not_found when the log has none.
func (s *Store) ChatMessage(ctx context.Context, officeKey, messageID string) (ChatMessage, error) {
	m, err := scanChat(s.pool.QueryRow(ctx, `
		SELECT `+chatColumns+` FROM chat_log WHERE office_key = $1 AND message_id = $2 AND newest`, officeKey, messageID))
	if ok, err := found(err); !ok {
		if err != nil {
			return ChatMessage{}, err
		}
		return ChatMessage{}, fault.New(fault.NotFound, "the chat log of this office has no message %s", messageID)
	}
	return m, nil
}
