package migrate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/store"
)

// importOffice moves one conversation over. Each step may find itself done by an earlier run.
func (p *planner) importOffice(ctx context.Context, c *conversation, done *atomic.Int64) error {
	if c.ledger != nil && c.ledger.Done && c.sessions == "" {
		return nil // only a schedule is new
	}
	if err := p.Store.BeginOffice(ctx, store.ImportOffice{
		Office: store.Office{
			Key: string(c.key), Platform: string(c.address.Platform), ConversationID: c.address.ConversationID,
			Audience: c.audience, CreatedAt: c.created,
		},
		Source: p.source(), Directory: c.directory,
	}); err != nil {
		return err
	}
	if err := p.rename(c); err != nil {
		return err
	}
	// What the chat log says about the sessions is needed to import them, and again to verify them.
	log, err := p.knowLog(ctx, c)
	if err != nil {
		return err
	}
	if err := p.importSettings(ctx, c); err != nil {
		return err
	}
	if err := p.importSessions(ctx, c, log, done); err != nil {
		return err
	}
	if err := p.linkSessions(ctx, c); err != nil {
		return err
	}
	// The log comes after the sessions: only then is it known which runs its answers came from.
	if err := p.importLog(ctx, c, log, done); err != nil {
		return err
	}
	if err := p.verify(ctx, c, log); err != nil {
		return err
	}
	if err := p.Store.OfficeVerified(ctx, string(c.key)); err != nil {
		return err
	}
	if err := p.setAside(c); err != nil {
		return err
	}
	if err := p.Store.OfficeDone(ctx, string(c.key)); err != nil {
		return err
	}
	p.Report(Event{Step: StepOffice, Office: string(c.key), Path: c.directory})
	return nil
}

// knownLog is what a conversation's chat log says about its sessions.
type knownLog struct {
	represented *represented
	revisions   *revisions
	sent        map[string]time.Time // of the messages that sessions were synced up to
	// causes are the messages that answers name as their cause, by session key; runs are the runs that they caused.
	causes map[string]map[string]bool
	mu     sync.Mutex
	runs   map[string]string // by session key and cause
}

// knowLog reads the log once for what the sessions need of it.
func (p *planner) knowLog(ctx context.Context, c *conversation) (*knownLog, error) {
	k := &knownLog{represented: newRepresented(), revisions: newRevisions(), sent: map[string]time.Time{},
		causes: map[string]map[string]bool{}, runs: map[string]string{}}
	if c.log == nil || c.log.state == imported && c.verified() {
		return k, nil
	}
	threads := map[string]bool{}
	for _, f := range c.files {
		if suffix := suffixOf(f.key); suffix != "" {
			threads[suffix] = true
		}
	}
	file, _, err := openRegular(c.log.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	reader := logReader{address: c.address, key: c.key}
	log, err := reader.read(ctx, file, func(m store.ChatMessage) error {
		if !k.revisions.take(&m) {
			return nil
		}
		k.represented.add(m, threads)
		k.sent[m.MessageID] = m.SentAt
		if m.CauseMessageID != "" {
			if k.causes[m.SessionKey] == nil {
				k.causes[m.SessionKey] = map[string]bool{}
			}
			k.causes[m.SessionKey][m.CauseMessageID] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if log.hash != c.log.hash {
		return nil, errChanged
	}
	k.revisions.finish()
	return k, nil
}

func suffixOf(key string) string {
	parsed, err := session.ParseKey(key)
	if err != nil {
		return ""
	}
	suffix, _ := parsed.Suffix()
	return suffix
}

func (p *planner) importSettings(ctx context.Context, c *conversation) error {
	if c.settings == nil || c.settings.state != toImport {
		return nil
	}
	file := store.ImportFile{OfficeKey: string(c.key), Kind: store.ImportedSettings, Name: settingsName, Hash: c.settings.hash, Records: int64(len(c.settings.values))}
	if err := p.Store.ImportSettings(ctx, file, string(c.key), c.settings.values); err != nil {
		return err
	}
	p.Report(Event{Step: StepSetting, Office: string(c.key), Path: c.settings.path})
	return nil
}

// importSessions imports a conversation's sessions. Their order does not matter.
func (p *planner) importSessions(ctx context.Context, c *conversation, log *knownLog, done *atomic.Int64) error {
	return p.each(ctx, c, func(ctx context.Context, i int, f *sessionFile) error {
		if f.state == toImport {
			if err := p.importSession(ctx, c, f, c.next(i), log); err != nil {
				return fmt.Errorf("%s: %w", f.path, err)
			}
		}
		done.Add(f.size)
		return nil
	})
}

// next is the generation of a session key that followed a file's; nil for the newest.
func (c *conversation) next(i int) *sessionFile {
	for _, f := range c.files[i+1:] {
		if f.key == c.files[i].key && (f.state == toImport || f.state == imported) {
			return f
		}
	}
	return nil
}

// opened is a session file that is ready to be handed out.
type opened struct {
	*index
	file *os.File
}

func (p *planner) open(ctx context.Context, f *sessionFile, log *knownLog) (*opened, error) {
	file, _, err := openRegular(f.path)
	if err != nil {
		return nil, err
	}
	x, err := readIndex(ctx, file, nil)
	if err == nil && x.hash != f.hash {
		err = errChanged
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	how := ofNewest
	if len(log.causes[f.key]) > 0 {
		how = ofAll
	}
	x.include(how)
	return &opened{index: x, file: file}, nil
}

func (p *planner) importSession(ctx context.Context, c *conversation, f *sessionFile, next *sessionFile, log *knownLog) error {
	x, err := p.open(ctx, f, log)
	if err != nil {
		return err
	}
	defer func() { _ = x.file.Close() }()
	numbers := x.number()
	created := x.header.Timestamp
	if created.IsZero() {
		created = c.created
	}
	s := store.Session{
		ID: x.header.ID, OfficeKey: string(c.key), SessionKey: f.key, Title: oneLine(x.name), WindowSeq: numbers.window,
		SyncFloor: x.floor(f, log), CreatedAt: created, UpdatedAt: created,
	}
	if f.place == archived || next != nil {
		at := created
		if next != nil && next.created.After(created) {
			at = next.created
		}
		s.ArchivedAt = &at
	}
	file := store.ImportFile{OfficeKey: string(c.key), Kind: store.ImportedSession, Name: f.name, Hash: f.hash, SessionID: x.header.ID, Records: int64(len(x.nodes))}
	failpoint.Hit("import_session.before")
	err = p.Store.ImportSession(ctx, file, s, numbers.summary, func(w *store.SessionImport) error {
		runs := p.collector(c, f, log, w)
		err := x.emit(ctx, x.file, log.represented.of(suffixOf(f.key)), withLeftover, func(e emitted) error {
			if err := runs.entry(e); err != nil {
				return err
			}
			return w.Put(ctx, e.Entry)
		})
		if err != nil {
			return err
		}
		return runs.end()
	})
	if err != nil {
		return err
	}
	p.Report(Event{Step: StepSession, Office: string(c.key), Path: f.path, Session: x.header.ID, Key: f.key, Entries: numbers.total})
	return nil
}

// collector makes the session's runs, and remembers those that answers of the log came from.
func (p *planner) collector(c *conversation, f *sessionFile, log *knownLog, w *store.SessionImport) *runsOf {
	return &runsOf{
		office: string(c.key), key: f.key, session: f.id, causes: log.causes[f.key],
		each: func(r store.Run) error {
			if log.causes[f.key][r.TriggerMessageID] {
				log.mu.Lock()
				log.runs[f.key+"\x00"+r.TriggerMessageID] = r.ID
				log.mu.Unlock()
			}
			w.Run(r)
			return nil
		},
	}
}

// floor is the moment up to which the chat log is never copied into a session again: where 0.5.3 had stopped, or the
// reset that the session began with.
func (x *index) floor(f *sessionFile, log *knownLog) *time.Time {
	at := time.Time{}
	switch {
	case x.reset >= 0 && !x.floors[x.reset].IsZero():
		at = x.floors[x.reset]
	case x.cursor.Message != "":
		if at = log.sent[x.cursor.Message]; at.IsZero() {
			at = x.cursor.At
		}
	case f.generation > 0:
		at = x.header.Timestamp
	}
	if at.IsZero() || f.place == archived {
		return nil
	}
	return &at
}

// importLog imports a conversation's chat log.
func (p *planner) importLog(ctx context.Context, c *conversation, known *knownLog, done *atomic.Int64) error {
	if c.log == nil {
		return nil
	}
	if c.log.state != toImport {
		done.Add(c.log.size)
		return nil
	}
	if err := p.knowRuns(ctx, c, known); err != nil {
		return err
	}
	file, _, err := openRegular(c.log.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	entry := store.ImportFile{OfficeKey: string(c.key), Kind: store.ImportedLog, Name: logName, Hash: c.log.hash, Records: c.log.lines}
	failpoint.Hit("import_log.before")
	err = p.Store.ImportLog(ctx, entry, func(put func(store.LoggedMessage) error) error {
		reader := logReader{address: c.address, key: c.key}
		log, err := reader.read(ctx, file, func(m store.ChatMessage) error {
			if !known.revisions.take(&m) {
				return nil
			}
			if m.CauseMessageID != "" {
				m.RunID = known.runs[m.SessionKey+"\x00"+m.CauseMessageID]
			}
			return put(store.LoggedMessage{ChatMessage: m, Newest: known.revisions.newest(m)})
		})
		if err == nil && log.hash != c.log.hash {
			err = errChanged
		}
		return err
	})
	if err != nil {
		return err
	}
	done.Add(c.log.size)
	p.Report(Event{Step: StepLog, Office: string(c.key), Path: c.log.path, Entries: c.log.messages})
	return nil
}

// knowRuns finds the runs of sessions that an earlier run of the import wrote.
func (p *planner) knowRuns(ctx context.Context, c *conversation, known *knownLog) error {
	if len(known.causes) == 0 {
		return nil
	}
	return p.Store.ImportedRuns(ctx, string(c.key), func(sessionKey, trigger, runID string) {
		if known.causes[sessionKey][trigger] {
			known.runs[sessionKey+"\x00"+trigger] = runID
		}
	})
}

// linkSessions makes forks of the sessions whose headers name another session of the conversation.
func (p *planner) linkSessions(ctx context.Context, c *conversation) error {
	byName := map[string]*sessionFile{}
	for _, f := range c.files {
		if f.state == toImport || f.state == imported {
			byName[filepath.Base(f.name)] = f
		}
	}
	for _, f := range c.files {
		parent := byName[f.parent]
		if f.parent == "" || parent == nil || f.id == "" || circular(f, byName) {
			continue
		}
		seq, err := p.Store.LastEntryAt(ctx, parent.id, f.created)
		if err != nil {
			return err
		}
		if seq == 0 {
			continue
		}
		if err := p.Store.LinkImported(ctx, f.id, parent.id, seq); err != nil {
			return err
		}
	}
	return nil
}

// circular tells whether a session is among its own ancestors.
func circular(f *sessionFile, byName map[string]*sessionFile) bool {
	seen := map[*sessionFile]bool{}
	for at := f; at != nil; at = byName[at.parent] {
		if seen[at] {
			return true
		}
		seen[at] = true
	}
	return false
}
