package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/migrate"
	"github.com/geminixiang/mikan/internal/testenv"
)

const migratedSession = `{"type":"session","version":3,"id":"0197-session","timestamp":"2026-11-01T10:00:00.000Z","cwd":"/srv/w"}
{"type":"message","id":"a","parentId":null,"timestamp":"2026-11-01T10:00:01.000Z","message":{"role":"user","content":"hello"}}
`

// TestAnOperatorMovesAnInstallationOver runs in order: the process's environment names the database.
func TestAnOperatorMovesAnInstallationOver(t *testing.T) {
	root := t.TempDir()
	state, workspace := filepath.Join(root, "state"), filepath.Join(root, "work space")
	t.Setenv("MIKAN_DATABASE_URL", testenv.PostgresURL(t))
	t.Setenv("MIKAN_WORKSPACE", workspace)
	t.Setenv("SLACK_BOT_TOKEN", "xoxb-1")
	t.Setenv("SLACK_APP_TOKEN", "xapp-1")
	write := func(name, content string) {
		t.Helper()
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("state/settings.json", "{}")
	write("work space/C1/sessions/1.1.jsonl", migratedSession)
	write("work space/general/log.jsonl", "")
	run := func(more ...string) (string, int) {
		t.Helper()
		return mikan(t, append([]string{"migrate", "--state-dir", state, "--workspace", workspace}, more...)...)
	}
	if _, code := run("--owner", "nonsense"); code != 2 {
		t.Errorf("a bad --owner exits with %d", code)
	}
	if _, code := mikan(t, "migrate", "--state-dir", filepath.Join(root, "nowhere")); code != 2 {
		t.Errorf("a missing state directory exits with %d", code)
	}
	if out, code := run("--dry-run"); code != 3 || !strings.Contains(out, "work space/general: belongs to no platform whose tokens are set (say whose it is with --owner general=<platform>") {
		t.Errorf("%d: %s", code, out)
	}
	if err := os.RemoveAll(filepath.Join(workspace, "general")); err != nil {
		t.Fatal(err)
	}
	write("work space/C1/sessions/1.2.jsonl", "nonsense\n")
	if _, code := run(); code != 3 {
		t.Errorf("a broken file exits with %d", code)
	}
	if out, code := run("--skip-broken", "--json"); code != 4 || steps(t, out) != "progress problem plan schema session office progress done" {
		t.Errorf("%d: %s", code, steps(t, out))
	}
	if out, code := run(); code != 0 {
		t.Errorf("again: %d: %s", code, out)
	}
	out, code := mikan(t, "session", "export", "0197-session")
	if code != 0 || !strings.Contains(out, `"version":3`) || !strings.Contains(out, `"hello"`) {
		t.Errorf("%d: %s", code, out)
	}
	file := filepath.Join(root, "out.jsonl")
	if _, code := mikan(t, "session", "export", "0197-session", "--to", file); code != 0 {
		t.Errorf("export to a file exits with %d", code)
	}
	if written, err := os.ReadFile(file); err != nil || string(written) != out {
		t.Errorf("%v: %s", err, written)
	}
	if out, code := mikan(t, "schedule", "list", "--json"); code != 0 || strings.TrimSpace(out) != "[]" {
		t.Errorf("%d: %s", code, out)
	}
}

// steps names the steps of a --json run in order, each progress once.
func steps(t *testing.T, out string) string {
	t.Helper()
	var names []string
	for line := range strings.Lines(out) {
		var e migrate.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if n := len(names); n == 0 || names[n-1] != string(e.Step) {
			names = append(names, string(e.Step))
		}
	}
	return strings.Join(names, " ")
}

func TestTheCommandThatGoesOnCanBePasted(t *testing.T) {
	t.Parallel()
	got := migrateCommandLine(migrateFlags{owners: []string{"a b=slack"}, skipBroken: true}, migrate.Options{Workspace: "/srv/my work", StateDir: "/srv/it's"})
	want := `mikan migrate --workspace '/srv/my work' --state-dir '/srv/it'\''s' --owner 'a b=slack' --skip-broken`
	if got != want {
		t.Errorf("%s", got)
	}
}
