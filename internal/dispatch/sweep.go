package dispatch

import (
	"context"
	"crypto/rand"
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

	unserved map[office.Platform]int64 // what was reported last
}

// Run sweeps until ctx ends. No duty waits for another: a platform that is slow to answer holds up its own words,
// decisions and signs, not another's, nor the sessions that are to be woken.
func (s *Sweeper) Run(ctx context.Context) {
	var duties sync.WaitGroup
	defer duties.Wait()
	duties.Go(func() { s.every(ctx, sweepEvery, "sweep", s.sweep) })
	duties.Go(func() { s.every(ctx, reconcileEvery, "reconcile", s.reconcile) })
	for _, platform := range s.Platforms {
		left := &leftovers{Sweeper: s, platform: platform}
		duties.Go(func() { s.every(ctx, sweepEvery, "control", left.carryOut) })
		duties.Go(func() { s.every(ctx, sweepEvery, "decision", left.decide) })
		duties.Go(func() { s.every(ctx, signsEvery, "signs", left.takeOffSigns) })
	}
	duties.Go(func() { s.every(ctx, signsEvery, "signs", s.abandon) })
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

// abandon ends notices whose sender died and that nobody repeats.
func (s *Sweeper) abandon(ctx context.Context) error { return s.Store.Abandon(ctx, signAfter) }

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
