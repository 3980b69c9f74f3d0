package store_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/testenv"
)

func TestANewBucketGivesNoMoreThanItHolds(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), testenv.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		var taken atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				wait, err := s.TakeToken(t.Context(), store.Bucket{Name: name, PerSecond: 0.01, Burst: 2})
				if err != nil {
					t.Errorf("asked of the database: %v", err)
				}
				if wait == 0 {
					taken.Add(1)
				}
			})
		}
		all.Wait()
		if n := taken.Load(); n != 2 {
			t.Errorf("%d tokens were taken at once from a bucket of 2", n)
		}
	}
}
