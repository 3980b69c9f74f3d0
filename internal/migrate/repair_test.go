package migrate_test

import (
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

const (
	session = "workspace/C1/sessions/"
	active  = "2026-11-01T10-00-00-000Z_aaaaaaaa.jsonl"
)

// one makes an installation of one conversation whose active session is the given file.
func one(t *testing.T, content string) *site {
	t.Helper()
	c := newSite(t)
	c.write(session+"current", active)
	c.write(session+active, content)
	return c
}

// chat is the office of the conversation C1.
var chat = func() string {
	key, err := office.Address{Platform: office.Slack, ConversationID: "C1"}.Key()
	if err != nil {
		panic(err)
	}
	return string(key)
}()

func TestRepairsOfASessionAreReportedAndItsContextIsWhole(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]struct {
		file    string
		said    []string // the context afterwards
		repairs []string // what is reported, without the file's name
		entries int64
	}{
		"an id twice: the last value at the first place": {
			file:    head("s1") + jsonl(user("a", "", "one"), assistant("b", "a", "two"), user("a", "", "first")),
			said:    []string{"prompt first", "assistant two"},
			repairs: []string{":4 a record with the id of an earlier one takes its place"}, entries: 2,
		},
		"a parent that is missing": {
			file:    head("s1") + jsonl(user("a", "", "lost"), user("b", "gone", "one"), assistant("c", "b", "two")),
			said:    []string{"prompt one", "assistant two"},
			repairs: []string{":0 1 records name a parent that the file does not have; their branches begin with them"}, entries: 3,
		},
		"a circle": {
			file:    head("s1") + jsonl(user("a", "c", "one"), assistant("b", "a", "two"), user("c", "b", "three")),
			said:    []string{"prompt one", "assistant two", "prompt three"},
			repairs: []string{":0 the records form a circle; the branch ends where it closes"}, entries: 3,
		},
		"a record that is its own parent": {
			file: head("s1") + jsonl(user("a", "a", "one")), said: []string{"prompt one"}, entries: 1,
		},
		"a call that nobody answered": {
			file:    head("s1") + jsonl(user("a", "", "one"), assistant("b", "a", "I run", "k1", "k2"), result("c", "b", "k1", "out"), user("d", "c", "next")),
			said:    []string{"prompt one", "assistant I run", "tool_result out", "tool_result The upgrade of mikan interrupted this call before its result was recorded. It may have had effects; check before you repeat it.", "prompt next"},
			repairs: []string{":0 1 tool calls without a result were answered with an error that says the upgrade interrupted them"}, entries: 5,
		},
		"a call that nobody answered, at the end": {
			file:    head("s1") + jsonl(user("a", "", "one"), assistant("b", "a", "I run", "k1")),
			said:    []string{"prompt one", "assistant I run", "tool_result The upgrade of mikan interrupted this call before its result was recorded. It may have had effects; check before you repeat it."},
			repairs: []string{":0 1 tool calls without a result were answered with an error that says the upgrade interrupted them"}, entries: 3,
		},
		"a result without a call, one that comes twice, and one too late": {
			file: head("s1") + jsonl(result("a", "", "k9", "nobody asked"), user("b", "a", "one"), assistant("c", "b", "I run", "k1"), result("d", "c", "k1", "out"),
				result("e", "d", "k1", "again"), user("f", "e", "next"), result("g", "f", "k1", "late")),
			said:    []string{"prompt one", "assistant I run", "tool_result out", "prompt next"},
			repairs: []string{":0 3 results that belong to no waiting call stay outside the model's context"}, entries: 7,
		},
		"an aborted turn and a failed one": {
			file: head("s1") + jsonl(user("a", "", "one"), failed("b", "a", "aborted"), user("c", "b", "two"), failed("d", "c", "error"), user("e", "d", "three")),
			said: []string{"prompt one", "prompt two", "prompt three"}, entries: 5,
		},
		"a torn last line": {
			file:    head("s1") + jsonl(user("a", "", "one")) + `{"type":"message","id":"b","par`,
			said:    []string{"prompt one"},
			repairs: []string{":3 the last line was torn and is left out"}, entries: 1,
		},
		"a last line torn inside a character": {
			file:    head("s1") + jsonl(user("a", "", "one")) + "{\"type\":\"message\",\"id\":\"\xe5\xa4",
			said:    []string{"prompt one"},
			repairs: []string{":3 the last line was torn and is left out"}, entries: 1,
		},
		"a last line that only lacks its end": {
			file: head("s1") + strings.TrimSuffix(jsonl(user("a", "", "one")), "\n"), said: []string{"prompt one"}, entries: 1,
		},
		"half a record, and the same record whole": {
			file:    head("s1") + jsonl(user("a", "", "one")) + jsonl(assistant("b", "a", "two"))[:60] + "\n" + jsonl(assistant("b", "a", "two")),
			said:    []string{"prompt one", "assistant two"},
			repairs: []string{":3 half a record that is repeated whole on the next line was left out"}, entries: 2,
		},
		"repeated headers, one of another session": {
			file:    head("s1") + head("s1") + jsonl(user("a", "", "one")) + head("s2"),
			said:    []string{"prompt one"},
			repairs: []string{":2 the header is repeated", ":4 a second header names another session; the first one counts"}, entries: 1,
		},
		"carriage returns and blank lines": {
			file: strings.ReplaceAll(head("s1")+"\n"+jsonl(user("a", "", "one"), assistant("b", "a", "two")), "\n", "\r\n"),
			said: []string{"prompt one", "assistant two"}, entries: 2,
		},
		"a compaction with what it kept": {
			file: head("s1") + jsonl(user("a", "", "old"), assistant("b", "a", "older"), user("c", "b", "kept"), assistant("d", "c", "kept too"),
				entry("e", "d", "compaction", m{"summary": "what was", "firstKeptEntryId": "c", "tokensBefore": 9}), user("f", "e", "new")),
			said: []string{"summary what was", "prompt kept", "assistant kept too", "prompt new"}, entries: 6,
		},
		"a compaction that kept nothing": {
			file: head("s1") + jsonl(user("a", "", "old"), entry("e", "a", "compaction", m{"summary": "what was", "firstKeptEntryId": "zz"}), user("f", "e", "new")),
			said: []string{"summary what was", "prompt new"}, entries: 3,
		},
		"another branch": {
			file: head("s1") + jsonl(user("a", "", "one"), assistant("b", "a", "that way"), assistant("c", "a", "this way"), user("d", "c", "on")),
			said: []string{"prompt one", "assistant this way", "prompt on"}, entries: 4,
		},
		"children before their parents": {
			file: head("s1") + jsonl(assistant("b", "a", "two"), user("a", "", "one"), user("c", "b", "three")),
			said: []string{"prompt one", "assistant two", "prompt three"}, entries: 3,
		},
		"every other kind of record": {
			file: head("s1") + jsonl(entry("a", "", "model_change", m{"provider": "p", "modelId": "x"}), entry("b", "a", "thinking_level_change", m{"thinkingLevel": "high"}),
				entry("c", "b", "custom_message", m{"customType": "k", "content": "for the model", "display": true}),
				entry("d", "c", "branch_summary", m{"fromId": "a", "summary": "S"}),
				entry("e", "d", "message", m{"message": m{"role": "bashExecution", "command": "ls", "output": "x", "exitCode": 2}}),
				entry("f", "e", "message", m{"message": m{"role": "bashExecution", "command": "secret", "output": "", "excludeFromContext": true}}),
				entry("g", "f", "label", m{"targetId": "a", "label": "here"}), entry("h", "g", "session_info", m{"name": "the name"}),
				entry("i", "h", "custom", m{"customType": "other", "data": m{"k": "v"}}), entry("j", "i", "invented", m{"x": 1}),
				entry("k", "j", "message", m{"message": m{"role": "invented", "content": "?"}})),
			said: []string{"chat for the model", "chat The following is a summary of a branch that this conversation came back from:\n\n<summary>\nS</summary>",
				"chat Ran `ls`\n```\nx\n```\n\nCommand exited with code 2"}, entries: 11,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := one(t, w.file)
			c.mustRun()
			equal(t, "the context", c.said("s1"), w.said)
			got := c.repairs()
			for i := range got {
				got[i] = strings.TrimPrefix(got[i], active)
			}
			equal(t, "repairs", got, w.repairs)
			s, err := c.s.SessionSummary(t.Context(), "s1")
			if err != nil || s.Entries != w.entries {
				t.Errorf("%d entries, want %d (%v)", s.Entries, w.entries, err)
			}
		})
	}
}

func failed(id, parent, how string) m {
	e := assistant(id, parent, "half a", "k1")
	e["message"].(m)["stopReason"], e["message"].(m)["errorMessage"] = how, "why"
	return e
}

func TestWhatIsOutsideTheContextIsKeptAndMarked(t *testing.T) {
	t.Parallel()
	c := one(t, head("s1")+jsonl(user("a", "", "before"), assistant("x", "a", "elsewhere"), user("b", "a", "kept"),
		entry("e", "b", "compaction", m{"summary": "what was", "firstKeptEntryId": "b"}), user("f", "e", "new")))
	c.mustRun()
	entries, err := c.s.Entries(t.Context(), "s1", 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, false, true, false, true} {
		if entries[i].InContext != want {
			t.Errorf("entry %d (%s) in context: %t", i+1, entries[i].Body.Text(), entries[i].InContext)
		}
	}
	if entries[3].Kind != store.EntryCompaction || entries[3].Body.KeptSeq != 3 {
		t.Errorf("%+v", entries[3])
	}
}

func TestTopLevelGenerationsThreadsAndPlaceholders(t *testing.T) {
	t.Parallel()
	c := one(t, head("now")+jsonl(user("a", "", "now")))
	c.write(session+"2026-10-01T10-00-00-000Z_bbbbbbbb.jsonl", strings.Replace(head("before"), "2026-11", "2026-10", 1)+jsonl(user("a", "", "before")))
	c.write(session+"2026-10-02T10-00-00-000Z_cccccccc.jsonl", head("unused"))
	c.write(session+"1790000000.000001.jsonl", head("thread")+jsonl(user("a", "", "thread")))
	c.write(session+"1790000000.000002.jsonl", "")
	c.write(session+"1790000000.000003.jsonl", head("opened"))
	c.write(session+"1790000000.000004/current", "x.jsonl")
	c.write(session+"1790000000.000004/x.jsonl", head("early")+jsonl(user("a", "", "early")))
	c.write(session+"1790000000.000004/y.jsonl", head("earlier")+jsonl(user("a", "", "earlier")))
	c.write(session+"notes.txt", "hello")
	c.mustRun()
	sessions, err := c.s.Sessions(t.Context(), chat, 100)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range sessions {
		got[s.ID] = s.SessionKey
		if s.ArchivedAt != nil {
			got[s.ID] += " archived"
		}
	}
	want := map[string]string{
		"now": "C1", "before": "C1 archived", "thread": "C1:1790000000.000001", "early": "C1:1790000000.000004", "earlier": "C1:1790000000.000004 archived",
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for id, key := range want {
		if got[id] != key {
			t.Errorf("%s is %q, want %q", id, got[id], key)
		}
	}
	equal(t, "repairs", c.repairs(), []string{
		"1790000000.000002.jsonl:0 is empty: a session that was never begun",
		"1790000000.000003.jsonl:0 holds nothing but its header: a session that was never used",
		"2026-10-02T10-00-00-000Z_cccccccc.jsonl:0 holds nothing but its header: a session that was never used",
		"notes.txt:0 is no session and is not imported; it stays with the originals",
	})
}

func TestAfterAResetNothingFromBeforeItComesBack(t *testing.T) {
	t.Parallel()
	c := one(t, head("fresh")) // a reset leaves a header alone
	c.write(session+"2026-10-01T10-00-00-000Z_bbbbbbbb.jsonl", strings.Replace(head("before"), "2026-11", "2026-10", 1)+jsonl(user("a", "", "before")))
	c.write("workspace/C1/log.jsonl", `{"date":"2026-10-31T10:00:00.000Z","ts":"1790000001.000000","user":"U2","userName":"ben","text":"before the reset"}`+"\n"+
		`{"date":"2026-11-01T10:00:05.000Z","ts":"1790000002.000000","user":"U2","userName":"ben","text":"after the reset"}`+"\n")
	c.mustRun()
	claim := c.claim(chat, "C1", "n1", "hello", at("2026-11-01T11:00:00Z"))
	if claim.Run.SessionID != "fresh" {
		t.Fatalf("the run is in %s", claim.Run.SessionID)
	}
	equal(t, "the context", c.said("fresh"), []string{"chat [2026-11-01 10:00:05+00:00] [ben]: after the reset", "prompt [2026-11-01 11:00:00+00:00] [ann]: hello"})
}

func TestParentsAreFoundByNameAndNeverOpened(t *testing.T) {
	t.Parallel()
	c := one(t, head("s1")+jsonl(user("a", "", "one")))
	forked := strings.Replace(head("s2"), `"cwd"`, `"parentSession":"/etc/../x/`+active+`","cwd"`, 1)
	c.write(session+"1.1.jsonl", strings.Replace(forked, "10:00:00", "10:00:09", 1)+jsonl(user("a", "", "one"), user("b", "a", "two")))
	c.write(session+"1.2.jsonl", strings.Replace(head("s3"), `"cwd"`, `"parentSession":"/etc/passwd","cwd"`, 1)+jsonl(user("a", "", "three")))
	c.mustRun()
	for id, parent := range map[string]string{"s2": "s1", "s3": ""} {
		s, err := c.s.SessionByID(t.Context(), id)
		if err != nil || s.ParentID != parent {
			t.Errorf("%s has the parent %q, want %q (%v)", id, s.ParentID, parent, err)
		}
	}
	equal(t, "the fork's context", c.said("s2"), []string{"prompt one", "prompt two"})
}

func TestRepairedLogLinesAndJoinedParts(t *testing.T) {
	t.Parallel()
	c := newSite(t)
	c.write("workspace/C1/log.jsonl", strings.Join([]string{
		`{"date":"2026-11-01T10:00:00.000Z","ts":"1.1","user":"U1","userName":"ann","text":"hi"}`,
		`{"date":"2026-11-01T10:00:01.000Z","ts":"1.2","threadTs":"1.1","user":"bot","text":"half ","isMessagingBot":true}`,
		`{"date":"2026-11-01T10:00:02.000Z","ts":"1.2","threadTs":"1.1","user":"bot","text":"a word","isMessagingBot":true}`,
		`{"ts":"1.1","user":"U1","userName":"ann","text":"hi"}`,
		`{"ts":"1.1","user":"U1","userName":"ann","text":"hi, edited"}`,
		`{"user":"U1","text":"no id"}`,
		`{"ts":"1790000000.5","user":"bot:B1","userName":"deploy","text":"out","isMessagingBot":true,"attachments":[{"original":"a.txt","localPath":"C1/attachments/1_a.txt"},{"name":"b","localPath":"../../etc/passwd"}]}`,
		`{"ts":"1.9","user":"U1","text":"/pi-new"}`,
		`{"ts":"1.`,
	}, "\n"))
	c.mustRun()
	for id, w := range map[string]string{
		"1.1": "message human C1 hi, edited", "1.2": "answer mikan C1:1.1 half a word", "1790000000.5": "message bot C1 out", "1.9": "command human C1 /pi-new",
	} {
		m, err := c.s.ChatMessage(t.Context(), chat, id)
		if got := strings.Join([]string{string(m.Kind), string(m.AuthorKind), m.SessionKey, m.Text}, " "); err != nil || got != w {
			t.Errorf("%s: %q, want %q (%v)", id, got, w, err)
		}
	}
	m, _ := c.s.ChatMessage(t.Context(), chat, "1790000000.5")
	if m.SentAt.Unix() != 1790000000 || len(m.Attachments) != 2 || m.Attachments[0].Path != "attachments/1_a.txt" || m.Attachments[1].Path != "" || m.Attachments[1].Problem == "" {
		t.Errorf("%+v", m)
	}
	equal(t, "repairs", c.repairs(), []string{"log.jsonl:9 the last line was torn and is left out"})
	if again := c.mustRun(); again.Totals.Messages != 0 {
		t.Errorf("%+v", again.Totals)
	}
}
