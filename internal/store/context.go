package store

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/text"
)

// Context is what a model request is made of: the summary of what was compacted away, and the entries since.
type Context struct {
	Session Session
	Summary string
	Entries []Entry
}

// Tokens estimates the size of the context.
func (c Context) Tokens() int64 {
	total := int64(len(c.Summary) / 4)
	for _, e := range c.Entries {
		total += e.Tokens
	}
	return total
}

// Context loads a session's context: from where its window starts, through the ancestors that it was forked from, to
// its newest entry. It reads what the model will read and nothing else, however long the history is.
func (s *Store) Context(ctx context.Context, sessionID string) (Context, error) {
	return contextOf(ctx, s.pool, sessionID)
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// The chain walks from the session to the ancestor in which the window starts, never further. OFFSET 0 keeps the planner
// from joining it with all entries there are: it cannot know that a chain has few sessions and a window few entries.
const contextSQL = `
WITH RECURSIVE chain AS (
    SELECT id, parent_id, fork_seq, window_session, window_seq, next_seq - 1 AS last_seq, 0 AS depth
    FROM sessions WHERE id = $1
  UNION ALL
    SELECT p.id, p.parent_id, p.fork_seq, c.window_session, c.window_seq, c.fork_seq, c.depth + 1
    FROM chain c JOIN sessions p ON p.id = c.parent_id
    WHERE c.id <> c.window_session
)
SELECT e.id, e.session_id, e.seq, e.kind, coalesce(e.run_id, ''), coalesce(e.slot, ''), coalesce(e.message_id, ''), e.body, e.tokens, e.in_context, e.at
FROM chain c
CROSS JOIN LATERAL (
    SELECT * FROM entries
    WHERE session_id = c.id AND seq BETWEEN CASE WHEN c.id = c.window_session THEN c.window_seq ELSE 1 END AND c.last_seq
    OFFSET 0
) e
WHERE e.in_context AND e.kind IN ('prompt', 'chat', 'assistant', 'tool_result')
ORDER BY c.depth DESC, e.seq`

func contextOf(ctx context.Context, q querier, sessionID string) (Context, error) {
	var c Context
	known := false
	batch := &pgx.Batch{}
	batch.Queue(sessionSQL, sessionID).QueryRow(func(row pgx.Row) (err error) {
		c.Session, err = scanSession(row)
		known, err = found(err)
		return err
	})
	batch.Queue(contextSQL, sessionID).Query(func(rows pgx.Rows) (err error) {
		c.Entries, err = pgx.CollectRows(rows, scanEntry)
		return err
	})
	if err := q.SendBatch(ctx, batch).Close(); err != nil {
		return Context{}, translate(err)
	}
	if !known {
		return Context{}, noSession(sessionID)
	}
	if c.Session.SummaryEntry != 0 {
		var raw []byte
		if err := q.QueryRow(ctx, `SELECT body FROM entries WHERE id = $1`, c.Session.SummaryEntry).Scan(&raw); err != nil {
			return Context{}, translate(err)
		}
		var body Body
		if err := json.Unmarshal(raw, &body); err != nil {
			return Context{}, translate(err)
		}
		c.Summary = body.Summary
	}
	return c, nil
}

// window is where a model's context starts.
type window struct {
	Session string
	Seq     int64
	Summary int64 // id of the compaction entry that stands for what came before; 0 = none
}

// windowAt finds where the context of a session starts when it is cut after the entry seq: the newest compaction or
// reset up to there, in the session or else in the ancestors that it inherited from.
func windowAt(ctx context.Context, q querier, sessionID string, seq int64) (window, error) {
	for {
		var id, at int64
		var kind EntryKind
		var raw []byte
		err := q.QueryRow(ctx, `
			SELECT id, seq, kind, body FROM entries
			WHERE session_id = $1 AND seq <= $2 AND kind IN ('compaction', 'reset')
			ORDER BY seq DESC LIMIT 1`, sessionID, seq).Scan(&id, &at, &kind, &raw)
		ok, err := found(err)
		if err != nil {
			return window{}, err
		}
		if ok && kind == EntryReset {
			return window{Session: sessionID, Seq: at + 1}, nil
		}
		if ok {
			var body Body
			if err := json.Unmarshal(raw, &body); err != nil {
				return window{}, translate(err)
			}
			return window{Session: body.KeptSession, Seq: body.KeptSeq, Summary: id}, nil
		}
		session, err := sessionByID(ctx, q, sessionID)
		if err != nil {
			return window{}, err
		}
		if session.ParentID == "" || session.Whole {
			return window{Session: sessionID, Seq: 1}, nil
		}
		sessionID, seq = session.ParentID, session.ForkSeq
	}
}

// storable makes every text of a body fit for Postgres, in place.
func storable(b *Body) {
	b.Summary, b.Note = text.Storable(b.Summary), text.Storable(b.Note)
	for i := range b.Blocks {
		block := &b.Blocks[i]
		block.Text = text.Storable(block.Text)
		block.Name = text.Storable(block.Name)
		block.CallID = text.Storable(block.CallID)
		block.Arguments = text.Storable(block.Arguments)
		block.Invalid = text.Storable(block.Invalid)
	}
}
