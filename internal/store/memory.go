package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/memory"
)

// mostRecalls is how many earlier states of a memory are looked at for what was forgotten.
const mostRecalls = 50

// RecalledSince lists MEMORY.md of an office as the runs read it that began with the given run or after it, and the
// statements that captures themselves have replaced since: those were corrected, not forgotten.
func (s *Store) RecalledSince(ctx context.Context, r Run) (states, corrected []string, err error) {
	rows, err := s.pool.Query(ctx, `
		SELECT DISTINCT memory->>'office' FROM (
			SELECT memory FROM runs WHERE office_key = $1 AND started_at >= $2 AND memory IS NOT NULL ORDER BY started_at DESC LIMIT $3) recalled
		WHERE memory->>'office' <> ''`, r.OfficeKey, r.StartedAt, mostRecalls)
	if err != nil {
		return nil, nil, translate(err)
	}
	if states, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return nil, nil, translate(err)
	}
	since, err := s.CapturedSince(ctx, r.OfficeKey, r.StartedAt)
	for _, c := range since {
		for _, e := range c.Effects {
			if e.Kind == memory.Replaced {
				corrected = append(corrected, e.Was)
			}
		}
	}
	return states, corrected, err
}
