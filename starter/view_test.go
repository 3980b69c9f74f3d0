package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/testenv"
)

// mikan runs one command line and tells what it printed and its exit code.
func mikan(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	root := newRoot()
	var printed bytes.Buffer
	root.SetOut(&printed)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	var usage usageError
	if errors.As(err, &usage) {
		return printed.String(), exitUsage
	}
	var exit *exitError
	if errors.As(err, &exit) {
		return printed.String(), exit.code
	}
	return printed.String(), fault.ExitCode(fault.CodeOf(err))
}

// TestOperatorsSeeSessionsAndOffices runs in order: the process's environment names the database.
func TestOperatorsSeeSessionsAndOffices(t *testing.T) {
	url := testenv.PostgresURL(t)
	t.Setenv("MIKAN_DATABASE_URL", url)
	t.Setenv("MIKAN_PUBLIC_URL", "https://mikan.example")
	ctx := t.Context()
	s := storetest.At(t, url)
	key, err := office.Address{Platform: office.Slack, ConversationID: "C1"}.Key()
	if err != nil {
		t.Fatal(err)
	}
	k := string(key)

	for _, list := range [][]string{{"session", "list", "--json"}, {"office", "list", "--json"}} {
		if out, code := mikan(t, list...); out != "[]\n" || code != 0 {
			t.Errorf("with nothing there, %v prints %q and exits with %d", list, out, code)
		}
	}
	begin := func(sessionKey, id, title string) store.Run {
		_, err := s.Receive(ctx, store.Arrival{
			Office: store.Office{Key: k, Platform: "slack", ConversationID: "C1", Audience: store.Shared, Name: "#general"},
			Message: store.ChatMessage{OfficeKey: k, MessageID: id, SessionKey: sessionKey, AuthorID: "U1", AuthorName: "ann",
				AuthorKind: store.AuthorHuman, Kind: store.ChatMessageKind, Text: title, SentAt: time.Now()},
			Row: &store.InboxRow{OfficeKey: k, SessionKey: sessionKey, Kind: store.InboxTrigger, Trigger: run.Human, MessageID: id},
		})
		if err != nil {
			t.Fatal(err)
		}
		claim, err := s.Claim(ctx, store.Address{OfficeKey: k, SessionKey: sessionKey},
			store.Execution{WorkflowID: "w" + id, OriginRun: id, RunID: id}, store.Now, store.Terms{Model: "demo/demo", Zone: time.UTC})
		if err != nil {
			t.Fatal(err)
		}
		return claim.Run
	}
	parent := begin("C1", "m1", "hello \x1b[2J\u202e")
	fork := begin("C1:m1", "m2", "in the thread")
	if _, _, err := s.Reset(ctx, k, "C1", "m3", time.Now()); err != nil {
		t.Fatal(err)
	}

	out, code := mikan(t, "session", "list", "--office", k)
	lines := strings.Split(out, "\n")
	if code != 0 || len(lines) < 3 || !strings.HasPrefix(lines[1], parent.SessionID) || !strings.HasPrefix(lines[2], "└─ "+fork.SessionID) {
		t.Errorf("the tree of forks is\n%s", out)
	}
	if strings.ContainsAny(out, "\x1b\u202e") {
		t.Errorf("a title steers the terminal: %q", out)
	}
	var listed []map[string]any
	out, _ = mikan(t, "session", "list", "--json")
	if err := json.Unmarshal([]byte(out), &listed); err != nil || len(listed) != 2 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, field := range []string{"id", "office_key", "session_key", "title", "entries", "resets", "compactions", "forks", "running", "created_at", "updated_at"} {
		if _, ok := listed[0][field]; !ok {
			t.Errorf("session list --json has no field %s", field)
		}
	}
	out, code = mikan(t, "session", "show", "C1", "--office", k)
	for _, want := range []string{"running", "1 resets", "fork", fork.SessionID, "#2", "starts anew", "hello ␛[2J⟨U+202E⟩"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("session show exits with %d and lacks %q:\n%s", code, want, out)
		}
	}
	out, _ = mikan(t, "session", "show", fork.SessionID, "--json")
	var shown struct {
		Session struct {
			ParentID string `json:"parent_id"`
		}
		Forks, Entries []any
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil || shown.Session.ParentID != parent.SessionID || shown.Forks == nil || len(shown.Entries) == 0 {
		t.Errorf("%v: %s", err, out)
	}

	out, code = mikan(t, "session", "link", "C1", "--office", k, "--json")
	var given givenLink
	if err := json.Unmarshal([]byte(out), &given); err != nil || code != 0 {
		t.Fatalf("%v: %s", err, out)
	}
	token, ours := strings.CutPrefix(given.URL, "https://mikan.example/session/")
	if link, known, err := s.Link(ctx, store.HashLink(token)); !ours || err != nil || !known || link.SessionID != parent.SessionID {
		t.Errorf("%s opens %+v, %v, %v", given.URL, link, known, err)
	}
	if out, code := mikan(t, "session", "revoke", parent.SessionID, "--json"); code != 0 || !strings.Contains(out, `"revoked": 1`) {
		t.Errorf("revoke exits with %d: %s", code, out)
	}
	if _, known, err := s.Link(ctx, store.HashLink(token)); known || err != nil {
		t.Errorf("a revoked link is in force (%v)", err)
	}

	if out, code := mikan(t, "office", "set", k, "timezone", "Europe/Berlin"); code != 0 {
		t.Errorf("office set exits with %d: %s", code, out)
	}
	if out, code := mikan(t, "office", "set", "installation", "spend-limit", "2.50", "--json"); code != 0 || !strings.Contains(out, `"value": 2.50`) {
		t.Errorf("office set exits with %d: %s", code, out)
	}
	out, code = mikan(t, "office", "show", k)
	for _, want := range []string{"#general", `"Europe/Berlin"`, `2.50 (of the installation)`, "open runs: 2", "sessions: 2", fork.SessionID} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("office show exits with %d and lacks %q:\n%s", code, want, out)
		}
	}
	var office map[string]json.RawMessage
	out, _ = mikan(t, "office", "show", k, "--json")
	if err := json.Unmarshal([]byte(out), &office); err != nil || string(office["settings"]) == "null" || string(office["open_runs"]) == "null" {
		t.Errorf("%v: %s", err, out)
	}
	if out, code := mikan(t, "office", "set", k, "timezone", "--unset"); code != 0 {
		t.Errorf("office set --unset exits with %d: %s", code, out)
	}

	for _, c := range []struct {
		code int
		args string
	}{
		{5, "session show 01234567-nowhere"}, {5, "session show C9 --office " + k}, {5, "session list --office v1-none"},
		{5, "session link 01234567-nowhere"}, {5, "session revoke 01234567-nowhere"}, {5, "office show v1-none"}, {5, "office set v1-none timezone UTC"},
		{2, "session show C1"}, {2, "session show"}, {2, "session list --limit 0"}, {2, "session nothing"}, {2, "session list --nothing"},
		{2, "office set " + k + " colour red"}, {2, "office set " + k + " timezone Mars"}, {2, "office set " + k + " timezone"},
		{2, "office set " + k + " timezone UTC --unset"}, {2, "office key slack .."},
	} {
		if out, code := mikan(t, strings.Fields(c.args)...); code != c.code {
			t.Errorf("mikan %s exits with %d, want %d: %s", c.args, code, c.code, out)
		}
	}
}
