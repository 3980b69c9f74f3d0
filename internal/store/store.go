// Package store keeps mikan's truth in Postgres: offices, sessions, entries, runs, the chat log, the inbox and
// deliveries. Every function is one statement or one transaction, stands beside its SQL, and may be repeated.
package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
)

// Store is a pool of connections to one mikan database. It is safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	full atomic.Bool // a write has found the database's disk full

	homes homes
}

// Connections of one process. A transaction is never open across a model, tool or platform call, so a few connections
// serve hundreds of runs; those of a busy moment are given back soon.
const (
	maxConnections = 24
	idleConnection = 30 * time.Second
)

// Open connects and checks that the database answers. It does not look at the schema: see CheckSchema.
func Open(ctx context.Context, url string) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		// pgx redacts the password in its message, but not always the whole URL.
		return nil, fault.New(fault.Invalid, "the database URL cannot be read; expected postgres://user:password@host:port/database, with special characters in the password percent-encoded")
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = maxConnections
	}
	config.MaxConnIdleTime = idleConnection
	config.ConnConfig.ConnectTimeout = 5 * time.Second
	config.ConnConfig.RuntimeParams["application_name"] = "mikan"
	// A stuck statement must end before Temporal gives up on the activity that waits for it.
	config.ConnConfig.RuntimeParams["statement_timeout"] = "60000"
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "30000"
	// Compiling takes longer than any statement here runs, and starts where the planner expects a long history to be read.
	config.ConnConfig.RuntimeParams["jit"] = "off"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, translate(err)
	}
	s := &Store{pool: pool}
	if err := s.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// Close waits for connections in use and closes all.
func (s *Store) Close() { s.pool.Close() }

// Pool gives tests and the operator's commands the connections themselves.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Ping tells whether the database answers, and, once it has had no room for something, whether it has some again: while
// it has none, it still answers whoever only asks.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil || !s.full.Load() {
		return translate(err)
	}
	// Pages of a temporary table take room on the disk, where other tables go, and go with the
	// transaction. Rows of less than 2 kB are not compressed: these are a quarter of a megabyte.
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT set_config('temp_tablespaces', current_setting('default_tablespace'), true)`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			CREATE TEMPORARY TABLE room ON COMMIT DROP AS SELECT repeat(md5(n::text), 60) FROM generate_series(1, 128) n`)
		return err
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && !isFull(err) {
		err = nil // temporary tables are not allowed, perhaps; the next write will tell
	}
	if err == nil {
		s.full.Store(false)
	}
	return translate(err)
}

// isFull tells an error of a database without room on its disk.
func isFull(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "53100"
}

// written passes an outcome of a write on, and notes what it says about room.
func (s *Store) written(err error) error {
	if isFull(err) {
		s.full.Store(true)
	}
	return err
}

// tx runs fn in one transaction. name is the fail point's: "<name>.commit.before" and "<name>.commit.after".
func (s *Store) tx(ctx context.Context, name string, fn func(pgx.Tx) error) error {
	return s.txWith(ctx, pgx.TxOptions{}, name, fn)
}

// txUnforced is tx for what a crash of the database may take back: it does not wait for the disk. What was committed is
// seen by everybody at once, and survives the death of every process of mikan's.
func (s *Store) txUnforced(ctx context.Context, name string, fn func(pgx.Tx) error) error {
	return s.txWith(ctx, pgx.TxOptions{BeginQuery: "BEGIN; SET LOCAL synchronous_commit = off"}, name, fn)
}

func (s *Store) txWith(ctx context.Context, options pgx.TxOptions, name string, fn func(pgx.Tx) error) error {
	err := pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		failpoint.Hit(name + ".commit.before")
		return nil
	})
	if err != nil {
		return translate(s.written(err))
	}
	failpoint.Hit(name + ".commit.after")
	return nil
}

// exec runs one statement that commits by itself. name is the fail point's, as in tx.
func (s *Store) exec(ctx context.Context, name, sql string, args ...any) (pgconn.CommandTag, error) {
	failpoint.Hit(name + ".commit.before")
	tag, err := s.pool.Exec(ctx, sql, args...)
	if err == nil {
		failpoint.Hit(name + ".commit.after")
	}
	return tag, s.written(err)
}

// execUnforced is exec for what a crash of the database may take back, as with txUnforced. Both statements are one round
// trip and one transaction.
func (s *Store) execUnforced(ctx context.Context, name, sql string, args ...any) error {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT set_config('synchronous_commit', 'off', true)`)
	batch.Queue(sql, args...)
	failpoint.Hit(name + ".commit.before")
	err := s.pool.SendBatch(ctx, batch).Close()
	if err == nil {
		failpoint.Hit(name + ".commit.after")
	}
	return s.written(err)
}

// execRow is exec for a statement that returns a row.
func (s *Store) execRow(ctx context.Context, name, sql string, args []any, into ...any) error {
	failpoint.Hit(name + ".commit.before")
	err := s.pool.QueryRow(ctx, sql, args...).Scan(into...)
	if err == nil {
		failpoint.Hit(name + ".commit.after")
	}
	return s.written(err)
}

// lockSession serialises what concerns one session: claims, resets and forks. It is held to the transaction's end.
func lockSession(ctx context.Context, tx pgx.Tx, officeKey, sessionKey string) error {
	_, err := tx.Exec(ctx, lockSQL, officeKey, sessionKey)
	return err
}

const lockSQL = `SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 0))`

// translate gives a database error its code. Errors that already have one pass through.
func translate(err error) error {
	if err == nil {
		return nil
	}
	var domain *fault.Error
	if errors.As(err, &domain) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case pg.Code == "40001" || pg.Code == "40P01": // serialization failure, deadlock
			return fault.Wrap(fault.Unavailable, err, "the database asked for another try")
		case pg.Code[:2] == "57" || pg.Code[:2] == "53" || pg.Code[:2] == "08": // shutdown, resources, connection
			return fault.Wrap(fault.Unavailable, err, "the database is not available")
		case pg.Code == "42P01" || pg.Code == "42703": // undefined table, column
			return fault.Wrap(fault.Internal, err, "the database schema does not fit; run: mikan migrate --schema-only")
		}
		return fault.Wrap(fault.Internal, err, "the database refused a statement")
	}
	var network net.Error
	var connect *pgconn.ConnectError
	if errors.As(err, &network) || errors.As(err, &connect) || pgconn.SafeToRetry(err) || isClosed(err) {
		return fault.Wrap(fault.Unavailable, err, "the database is not reachable")
	}
	return fmt.Errorf("database: %w", err)
}

func isClosed(err error) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, pgx.ErrTxClosed) || pgconn.Timeout(err) ||
		// pgx reports a server that vanished in mid-statement only by text.
		containsAny(err.Error(), "unexpected EOF", "conn closed", "connection reset", "broken pipe")
}

// found turns "no rows" into false.
func found(err error) (bool, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, translate(err)
}
