// Package rate keeps all of mikan's processes together inside the rate limits of a platform.
package rate

import (
	"context"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
)

// Priority tells how important a call is.
type Priority int

// The priorities. Progress leaves the reserve alone and is refused when there is nothing beyond it; Final waits.
const (
	Final Priority = iota
	Progress
)

// Limit is what a platform allows.
type Limit struct {
	PerMinute float64
	Burst     float64 // calls that may be made at once; at least 1
	Reserve   float64 // of them, kept for Final
}

// Limiter spends the limits of one installation.
type Limiter struct {
	Store        *store.Store
	Installation string // "slack/T1": the limits are per workspace, bot or account
}

// Take waits until the call may be made. Final waits as long as ctx lives, but fails with rate_limited and RetryAfter
// when it already knows that ctx will not live long enough. Progress never waits: it fails with rate_limited. When the
// database cannot be asked the call is let through: a limit that is broken costs a 429, a missing answer costs more.
func (l *Limiter) Take(ctx context.Context, method string, limit Limit, p Priority) error {
	bucket := store.Bucket{Name: l.name(method), PerSecond: limit.PerMinute / 60, Burst: max(limit.Burst, 1)}
	if p == Progress {
		bucket.Keep = min(limit.Reserve, bucket.Burst-1)
	}
	for {
		wait, err := l.Store.TakeToken(ctx, bucket)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil || wait == 0:
			return nil
		case p == Progress, tooLong(ctx, wait):
			return fault.New(fault.RateLimited, "the limit of %s is used up", method).After(wait)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func tooLong(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < wait
}

// Obey keeps every process from calling the method for as long as the platform asked.
func (l *Limiter) Obey(ctx context.Context, method string, retryAfter time.Duration) error {
	return l.Store.BlockBucket(ctx, l.name(method), retryAfter)
}

func (l *Limiter) name(method string) string { return l.Installation + "/" + method }
