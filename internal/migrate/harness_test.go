package migrate_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/migrate"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/testenv"
)

// site is an installation on disk and the database that it moves to.
type site struct {
	t                testing.TB
	root, work, home string
	url              string
	s                *store.Store
	events           []migrate.Event
	o                migrate.Options
}

func newSite(t testing.TB) *site {
	t.Helper()
	root := t.TempDir()
	c := &site{t: t, root: root, work: filepath.Join(root, "workspace"), home: filepath.Join(root, "state"), url: testenv.PostgresURL(t)}
	for _, dir := range []string{c.work, c.home} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c.open()
	return c
}

func (c *site) open() {
	c.t.Helper()
	s, err := store.Open(c.t.Context(), c.url)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(s.Close)
	c.s = s
	c.o = migrate.Options{
		Workspace: c.work, StateDir: c.home, Platforms: []office.Platform{office.Slack, office.Telegram}, Command: "mikan migrate --here",
		Store: s, Report: func(e migrate.Event) { c.events = append(c.events, e) },
		Now: func() time.Time { return time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC) },
	}
}

// genuine unpacks what 0.5.3 left on disk.
func genuine(t testing.TB) *site {
	t.Helper()
	c := newSite(t)
	file, err := os.Open("testdata/genuine.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(zipped); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return c
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(c.root, filepath.Clean("/"+head.Name))
		if head.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(at, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(at, head.ModTime, head.ModTime); err != nil {
			t.Fatal(err)
		}
	}
}

// write puts a file below the installation's root, with its directories.
func (c *site) write(name, content string) {
	c.t.Helper()
	at := filepath.Join(c.root, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *site) run() (migrate.Result, error) {
	c.t.Helper()
	c.events = nil
	return migrate.Run(c.t.Context(), c.o)
}

func (c *site) mustRun() migrate.Result {
	c.t.Helper()
	result, err := c.run()
	if err != nil {
		c.t.Fatal(err)
	}
	return result
}

// refused runs an import that must be refused, and checks that it wrote nothing.
func (c *site) refused() []migrate.Problem {
	c.t.Helper()
	files, rows := c.files(), c.dump()
	_, err := c.run()
	var refused *migrate.Refused
	if !errors.As(err, &refused) {
		c.t.Fatalf("not refused: %v", err)
	}
	if got := c.files(); got != files {
		c.t.Errorf("a refused import changed files:\n%s", diff(files, got))
	}
	if got := c.dump(); got != rows {
		c.t.Errorf("a refused import changed the database:\n%s", diff(rows, got))
	}
	for _, p := range refused.Problems {
		if p.Path == "" || p.What == "" || p.Fix == "" {
			c.t.Errorf("a problem lacks its path, reason or fix: %+v", p)
		}
	}
	return refused.Problems
}

// repairs lists what was put right, by the base name of the file.
func (c *site) repairs() []string {
	var all []string
	for _, e := range c.events {
		if e.Step == migrate.StepRepair {
			all = append(all, fmt.Sprintf("%s:%d %s", filepath.Base(e.Path), e.Line, e.Text))
		}
	}
	sort.Strings(all)
	return all
}

// files describes every file of the installation: name, kind, permissions, time and content.
func (c *site) files() string {
	c.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(c.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		sum := ""
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum = fmt.Sprintf("%x", sha256.Sum256(content))
		}
		modified := info.ModTime()
		if e.IsDir() {
			modified = time.Time{}
		}
		fmt.Fprintf(&b, "%s %s %s %s\n", strings.TrimPrefix(path, c.root), info.Mode(), modified, sum)
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return b.String()
}

// dumpSQL lists every row that an import writes, without ids that the database gives and times of the writing.
var dumpSQL = []string{
	`SELECT row_to_json(o)::text FROM offices o ORDER BY key`,
	`SELECT (to_jsonb(s) - 'summary_entry' || jsonb_build_object('summary', (SELECT seq FROM entries WHERE id = s.summary_entry)))::text FROM sessions s ORDER BY id`,
	`SELECT (to_jsonb(e) - 'id')::text FROM entries e ORDER BY session_id, seq`,
	`SELECT (to_jsonb(c) - 'id')::text FROM chat_log c ORDER BY office_key, message_id, revision`,
	`SELECT string_agg(message_id, ' ' ORDER BY id) FROM chat_log GROUP BY office_key ORDER BY office_key`,
	`SELECT row_to_json(r)::text FROM runs r ORDER BY id`,
	`SELECT (to_jsonb(s) - 'updated_at')::text FROM settings s ORDER BY scope, name`,
	`SELECT row_to_json(s)::text FROM schedules s ORDER BY id`,
	`SELECT row_to_json(o)::text FROM import_offices o ORDER BY office_key`,
	`SELECT row_to_json(f)::text FROM import_files f ORDER BY office_key, kind, name`,
	`SELECT (to_jsonb(i) - 'begun_at' - 'finished_at')::text FROM imports i`,
	`SELECT row_to_json(i)::text FROM installation i`,
	`SELECT e.session_id || ' ' || e.seq FROM entry_unsearched u JOIN entries e ON e.id = u.entry_id ORDER BY 1`,
	`SELECT c.office_key || ' ' || c.message_id || ' ' || c.revision FROM chat_unsearched u JOIN chat_log c ON c.id = u.chat_id ORDER BY 1`,
}

// dump describes the whole database; one without a schema is empty.
func (c *site) dump() string {
	c.t.Helper()
	return dumpOf(c.t, c.s)
}

func dumpOf(t testing.TB, s *store.Store) string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	var tables int
	if err := s.Pool().QueryRow(ctx, `SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()`).Scan(&tables); err != nil {
		t.Fatal(err)
	}
	if tables == 0 {
		return "no tables"
	}
	var b strings.Builder
	for _, sql := range dumpSQL {
		rows, err := s.Pool().Query(ctx, sql)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		b.WriteString("-- " + sql + "\n" + strings.Join(lines, "\n") + "\n")
	}
	return b.String()
}

// diff shows the first lines in which two texts differ.
func diff(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out []string
	for i := 0; i < max(len(a), len(b)) && len(out) < 8; i++ {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			out = append(out, "- "+x, "+ "+y)
		}
	}
	return strings.Join(out, "\n")
}

// jsonl joins records into a session file.
func jsonl(records ...map[string]any) string {
	var b strings.Builder
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

type m = map[string]any

const header = `{"type":"session","version":3,"id":"%s","timestamp":"2026-11-01T10:00:00.000Z","cwd":"/srv/work"}` + "\n"

func head(id string) string { return fmt.Sprintf(header, id) }

// user, assistant and result are records as 0.5.3 writes them.
func user(id, parent, said string) m {
	return entry(id, parent, "message", m{"message": m{"role": "user", "content": []any{m{"type": "text", "text": said}}, "timestamp": 1796033707526}})
}

func assistant(id, parent, said string, calls ...string) m {
	content, stop := []any{m{"type": "text", "text": said}}, "stop"
	for _, call := range calls {
		content, stop = append(content, m{"type": "toolCall", "id": call, "name": "bash", "arguments": m{"command": "true"}}), "toolUse"
	}
	return entry(id, parent, "message", m{"message": m{
		"role": "assistant", "content": content, "api": "openai-completions", "provider": "local", "model": "scripted-1", "stopReason": stop,
		"usage": m{"input": 100, "output": 10, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 110, "cost": m{"total": 0.0011}}, "timestamp": 1796033707526,
	}})
}

func result(id, parent, call, said string) m {
	return entry(id, parent, "message", m{"message": m{
		"role": "toolResult", "toolCallId": call, "toolName": "bash", "content": []any{m{"type": "text", "text": said}}, "isError": false, "timestamp": 1796033707526,
	}})
}

func entry(id, parent, kind string, more m) m {
	e := m{"type": kind, "id": id, "parentId": nil, "timestamp": "2026-11-01T10:00:01.000Z"}
	if parent != "" {
		e["parentId"] = parent
	}
	for k, v := range more {
		e[k] = v
	}
	return e
}

// said lists what a session's context says, one line an entry.
func (c *site) said(sessionID string) []string {
	c.t.Helper()
	loaded, err := c.s.Context(c.t.Context(), sessionID)
	if err != nil {
		c.t.Fatal(err)
	}
	var lines []string
	if loaded.Summary != "" {
		lines = append(lines, "summary "+loaded.Summary)
	}
	for _, e := range loaded.Entries {
		lines = append(lines, string(e.Kind)+" "+e.Body.Text())
	}
	return lines
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func at(moment string) time.Time {
	parsed, err := time.Parse(time.RFC3339, moment)
	if err != nil {
		panic(err)
	}
	return parsed
}

func (c *site) remove(name string) {
	c.t.Helper()
	if err := os.RemoveAll(filepath.Join(c.root, name)); err != nil {
		c.t.Fatal(err)
	}
}

func textBlock(said string) []llm.Block {
	return []llm.Block{{Kind: llm.BlockText, Text: said}}
}
