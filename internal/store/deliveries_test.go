package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/store"
)

// TestOfManyFirstIntentsOneMayPost has several processes say the same thing at once.
func TestOfManyFirstIntentsOneMayPost(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "hello")
	r := c.claim("C1")
	for round := range 20 {
		key := string(rune('a'+round)) + "-said-at-once"
		const attempts = 6
		intents := make([]store.Intent, attempts)
		var all sync.WaitGroup
		for i := range attempts {
			all.Go(func() {
				var err error
				intents[i], err = c.s.Intend(c.ctx(), store.Delivery{
					Key: key, OfficeKey: r.OfficeKey, SessionKey: r.SessionKey, Kind: store.NoticeDelivery, Text: "…",
				}, time.Minute, store.PostOnce)
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		certain := 0
		for _, i := range intents {
			if !i.Ambiguous {
				certain++
			} else if i.Wait <= 0 {
				t.Error("an attempt does not wait for the one in flight")
			}
		}
		if certain != 1 {
			t.Fatalf("%d of %d attempts believe to be the first", certain, attempts)
		}
	}
}
