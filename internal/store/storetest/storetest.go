// Package storetest opens stores for tests.
package storetest

import (
	"testing"

	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/testenv"
)

// Open opens a store with an up-to-date schema of the test's own, until the test ends.
func Open(t testing.TB) *store.Store {
	t.Helper()
	return At(t, testenv.PostgresURL(t))
}

// At is Open for a database that the test names to others, too.
func At(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}
