package rate_test

import (
	"context"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/store/storetest"
)

// A holder that gets no answer about its lease must not go on: somebody else may hold it soon.
func TestWorkEndsWhenTheDatabaseSaysNothing(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	began, ended, over := make(chan struct{}, 100), make(chan struct{}, 100), make(chan error, 1)
	go func() {
		over <- rate.Lease{Store: s, Name: "updates", Holder: "a", Lasts: 2 * time.Second}.Hold(ctx, func(work context.Context) error {
			began <- struct{}{}
			<-work.Done()
			ended <- struct{}{}
			return nil
		})
	}()
	<-began
	tx, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Whoever renews waits for this.
	if _, err := tx.Exec(t.Context(), `SELECT FROM leases WHERE name = 'updates' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the work goes on while the lease is not renewed")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-began // taken again
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
