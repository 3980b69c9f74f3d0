package dispatch_test

import (
	"testing"
	"time"
)

func TestOneProcessPrunesOnceADay(t *testing.T) {
	t.Parallel()
	// Nothing waits and no run is open, so neither Temporal nor a platform is asked for anything.
	today, exec := newSweeper(t, nil, nil)
	today.Retention = 30 * 24 * time.Hour
	tomorrow := *today
	left := func() (n int) {
		t.Helper()
		if err := today.Store.Pool().QueryRow(t.Context(), `SELECT count(*) FROM run_waits`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	exec(`INSERT INTO run_waits VALUES ('old', 'w', now() - interval '31 days'), ('young', 'w', now() - interval '29 days')`)
	sweep(t, today)
	for deadline := time.Now().Add(time.Minute); left() != 1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d waits are left, want the young one", left())
		}
	}
	if _, mine, err := today.Store.TakeLease(t.Context(), "prune", "another process", time.Hour); mine || err != nil {
		t.Errorf("another process may prune on the same day: %v, %v", mine, err)
	}
	exec(`UPDATE run_waits SET since = now() - interval '31 days'`)
	exec(`UPDATE leases SET expires_at = now() - interval '1 second'`)
	sweep(t, &tomorrow)
	for deadline := time.Now().Add(time.Minute); left() != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("on the next day nothing is pruned")
		}
	}
}
