package migrate_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/history"
	"github.com/geminixiang/mikan/internal/migrate"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

// expected is what pi-coding-agent makes of a session file.
type expected struct {
	ID       string
	Name     string
	Entries  int64
	Messages []struct {
		Role, Stop, Text, CallID string
		IsError                  bool
		Calls                    []struct {
			ID, Name  string
			Arguments json.RawMessage
		}
	}
}

func expectations(t testing.TB, c *site) map[string]expected {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(c.root, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]expected
	if err := json.Unmarshal(content, &want); err != nil {
		t.Fatal(err)
	}
	return want
}

func TestAGenuineInstallationHasTheSameContextsAfterwards(t *testing.T) {
	t.Parallel()
	c := genuine(t)
	c.mustRun()
	want := expectations(t, c)
	if len(want) != 10 {
		t.Fatalf("%d sessions expected", len(want))
	}
	for name, w := range want {
		s, err := c.s.SessionSummary(t.Context(), w.ID)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.Entries != w.Entries || s.Title != strings.Join(strings.Fields(w.Name), " ") {
			t.Errorf("%s: %d entries, title %q; want %d, %q", name, s.Entries, s.Title, w.Entries, w.Name)
		}
		compareContext(t, c, name, w)
	}
}

func compareContext(t *testing.T, c *site, name string, w expected) {
	t.Helper()
	loaded, err := c.s.Context(t.Context(), w.ID)
	if err != nil {
		t.Fatal(err)
	}
	entries := loaded.Entries
	for i, m := range w.Messages {
		if m.Stop == "error" || m.Stop == "aborted" {
			continue // its provider code leaves such turns out
		}
		if i == 0 && loaded.Summary != "" {
			if !strings.Contains(m.Text, loaded.Summary) {
				t.Errorf("%s: the summary differs", name)
			}
			continue
		}
		if len(entries) == 0 {
			t.Fatalf("%s: message %d is missing", name, i)
		}
		e := entries[0]
		entries = entries[1:]
		if e.Body.Text() != m.Text {
			t.Errorf("%s: message %d says %q, want %q", name, i, e.Body.Text(), m.Text)
		}
		if len(e.Body.Calls()) != len(m.Calls) {
			t.Errorf("%s: message %d has %d calls", name, i, len(e.Body.Calls()))
			continue
		}
		for j, call := range e.Body.Calls() {
			if call.CallID != m.Calls[j].ID || call.Name != m.Calls[j].Name || compact(t, call.Arguments) != compact(t, string(m.Calls[j].Arguments)) {
				t.Errorf("%s: message %d, call %d differs", name, i, j)
			}
		}
		if m.Role == "toolResult" && (e.Kind != store.EntryToolResult || e.Body.Blocks[0].CallID != m.CallID || e.Body.Blocks[0].IsError != m.IsError) {
			t.Errorf("%s: message %d is no result of its call", name, i)
		}
	}
	if len(entries) > 0 {
		t.Errorf("%s: %d entries too many", name, len(entries))
	}
}

func compact(t *testing.T, raw string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(raw)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheOriginalsAreUnchangedInSessionsV3(t *testing.T) {
	t.Parallel()
	c := genuine(t)
	before := map[string][]byte{}
	_ = filepath.WalkDir(c.work, func(path string, e os.DirEntry, _ error) error {
		if strings.Contains(path, "/sessions/") {
			before[filepath.Base(filepath.Dir(filepath.Dir(path)))+"/"+filepath.Base(path)], _ = os.ReadFile(path)
		}
		return nil
	})
	c.mustRun()
	keys := map[string]string{
		"C0GENERAL1": "v1-slack-c0general1-8cdee8c468b4d5b4", "D0DIRECT1": "v1-slack-d0direct1-2a3db4994003ec5a",
		"4242": "v1-telegram-4242-57b41c2761abb939", "-1001234567890": "v1-telegram-1001234567890-53db752ab26cabc6",
	}
	if len(before) != 13 {
		t.Fatalf("%d originals", len(before))
	}
	for name, content := range before {
		conversation, file := filepath.Split(name)
		key := keys[filepath.Clean(conversation)]
		kept, err := os.ReadFile(filepath.Join(c.home, "conversations", key, "sessions-v3", file))
		if err != nil || !bytes.Equal(kept, content) {
			t.Errorf("%s: %v, equal %t", name, err, bytes.Equal(kept, content))
		}
		if _, err := os.Lstat(filepath.Join(c.work, key, "sessions")); !os.IsNotExist(err) {
			t.Errorf("%s still has sessions in the workspace", key)
		}
	}
	if _, err := os.ReadFile(filepath.Join(c.work, keys["C0GENERAL1"], "attachments", "1796033715033_notes.txt")); err != nil {
		t.Errorf("an attachment did not stay: %v", err)
	}
}

func TestADryRunTellsTheSameAndWritesNothing(t *testing.T) {
	t.Parallel()
	c := genuine(t)
	c.write("workspace/C0GENERAL1/sessions/1796030000.000001.jsonl", "")
	c.o.Mode = migrate.DryRun
	files, rows := c.files(), c.dump()
	planned := c.mustRun()
	told := steps(c.events)
	if got := c.files(); got != files {
		t.Errorf("files changed:\n%s", diff(files, got))
	}
	if got := c.dump(); got != rows {
		t.Errorf("the database changed:\n%s", diff(rows, got))
	}
	c.o.Mode = migrate.Execute
	done := c.mustRun()
	if planned.Totals != done.Totals {
		t.Errorf("planned %+v, done %+v", planned.Totals, done.Totals)
	}
	equal(t, "what both told", steps(c.events), told)
	if done.Totals.Sessions != 10 || done.Totals.Entries != 145 || done.Totals.Messages != 51 || done.Totals.Schedules != 1 {
		t.Errorf("%+v", done.Totals)
	}
	// A dry run against the database that has everything finds nothing to do, and still writes nothing.
	c.o.Mode = migrate.DryRun
	files, rows = c.files(), c.dump()
	if again := c.mustRun(); again.Totals.Sessions != 0 || again.Totals.Offices != 0 {
		t.Errorf("%+v", again.Totals)
	}
	if c.files() != files || c.dump() != rows {
		t.Error("a dry run afterwards wrote something")
	}
}

// steps lists what both kinds of run tell: repairs, problems and the plan.
func steps(events []migrate.Event) []string {
	var all []string
	for _, e := range events {
		switch e.Step {
		case migrate.StepRepair, migrate.StepProblem, migrate.StepPlan:
			e.DryRun = false
			line, _ := json.Marshal(e)
			all = append(all, string(line))
		}
	}
	sort.Strings(all)
	return all
}

func TestARerunFindsNothingToDo(t *testing.T) {
	t.Parallel()
	c := genuine(t)
	c.mustRun()
	files, rows := c.files(), c.dump()
	if again := c.mustRun(); again.Totals.Sessions+again.Totals.Offices+again.Totals.Schedules != 0 {
		t.Errorf("%+v", again.Totals)
	}
	if got := c.files(); got != files {
		t.Errorf("files changed:\n%s", diff(files, got))
	}
	if got := c.dump(); got != rows {
		t.Errorf("the database changed:\n%s", diff(rows, got))
	}
	if err := c.s.CheckSchema(t.Context()); err != nil {
		t.Errorf("gateway and worker would not start: %v", err)
	}
}

// claim receives a message that addresses mikan, and begins its run.
func (c *site) claim(officeKey, sessionKey, id, said string, at time.Time) store.Claim {
	c.t.Helper()
	o, err := c.s.Office(c.t.Context(), officeKey)
	if err != nil {
		c.t.Fatal(err)
	}
	thread := ""
	if i := strings.IndexByte(sessionKey, ':'); i >= 0 {
		thread = sessionKey[i+1:]
	}
	_, err = c.s.Receive(c.t.Context(), store.Arrival{Office: o, Message: store.ChatMessage{
		OfficeKey: officeKey, MessageID: id, SessionKey: sessionKey, ThreadID: thread, AuthorID: "U1", AuthorName: "ann",
		AuthorKind: store.AuthorHuman, Kind: store.ChatMessageKind, Text: said, SentAt: at,
	}, Row: &store.InboxRow{OfficeKey: officeKey, SessionKey: sessionKey, Kind: store.InboxTrigger, Trigger: run.Human, MessageID: id}})
	if err != nil {
		c.t.Fatal(err)
	}
	claim, err := c.s.Claim(c.t.Context(), store.Address{OfficeKey: officeKey, SessionKey: sessionKey},
		store.Execution{WorkflowID: run.WorkflowID(officeKey, sessionKey), OriginRun: "x" + id, RunID: "x" + id}, store.Wait, store.Terms{Model: "demo/demo", Zone: time.UTC})
	if err != nil {
		c.t.Fatal(err)
	}
	return claim
}

const general = "v1-slack-c0general1-8cdee8c468b4d5b4"

func TestSessionsGoOnAndNothingOldIsSyncedAgain(t *testing.T) {
	t.Parallel()
	c := genuine(t)
	c.mustRun()
	at := time.Date(2026, 11, 30, 10, 20, 0, 0, time.UTC)
	for name, w := range map[string]struct{ office, key, session string }{
		"top level of a channel":      {general, "C0GENERAL1", "01a22bf3-7f51-788d-8ec2-1dc4140229c1"},
		"thread of a human's message": {general, "C0GENERAL1:1796033707.526000", "01a22bf3-9168-7f9e-8e76-883c764a2c6c"},
		"thread of mikan's message":   {general, "C0GENERAL1:1796033708.488009", "01a22bf3-8972-7b75-9061-8ddc3dd248bd"},
		"direct message, compacted":   {"v1-slack-d0direct1-2a3db4994003ec5a", "D0DIRECT1", "01a22bf3-d38a-74b2-b862-62540f91ae5e"},
		"private chat after a reset":  {"v1-telegram-4242-57b41c2761abb939", "4242", "01a22bf4-33a4-78b2-83fb-0c532de50bea"},
		"reply in a group":            {"v1-telegram-1001234567890-53db752ab26cabc6", "-1001234567890:510", "01a22bf4-43ce-7383-9d8f-914ea23aceaf"},
	} {
		before := c.said(w.session)
		claim := c.claim(w.office, w.key, "new-"+w.session, "and now?", at)
		if claim.Kind != store.ClaimedRun || claim.Run.SessionID != w.session {
			t.Errorf("%s: %s in session %s", name, claim.Kind, claim.Run.SessionID)
			continue
		}
		added := c.said(w.session)[len(before):]
		prompt := added[len(added)-1]
		if !strings.Contains(prompt, "and now?") {
			t.Errorf("%s: the newest entry is %q", name, prompt)
		}
		equal(t, name+", synced", added[:len(added)-1], nil) // nobody has said anything since
	}
}

func TestWhatOthersSaidSinceTheLastRunIsSyncedOnce(t *testing.T) {
	t.Parallel()
	c := genuine(t)
	line := `{"date":"2026-11-30T10:16:00.000Z","ts":"1796033760.000001","user":"U2","userName":"ben","text":"while you were away","attachments":[],"isMessagingBot":false}` + "\n"
	log := filepath.Join(c.work, "C0GENERAL1", "log.jsonl")
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, append(content, line...), 0o600); err != nil {
		t.Fatal(err)
	}
	c.mustRun()
	before := len(c.said("01a22bf3-7f51-788d-8ec2-1dc4140229c1"))
	c.claim(general, "C0GENERAL1", "n1", "what did I miss?", time.Date(2026, 11, 30, 10, 20, 0, 0, time.UTC))
	equal(t, "synced", c.said("01a22bf3-7f51-788d-8ec2-1dc4140229c1")[before:], []string{
		"chat [2026-11-30 10:16:00+00:00] [ben]: while you were away", "prompt [2026-11-30 10:20:00+00:00] [ann]: what did I miss?",
	})
}

func TestAThreadUnderAnOldAnswerStartsFromItsRoot(t *testing.T) {
	t.Parallel()
	c := genuine(t)
	c.mustRun()
	claim := c.claim(general, "C0GENERAL1:1796033708.299006", "n2", "why Linux?", time.Date(2026, 11, 30, 10, 20, 0, 0, time.UTC))
	s, err := c.s.SessionByID(t.Context(), claim.Run.SessionID)
	if err != nil || s.ParentID != "" {
		t.Errorf("it forked %s (%v), but 0.5.3 recorded no cause", s.ParentID, err)
	}
	said := c.said(claim.Run.SessionID)
	if len(said) != 2 || !strings.Contains(said[0], "[mikan]: ✓ run it") {
		t.Errorf("%q", said)
	}
}

func TestHistoryFindsEveryEntryOfEveryFile(t *testing.T) {
	t.Parallel()
	c := genuine(t)
	c.mustRun()
	if _, err := c.s.IndexHistory(t.Context()); err != nil {
		t.Fatal(err)
	}
	limit := int64(200)
	reader := &history.Reader{Store: c.s, Zone: time.UTC}
	for name, w := range expectations(t, c) {
		s, err := c.s.SessionByID(t.Context(), w.ID)
		if err != nil {
			t.Fatal(err)
		}
		found := map[int64]bool{}
		for skip := int64(0); ; skip += limit {
			answer, err := reader.Look(t.Context(), history.Request{Office: s.OfficeKey, Action: history.Read, Session: w.ID, Limit: &limit, Skip: skip})
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range answer.Items {
				found[item.Seq] = true
			}
			if !answer.More {
				break
			}
		}
		for seq := int64(1); seq <= w.Entries; seq++ {
			if !found[seq] {
				t.Errorf("%s: history does not show entry %d", name, seq)
			}
		}
	}
	for what, query := range map[string]string{
		"before a compaction": "part 1 lorem", "a failed turn": "you asked for it", "before a reset": "echo hi", "a tool's output": "Linux",
		"a note of the log's copying": "mikan.chat_sync", "another script": "多語言",
	} {
		hits := 0
		for _, o := range []string{general, "v1-slack-d0direct1-2a3db4994003ec5a"} {
			answer, err := reader.Look(t.Context(), history.Request{Office: o, Action: history.Search, Query: query})
			if err != nil {
				t.Fatal(err)
			}
			hits += len(answer.Items)
		}
		if hits == 0 {
			t.Errorf("history finds nothing of %s", what)
		}
	}
}

func TestUsageOfImportedRunsIsShown(t *testing.T) {
	t.Parallel()
	c := genuine(t)
	c.mustRun()
	u, err := c.s.SessionUsage(t.Context(), "01a22bf3-8972-7b75-9061-8ddc3dd248bd")
	if err != nil || u.Runs != 1 || u.Input != 1742 || u.Output != 40 || u.CostMicros == 0 {
		t.Errorf("%+v, %v", u, err)
	}
}
