package store

import "github.com/geminixiang/mikan/internal/search"

// ContextSQL is what loading a context runs, for tests that look at its plan.
const ContextSQL = contextSQL

// SearchSQL is what a search for a page of 20 runs, with its arguments, for tests that look at its plan.
func SearchSQL(office, session string, q search.Query) (sql string, args []any) {
	k := seeker[Remembered]{corpus: entryCorpus, office: office, session: session, query: q}
	return k.statement(21, nil, candidates)
}
