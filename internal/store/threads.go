package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// ActiveThreads lists the threads of an office in which something was said since a moment, latest first, by the platform's thread ids: where a platform cannot list what was said in all threads, these are asked.
func (s *Store) ActiveThreads(ctx context.Context, officeKey string, since time.Time, limit int) ([]string, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT thread_id FROM chat_log
		WHERE office_key = $1 AND newest AND sent_at >= $2 AND thread_id <> ''
		GROUP BY thread_id ORDER BY max(sent_at) DESC LIMIT $3`, officeKey, since, limit)
	if err != nil {
		return nil, translate(err)
	}
	threads, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return threads, translate(err)
}
