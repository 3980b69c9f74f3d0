package store

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// PendingFiles lists the messages that a run brought into its session (its trigger and the chat lines before it) whose
// files are on the platform still, oldest first.
func (s *Store) PendingFiles(ctx context.Context, r Run) ([]ChatMessage, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+chatColumns+` FROM chat_log
		WHERE office_key = $1 AND newest AND NOT deleted AND attachments <> '[]' AND message_id IN (
			SELECT message_id FROM entries
			WHERE session_id = $2 AND seq > $3 - `+claimLines+` AND seq <= $3 AND kind IN ('prompt', 'chat') AND message_id IS NOT NULL)
		ORDER BY sent_at, id`, r.OfficeKey, r.SessionID, r.FirstSeq)
	if err != nil {
		return nil, translate(err)
	}
	messages, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ChatMessage, error) { return scanChat(row) })
	return slices.DeleteFunc(messages, func(m ChatMessage) bool { return !slices.ContainsFunc(m.Attachments, Attachment.Pending) }), translate(err)
}

// claimLines is more than a claim brings in at once: the sync window, a thread's root and the trigger.
const claimLines = "210"

// Pending tells whether nobody has fetched a file yet.
func (a Attachment) Pending() bool { return a.Source != "" && a.Path == "" && a.Problem == "" }

// CommitFiles records what became of a message's files, together with the entry that tells the model of it: a later
// attempt finds both or neither. Errors are those of CommitStep.
func (s *Store) CommitFiles(ctx context.Context, step Step, m ChatMessage, told Entry) error {
	return s.tx(ctx, "files", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE chat_log SET attachments = $3 WHERE office_key = $1 AND message_id = $2 AND newest`,
			m.OfficeKey, m.MessageID, m.Attachments)
		if err != nil {
			return err
		}
		_, err = commitStep(ctx, tx, step, Spent{}, told)
		return err
	})
}

// filesPending tells whether any of the messages has a file that nobody has fetched.
func filesPending(ctx context.Context, tx pgx.Tx, officeKey string, entries []Entry) (bool, error) {
	var ids []string
	for _, e := range entries {
		if e.MessageID != "" {
			ids = append(ids, e.MessageID)
		}
	}
	var pending bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM chat_log, jsonb_array_elements(attachments) a
			WHERE office_key = $1 AND message_id = ANY ($2) AND newest
			  AND a ? 'source' AND NOT a ? 'path' AND NOT a ? 'problem')`, officeKey, ids).Scan(&pending)
	return pending, err
}
