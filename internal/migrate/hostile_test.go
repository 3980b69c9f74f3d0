package migrate_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/migrate"
)

func TestCharactersThatTheDatabaseCannotHoldAreReplacedAndNothingElse(t *testing.T) {
	t.Parallel()
	line := func(id, parent, content string) string {
		return `{"type":"message","id":"` + id + `","parentId":` + parent + `,"timestamp":"2026-11-01T10:00:01.000Z","message":{"role":"user","content":"` + content + `"}}` + "\n"
	}
	c := one(t, head("s1")+line("a", "null", `nul \u0000 here`)+line("b", `"a"`, "raw \x80 byte")+line("c", `"b"`, `lone \ud83d half`)+
		line("d", `"c"`, `whole \ud83c\udf89 and 🎉`)+
		`{"type":"message","id":"e","parentId":"d","timestamp":"2026-11-01T10:00:01.000Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"k","name":"bash","arguments":{"n":2932809024865746956,"s":"\u0000\udc00"}}],"stopReason":"toolUse"},"extra\u0000":"\ud800","big":1e99999}`+"\n"+
		`{"type":"custom","id":"f","parentId":"e","timestamp":"2026-11-01T10:00:01.000Z","customType":"x","data":{"a":"\u0000"}}`+"\n")
	c.write("workspace/C1/log.jsonl", `{"ts":"1.1","user":"U\u0000","userName":"\ud800","text":"a\u0000b`+"\x80"+`"}`+"\n")
	c.mustRun()
	got := c.said("s1")
	equal(t, "texts", got[:4], []string{"prompt nul \uFFFD here", "prompt raw \uFFFD byte", "prompt lone \uFFFD half", "prompt whole 🎉 and 🎉"})
	entries, err := c.s.Entries(t.Context(), "s1", 4, 1)
	if err != nil || entries[0].Body.Calls()[0].Arguments != `{"n":2932809024865746956,"s":"`+"\uFFFD\uFFFD"+`"}` {
		t.Errorf("%v %v", entries, err)
	}
	if m, err := c.s.ChatMessage(t.Context(), chat, "1.1"); err != nil || m.Text != "a\uFFFDb\uFFFD" {
		t.Errorf("%q %v", m.Text, err)
	}
}

func TestShapesThatNoSessionHasAreRefusedByLine(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]struct{ line, want string }{
		"nested too deep":       {`{"type":"custom","id":"a","data":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, "nests more than 512 values"},
		"nested beyond parsing": {strings.Repeat("[", 1<<20), "is not valid JSON"},
		"a number for a record": {`1`, "is no JSON object"},
		"no type":               {`{"id":"a"}`, "has no type"},
		"an id that is a list":  {`{"type":"message","id":[]}`, "has no id"},
		"no message":            {`{"type":"message","id":"a"}`, "is a message without content"},
		"no role":               {`{"type":"message","id":"a","message":{}}`, "is a message without a role"},
		"content of a number":   {`{"type":"message","id":"a","message":{"role":"user","content":7}}`, "has content that is neither text nor a list"},
		"a picture of nothing":  {`{"type":"message","id":"a","message":{"role":"user","content":[{"type":"image","data":"%%%"}]}}`, "has a picture that is not base64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := one(t, head("s1")+w.line+"\n"+jsonl(user("z", "", "more")))
			problems := c.refused()
			if len(problems) != 1 || problems[0].Line != 2 || !strings.HasPrefix(problems[0].What, w.want) {
				t.Errorf("%+v", problems)
			}
		})
	}
}

func TestALineOfAHundredMegabytesIsRefusedInBoundedMemory(t *testing.T) {
	t.Parallel()
	c := newSite(t)
	c.write(session+"current", active)
	at := filepath.Join(c.root, session+active)
	file, err := os.Create(at)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = file.WriteString(head("s1") + `{"type":"message","id":"a","message":{"role":"user","content":"`)
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range 100 {
		if _, err := file.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = file.WriteString("\"}}\n" + jsonl(user("b", "", "after")))
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = c.run()
	var problem *migrate.Refused
	if !asRefused(err, &problem) || len(problem.Problems) != 1 || problem.Problems[0].Line != 2 || problem.Problems[0].What != "is longer than 64 MiB" {
		t.Errorf("%v", err)
	}
}

func TestAChainOfAMillionParents(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	c := newSite(t)
	c.write(session+"current", active)
	var b strings.Builder
	b.WriteString(head("s1"))
	const depth = 1_000_000
	parent := "null"
	for i := range depth {
		id := fmt.Sprintf(`"%07x"`, i)
		fmt.Fprintf(&b, `{"type":"label","id":%s,"parentId":%s,"timestamp":"2026-11-01T10:00:01.000Z","targetId":"x"}`+"\n", id, parent)
		parent = id
	}
	c.write(session+active, b.String())
	c.o.Mode = migrate.DryRun
	if got := c.mustRun(); got.Totals.Entries != depth {
		t.Errorf("%+v", got.Totals)
	}
	runtime.KeepAlive(b)
}

func TestSpecialFilesInTheWorkspaceAreNoConversations(t *testing.T) {
	t.Parallel()
	c := one(t, head("s1")+jsonl(user("a", "", "one")))
	c.write("workspace/.hidden/log.jsonl", "")
	c.write("workspace/skills/log.jsonl", "")
	c.write("workspace/agents/sessions/x.jsonl", "nonsense")
	c.write("workspace/MEMORY.md", "")
	c.write("workspace/empty/README", "")
	if got := c.mustRun(); got.Totals.Offices != 1 || got.Totals.Sessions != 1 {
		t.Errorf("%+v", got.Totals)
	}
	for _, kept := range []string{".hidden/log.jsonl", "skills/log.jsonl", "agents/sessions/x.jsonl", "empty/README"} {
		if _, err := os.Stat(filepath.Join(c.work, kept)); err != nil {
			t.Error(err)
		}
	}
}

func TestTheImportIsCutShortByItsContext(t *testing.T) {
	t.Parallel()
	c := genuine(t)
	ctx, cancel := context.WithCancel(t.Context())
	c.o.Report = func(e migrate.Event) {
		if e.Step == migrate.StepSession {
			cancel()
		}
	}
	if _, err := migrate.Run(ctx, c.o); err == nil {
		t.Fatal("it went on")
	}
	calm := genuine(t)
	calm.mustRun()
	c.o.Report = nil
	c.mustRun()
	if want, got := calm.settled(), c.settled(); got != want {
		t.Errorf("another state:\n%s", diff(want, got))
	}
}

// FuzzSessionFile holds that any file is either refused or imported as a whole: verified against the file, exported, and
// imported again with the same context. Every run of it uses one database, so sessions get names of their own.
func FuzzSessionFile(f *testing.F) {
	f.Add([]byte(head("s1") + jsonl(user("a", "", "one"), assistant("b", "a", "two", "k"), result("c", "b", "k", "x"))))
	f.Add([]byte(head("s1") + jsonl(user("a", "c", "one"), assistant("b", "a", "two", "k", "k"), entry("c", "b", "compaction", m{"summary": "S", "firstKeptEntryId": "a"}))))
	f.Add([]byte(head("s1") + jsonl(user("a", "", "one"))[:70]))
	f.Add([]byte("{\"type\":\"session\",\"version\":3,\"id\":\"x\"}\r\n{\"type\":\"custom\",\"id\":\"\\u0000\",\"customType\":\"mikan.chat_sync\",\"data\":{\"messageCount\":9e9,\"lastMessageId\":\"1\"}}"))
	f.Add([]byte(head("s1") + `{"type":"message","id":"a","message":{"role":"assistant","content":[{"type":"thinking","thinking":"\ud800","thinkingSignature":"s"}],"usage":{"input":-1,"output":1e300},"stopReason":"error"},"x":1e9999}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := migrate.CheckSession(t.Context(), writeTemporary(t, content)); err != nil {
			t.Fatal(err)
		}
	})
}

func writeTemporary(t *testing.T, content []byte) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "f.jsonl")
	if err := os.WriteFile(at, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}
