package dispatch

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// leftovers is what the sweeper does again that needs one platform to answer.
type leftovers struct {
	*Sweeper
	platform office.Platform

	// Where the last lists ended. A row that fails again and again is passed over until those behind it had their turn.
	controlled, decided int64
}

func (l *leftovers) overdue(age time.Duration, after int64) store.Overdue {
	return store.Overdue{Platform: l.platform, Age: age, After: after, Limit: batch}
}

// carryOut carries out words that nobody carried out.
func (l *leftovers) carryOut(ctx context.Context) error {
	controls, err := l.Store.Controls(ctx, l.overdue(controlAfter, l.controlled))
	if err != nil {
		return err
	}
	l.controlled = 0
	if len(controls) == batch {
		l.controlled = controls[batch-1].ID
	}
	for _, row := range controls {
		l.report("control", l.carry(ctx, row))
	}
	return nil
}

// carry carries out one word, unless another process is at one of the same conversation. A word says something, and
// whether it was said before can be looked up only when an earlier attempt's time is over: two processes that began again
// and again would overtake each other for ever.
func (l *leftovers) carry(ctx context.Context, row store.InboxRow) error {
	lease, holder := "control/"+row.OfficeKey, rand.Text()
	_, mine, err := l.Store.TakeLease(ctx, lease, holder, carriedWithin)
	if err != nil || !mine {
		return err
	}
	l.Metrics.Recovered(telemetry.Sweeper, "control", 1)
	within, done := context.WithTimeout(ctx, rowWithin)
	go l.keep(within, lease, holder)
	err = l.Carrier.CarryOut(within, row)
	done()
	dropped, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepEvery)
	defer cancel()
	return errors.Join(err, l.Store.DropLease(dropped, lease, holder))
}

// keep renews a lease until ctx ends: what is done under it may take longer than a process that died is waited for.
func (l *leftovers) keep(ctx context.Context, lease, holder string) {
	tick := time.NewTicker(carriedWithin / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, _, err := l.Store.TakeLease(ctx, lease, holder, carriedWithin); err != nil && ctx.Err() == nil {
				l.report("control", err)
			}
		}
	}
}

// decide decides about rows that nobody decided about.
func (l *leftovers) decide(ctx context.Context) error {
	undecided, err := l.Store.Undecideds(ctx, l.overdue(decideAfter, l.decided))
	if err != nil {
		return err
	}
	l.decided = 0
	if len(undecided) == batch {
		l.decided = undecided[batch-1].ID
	}
	for _, row := range undecided {
		l.Metrics.Recovered(telemetry.Sweeper, "decision", 1)
		within, done := context.WithTimeout(ctx, rowWithin)
		l.report("decision", l.Decider.Decide(within, row))
		done()
	}
	return nil
}

// takeOffSigns takes off signs that nobody took off.
func (l *leftovers) takeOffSigns(ctx context.Context) error {
	runs, err := l.Store.Signed(ctx, l.platform, signAfter, signAgainAfter, signBatch)
	if err != nil {
		return err
	}
	for _, r := range runs {
		within, done := context.WithTimeout(ctx, signAgainAfter)
		l.report("signs", l.Signs.TakeOff(within, r))
		done()
	}
	return nil
}
