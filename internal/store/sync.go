package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/session"
)

// The sync window: how far back, and how many lines, a run looks into the chat log. Older talk is for history.
const (
	syncDays  = 14
	syncLines = 200
)

// syncSQL finds the chat lines of a scope that a session does not hold: said before the trigger, after the last reset,
// within the window. A message that waits for its own run is left to that run: messages that come at once may be
// queued in another order than they were said. Answers are left to the sessions that made them, except where the session is new ($7): then the
// log is all there is.
const syncSQL = `
WITH recent AS (
    SELECT id, message_id, author_name, author_kind, kind, text, attachments, sent_at
    FROM chat_log
    WHERE office_key = $1 AND session_key = $2 AND newest AND NOT deleted
      AND (sent_at, id) < ($3, $4)
      AND sent_at > greatest($3::timestamptz - make_interval(days => $5), coalesce($8, '-infinity'::timestamptz))
      AND kind <> 'command' AND ($7 OR kind <> 'answer')
      AND (text ~ '\S' OR attachments <> '[]')
    ORDER BY sent_at DESC, id DESC LIMIT $6
)
SELECT message_id, author_name, text, attachments, sent_at FROM recent r
WHERE NOT EXISTS (SELECT 1 FROM entries e WHERE e.session_id = $9 AND e.message_id = r.message_id)
  AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.office_key = $1 AND i.message_id = r.message_id AND i.kind = 'trigger')
ORDER BY sent_at, id`

// syncChat appends the chat lines that a session lacks, one entry a line. It runs in the claim's transaction, so the
// lines and the prompt that follows them come together or not at all.
func syncChat(ctx context.Context, tx pgx.Tx, opened opening, trigger ChatMessage, zone *time.Location) ([]Entry, error) {
	lines, err := missingLines(ctx, tx, opened, opened.Session.SessionKey, trigger)
	if err != nil {
		return nil, err
	}
	if opened.New && opened.Session.ParentID == "" {
		// A thread that grew from no run starts from its root, which was said outside its scope.
		root, err := rootLine(ctx, tx, opened, trigger)
		if err != nil {
			return nil, err
		}
		lines = append(root, lines...)
	}
	entries := make([]Entry, len(lines))
	for i, line := range lines {
		entries[i] = Entry{Kind: EntryChat, MessageID: line.MessageID, Body: Body{
			Blocks: []llm.Block{{Kind: llm.BlockText, Text: ChatLine(line, zone)}},
		}}
	}
	return entries, nil
}

func missingLines(ctx context.Context, tx pgx.Tx, opened opening, scope string, trigger ChatMessage) ([]ChatMessage, error) {
	rows, err := tx.Query(ctx, syncSQL, opened.Session.OfficeKey, scope, trigger.SentAt, trigger.ID,
		syncDays, syncLines, opened.New, opened.Session.SyncFloor, opened.Session.ID)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanLine)
}

func scanLine(row pgx.CollectableRow) (ChatMessage, error) {
	var m ChatMessage
	err := row.Scan(&m.MessageID, &m.AuthorName, &m.Text, &m.Attachments, &m.SentAt)
	return m, err
}

func rootLine(ctx context.Context, tx pgx.Tx, opened opening, trigger ChatMessage) ([]ChatMessage, error) {
	key, err := session.ParseKey(opened.Session.SessionKey)
	if err != nil {
		return nil, err
	}
	root, scoped := key.Suffix()
	if !scoped || root == trigger.MessageID {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `
		SELECT message_id, author_name, text, attachments, sent_at FROM chat_log
		WHERE office_key = $1 AND message_id = $2 AND session_key <> $3 AND newest AND NOT deleted
		  AND (text ~ '\S' OR attachments <> '[]')`, opened.Session.OfficeKey, root, opened.Session.SessionKey)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanLine)
}

const lineTime = "2006-01-02 15:04:05-07:00"

// ChatLine is how somebody's message appears to the model: [time] [name]: text, with attachments named.
func ChatLine(m ChatMessage, zone *time.Location) string {
	return fmt.Sprintf("[%s] [%s]: %s%s", m.SentAt.In(zone).Format(lineTime), LineName(m.AuthorName), m.Text, attachmentLines(m.Attachments))
}

// PromptLine is how a run's trigger appears to the model. thread is the suffix of the session key, if it has one.
func PromptLine(m ChatMessage, thread string, zone *time.Location) string {
	in := ""
	if thread != "" {
		in = " [in-thread:" + LineName(thread) + "]"
	}
	return fmt.Sprintf("[%s] [%s]%s: %s%s", m.SentAt.In(zone).Format(lineTime), LineName(m.AuthorName), in, m.Text, attachmentLines(m.Attachments))
}

// LineName keeps a name that the model reads from closing its bracket or starting a line of its own.
func LineName(name string) string {
	name = strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r < ' ' || r == '[' || r == ']' || r == 0x7f }), " ")
	if name == "" {
		return "someone"
	}
	return name
}

func attachmentLines(attachments []Attachment) string {
	var b strings.Builder
	for _, a := range attachments {
		switch {
		case a.Problem != "":
			fmt.Fprintf(&b, "\n(attached: %s — not available: %s)", LineName(a.Name), a.Problem)
		case a.Path == "":
			fmt.Fprintf(&b, "\n(attached: %s)", LineName(a.Name)) // fetched later, when a run needs it
		default:
			fmt.Fprintf(&b, "\n(attached: %s at %s)", LineName(a.Name), a.Path)
		}
	}
	return b.String()
}
