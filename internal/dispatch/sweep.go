package dispatch

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// How often the sweeper looks, and how long a row may wait before it is taken for forgotten.
const (
	sweepEvery     = time.Second
	wakeAfter      = 2 * time.Second  // a committed row whose wake-up was lost
	wakeAgainAfter = 30 * time.Second // a row that was woken and still waits, mostly behind a run
	controlAfter   = 2 * time.Second
	decideAfter    = 5 * time.Second // a decision takes a call or two
	reconcileEvery = 5 * time.Second
	checkAfter     = 15 * time.Second
	batch          = 100
	signsEvery     = 5 * time.Second
	signAfter      = 10 * time.Second // whoever ended the run takes the sign off first
	signAgainAfter = 30 * time.Second
	signBatch      = 10 // platforms take few a minute
	unservedEvery  = 10 * time.Second
	unservedAfter  = time.Minute // then no other process has a token for the row's platform, either
	rowWithin      = time.Minute // how long one word or decision may keep the others waiting
	// carriedWithin is how long a word waits for a process that died at it, and a third of it how often one that lives says so.
	carriedWithin = 30 * time.Second

	pruneLook  = 10 * time.Minute // how often a process looks whether it is its turn
	pruneEvery = 24 * time.Hour   // how often one of them prunes
	pruneName  = "prune"          // of the lease
)

// Carrier carries out a control row.
type Carrier interface {
	CarryOut(ctx context.Context, row store.InboxRow) error
}

// Decider finds out whether an undecided row becomes a run.
type Decider interface {
	Decide(ctx context.Context, u store.Undecided) error
}

// Signs takes the sign that it waited off the message of a run that has ended.
type Signs interface {
	TakeOff(ctx context.Context, r store.Run) error
}

// Sweeper repeats whatever a dying process may have left undone between the database and Temporal. Every process runs
// one; none is special, and two at once do no harm.
type Sweeper struct {
	Store      *store.Store
	Dispatcher *Dispatcher
	Carrier    Carrier
	Decider    Decider
	Signs      Signs
	// Platforms are those that Carrier, Decider and Signs have tokens for.
	Platforms []office.Platform
	// Retention is how long what has served its purpose is kept: see Store.Prune.
	Retention time.Duration
	Metrics   *telemetry.Metrics
	Log       *slog.Logger

	// Where the last lists ended. A row that fails again and again is passed over until those behind it had their turn.
	controlled, decided int64
	unserved            map[office.Platform]int64 // what was reported last
}

// Run sweeps until ctx ends. No duty waits for another: a platform or a model that is slow to answer holds up the
// decisions that need it, not the sessions that are to be woken.
func (s *Sweeper) Run(ctx context.Context) {
	var duties sync.WaitGroup
	defer duties.Wait()
	duties.Go(func() { s.every(ctx, sweepEvery, "sweep", s.sweep) })
	duties.Go(func() { s.every(ctx, sweepEvery, "control", s.carryOut) })
	duties.Go(func() { s.every(ctx, sweepEvery, "decision", s.decide) })
	duties.Go(func() { s.every(ctx, reconcileEvery, "reconcile", s.reconcile) })
	duties.Go(func() { s.every(ctx, signsEvery, "signs", s.takeOffSigns) })
	duties.Go(func() { s.every(ctx, unservedEvery, "unserved", s.tellUnserved) })
	duties.Go(func() {
		s.report("prune", s.prune(ctx))
		s.every(ctx, pruneLook, "prune", s.prune)
	})
}

func (s *Sweeper) every(ctx context.Context, interval time.Duration, what string, do func(context.Context) error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.report(what, do(ctx))
		}
	}
}

func (s *Sweeper) report(what string, err error) {
	if err != nil && fault.CodeOf(err) != fault.Interrupted {
		s.Log.Warn("a sweep is cut short and will be repeated", "sweep", what, "code", fault.CodeOf(err), "error", err)
	}
}

// sweep wakes sessions whose rows nobody woke.
func (s *Sweeper) sweep(ctx context.Context) error {
	waiting, oldest, err := s.Store.Waiting(ctx, "")
	if err != nil {
		return err
	}
	s.Metrics.Inbox(int(waiting), oldest)
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

// carryOut carries out words that nobody carried out.
func (s *Sweeper) carryOut(ctx context.Context) error {
	controls, err := s.Store.Controls(ctx, store.Overdue{Platforms: s.Platforms, Age: controlAfter, After: s.controlled, Limit: batch})
	if err != nil {
		return err
	}
	s.controlled = 0
	if len(controls) == batch {
		s.controlled = controls[batch-1].ID
	}
	for _, row := range controls {
		s.report("control", s.carry(ctx, row))
	}
	return nil
}

// carry carries out one word, unless another process is at one of the same conversation. A word says something, and
// whether it was said before can be looked up only when an earlier attempt's time is over: two processes that began again
// and again would overtake each other for ever.
func (s *Sweeper) carry(ctx context.Context, row store.InboxRow) error {
	lease, holder := "control/"+row.OfficeKey, rand.Text()
	_, mine, err := s.Store.TakeLease(ctx, lease, holder, carriedWithin)
	if err != nil || !mine {
		return err
	}
	s.Metrics.Recovered(telemetry.Sweeper, "control", 1)
	within, done := context.WithTimeout(ctx, rowWithin)
	go s.keep(within, lease, holder)
	err = s.Carrier.CarryOut(within, row)
	done()
	dropped, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepEvery)
	defer cancel()
	return errors.Join(err, s.Store.DropLease(dropped, lease, holder))
}

// keep renews a lease until ctx ends: what is done under it may take longer than a process that died is waited for.
func (s *Sweeper) keep(ctx context.Context, lease, holder string) {
	tick := time.NewTicker(carriedWithin / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, _, err := s.Store.TakeLease(ctx, lease, holder, carriedWithin); err != nil && ctx.Err() == nil {
				s.report("control", err)
			}
		}
	}
}

// decide decides about rows that nobody decided about.
func (s *Sweeper) decide(ctx context.Context) error {
	undecided, err := s.Store.Undecideds(ctx, store.Overdue{Platforms: s.Platforms, Age: decideAfter, After: s.decided, Limit: batch})
	if err != nil {
		return err
	}
	s.decided = 0
	if len(undecided) == batch {
		s.decided = undecided[batch-1].ID
	}
	for _, row := range undecided {
		s.Metrics.Recovered(telemetry.Sweeper, "decision", 1)
		within, done := context.WithTimeout(ctx, rowWithin)
		s.report("decision", s.Decider.Decide(within, row))
		done()
	}
	return nil
}

// takeOffSigns takes off signs that nobody took off.
func (s *Sweeper) takeOffSigns(ctx context.Context) error {
	runs, err := s.Store.Signed(ctx, s.Platforms, signAfter, signAgainAfter, signBatch)
	if err != nil {
		return err
	}
	for _, r := range runs {
		within, done := context.WithTimeout(ctx, signAgainAfter)
		s.report("signs", s.Signs.TakeOff(within, r))
		done()
	}
	return s.Store.Abandon(ctx, signAfter)
}

// tellUnserved lets operators know of words and decisions that wait for a token that nobody has: once, until they are
// gone.
func (s *Sweeper) tellUnserved(ctx context.Context) error {
	unserved, err := s.Store.Unserved(ctx, s.Platforms, unservedAfter)
	if err != nil {
		return err
	}
	for platform := range s.unserved {
		if unserved[platform] == 0 {
			s.Metrics.Unserved(platform, 0)
		}
	}
	for platform, n := range unserved {
		s.Metrics.Unserved(platform, n)
		if s.unserved[platform] == 0 {
			s.Log.Warn("words and decisions wait for a platform that this process has no token for",
				"platform", platform, "waiting", n)
		}
	}
	s.unserved = unserved
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

// prune deletes once a day what has served its purpose, in whichever process comes first. The lease outlives its holder
// on purpose: it is what makes the next day's pruning wait.
func (s *Sweeper) prune(ctx context.Context) error {
	_, mine, err := s.Store.TakeLease(ctx, pruneName, rand.Text(), pruneEvery)
	if err != nil || !mine {
		return err
	}
	pruned, err := s.Store.Prune(ctx, s.Retention)
	for _, p := range pruned {
		if p.Rows > 0 {
			s.Log.Info("pruned", "table", p.Table, "what", p.What, "rows", p.Rows)
		}
	}
	return err
}
