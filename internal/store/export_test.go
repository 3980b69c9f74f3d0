package store

import (
	"context"

	"github.com/geminixiang/mikan/internal/search"
)

// ContextSQL is what loading a context runs, for tests that look at its plan.
const ContextSQL = contextSQL

// MigratingSQL is the key of the advisory lock of those who migrate.
const MigratingSQL = migratingSQL

// What sweepers run every few seconds, for tests that look at its plan.
const (
	ControlsSQL   = controlsSQL
	UndecidedsSQL = undecidedsSQL
	SignedSQL     = signedSQL
	AbandonSQL    = abandonSQL
)

// SearchSQL is what a search for a page of 20 runs, with its arguments, for tests that look at its plan.
func (s *Store) SearchSQL(ctx context.Context, office, session string, q search.Query) (sql string, args []any, err error) {
	k := seeker[Remembered]{corpus: entryCorpus, office: office, session: session, query: q}
	if k.frequency, err = k.frequencies(ctx, s.pool); err != nil {
		return "", nil, err
	}
	sql, args = k.statement(21, nil, candidates)
	return sql, args, nil
}
