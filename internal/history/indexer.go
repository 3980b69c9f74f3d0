package history

import (
	"context"
	"log/slog"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
)

// indexEvery is how often new entries and messages are moved into the search index. Until then searches find them too,
// only slower: at a hundred runs a minute some twenty entries wait at a time.
const indexEvery = 2 * time.Second

// Indexer keeps the search index near to what was appended. Every worker runs one; two at once share the work.
type Indexer struct {
	Store *store.Store
	Log   *slog.Logger
}

// Run indexes until ctx ends.
func (i *Indexer) Run(ctx context.Context) {
	tick := time.NewTicker(indexEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := i.Store.IndexHistory(ctx); err != nil && ctx.Err() == nil {
				i.Log.Warn("the search index is behind and will be tried again", "code", fault.CodeOf(err), "error", err)
			}
		}
	}
}
