package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// pruneBatch is how many rows one statement deletes: few enough that nobody waits for it.
const pruneBatch = 5000

// prunable is what may be deleted of a table. Content (sessions, entries, the chat log) and what leads back to it (runs,
// written captures) is in no rule.
type prunable struct {
	table string
	what  string
	where string // on the table as t; $1 is the age in seconds
	clear string // a column that is emptied, while the row stays; empty: the row is deleted
}

// old is a condition on a time; the age is a parameter of every rule's statement.
func old(column string) string {
	return column + ` < clock_timestamp() - make_interval(secs => $1)`
}

var prunables = []prunable{
	{table: "deliveries", what: "messages of runs that settled, and notices", where: old(`t.updated_at`) + ` AND (t.run_id IS NULL OR EXISTS (SELECT 1 FROM runs r WHERE r.id = t.run_id AND r.state = 'settled'))`},
	{table: "run_steps", what: "attempts at steps of runs that settled", where: `EXISTS (SELECT 1 FROM runs r WHERE r.id = t.run_id AND r.state = 'settled' AND ` + old(`r.settled_at`) + `)`},
	{table: "run_waits", what: "waits for runs that never came", where: old(`t.since`) + ` AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = t.run_id AND r.state = 'running')`},
	{table: "captures", what: "captures that wrote nothing", where: old(`t.created_at`) + ` AND t.outcome IS DISTINCT FROM 'written'`},
	{table: "inbox", what: "words that nobody could carry out", where: old(`t.received_at`) + ` AND t.kind = 'control'`},
	{table: "runs", what: "memories as runs that settled have read them", clear: "memory", where: old(`t.settled_at`) + ` AND t.memory IS NOT NULL`},
	{table: "view_links", what: "links that have expired", where: old(`t.expires_at`)},
	{table: "rate_buckets", what: "rate limits that have filled up again", where: old(`greatest(t.filled_at, t.blocked_until)`)},
	{table: "chat_search", what: "search keys of revisions that are read no more", where: old(`t.at`) + ` AND EXISTS (SELECT 1 FROM chat_log c WHERE c.id = t.chat_id AND NOT c.newest)`},
}

func (p prunable) verb() string {
	if p.clear != "" {
		return `UPDATE ` + p.table + ` SET ` + p.clear + ` = NULL`
	}
	return `DELETE FROM ` + p.table
}

// Pruned is how many rows of a table were deleted, or would be.
type Pruned struct {
	Table string `json:"table"`
	What  string `json:"what"`
	Rows  int64  `json:"rows"`
}

// Prune deletes what has served its purpose for longer than age, in small transactions. It may run beside everything
// else, another Prune included, and be cut short anywhere. What was done before an error is returned with it.
func (s *Store) Prune(ctx context.Context, age time.Duration) ([]Pruned, error) {
	return s.eachPrunable(func(p prunable) (int64, error) {
		var total int64
		for {
			var deleted int64
			err := s.tx(ctx, "prune", func(tx pgx.Tx) error {
				tag, err := tx.Exec(ctx, p.verb()+` WHERE ctid = ANY(ARRAY(
						SELECT t.ctid FROM `+p.table+` t WHERE `+p.where+fmt.Sprintf(` LIMIT %d FOR UPDATE SKIP LOCKED))`, pruneBatch), age.Seconds())
				deleted = tag.RowsAffected()
				return err
			})
			total += deleted
			if err != nil || deleted < pruneBatch {
				return total, err
			}
		}
	})
}

// Prunable counts what Prune would delete.
func (s *Store) Prunable(ctx context.Context, age time.Duration) ([]Pruned, error) {
	return s.eachPrunable(func(p prunable) (n int64, err error) {
		err = s.pool.QueryRow(ctx, `SELECT count(*) FROM `+p.table+` t WHERE `+p.where, age.Seconds()).Scan(&n)
		return n, translate(err)
	})
}

func (s *Store) eachPrunable(do func(prunable) (int64, error)) ([]Pruned, error) {
	all := make([]Pruned, 0, len(prunables))
	for _, p := range prunables {
		n, err := do(p)
		all = append(all, Pruned{Table: p.table, What: p.what, Rows: n})
		if err != nil {
			return all, err
		}
	}
	return all, nil
}
