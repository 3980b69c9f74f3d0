package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bucket describes a token bucket.
type Bucket struct {
	Name      string
	PerSecond float64 // tokens that come back in a second
	Burst     float64 // most tokens there can be
	Keep      float64 // tokens that must be left after taking one
}

// TakeToken takes one token. When there is none to take, or the bucket is blocked, it tells how long it will take until
// there may be one; zero means that a token was taken.
func (s *Store) TakeToken(ctx context.Context, b Bucket) (wait time.Duration, err error) {
	for {
		wait, err = s.takeToken(ctx, b)
		// A bucket that somebody else made after the statement began is locked by it, and still not seen.
		if !errors.Is(err, pgx.ErrNoRows) {
			return wait, translate(err)
		}
	}
}

func (s *Store) takeToken(ctx context.Context, b Bucket) (wait time.Duration, err error) {
	var seconds float64
	err = s.execRow(ctx, "rate", `
		WITH taken AS (
			INSERT INTO rate_buckets AS r (name, tokens) VALUES ($1, $3::float8 - 1)
			ON CONFLICT (name) DO UPDATE
			SET tokens = least($3, r.tokens + extract(epoch FROM clock_timestamp() - r.filled_at) * $2) - 1, filled_at = clock_timestamp()
			WHERE r.blocked_until <= clock_timestamp()
			  AND least($3, r.tokens + extract(epoch FROM clock_timestamp() - r.filled_at) * $2) >= $4 + 1
			RETURNING 0::float8 AS wait)
		SELECT wait FROM taken
		UNION ALL
		SELECT greatest(extract(epoch FROM greatest(r.blocked_until, clock_timestamp()) - clock_timestamp()),
			($4 + 1 - r.tokens) / $2 - extract(epoch FROM clock_timestamp() - r.filled_at), 0.001)
		FROM rate_buckets r WHERE name = $1 AND NOT EXISTS (SELECT 1 FROM taken)`,
		[]any{b.Name, b.PerSecond, b.Burst, b.Keep}, &seconds)
	return time.Duration(seconds * float64(time.Second)), err
}

// BlockBucket keeps everybody from taking tokens for a while: the platform asked for it.
func (s *Store) BlockBucket(ctx context.Context, name string, lasts time.Duration) error {
	_, err := s.exec(ctx, "rate", `
		INSERT INTO rate_buckets AS r (name, tokens, blocked_until) VALUES ($1, 0, clock_timestamp() + make_interval(secs => $2))
		ON CONFLICT (name) DO UPDATE SET blocked_until = greatest(r.blocked_until, excluded.blocked_until)`, name, lasts.Seconds())
	return translate(err)
}
