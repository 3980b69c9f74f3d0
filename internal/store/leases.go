package store

import (
	"context"
	"time"
)

// TakeLease takes or renews a lease for the time given, by the database's clock; false when somebody else holds it. The
// token grows whenever the holder changes. A holder that was silent for longer than the lease has lost it, whether or
// not it knows.
func (s *Store) TakeLease(ctx context.Context, name, holder string, lasts time.Duration) (token int64, held bool, err error) {
	err = s.execRow(ctx, "lease", `
		INSERT INTO leases (name, holder, expires_at) VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at,
			token = leases.token + CASE WHEN leases.holder = excluded.holder THEN 0 ELSE 1 END
		WHERE leases.holder = excluded.holder OR leases.expires_at <= clock_timestamp()
		RETURNING token`, []any{name, holder, lasts.Seconds()}, &token)
	held, err = found(err)
	return token, held, err
}

// DropLease gives a lease back, so that the next holder need not wait for its end.
func (s *Store) DropLease(ctx context.Context, name, holder string) error {
	_, err := s.exec(ctx, "lease", `UPDATE leases SET expires_at = '-infinity' WHERE name = $1 AND holder = $2`, name, holder)
	return translate(err)
}

// Serve notes that a worker serves a task queue, for the time given. Any number of workers note it in one row, which is
// written only when it is older than stale.
func (s *Store) Serve(ctx context.Context, queue, worker string, lasts, stale time.Duration) error {
	_, err := s.exec(ctx, "serving", `
		INSERT INTO leases (name, holder, expires_at) VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
		WHERE leases.expires_at <= clock_timestamp() + make_interval(secs => $3 - $4)`,
		servingName(queue), worker, lasts.Seconds(), stale.Seconds())
	return translate(err)
}

// Serving tells for how much longer a task queue counts as served; less than zero: it has not been for so long. known is
// false when no worker has ever noted it.
func (s *Store) Serving(ctx context.Context, queue string) (left time.Duration, known bool, err error) {
	var seconds float64
	err = s.pool.QueryRow(ctx, `
		SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM leases WHERE name = $1`, servingName(queue)).Scan(&seconds)
	known, err = found(err)
	return time.Duration(seconds * float64(time.Second)), known, err
}

func servingName(queue string) string { return "serving/" + queue }
