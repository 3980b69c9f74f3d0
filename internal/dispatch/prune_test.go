package dispatch_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/dispatch"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/testenv"
)

func TestOneProcessPrunesOnceADay(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), testenv.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	metrics, err := telemetry.NewMetrics(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := s.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (n int) {
		t.Helper()
		if err := s.Pool().QueryRow(t.Context(), `SELECT count(*) FROM run_waits`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// Nothing waits and no run is open, so neither Temporal nor a platform is asked for anything.
	sweep := func(ctx context.Context) {
		(&dispatch.Sweeper{Store: s, Retention: 30 * 24 * time.Hour, Metrics: metrics, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
	}
	exec(`INSERT INTO run_waits VALUES ('old', 'w', now() - interval '31 days'), ('young', 'w', now() - interval '29 days')`)
	go sweep(t.Context())
	for deadline := time.Now().Add(time.Minute); left() != 1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d waits are left, want the young one", left())
		}
	}
	if _, mine, err := s.TakeLease(t.Context(), "prune", "another process", time.Hour); mine || err != nil {
		t.Errorf("another process may prune on the same day: %v, %v", mine, err)
	}
	exec(`UPDATE run_waits SET since = now() - interval '31 days'`)
	exec(`UPDATE leases SET expires_at = now() - interval '1 second'`)
	go sweep(t.Context())
	for deadline := time.Now().Add(time.Minute); left() != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("on the next day nothing is pruned")
		}
	}
}
