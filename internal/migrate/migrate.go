// Package migrate moves an installation of mikan 0.5.3, which kept everything in files, into the database: sessions, chat
// logs, settings and scheduled events. It reads first and writes nothing while anything stands in its way; whatever ends
// it in the middle, the next run goes on and ends in the same state.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// Mode tells whether an import is carried out.
type Mode int

// The modes.
const (
	Execute Mode = iota
	DryRun       // read everything, tell what would be done, write nothing
)

// Broken tells what happens about files that cannot be read.
type Broken int

// The choices.
const (
	RefuseBroken Broken = iota
	SkipBroken          // leave them out, and import the rest
)

// Events tells whether imported schedules fire.
type Events int

// The choices.
const (
	StartEvents Events = iota
	PauseEvents
)

// Options say what is imported, and how.
type Options struct {
	// Workspace and StateDir are absolute paths of 0.5.3's two directories.
	Workspace, StateDir string
	// Owners says which platform conversations belong to, by raw id, where it is not plain.
	Owners map[string]office.Platform
	// Platforms are those whose tokens are set.
	Platforms []office.Platform
	Mode      Mode
	Broken    Broken
	Events    Events
	// Command is the command line that goes on with the import; gateway and worker name it.
	Command string
	Store   *store.Store
	// Report is told of every step, from one goroutine at a time.
	Report func(Event)
	// Now is the clock by which events are past.
	Now func() time.Time
}

// Result tells what an import did, or would do.
type Result struct {
	Totals  Total
	Skipped []Problem // broken files that were left out
}

// Run imports an installation. Errors: *Refused when something stands in the way and nothing was written; anything else
// is a failure in the middle, after which running it again goes on. A dry run returns the same refusals.
func Run(ctx context.Context, o Options) (Result, error) {
	o.Report = oneByOne(o.Report)
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := resolve(&o); err != nil {
		return Result{}, err
	}
	if o.Mode == Execute {
		unlock, err := lock(ctx, o)
		if err != nil {
			return Result{}, err
		}
		defer unlock()
	}
	p := &planner{Options: o}
	if err := p.plan(ctx); err != nil {
		return Result{}, err
	}
	result := Result{Totals: p.totals()}
	for _, problem := range p.problems {
		o.Report(Event{Step: StepProblem, Path: problem.Path, Line: problem.Line, Problem: &problem})
		if problem.Skippable {
			result.Skipped = append(result.Skipped, problem)
		}
	}
	if err := p.refusal(); err != nil {
		return result, err
	}
	o.Report(Event{Step: StepPlan, DryRun: o.Mode == DryRun, Totals: &result.Totals})
	if o.Mode == DryRun {
		return result, nil
	}
	if err := p.execute(ctx); err != nil {
		return result, err
	}
	o.Report(Event{Step: StepDone, Totals: &result.Totals})
	return result, nil
}

// resolve finds where the two directories really are: links inside them are never followed, links to them are.
func resolve(o *Options) error {
	if info, err := os.Stat(o.StateDir); err != nil || !info.IsDir() {
		return fault.New(fault.Invalid, "the state directory %s does not exist; name it with --state-dir", o.StateDir)
	}
	for _, dir := range []*string{&o.StateDir, &o.Workspace} {
		real, err := filepath.EvalSymlinks(*dir)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return fault.Wrap(fault.Invalid, err, "%s cannot be used", *dir)
		}
		*dir = real
	}
	return nil
}

// lock keeps a second import away from this database and these files.
func lock(ctx context.Context, o Options) (unlock func(), err error) {
	waiting := func(what string) {
		o.Report(Event{Step: StepWaiting, Text: "another import is at work on " + what + "; waiting for it to end"})
	}
	dir, err := os.Open(o.StateDir)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the state directory cannot be opened")
	}
	if err := flock(ctx, dir, func() { waiting("this state directory") }); err != nil {
		_ = dir.Close()
		return nil, err
	}
	release, err := o.Store.LockImport(ctx, func() { waiting("this database") })
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return func() {
		release()
		_ = dir.Close()
	}, nil
}

// flock waits for the lock on a directory, which ends with the process and leaves nothing behind.
func flock(ctx context.Context, dir *os.File, waiting func()) error {
	said := false
	for {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			return fault.Wrap(fault.Unavailable, err, "the state directory cannot be locked")
		}
		if !said {
			said = true
			waiting()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func oneByOne(report func(Event)) func(Event) {
	var mu sync.Mutex
	return func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if report != nil {
			report(e)
		}
	}
}

// progressEvery is how often progress is reported.
const progressEvery = time.Second

// progress reports how far a phase is until stop is called.
func (p *planner) progress(phase string, done *atomic.Int64, total int64) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	tell := func() {
		p.Report(Event{Step: StepProgress, Phase: phase, Done: done.Load(), Total: total})
	}
	go func() {
		defer close(ended)
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				tell()
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
		tell()
	}
}

// execute does what was planned.
func (p *planner) execute(ctx context.Context) error {
	from, to, err := p.Store.Migrate(ctx)
	if err != nil {
		return err
	}
	p.Report(Event{Step: StepSchema, From: &from, To: &to})
	if p.nothingToDo() {
		return nil
	}
	if err := p.Store.BeginImport(ctx, p.source(), p.Command); err != nil {
		return err
	}
	var done atomic.Int64
	stop := p.progress("importing", &done, p.total)
	defer stop()
	if err := p.installationSettings(ctx); err != nil {
		return err
	}
	if err := p.importOffices(ctx, &done); err != nil {
		return err
	}
	if err := p.importSchedules(ctx); err != nil {
		return err
	}
	return p.Store.FinishImport(ctx, p.source())
}

// How many conversations are moved at once, and how many of their sessions for each processor: one waits for the disk
// or the database while others work.
const (
	officesAtOnce  = 4
	sessionsPerCPU = 2
)

func (p *planner) importOffices(ctx context.Context, done *atomic.Int64) error {
	p.slots = make(chan struct{}, sessionsPerCPU*runtime.NumCPU())
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(officesAtOnce)
	for _, c := range p.conversations {
		if !c.dirty {
			continue
		}
		group.Go(func() error {
			if err := p.importOffice(ctx, c, done); err != nil {
				return fmt.Errorf("%s: %w", c.key, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// each does something about every session of a conversation that is in or comes in, several at once.
func (p *planner) each(ctx context.Context, c *conversation, do func(ctx context.Context, i int, f *sessionFile) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, f := range c.files {
		if f.state != toImport && f.state != imported {
			continue
		}
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return errors.Join(group.Wait(), ctx.Err())
		}
		group.Go(func() error {
			defer func() { <-p.slots }()
			return do(ctx, i, f)
		})
	}
	return group.Wait()
}

func (p *planner) nothingToDo() bool {
	if p.ledger.Begun {
		return false
	}
	for _, c := range p.conversations {
		if c.dirty {
			return false
		}
	}
	for _, e := range p.schedules {
		if e.state == toImport {
			return false
		}
	}
	return p.ledger.Finished || p.global == nil
}

func (p *planner) installationSettings(ctx context.Context) error {
	if p.global == nil || p.ledger.Finished {
		return nil
	}
	for name, value := range p.global.values {
		if err := p.Store.InitSetting(ctx, store.Installation, name, value); err != nil {
			return err
		}
	}
	p.Report(Event{Step: StepSetting, Path: p.global.path})
	return nil
}

func (p *planner) importSchedules(ctx context.Context) error {
	for _, e := range p.schedules {
		if e.state != toImport {
			continue
		}
		failpoint.Hit("import_schedule.before")
		file := store.ImportFile{OfficeKey: string(e.conv.key), Kind: store.ImportedSchedule, Name: e.name, Hash: e.hash, Records: 1}
		if err := p.Store.ImportSchedule(ctx, file, e.made); err != nil {
			return err
		}
		p.Report(Event{Step: StepSchedule, Office: string(e.conv.key), Path: e.path, Key: e.made.ID})
	}
	return nil
}
