package activities

import (
	"context"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
)

// beatEvery is well below the heartbeat time-out of 5 s, and the SDK sends at most one a second.
const beatEvery = time.Second

// noteTimeout bounds what is still written after an activity's context has ended.
const noteTimeout = 3 * time.Second

// beat is what a heartbeat time-out shows in the Temporal UI.
type beat struct {
	Phase   string `json:"phase"`
	Step    int    `json:"step"`
	Attempt int32  `json:"attempt"`
	Event   int64  `json:"event"` // pieces of the model's stream, or lines of progress, so far
}

// pulse heartbeats until stop is called, also while the activity waits. Cancellation reaches the activity's context
// only with the answer to a heartbeat.
type pulse struct {
	phase  atomic.Value
	step   int
	events atomic.Int64
	done   chan struct{}
}

func startPulse(ctx context.Context, step int, phase string) *pulse {
	p := &pulse{step: step, done: make(chan struct{})}
	p.phase.Store(phase)
	attempt := activity.GetInfo(ctx).Attempt
	go func() {
		ticker := time.NewTicker(beatEvery)
		defer ticker.Stop()
		for {
			// The first beat waits, too: most activities are over before it is due, and each beat is a call.
			select {
			case <-ticker.C:
			case <-p.done:
				return
			case <-ctx.Done():
				return
			}
			activity.RecordHeartbeat(ctx, beat{Phase: p.phase.Load().(string), Step: p.step, Attempt: attempt, Event: p.events.Load()})
		}
	}()
	return p
}

func (p *pulse) enter(phase string) { p.phase.Store(phase) }
func (p *pulse) event()             { p.events.Add(1) }
func (p *pulse) stop()              { close(p.done) }
