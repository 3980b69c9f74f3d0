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
