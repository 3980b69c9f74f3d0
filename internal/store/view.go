package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
)

// Usage is what the runs of one session used. What a fork inherited is counted in the session that made it.
type Usage struct {
	Runs int64 `json:"runs"`
	llm.Usage
	CostMicros int64 `json:"cost_micros"` // millionths of a US dollar, of the runs whose price is known
	Unpriced   int64 `json:"unpriced"`    // runs that used tokens and whose price is not known
}

const usageSQL = `count(*), coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint,
	coalesce(sum(cache_read_tokens), 0)::bigint, coalesce(sum(cache_write_tokens), 0)::bigint, coalesce(sum(cost_micros), 0)::bigint,
	count(*) FILTER (WHERE cost_micros IS NULL AND input_tokens + output_tokens + cache_read_tokens + cache_write_tokens > 0)`

// SessionUsage adds up what a session's own runs used.
func (s *Store) SessionUsage(ctx context.Context, sessionID string) (Usage, error) {
	var u Usage
	err := s.pool.QueryRow(ctx, `SELECT `+usageSQL+` FROM runs WHERE session_id = $1`, sessionID).
		Scan(&u.Runs, &u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.CostMicros, &u.Unpriced)
	return u, translate(err)
}

// SessionSummary is a session as lists show it.
type SessionSummary struct {
	Session
	Entries     int64 `json:"entries"`     // its own, without inherited ones
	Resets      int64 `json:"resets"`      // since it began
	Compactions int64 `json:"compactions"` // since it began
	Forks       int64 `json:"forks"`       // sessions that began as forks of it
	Running     bool  `json:"running"`
}

const summarySQL = `
SELECT ` + sessionColumns + `, next_seq - 1,
	(SELECT count(*) FROM entries e WHERE e.session_id = s.id AND e.kind IN ('compaction', 'reset') AND e.kind = 'reset'),
	(SELECT count(*) FROM entries e WHERE e.session_id = s.id AND e.kind IN ('compaction', 'reset') AND e.kind = 'compaction'),
	(SELECT count(*) FROM sessions f WHERE f.parent_id = s.id),
	EXISTS (SELECT 1 FROM runs r WHERE r.office_key = s.office_key AND r.session_key = s.session_key AND r.state = 'running' AND r.session_id = s.id)
FROM sessions s `

func scanSummary(row pgx.CollectableRow) (SessionSummary, error) {
	var s SessionSummary
	err := row.Scan(&s.ID, &s.OfficeKey, &s.SessionKey, &s.Title, &s.Epoch, &s.ParentID, &s.ForkSeq, &s.NextSeq,
		&s.WindowSession, &s.WindowSeq, &s.SummaryEntry, &s.SyncFloor, &s.ArchivedAt, &s.CreatedAt, &s.UpdatedAt, &s.Whole,
		&s.Entries, &s.Resets, &s.Compactions, &s.Forks, &s.Running)
	return s, err
}

// SessionSummaries lists sessions, newest activity first; officeKey "" lists those of all offices. skip leaves out that
// many.
func (s *Store) SessionSummaries(ctx context.Context, officeKey string, limit, skip int) ([]SessionSummary, error) {
	// The inner query settles which sessions before anything is counted.
	rows, err := s.pool.Query(ctx, summarySQL+`
		WHERE s.id IN (SELECT id FROM sessions WHERE $1 = '' OR office_key = $1 ORDER BY updated_at DESC, id LIMIT $2 OFFSET $3)
		ORDER BY s.updated_at DESC, s.id`, officeKey, limit, skip)
	return collect(rows, err, scanSummary)
}

// SessionSummary is the summary of one session; not_found when there is none.
func (s *Store) SessionSummary(ctx context.Context, sessionID string) (SessionSummary, error) {
	rows, err := s.pool.Query(ctx, summarySQL+`WHERE s.id = $1`, sessionID)
	all, err := collect(rows, err, scanSummary)
	if err != nil {
		return SessionSummary{}, err
	}
	if len(all) == 0 {
		return SessionSummary{}, fault.New(fault.NotFound, "there is no session %s", sessionID)
	}
	return all[0], nil
}

// SessionForks lists the forks of a session that begin after its entries from to to, in order of these; at most limit.
func (s *Store) SessionForks(ctx context.Context, sessionID string, from, to int64, limit int) ([]Session, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+sessionColumns+` FROM sessions WHERE parent_id = $1 AND fork_seq BETWEEN $2 AND $3
		  AND office_key = (SELECT office_key FROM sessions WHERE id = $1)
		ORDER BY fork_seq, created_at, id LIMIT $4`, sessionID, from, to, limit)
	return collect(rows, err, func(row pgx.CollectableRow) (Session, error) { return scanSession(row) })
}

// EntriesBetween lists a session's entries of the given kinds from position from to position to, in order.
func (s *Store) EntriesBetween(ctx context.Context, sessionID string, from, to int64, kinds ...EntryKind) ([]Entry, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+entryColumns+` FROM entries WHERE session_id = $1 AND seq BETWEEN $2 AND $3 AND kind = ANY($4)
		ORDER BY seq`, sessionID, from, to, kinds)
	return collect(rows, err, scanEntry)
}

// EntryKinds lists all kinds of entry.
func EntryKinds() []EntryKind {
	return []EntryKind{EntryPrompt, EntryChat, EntryAssistant, EntryToolResult, EntryCompaction, EntryReset, EntryNote}
}

// Entry finds an entry by its position; not_found when the session has none there.
func (s *Store) Entry(ctx context.Context, sessionID string, seq int64) (Entry, error) {
	all, err := s.EntriesBetween(ctx, sessionID, seq, seq, EntryKinds()...)
	if err != nil {
		return Entry{}, err
	}
	if len(all) == 0 {
		return Entry{}, fault.New(fault.NotFound, "the session has no entry %d", seq)
	}
	return all[0], nil
}

// RunsEnding lists the runs of a session whose last entry lies between the positions, in order.
func (s *Store) RunsEnding(ctx context.Context, sessionID string, from, to int64) ([]Run, error) {
	return s.listRuns(ctx, `
		SELECT `+runColumns+` FROM runs WHERE session_id = $1 AND last_seq BETWEEN $2 AND $3
		ORDER BY last_seq, started_at`, sessionID, from, to)
}

// Pulse is what a live view looks at again and again: one cheap query.
type Pulse struct {
	LastSeq int64  // position of the session's newest entry; 0 = it has none
	RunID   string // of the open run; "" when idle
	Draft   string // the answer as it has grown since the run's newest entry
	DraftAt time.Time
}

// Pulse looks at a session through a link; false when the link is in force no more, or does not reach the session.
func (s *Store) Pulse(ctx context.Context, hash LinkHash, sessionID string) (Pulse, bool, error) {
	var p Pulse
	err := s.pool.QueryRow(ctx, `
		SELECT s.next_seq - 1, coalesce(r.id, ''), coalesce(d.text, ''), coalesce(d.updated_at, 'epoch')
		FROM view_links l
		JOIN sessions s ON s.id = $2 AND s.office_key = l.office_key
		LEFT JOIN runs r ON r.office_key = s.office_key AND r.session_key = s.session_key AND r.state = 'running' AND r.session_id = s.id
		LEFT JOIN LATERAL (
			SELECT string_agg(text, '' ORDER BY part) AS text, max(updated_at) AS updated_at FROM deliveries
			WHERE run_id = r.id AND kind = 'answer' AND state IN ('intended', 'posted')
			  AND updated_at > (SELECT max(at) FROM entries e WHERE e.session_id = s.id AND e.seq = s.next_seq - 1)
		) d ON true
		WHERE l.token_hash = $1 AND l.expires_at > clock_timestamp()`, hash[:], sessionID).
		Scan(&p.LastSeq, &p.RunID, &p.Draft, &p.DraftAt)
	ok, err := found(err)
	return p, ok, err
}

// collect reads all rows of a query that may have failed.
func collect[T any](rows pgx.Rows, err error, scan func(pgx.CollectableRow) (T, error)) ([]T, error) {
	if err != nil {
		return nil, translate(err)
	}
	all, err := pgx.CollectRows(rows, scan)
	return all, translate(err)
}
