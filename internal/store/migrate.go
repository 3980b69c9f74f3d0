package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/geminixiang/mikan/internal/fault"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

func containsAny(s string, parts ...string) bool {
	for _, part := range parts {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

func provider(pool *pgxpool.Pool, options ...goose.ProviderOption) (*goose.Provider, *sql.DB, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, nil, err
	}
	db := stdlib.OpenDBFromPool(pool)
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, options...)
	if err != nil {
		_ = db.Close()
		return nil, nil, err
	}
	return p, db, nil
}

const migratingSQL = `hashtextextended('mikan migrate ' || coalesce(current_schema(), ''), 0)`

// migrating is the lock of those who migrate this schema: of two at once the second waits and finds nothing to do.
// Schemas of one database do not wait for each other.
func migrating(ctx context.Context, pool *pgxpool.Pool) (goose.ProviderOption, error) {
	var id int64
	if err := pool.QueryRow(ctx, `SELECT `+migratingSQL).Scan(&id); err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(id), lock.WithLockTimeout(1, 300)) // tries each second
	if err != nil {
		return nil, err
	}
	return goose.WithSessionLocker(locker), nil
}

// Migrate brings the schema to this binary's version and tells the versions before and after.
func (s *Store) Migrate(ctx context.Context) (from, to int64, err error) {
	locked, err := migrating(ctx, s.pool)
	if err != nil {
		return 0, 0, translate(err)
	}
	p, db, err := provider(s.pool, locked)
	if err != nil {
		return 0, 0, translate(err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	from, to, err = p.GetVersions(ctx)
	if err != nil {
		return 0, 0, translate(err)
	}
	if from > to {
		return from, from, unknownSchema(from, to)
	}
	if from == to {
		return from, to, nil
	}
	if _, err := p.Up(ctx); err != nil {
		return from, from, fault.Wrap(fault.Internal, err, "the schema could not be migrated")
	}
	return from, to, nil
}

// CheckSchema refuses a database that this binary cannot work with, and says which command mends it: invalid when the
// schema is outdated or an import was begun and not finished, or when it is newer than this binary may use.
func (s *Store) CheckSchema(ctx context.Context) (err error) {
	p, db, err := provider(s.pool)
	if err != nil {
		return translate(err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var exists bool
	if err := s.pool.QueryRow(ctx, `SELECT to_regclass('installation') IS NOT NULL`).Scan(&exists); err != nil {
		return translate(err)
	}
	if !exists {
		return fault.New(fault.Invalid, "the database has no mikan schema yet; run: mikan migrate --schema-only")
	}
	// Without the lock of those who migrate: every process and every command comes by here, often several at once.
	version, latest, err := p.GetVersions(ctx)
	if err != nil {
		return translate(err)
	}
	if version < latest {
		return fault.New(fault.Invalid, "the database schema is at version %d and this binary needs %d; run: mikan migrate --schema-only", version, latest)
	}
	var minimum int64
	var imported string
	if err := s.pool.QueryRow(ctx, `SELECT minimum_compatible, import_state FROM installation`).Scan(&minimum, &imported); err != nil {
		return translate(err)
	}
	if minimum > latest {
		return unknownSchema(version, latest)
	}
	if imported == "begun" {
		commands, err := unfinishedImports(ctx, s.pool)
		if err != nil {
			return translate(err)
		}
		return fault.New(fault.Invalid, "an import of a 0.5.3 installation was begun and not finished; run: %s", commands)
	}
	return nil
}

func unknownSchema(version, latest int64) error {
	return fault.New(fault.Invalid, "the database schema (version %d) is newer than this binary understands (%d); start a newer mikan", version, latest)
}
