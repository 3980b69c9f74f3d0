package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// planner finds out what an import has to do, and everything that stands in its way. It writes nothing.
type planner struct {
	Options
	ledger        store.ImportLedger
	conversations []*conversation
	stateSessions map[office.Key]string
	schedules     []*eventFile
	global        *settingsFile

	slots chan struct{} // one for each session that is read at a time

	mu       sync.Mutex
	problems []Problem
	repairs  int
	read     atomic.Int64 // bytes
	total    int64
}

func (p *planner) source() string { return p.Workspace + "\n" + p.StateDir }

func (p *planner) problem(path string, line int, what, fix string) {
	p.add(Problem{Path: path, Line: line, What: what, Fix: fix})
}

func (p *planner) add(problem Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, problem)
}

func (p *planner) repair(path string, r repair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.repairs++
	p.Report(Event{Step: StepRepair, Path: path, Line: r.Line, Text: r.What})
}

// plan reads everything.
func (p *planner) plan(ctx context.Context) error {
	var err error
	if p.ledger, err = p.Store.ReadImportLedger(ctx, p.source()); err != nil {
		return err
	}
	p.stateSessions = map[office.Key]string{}
	if err := p.scan(); err != nil {
		return err
	}
	p.own()
	for _, c := range p.conversations {
		if err := p.listSessions(c); err != nil {
			return err
		}
	}
	if err := p.readFiles(ctx); err != nil {
		return err
	}
	if err := p.readSettings(); err != nil {
		return err
	}
	if err := p.readEvents(); err != nil {
		return err
	}
	for _, c := range p.conversations {
		p.order(c)
	}
	p.claims()
	slices.SortStableFunc(p.problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), a.Line-b.Line)
	})
	return nil
}

// readFiles reads all sessions and logs, several at once.
func (p *planner) readFiles(ctx context.Context) error {
	type job struct {
		c *conversation
		f *sessionFile
	}
	var jobs []job
	for _, c := range p.conversations {
		for _, f := range c.files {
			jobs = append(jobs, job{c, f})
		}
		if c.log != nil {
			jobs = append(jobs, job{c, nil})
		}
	}
	for _, j := range jobs {
		path := ""
		if j.f != nil {
			path = j.f.path
		} else {
			path = j.c.log.path
		}
		p.total += sizeOf(path)
	}
	stop := p.progress("reading", &p.read, p.total)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for _, j := range jobs {
		group.Go(func() error {
			if j.f != nil {
				return p.readSession(ctx, j.c, j.f)
			}
			return p.readLog(ctx, j.c)
		})
	}
	return group.Wait()
}

func (p *planner) readSession(ctx context.Context, c *conversation, f *sessionFile) error {
	file, info, err := openRegular(f.path)
	if err != nil {
		return p.unreadable(f.path, err, func() { f.state = skipped })
	}
	defer func() { _ = file.Close() }()
	f.size = info.Size()
	defer p.read.Add(f.size)
	x, err := readIndex(ctx, file, checkContent)
	var refused *lineError
	switch {
	case errors.Is(err, errPlaceholder):
		f.state = placeholder
		p.repair(f.path, repair{What: "is empty: a session that was never begun"})
		return nil
	case errors.As(err, &refused):
		f.state = skipped
		p.add(Problem{Path: f.path, Line: refused.Line, What: refused.Cause.Error(), Fix: fixBroken, Skippable: true})
		return nil
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return p.unreadable(f.path, err, func() { f.state = skipped })
	}
	x.include(ofNewest)
	f.id, f.hash, f.entries, f.created = x.header.ID, x.hash, int64(len(x.nodes)), x.header.Timestamp
	f.parent = filepath.Base(strings.ReplaceAll(x.header.Parent, `\`, "/"))
	if x.header.Parent == "" {
		f.parent = ""
	}
	for _, r := range x.repairs {
		p.repair(f.path, r)
	}
	return nil
}

func (p *planner) readLog(ctx context.Context, c *conversation) error {
	file, info, err := openRegular(c.log.path)
	if err != nil {
		return p.unreadable(c.log.path, err, func() { c.log = nil })
	}
	defer func() { _ = file.Close() }()
	c.log.size = info.Size()
	defer p.read.Add(info.Size())
	reader := logReader{address: c.address, key: c.key}
	seen := newRevisions()
	log, err := reader.read(ctx, file, func(m store.ChatMessage) error {
		if seen.take(&m) {
			c.log.messages++
		}
		if c.created.IsZero() || m.SentAt.Before(c.created) {
			c.created = m.SentAt
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.log.hash, c.log.lines = log.hash, log.lines
	for _, r := range log.repairs {
		p.repair(c.log.path, r)
	}
	for _, broken := range log.broken {
		p.add(Problem{Path: c.log.path, Line: broken.Line, What: broken.Cause.Error(), Fix: "mend the line, or leave it out with --skip-broken", Skippable: true})
	}
	return nil
}

// unreadable lists a file that the system does not let us read.
func (p *planner) unreadable(path string, err error, skip func()) error {
	var failed *fs.PathError
	if !errors.As(err, &failed) {
		failed = &fs.PathError{Err: err}
	}
	skip()
	p.add(Problem{Path: path, What: "cannot be read: " + failed.Err.Error(), Fix: fixReadable, Skippable: true})
	return nil
}

// order puts a conversation's files into the order of their generations, and leaves out placeholders: a session that
// holds nothing but its header, unless it is the active one after a reset.
func (p *planner) order(c *conversation) {
	slices.SortFunc(c.files, func(a, b *sessionFile) int {
		return cmp.Or(strings.Compare(a.key, b.key), int(b.place)-int(a.place), a.created.Compare(b.created), strings.Compare(a.name, b.name))
	})
	earlier := map[string]int{}
	for _, f := range c.files {
		if f.state != toImport {
			continue
		}
		if f.entries == 0 && (f.place == archived || earlier[f.key] == 0) {
			f.state = placeholder
			p.repair(f.path, repair{What: "holds nothing but its header: a session that was never used"})
			continue
		}
		f.generation = earlier[f.key]
		earlier[f.key]++
		if c.created.IsZero() || !f.created.IsZero() && f.created.Before(c.created) {
			c.created = f.created
		}
	}
	if c.created.IsZero() {
		c.created = time.Unix(0, 0).UTC()
	}
}

// claims refuses two sessions that claim one id or one key, and those whose id or key is taken in the database.
func (p *planner) claims() {
	ids := map[string]string{}
	for _, c := range p.conversations {
		keys := map[string]string{}
		for _, f := range c.files {
			if f.state != toImport {
				continue
			}
			if other, taken := ids[f.id]; taken {
				p.problem(f.path, 0, fmt.Sprintf("and %s both have the session id %s", other, f.id), fixTwice)
			}
			ids[f.id] = f.path
			if f.place == current {
				if other, taken := keys[f.key]; taken {
					p.problem(f.path, 0, fmt.Sprintf("and %s both claim the session %s", other, f.key), fixTwice)
				}
				keys[f.key] = f.path
			}
			p.compare(c, f)
		}
		if c.log != nil {
			p.compareLog(c)
		}
	}
}

// compare holds a session against what the database has.
func (p *planner) compare(c *conversation, f *sessionFile) {
	known, inLedger := p.ledger.File(store.ImportedSession, string(c.key), f.name)
	switch {
	case inLedger && known.Hash == f.hash && known.SessionID == f.id:
		f.state = imported
	case inLedger:
		p.problem(f.path, 0, "was imported already, and has changed since", "put back the file as it was imported, or move it away: the session goes on in the database")
	case p.ledger.Sessions[f.id] != "":
		p.problem(f.path, 0, fmt.Sprintf("has the session id %s, which %s has already", f.id, p.ledger.Sessions[f.id]), "move the file away if it is the same session")
	case f.place == current && p.ledger.Current[store.Address{OfficeKey: string(c.key), SessionKey: f.key}] != "":
		p.problem(f.path, 0, fmt.Sprintf("claims the session %s, which the database has already", f.key), "move the file away, or import into a database in which nobody has talked there yet")
	}
}

func (p *planner) compareLog(c *conversation) {
	known, inLedger := p.ledger.File(store.ImportedLog, string(c.key), logName)
	switch {
	case !inLedger:
	case known.Hash == c.log.hash || c.ledger != nil && c.ledger.Done || p.logKept(c):
		c.log.state = imported // what is there now may be the copy that mikan writes
	default:
		p.problem(c.log.path, 0, "was imported already, and has changed since", "stop mikan 0.5.3 and put back the file as it was imported")
	}
}

// logKept tells whether a conversation's original log was set aside already.
func (p *planner) logKept(c *conversation) bool {
	_, err := os.Lstat(filepath.Join(p.StateDir, conversationsDir, string(c.key), keptLog))
	return err == nil
}

// refusal is what stands in the way; nil when nothing does that may not be skipped.
func (p *planner) refusal() error {
	for _, problem := range p.problems {
		if !problem.Skippable || p.Broken == RefuseBroken {
			return &Refused{Problems: p.problems}
		}
	}
	return nil
}

// totals counts what a plan would do.
func (p *planner) totals() Total {
	t := Total{Repairs: p.repairs, Bytes: p.total}
	for _, c := range p.conversations {
		if c.dirty {
			t.Offices++
		}
		for _, f := range c.files {
			switch f.state {
			case toImport:
				t.Sessions++
				t.Entries += f.entries
			case imported:
				t.Present++
			}
		}
		if c.log != nil && c.log.state == toImport && c.dirty {
			t.Messages += c.log.messages
		}
	}
	for _, e := range p.schedules {
		if e.state == toImport {
			t.Schedules++
		}
	}
	for _, problem := range p.problems {
		if problem.Skippable {
			t.Skipped++
		}
	}
	return t
}
