package dispatch

import (
	"context"
	"log/slog"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// How often the sweeper looks, and how long a row may wait before it is taken for forgotten.
const (
	sweepEvery     = time.Second
	wakeAfter      = 2 * time.Second  // a committed row whose wake-up was lost
	wakeAgainAfter = 30 * time.Second // a row that was woken and still waits, mostly behind a run
	controlAfter   = 2 * time.Second
	reconcileEvery = 5 * time.Second
	checkAfter     = 15 * time.Second
	batch          = 100
)

// Carrier carries out a control row.
type Carrier interface {
	CarryOut(ctx context.Context, row store.InboxRow) error
}

// Sweeper repeats whatever a dying process may have left undone between the database and Temporal. Every process runs
// one; none is special, and two at once do no harm.
type Sweeper struct {
	Store      *store.Store
	Dispatcher *Dispatcher
	Carrier    Carrier
	Metrics    *telemetry.Metrics
	Log        *slog.Logger
}

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	sweep, reconcile := time.NewTicker(sweepEvery), time.NewTicker(reconcileEvery)
	defer sweep.Stop()
	defer reconcile.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			s.report("sweep", s.sweep(ctx))
		case <-reconcile.C:
			s.report("reconcile", s.reconcile(ctx))
		}
	}
}

func (s *Sweeper) report(what string, err error) {
	if err != nil && fault.CodeOf(err) != fault.Interrupted {
		s.Log.Warn("a sweep is cut short and will be repeated", "sweep", what, "code", fault.CodeOf(err), "error", err)
	}
}

// sweep wakes sessions whose rows nobody woke, and carries out words that nobody carried out.
func (s *Sweeper) sweep(ctx context.Context) error {
	waiting, oldest, err := s.Store.Waiting(ctx, "")
	if err != nil {
		return err
	}
	s.Metrics.Inbox(int(waiting), oldest)
	controls, err := s.Store.Controls(ctx, controlAfter, batch)
	if err != nil {
		return err
	}
	for _, row := range controls {
		s.Metrics.Recovered(telemetry.Sweeper, "control", 1)
		if err := s.Carrier.CarryOut(ctx, row); err != nil {
			s.report("control", err)
		}
	}
	sessions, err := s.Store.Unwoken(ctx, wakeAfter, wakeAgainAfter, batch)
	if err != nil {
		return err
	}
	for _, at := range sessions {
		if err := s.wake(ctx, at, telemetry.Sweeper); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sweeper) wake(ctx context.Context, at store.Address, by telemetry.Recoverer) error {
	s.Metrics.Recovered(by, "session", 1)
	if err := s.Dispatcher.Wake(ctx, at.OfficeKey, at.SessionKey); err != nil {
		return err
	}
	return s.Store.Woken(ctx, at.OfficeKey, at.SessionKey)
}

// reconcile finds runs whose workflow is closed or missing (terminated, or Temporal came back empty) and wakes their
// sessions: the execution that starts settles what it finds left over.
func (s *Sweeper) reconcile(ctx context.Context) error {
	runs, err := s.Store.Unchecked(ctx, checkAfter, batch)
	if err != nil {
		return err
	}
	for _, r := range runs {
		open, err := s.Dispatcher.Open(ctx, r.WorkflowID)
		if err != nil {
			return err
		}
		if open {
			continue
		}
		if err := s.wake(ctx, store.Address{OfficeKey: r.OfficeKey, SessionKey: r.SessionKey}, telemetry.Reconciler); err != nil {
			return err
		}
	}
	return nil
}
