package store_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
)

func TestANewBucketGivesNoMoreThanItHolds(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
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
