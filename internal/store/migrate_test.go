package store_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/testenv"
)

func TestManyMayMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresURL(t)
	var group errgroup.Group
	for range 6 {
		group.Go(func() error {
			s, err := store.Open(t.Context(), url)
			if err != nil {
				return err
			}
			defer s.Close()
			if _, _, err := s.Migrate(t.Context()); err != nil {
				return err
			}
			return s.CheckSchema(t.Context())
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// Every process and every command looks at the schema first: they must wait neither for each other nor for a migration.
func TestNobodyWaitsToLookAtTheSchema(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	held, err := s.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	if _, err := held.Exec(t.Context(), `SELECT pg_advisory_lock(`+store.MigratingSQL+`)`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // who waits for the lock does so for five
	defer cancel()
	if err := s.CheckSchema(ctx); err != nil {
		t.Errorf("the schema was not looked at: %v", err)
	}
	if from, to, err := s.Migrate(ctx); err != nil || from != to {
		t.Errorf("migrated from %d to %d, %v", from, to, err)
	}
}
