package migrate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/migrate"
	"github.com/geminixiang/mikan/internal/store"
)

func asRefused(err error, to **migrate.Refused) bool { return errors.As(err, to) }

// exported is a session as `mikan session export` writes it.
func (c *site) exported(id string) string {
	c.t.Helper()
	var b bytes.Buffer
	if err := migrate.Export(c.t.Context(), c.s, id, &b); err != nil {
		c.t.Fatal(err)
	}
	return b.String()
}

// context is a session's context, exactly.
func (c *site) context(id string) []string {
	c.t.Helper()
	loaded, err := c.s.Context(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	lines := []string{loaded.Summary}
	for _, e := range loaded.Entries {
		body := e.Body
		body.Raw, body.Basis = nil, 0
		line, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		lines = append(lines, e.MessageID+" "+e.At.UTC().String()+" "+string(line))
	}
	return lines
}

func TestAnExportedSessionComesBackWithTheSameContext(t *testing.T) {
	t.Parallel()
	c := genuine(t)
	c.mustRun()
	back := newSite(t)
	want := expectations(t, c)
	for name, w := range want {
		s, err := c.s.SessionByID(t.Context(), w.ID)
		if err != nil {
			t.Fatal(err)
		}
		conversation, file, _ := strings.Cut(name, "/")
		if s.ArchivedAt == nil && s.SessionKey == conversation {
			back.write("workspace/"+conversation+"/sessions/current", file)
		}
		text := c.exported(w.ID)
		if strings.Contains(text, "/srv/mikan/workspace/C0GENERAL1\"") || strings.Contains(text, "parentSession") {
			t.Errorf("%s: the export holds a path", name)
		}
		back.write("workspace/"+name, text)
		back.write("workspace/"+conversation+"/sessions/"+file, text)
	}
	for _, conversation := range []string{"C0GENERAL1", "D0DIRECT1", "4242", "-1001234567890"} {
		for name := range want {
			if base, file, _ := strings.Cut(name, "/"); base == conversation {
				back.remove("workspace/" + conversation + "/" + file)
			}
		}
	}
	back.mustRun()
	for name, w := range want {
		equal(t, name, back.context(w.ID), c.context(w.ID))
		compareContext(t, back, name, w)
		a, _ := c.s.SessionByID(t.Context(), w.ID)
		b, _ := back.s.SessionByID(t.Context(), w.ID)
		if a.SessionKey != b.SessionKey || a.Title != b.Title || !a.CreatedAt.Equal(b.CreatedAt) {
			t.Errorf("%s: %+v and %+v", name, a, b)
		}
		if again := back.exported(w.ID); again != c.exported(w.ID) {
			t.Errorf("%s: exported again it differs:\n%s", name, diff(c.exported(w.ID), again))
		}
	}
}

func TestWhatWasSaidHereIsExportedWithWhatWasImported(t *testing.T) {
	t.Parallel()
	c := genuine(t)
	c.mustRun()
	const id = "01a22bf4-33a4-78b2-83fb-0c532de50bea"
	const telegram = "v1-telegram-4242-57b41c2761abb939"
	claim := c.claim(telegram, "4242", "9001", "third life?", at("2026-11-30T11:00:00Z"))
	step, err := c.s.BeginStep(t.Context(), claim.Run.ID, store.ThinkSlot(1))
	if err != nil {
		t.Fatal(err)
	}
	turn := store.Entry{Kind: store.EntryAssistant, Body: store.Body{Blocks: textBlock("Yes."), Model: "demo", Stop: llm.StopEnd, Usage: &llm.Usage{Input: 5, Output: 1}}}
	if _, err := c.s.CommitStep(t.Context(), step, store.Spent{}, turn); err != nil {
		t.Fatal(err)
	}
	before := c.context(id)
	text := c.exported(id)
	back := newSite(t)
	back.write("workspace/4242/sessions/current", "x.jsonl")
	back.write("workspace/4242/sessions/x.jsonl", text)
	back.mustRun()
	equal(t, "the context", back.context(id), before)

	// After /new the context is empty, there and back.
	if _, _, err := c.s.Reset(t.Context(), telegram, "4242", "9002", at("2026-11-30T11:00:01Z")); err != nil {
		t.Fatal(err)
	}
	fresh := newSite(t)
	fresh.write("workspace/4242/sessions/current", "x.jsonl")
	fresh.write("workspace/4242/sessions/x.jsonl", c.exported(id))
	fresh.mustRun()
	if got := fresh.context(id); len(got) != 1 || got[0] != "" {
		t.Errorf("%q", got)
	}
	s, err := fresh.s.SessionByID(t.Context(), id)
	if err != nil || s.SyncFloor == nil || !s.SyncFloor.Equal(at("2026-11-30T11:00:01Z")) {
		t.Errorf("%+v %v", s, err)
	}
	entries, err := fresh.s.Entries(t.Context(), id, 0, 100)
	if err != nil || len(entries) != 7+2+1 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

func TestAForkIsExportedWithWhatItInherited(t *testing.T) {
	t.Parallel()
	c := one(t, head("s1")+jsonl(user("a", "", "one"), assistant("b", "a", "answer one"), user("c", "b", "two"), assistant("d", "c", "answer two")))
	// As this installation's own export of a log has it: answers name what they answer, and where.
	c.write("workspace/C1/log.jsonl", `{"date":"2026-11-01T10:00:00Z","ts":"1.1","sessionKey":"C1","user":"U1","userName":"ann","text":"one"}`+"\n"+
		`{"date":"2026-11-01T10:00:02Z","ts":"1.2","replyTo":"1.1","sessionKey":"C1","user":"bot","text":"answer one","isMessagingBot":true,"kind":"answer"}`+"\n")
	c.mustRun()
	claim := c.claim(chat, "C1:1.2", "2.1", "more on one", at("2026-11-01T11:00:00Z"))
	fork, err := c.s.SessionByID(t.Context(), claim.Run.SessionID)
	if err != nil || fork.ParentID != "s1" {
		t.Fatalf("the cause in the log makes no fork: %+v %v", fork, err)
	}
	want := []string{"prompt one", "assistant answer one", "prompt [2026-11-01 11:00:00+00:00] [ann] [in-thread:1.2]: more on one"}
	equal(t, "the fork", c.said(fork.ID), want)
	back := newSite(t)
	back.write(session+"1.2.jsonl", c.exported(fork.ID))
	back.mustRun()
	equal(t, "the fork, imported", back.said(fork.ID), want)
}

func TestCausesReachBehindACompaction(t *testing.T) {
	t.Parallel()
	c := one(t, head("s1")+jsonl(user("a", "", "one"), assistant("b", "a", "answer one"),
		entry("e", "b", "compaction", m{"summary": "what was", "firstKeptEntryId": ""}), user("f", "e", "new")))
	c.write("workspace/C1/log.jsonl", `{"date":"2026-11-01T10:00:00Z","ts":"1.1","sessionKey":"C1","user":"U1","userName":"ann","text":"one"}`+"\n"+
		`{"date":"2026-11-01T10:00:02Z","ts":"1.2","replyTo":"1.1","sessionKey":"C1","user":"bot","text":"answer one","isMessagingBot":true}`+"\n")
	c.mustRun()
	equal(t, "the session", c.said("s1"), []string{"summary what was", "prompt new"})
	claim := c.claim(chat, "C1:1.2", "2.1", "back then", at("2026-11-01T11:00:00Z"))
	equal(t, "the fork", c.said(claim.Run.SessionID), []string{"prompt one", "assistant answer one", "prompt [2026-11-01 11:00:00+00:00] [ann] [in-thread:1.2]: back then"})
}
