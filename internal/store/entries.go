package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
)

// EntryKind tells what an entry records.
type EntryKind string

// The kinds of entry.
const (
	EntryPrompt     EntryKind = "prompt"      // the trigger of a run
	EntryChat       EntryKind = "chat"        // a line that somebody else said
	EntryAssistant  EntryKind = "assistant"   // one answer of the model, tool calls included
	EntryToolResult EntryKind = "tool_result" // the result of one tool call
	EntryCompaction EntryKind = "compaction"  // a summary that stands for older entries
	EntryReset      EntryKind = "reset"       // the model's context starts anew after it
	EntryNote       EntryKind = "note"        // shown to people, not to the model
)

// Entry is one append-only record of a session.
type Entry struct {
	ID        int64     `json:"id"`
	SessionID string    `json:"session_id"`
	Seq       int64     `json:"seq"`
	Kind      EntryKind `json:"kind"`
	RunID     string    `json:"run_id,omitempty"`
	Slot      string    `json:"slot,omitempty"`
	MessageID string    `json:"message_id,omitempty"`
	Body      Body      `json:"body"`
	Tokens    int64     `json:"tokens"`
	InContext bool      `json:"in_context"`
	At        time.Time `json:"at"`
}

// Body is an entry's content. It is a storage format: add fields, never rename or reuse one.
type Body struct {
	// Blocks of prompt, chat, assistant and tool_result entries, in the model's form.
	Blocks []llm.Block `json:"blocks,omitempty"`

	// Assistant turns.
	Model string         `json:"model,omitempty"` // the model that answered, as its provider names it
	Stop  llm.StopReason `json:"stop,omitempty"`
	Usage *llm.Usage     `json:"usage,omitempty"`
	// Basis is the summary entry of the context that Usage was counted for; Trimmed when that context was cut by rule.
	Basis int64 `json:"basis,omitempty"`

	// Compactions: the summary, and the first entry that is kept beside it.
	Summary     string `json:"summary,omitempty"`
	KeptSession string `json:"keptSession,omitempty"`
	KeptSeq     int64  `json:"keptSeq,omitempty"`

	// Notes and what an import wants to keep beside the content.
	Note string          `json:"note,omitempty"`
	Raw  json.RawMessage `json:"raw,omitempty"`
}

// Trimmed is the Basis of a usage that says nothing about the context's size.
const Trimmed = -1

// Text joins the text blocks, for people and for search.
func (b Body) Text() string {
	text := ""
	for _, block := range b.Blocks {
		if block.Kind == llm.BlockText || block.Kind == llm.BlockToolResult {
			if text != "" {
				text += "\n"
			}
			text += block.Text
		}
	}
	return text
}

// Calls lists the tool calls of an assistant turn in order.
func (b Body) Calls() []llm.Block {
	var calls []llm.Block
	for _, block := range b.Blocks {
		if block.Kind == llm.BlockToolCall {
			calls = append(calls, block)
		}
	}
	return calls
}

const entryColumns = `id, session_id, seq, kind, coalesce(run_id, ''), coalesce(slot, ''), coalesce(message_id, ''), body, tokens, in_context, at`

func scanEntry(row pgx.CollectableRow) (Entry, error) {
	var e Entry
	var body []byte
	if err := row.Scan(&e.ID, &e.SessionID, &e.Seq, &e.Kind, &e.RunID, &e.Slot, &e.MessageID, &body, &e.Tokens, &e.InContext, &e.At); err != nil {
		return Entry{}, err
	}
	return e, json.Unmarshal(body, &e.Body)
}

// appendEntries appends to a session in the order given and fills in id, seq and time. It is refused with conflict when
// the session's epoch is no longer the given one: a reset came in between. along queues what is sent with the entries,
// once they have their places.
func appendEntries(ctx context.Context, tx pgx.Tx, sessionID string, epoch int, entries []Entry, along ...func(*pgx.Batch)) error {
	if len(entries) == 0 {
		return nil
	}
	var next int64
	err := tx.QueryRow(ctx, `
		UPDATE sessions SET next_seq = next_seq + $3, updated_at = clock_timestamp()
		WHERE id = $1 AND epoch = $2 RETURNING next_seq`, sessionID, epoch, len(entries)).Scan(&next)
	if ok, err := found(err); !ok {
		if err != nil {
			return err
		}
		return fault.New(fault.Conflict, "the session was reset while the run went on")
	}
	batch := &pgx.Batch{}
	first := next - int64(len(entries))
	for i := range entries {
		e := &entries[i]
		e.SessionID, e.Seq, e.InContext = sessionID, first+int64(i), true
		body, err := marshalBody(e.Body)
		if err != nil {
			return err
		}
		if e.Tokens == 0 {
			e.Tokens = llm.Estimate([]llm.Message{{Blocks: e.Body.Blocks}})
		}
		batch.Queue(`
			INSERT INTO entries (session_id, seq, kind, run_id, slot, message_id, body, tokens)
			VALUES ($1, $2, $3, nullif($4, ''), nullif($5, ''), nullif($6, ''), $7, $8) RETURNING id, at`,
			sessionID, e.Seq, e.Kind, e.RunID, e.Slot, e.MessageID, body, e.Tokens).
			QueryRow(func(row pgx.Row) error { return row.Scan(&e.ID, &e.At) })
	}
	for _, queue := range along {
		queue(batch)
	}
	return tx.SendBatch(ctx, batch).Close()
}

// marshalBody encodes a body so that Postgres can hold it: jsonb refuses U+0000, which text never needs.
func marshalBody(b Body) ([]byte, error) {
	storable(&b)
	raw, err := json.Marshal(b)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "an entry cannot be encoded")
	}
	return raw, nil
}

// RunEntries lists what a run wrote into its session.
func (s *Store) RunEntries(ctx context.Context, r Run) ([]Entry, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+entryColumns+` FROM entries
		WHERE session_id = $1 AND run_id = $2 AND seq BETWEEN $3 AND $4 ORDER BY seq`, r.SessionID, r.ID, r.FirstSeq, r.LastSeq)
	if err != nil {
		return nil, translate(err)
	}
	entries, err := pgx.CollectRows(rows, scanEntry)
	return entries, translate(err)
}
