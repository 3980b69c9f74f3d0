package backend

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
)

// A worker notes every few seconds that it serves its queue. Temporal lists a worker that was killed for a minute and
// more: its last long poll may have begun just before.
const (
	noteEvery  = 3 * time.Second
	noteLasts  = 12 * time.Second
	noteCounts = 2 * time.Minute // how long a note that has lapsed says more than Temporal's list, which is then right
)

// NoteServing notes that this process serves the queue, until ctx ends. What it noted last lapses by itself: a worker
// that is started again soon takes it up.
func NoteServing(ctx context.Context, s *store.Store, queue string, log *slog.Logger) {
	worker := uuid.NewString()
	tick := time.NewTicker(noteEvery)
	defer tick.Stop()
	for {
		within, done := context.WithTimeout(ctx, noteEvery)
		if err := s.Serve(within, queue, worker, noteLasts, noteEvery/2); err != nil && ctx.Err() == nil {
			log.Debug("it was not noted that the queue is served", "queue", queue, "code", fault.CodeOf(err))
		}
		done()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Served tells whether a worker serves this process's queue: one has noted it, or, where none has for long (a worker of
// an earlier version does not), Temporal lists one. unavailable: database or Temporal does not answer.
func (b *Backend) Served(ctx context.Context) (bool, error) {
	left, known, err := b.Store.Serving(ctx, b.Config.TaskQueue)
	if err != nil {
		return false, err
	}
	if known && left <= 0 && left > -noteCounts {
		return false, nil
	}
	polled, err := b.Dispatcher.Polled(ctx)
	return err == nil && (polled || known && left > 0), err
}
