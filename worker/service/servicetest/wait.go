package servicetest

import (
	"slices"
	"testing"
	"time"
)

const (
	// Patience bounds a wait in which nothing changes. It only decides how long a failure takes: the longest deadline
	// within mikan, that of a post whose reply was lost, and a machine that is busy with other tests both fit.
	Patience = 2 * time.Minute
	// poll is how often what is waited for is looked at.
	poll = 10 * time.Millisecond
)

// Within looks until something holds and tells whether it did before the limit, or the test's end.
func Within(t testing.TB, limit time.Duration, holds func() bool) bool {
	look := time.NewTicker(poll)
	defer look.Stop()
	late := time.After(limit)
	for !holds() {
		select {
		case <-look.C:
		case <-late:
			return holds()
		case <-t.Context().Done():
			return false
		}
	}
	return true
}

// Eventually fails the test when something does not come to hold within Patience. what completes "it did not come true
// that".
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Within(t, Patience, holds) {
		t.Fatalf("it did not come true that %s", what)
	}
}

// Shows waits until read, which lists what mikan shows somewhere, returns just what is wanted with everything settled, so
// that nothing can be added. It fails the test, which may be a subtest of the installation's, when that is not so and
// what is shown has not changed for Patience.
func (in *Installation) Shows(t testing.TB, read func() []string, want ...string) {
	t.Helper()
	look := time.NewTicker(poll)
	defer look.Stop()
	shown, changed := read(), time.Now()
	for !slices.Equal(shown, want) || !in.Settled() || !slices.Equal(read(), want) {
		if time.Since(changed) > Patience {
			t.Fatalf("mikan shows %q, want %q; everything settled: %v", shown, want, in.Settled())
		}
		<-look.C
		if now := read(); !slices.Equal(now, shown) {
			shown, changed = now, time.Now()
		}
	}
}
