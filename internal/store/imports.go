package store

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/text"
)

// ImportKind tells what an imported file holds.
type ImportKind string

// The kinds of imported file.
const (
	ImportedSession  ImportKind = "session"
	ImportedLog      ImportKind = "log"
	ImportedSettings ImportKind = "settings"
	ImportedSchedule ImportKind = "schedule"
)

// ImportFile is a file that was imported.
type ImportFile struct {
	OfficeKey string
	Kind      ImportKind
	Name      string
	Hash      [32]byte
	SessionID string // session files only
	Records   int64
}

// ImportOffice is a conversation whose move was begun.
type ImportOffice struct {
	Office    Office
	Source    string
	Directory string
	Verified  bool
	Done      bool
}

// ImportLedger is what earlier runs of the import did.
type ImportLedger struct {
	Begun    bool // an import of this source was begun and not finished
	Finished bool // one was finished
	Offices  map[string]ImportOffice
	Files    map[ImportKind]map[string]ImportFile // by kind, and office key and name with a slash between
	// Known are the offices that the database has, imported or not, and Sessions the ids and keys of their sessions.
	Known    map[string]Office
	Sessions map[string]string // session id to office key
	Current  map[Address]string
}

// File finds a file in the ledger.
func (l ImportLedger) File(kind ImportKind, officeKey, name string) (ImportFile, bool) {
	f, ok := l.Files[kind][officeKey+"/"+name]
	return f, ok
}

// ReadImportLedger reads the ledger, and what else in the database an import could meet. A database without these
// tables has an empty one: nothing was ever imported into it.
func (s *Store) ReadImportLedger(ctx context.Context, source string) (ImportLedger, error) {
	l := ImportLedger{
		Offices: map[string]ImportOffice{}, Files: map[ImportKind]map[string]ImportFile{},
		Known: map[string]Office{}, Sessions: map[string]string{}, Current: map[Address]string{},
	}
	var offices, ledger bool
	if err := s.pool.QueryRow(ctx, `SELECT to_regclass('sessions') IS NOT NULL, to_regclass('import_files') IS NOT NULL`).Scan(&offices, &ledger); err != nil {
		return l, translate(err)
	}
	if offices {
		if err := s.readKnown(ctx, &l); err != nil {
			return l, translate(err)
		}
	}
	if !ledger {
		return l, nil
	}
	return l, translate(s.readLedger(ctx, source, &l))
}

func (s *Store) readKnown(ctx context.Context, l *ImportLedger) error {
	rows, err := s.pool.Query(ctx, `SELECT `+officeColumns+` FROM offices`)
	if err != nil {
		return err
	}
	known, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Office, error) { return scanOffice(row) })
	if err != nil {
		return err
	}
	for _, o := range known {
		l.Known[o.Key] = o
	}
	rows, err = s.pool.Query(ctx, `SELECT id, office_key, session_key, archived_at IS NULL FROM sessions`)
	if err != nil {
		return err
	}
	var id, officeKey, key string
	var current bool
	_, err = pgx.ForEachRow(rows, []any{&id, &officeKey, &key, &current}, func() error {
		l.Sessions[id] = officeKey
		if current {
			l.Current[Address{officeKey, key}] = id
		}
		return nil
	})
	return err
}

func (s *Store) readLedger(ctx context.Context, source string, l *ImportLedger) error {
	err := s.pool.QueryRow(ctx, `
		SELECT coalesce(bool_or(state = 'begun'), false), coalesce(bool_or(state = 'done'), false) FROM imports WHERE source = $1`, source).
		Scan(&l.Begun, &l.Finished)
	if err != nil {
		return err
	}
	rows, err := s.pool.Query(ctx, `SELECT office_key, source, directory, verified, done FROM import_offices`)
	if err != nil {
		return err
	}
	var o ImportOffice
	_, err = pgx.ForEachRow(rows, []any{&o.Office.Key, &o.Source, &o.Directory, &o.Verified, &o.Done}, func() error {
		known := o
		known.Office = l.Known[o.Office.Key]
		l.Offices[o.Office.Key] = known
		return nil
	})
	if err != nil {
		return err
	}
	rows, err = s.pool.Query(ctx, `SELECT office_key, kind, name, hash, coalesce(session_id, ''), records FROM import_files`)
	if err != nil {
		return err
	}
	var f ImportFile
	var hash []byte
	_, err = pgx.ForEachRow(rows, []any{&f.OfficeKey, &f.Kind, &f.Name, &hash, &f.SessionID, &f.Records}, func() error {
		copy(f.Hash[:], hash)
		if l.Files[f.Kind] == nil {
			l.Files[f.Kind] = map[string]ImportFile{}
		}
		l.Files[f.Kind][f.OfficeKey+"/"+f.Name] = f
		return nil
	})
	return err
}

// importLock serialises imports into one database.
const importLock = 7_230_053

// LockImport lets one import at a time work on this database, until release is called or the process ends. When another
// one is at work, waiting is called once before it waits.
func (s *Store) LockImport(ctx context.Context, waiting func()) (release func(), err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, translate(err)
	}
	var got bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, importLock).Scan(&got); err != nil {
		conn.Release()
		return nil, translate(err)
	}
	if !got {
		waiting()
		if _, err := conn.Exec(ctx, `SET statement_timeout = 0`); err != nil {
			conn.Release()
			return nil, translate(err)
		}
		if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, importLock); err != nil {
			_ = conn.Hijack().Close(context.WithoutCancel(ctx))
			return nil, translate(err)
		}
	}
	// The lock is the connection's: closing it is what releases it, whatever state it is in.
	raw := conn.Hijack()
	return func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = raw.Close(closing)
	}, nil
}

// BeginImport notes, before anything else is written, that an import goes on: until FinishImport, gateway and worker
// refuse to start and name the command.
func (s *Store) BeginImport(ctx context.Context, source, command string) error {
	return s.tx(ctx, "import_begin", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO imports (source, command, state) VALUES ($1, $2, 'begun')
			ON CONFLICT (source) DO UPDATE SET command = excluded.command, state = 'begun', finished_at = NULL`, source, command)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE installation SET import_state = 'begun'`)
		return err
	})
}

// FinishImport notes that nothing of an import is left to do.
func (s *Store) FinishImport(ctx context.Context, source string) error {
	return s.tx(ctx, "import_finish", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE imports SET state = 'done', finished_at = clock_timestamp() WHERE source = $1`, source); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			UPDATE installation SET import_state = CASE WHEN EXISTS (SELECT 1 FROM imports WHERE state = 'begun') THEN 'begun' ELSE 'done' END`)
		return err
	})
}

// BeginOffice makes an imported conversation's office and notes what its directory was called, before that is renamed.
func (s *Store) BeginOffice(ctx context.Context, o ImportOffice) error {
	return s.tx(ctx, "import_office", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO offices (key, platform, conversation_id, audience, name, created_at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (key) DO NOTHING`, o.Office.Key, o.Office.Platform, o.Office.ConversationID, o.Office.Audience, o.Office.Name, o.Office.CreatedAt)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO import_offices (office_key, source, directory) VALUES ($1, $2, $3)
			ON CONFLICT (office_key) DO NOTHING`, o.Office.Key, o.Source, o.Directory)
		return err
	})
}

// OfficeVerified notes that an office's import was found whole. It waits for the disk, and with it everything before.
func (s *Store) OfficeVerified(ctx context.Context, officeKey string) error {
	return s.tx(ctx, "import_verified", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE import_offices SET verified = true WHERE office_key = $1`, officeKey)
		return err
	})
}

// OfficeDone notes that nothing of an office is left to do.
func (s *Store) OfficeDone(ctx context.Context, officeKey string) error {
	return s.tx(ctx, "import_office_done", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE import_offices SET done = true WHERE office_key = $1`, officeKey)
		return err
	})
}

// SessionImport writes one session in one transaction.
type SessionImport struct {
	tx      pgx.Tx
	session Session
	entries []Entry
	size    int
	runs    []Run
}

// The batches by which entries are copied: a statement must not hold a whole file.
const (
	importBatch     = 2000
	importBatchSize = 8 << 20 // bytes of bodies
)

// ImportSession writes a session as a whole or not at all: write puts its entries and runs in. Session.NextSeq is set by
// what was put; summarySeq is the position of the compaction that its context begins with, or 0.
func (s *Store) ImportSession(ctx context.Context, file ImportFile, session Session, summarySeq int64, write func(*SessionImport) error) error {
	// What a crash of the database takes back is imported again: nothing outside it was changed for it yet.
	return s.txUnforced(ctx, "import_session", func(tx pgx.Tx) error {
		if err := importSettings(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO sessions (id, office_key, session_key, title, window_session, window_seq, sync_floor, archived_at, created_at, updated_at)
			VALUES ($1, $2, $3, $4, $1, $5, $6, $7, $8, $9)`,
			session.ID, session.OfficeKey, session.SessionKey, text.Storable(session.Title), session.WindowSeq, session.SyncFloor,
			session.ArchivedAt, session.CreatedAt, session.UpdatedAt)
		if err != nil {
			return err
		}
		w := &SessionImport{tx: tx, session: session}
		if err := write(w); err != nil {
			return err
		}
		if err := w.flush(ctx); err != nil {
			return err
		}
		if err := w.copyRuns(ctx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE sessions SET next_seq = $2, updated_at = $4,
				summary_entry = (SELECT id FROM entries WHERE session_id = $1 AND seq = nullif($3::bigint, 0))
			WHERE id = $1`, session.ID, w.session.NextSeq+1, summarySeq, w.session.UpdatedAt)
		if err != nil {
			return err
		}
		return noteFile(ctx, tx, file)
	})
}

func importSettings(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`)
	return err
}

func noteFile(ctx context.Context, tx pgx.Tx, f ImportFile) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO import_files (office_key, kind, name, hash, session_id, records) VALUES ($1, $2, $3, $4, nullif($5, ''), $6)`,
		f.OfficeKey, f.Kind, f.Name, f.Hash[:], f.SessionID, f.Records)
	return err
}

// Put adds an entry with its position, time and mark.
func (w *SessionImport) Put(ctx context.Context, e Entry) error {
	w.entries = append(w.entries, e)
	w.session.NextSeq = e.Seq
	if e.At.After(w.session.UpdatedAt) {
		w.session.UpdatedAt = e.At
	}
	w.size += len(e.Body.Raw) + len(e.Body.Summary) + len(e.Body.Note)
	for _, b := range e.Body.Blocks {
		w.size += len(b.Text) + len(b.Arguments) + len(b.Data) + len(b.Opaque)
		for _, image := range b.Images {
			w.size += len(image.Data)
		}
	}
	if len(w.entries) < importBatch && w.size < importBatchSize {
		return nil
	}
	return w.flush(ctx)
}

func (w *SessionImport) flush(ctx context.Context) error {
	if len(w.entries) == 0 {
		return nil
	}
	_, err := w.tx.CopyFrom(ctx, pgx.Identifier{"entries"},
		[]string{"session_id", "seq", "kind", "message_id", "body", "tokens", "in_context", "at"},
		pgx.CopyFromSlice(len(w.entries), func(i int) ([]any, error) {
			e := w.entries[i]
			body, err := marshalBody(e.Body)
			if err != nil {
				return nil, err
			}
			var messageID any
			if e.MessageID != "" {
				messageID = e.MessageID
			}
			return []any{w.session.ID, e.Seq, string(e.Kind), messageID, json.RawMessage(body), e.Tokens, e.InContext, e.At}, nil
		}))
	clear(w.entries)
	w.entries, w.size = w.entries[:0], 0
	return err
}

// Run adds a run that the session's entries tell of. It is settled.
func (w *SessionImport) Run(r Run) { w.runs = append(w.runs, r) }

func (w *SessionImport) copyRuns(ctx context.Context) error {
	_, err := w.tx.CopyFrom(ctx, pgx.Identifier{"runs"}, []string{
		"id", "office_key", "session_key", "session_id", "epoch", "trigger", "trigger_message_id", "attempt", "workflow_id",
		"origin_run_id", "temporal_run_id", "state", "outcome", "model", "first_seq", "last_seq", "steps", "input_tokens",
		"output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_micros", "received_at", "started_at", "settled_at", "checked_at",
	}, pgx.CopyFromSlice(len(w.runs), func(i int) ([]any, error) {
		r := w.runs[i]
		return []any{
			r.ID, r.OfficeKey, r.SessionKey, r.SessionID, 0, string(r.Trigger), r.TriggerMessageID, r.Attempt, r.WorkflowID,
			"", "", string(Settled), string(r.Outcome), r.Model, r.FirstSeq, r.LastSeq, r.Steps, r.Usage.Input,
			r.Usage.Output, r.Usage.CacheRead, r.Usage.CacheWrite, r.CostMicros, r.ReceivedAt, r.StartedAt, *r.SettledAt, *r.SettledAt,
		}, nil
	}))
	return err
}

// LinkImported makes one imported session the fork of another. Its entries hold what it inherited.
func (s *Store) LinkImported(ctx context.Context, sessionID, parentID string, forkSeq int64) error {
	return s.tx(ctx, "import_link", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE sessions SET parent_id = $2, fork_seq = $3, whole = true WHERE id = $1`, sessionID, parentID, forkSeq)
		return err
	})
}

// LastEntryAt is the position of a session's last entry up to a moment; 0 when there is none.
func (s *Store) LastEntryAt(ctx context.Context, sessionID string, at time.Time) (seq int64, err error) {
	err = s.pool.QueryRow(ctx, `SELECT coalesce(max(seq), 0) FROM entries WHERE session_id = $1 AND at <= $2`, sessionID, at).Scan(&seq)
	return seq, translate(err)
}

// LoggedMessage is a message of an imported chat log.
type LoggedMessage struct {
	ChatMessage
	Newest bool
}

// ImportLog writes a chat log as a whole or not at all; messages that the office has already stay as they are.
func (s *Store) ImportLog(ctx context.Context, file ImportFile, each func(put func(LoggedMessage) error) error) error {
	return s.txUnforced(ctx, "import_log", func(tx pgx.Tx) error {
		if err := importSettings(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TEMP TABLE import_lines (LIKE chat_log) ON COMMIT DROP;
			ALTER TABLE import_lines ALTER COLUMN id SET NOT NULL`); err != nil {
			return err
		}
		var batch []LoggedMessage
		var line int64
		flush := func() error {
			err := copyMessages(ctx, tx, batch, &line)
			clear(batch)
			batch = batch[:0]
			return err
		}
		err := each(func(m LoggedMessage) error {
			if batch = append(batch, m); len(batch) < importBatch {
				return nil
			}
			return flush()
		})
		if err != nil {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
		return noteFile(ctx, tx, file)
	})
}

func copyMessages(ctx context.Context, tx pgx.Tx, batch []LoggedMessage, line *int64) error {
	if len(batch) == 0 {
		return nil
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"import_lines"}, []string{
		"id", "office_key", "message_id", "revision", "newest", "session_key", "thread_id", "reply_to", "author_id", "author_name",
		"author_kind", "kind", "text", "attachments", "deleted", "cause_message_id", "run_id", "sent_at", "recorded_at",
	}, pgx.CopyFromSlice(len(batch), func(i int) ([]any, error) {
		m := batch[i]
		*line++
		if m.Attachments == nil {
			m.Attachments = []Attachment{}
		}
		return []any{
			*line, m.OfficeKey, m.MessageID, m.Revision, m.Newest, m.SessionKey, m.ThreadID, m.ReplyTo, m.AuthorID, m.AuthorName,
			string(m.AuthorKind), string(m.Kind), text.Storable(m.Text), m.Attachments, false, null(m.CauseMessageID), null(m.RunID), m.SentAt, m.SentAt,
		}, nil
	}))
	if err != nil {
		return err
	}
	columns := `office_key, message_id, revision, newest, session_key, thread_id, reply_to, author_id, author_name, author_kind,
		kind, text, attachments, deleted, cause_message_id, run_id, sent_at, recorded_at`
	_, err = tx.Exec(ctx, `
		INSERT INTO chat_log (`+columns+`) SELECT `+columns+` FROM import_lines ORDER BY id ON CONFLICT DO NOTHING;
		TRUNCATE import_lines`)
	return err
}

func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// ImportSettings sets what an office, or the installation, has not set yet.
func (s *Store) ImportSettings(ctx context.Context, file ImportFile, scope string, values map[string]any) error {
	return s.tx(ctx, "import_settings", func(tx pgx.Tx) error {
		for name, value := range values {
			raw, err := json.Marshal(value)
			if err != nil {
				return fault.Wrap(fault.Invalid, err, "the value of %s cannot be stored", name)
			}
			if _, err := tx.Exec(ctx, `INSERT INTO settings (scope, name, value) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, scope, name, raw); err != nil {
				return err
			}
		}
		return noteFile(ctx, tx, file)
	})
}

// InitSetting sets what is not set yet.
func (s *Store) InitSetting(ctx context.Context, scope, name string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "the value of %s cannot be stored", name)
	}
	_, err = s.exec(ctx, "import_setting", `INSERT INTO settings (scope, name, value) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, scope, name, raw)
	return translate(err)
}

// ImportedRuns tells of an office's runs that have a message as their cause.
func (s *Store) ImportedRuns(ctx context.Context, officeKey string, each func(sessionKey, trigger, runID string)) error {
	rows, err := s.pool.Query(ctx, `
		SELECT session_key, trigger_message_id, id FROM runs WHERE office_key = $1 AND NOT starts_with(trigger_message_id, 'import/')`, officeKey)
	if err != nil {
		return translate(err)
	}
	var sessionKey, trigger, id string
	_, err = pgx.ForEachRow(rows, []any{&sessionKey, &trigger, &id}, func() error {
		each(sessionKey, trigger, id)
		return nil
	})
	return translate(err)
}

// SessionByID finds a session; not_found when there is none.
func (s *Store) SessionByID(ctx context.Context, id string) (Session, error) {
	return sessionByID(ctx, s.pool, id)
}

// entryPage is how many entries one statement of EachEntry reads: few enough for the time that a statement may take, whatever
// the reader does between two of them.
const entryPage = 500

// EachEntry reads the entries that a session owns, in order, without holding more than one.
func (s *Store) EachEntry(ctx context.Context, sessionID string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for after, more := int64(0), true; more; {
			rows, err := s.pool.Query(ctx, `SELECT `+entryColumns+` FROM entries WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`,
				sessionID, after, entryPage)
			if err != nil {
				yield(Entry{}, translate(err))
				return
			}
			if after, more, err = yieldRows(rows, yield); err != nil {
				yield(Entry{}, translate(err))
				return
			}
		}
	}
}

// yieldRows hands out a page. It tells where it ended, and false when there is no further page or nobody wants one.
func yieldRows(rows pgx.Rows, yield func(Entry, error) bool) (last int64, more bool, err error) {
	defer rows.Close()
	n := 0
	for rows.Next() {
		e, err := scanEntry(rows)
		if err != nil {
			return 0, false, err
		}
		if !yield(e, nil) {
			return 0, false, nil
		}
		last, n = e.Seq, n+1
	}
	return last, n == entryPage, rows.Err()
}

// unfinishedImports names the commands that go on with imports that were begun.
func unfinishedImports(ctx context.Context, q querier) (string, error) {
	rows, err := q.Query(ctx, `SELECT command FROM imports WHERE state = 'begun' ORDER BY source`)
	if err != nil {
		return "", err
	}
	commands, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(commands) == 0 {
		err = errors.New("an import was begun, and no table says which")
	}
	return strings.Join(commands, "; and: "), err
}

// InheritedContext is what a fork's context was when it began: what its parent's was at the fork.
func (s *Store) InheritedContext(ctx context.Context, fork Session) (Context, error) {
	start, err := windowAt(ctx, s.pool, fork.ParentID, fork.ForkSeq)
	if err != nil {
		return Context{}, translate(err)
	}
	c := Context{Session: fork}
	if start.Summary != 0 {
		if err := s.pool.QueryRow(ctx, `SELECT coalesce(body->>'summary', '') FROM entries WHERE id = $1`, start.Summary).Scan(&c.Summary); err != nil {
			return Context{}, translate(err)
		}
	}
	rows, err := s.pool.Query(ctx, `
		WITH RECURSIVE chain AS (
			SELECT id, parent_id, fork_seq, $2::bigint AS last_seq, 0 AS depth FROM sessions WHERE id = $1
		  UNION ALL
			SELECT p.id, p.parent_id, p.fork_seq, c.fork_seq, c.depth + 1
			FROM chain c JOIN sessions p ON p.id = c.parent_id WHERE c.id <> $3
		)
		SELECT e.id, e.session_id, e.seq, e.kind, coalesce(e.run_id, ''), coalesce(e.slot, ''), coalesce(e.message_id, ''), e.body, e.tokens, e.in_context, e.at
		FROM chain c JOIN entries e ON e.session_id = c.id AND e.seq <= c.last_seq AND (c.id <> $3 OR e.seq >= $4)
		WHERE e.in_context AND e.kind IN ('prompt', 'chat', 'assistant', 'tool_result')
		ORDER BY c.depth DESC, e.seq`, fork.ParentID, fork.ForkSeq, start.Session, start.Seq)
	c.Entries, err = collect(rows, err, scanEntry)
	return c, err
}
