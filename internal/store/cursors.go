package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Stream names what a cursor counts in.
type Stream struct {
	Platform     string
	Installation string // workspace, bot or account
	Scope        string // channel, chat or repository; empty for the whole installation
}

// Cursor tells how far a stream has been read, in the platform's own terms; false when it never was.
func (s *Store) Cursor(ctx context.Context, of Stream) (position string, known bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT position FROM cursors WHERE platform = $1 AND installation = $2 AND scope = $3`,
		of.Platform, of.Installation, of.Scope).Scan(&position)
	known, err = found(err)
	return position, known, err
}

// SetCursor records how far a stream has been read. It moves wherever it is told: positions have no order that all
// platforms share, so whoever reads the stream compares.
func (s *Store) SetCursor(ctx context.Context, of Stream, position string) error {
	_, err := s.exec(ctx, "cursor", `
		INSERT INTO cursors (platform, installation, scope, position) VALUES ($1, $2, $3, $4)
		ON CONFLICT (platform, installation, scope) DO UPDATE SET position = excluded.position, updated_at = clock_timestamp()`,
		of.Platform, of.Installation, of.Scope, position)
	return translate(err)
}

// Cursors lists the scopes of an installation with their positions.
func (s *Store) Cursors(ctx context.Context, platform, installation string) (map[string]string, error) {
	rows, err := s.pool.Query(ctx, `SELECT scope, position FROM cursors WHERE platform = $1 AND installation = $2`, platform, installation)
	if err != nil {
		return nil, translate(err)
	}
	positions := map[string]string{}
	var scope, position string
	_, err = pgx.ForEachRow(rows, []any{&scope, &position}, func() error {
		positions[scope] = position
		return nil
	})
	return positions, translate(err)
}
