package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

// index moves everything into the search index and refuses to leave anything behind.
func (c *scene) index() {
	c.t.Helper()
	_, err := c.s.IndexHistory(c.ctx())
	c.must(err)
	again, err := c.s.IndexHistory(c.ctx())
	c.must(err)
	if again != 0 {
		c.t.Fatalf("%d documents were indexed twice", again)
	}
}

// find searches the sessions of the office and tells what was found: session keys and the ends of the texts.
func (c *scene) find(query, sessionID string, page store.Page) (lines []string, more bool) {
	c.t.Helper()
	found, more, err := c.s.SearchEntries(c.ctx(), c.office.Key, sessionID, parse(c.t, query), page)
	c.must(err)
	for _, e := range found {
		said := e.Body.Text() + e.Body.Summary
		for _, call := range e.Body.Calls() {
			said += call.Name + " " + call.Arguments
		}
		if i := strings.LastIndex(said, "]: "); i >= 0 {
			said = said[i+3:]
		}
		lines = append(lines, string(e.Kind)+" "+said)
	}
	return lines, more
}

// wantFound searches before and after everything is in the index.
func (c *scene) wantFound(query string, want ...string) {
	c.t.Helper()
	for _, when := range []string{"before", "after"} {
		got, more := c.find(query, "", store.Page{Limit: 100})
		if !slices.Equal(got, want) || more {
			c.t.Errorf("%q %s indexing finds\n  %s\nwant\n  %s", query, when, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		c.index()
	}
}

// toolRun plays a run that calls one tool.
func (c *scene) toolRun(key, question, tool, arguments, output, answer string) (store.Run, string) {
	c.t.Helper()
	c.ask(key, "ann", question)
	r := c.claim(key)
	id := fmt.Sprintf("call%d", c.count)
	c.think(r, 1, call(id, tool, arguments))
	c.result(r, 1, 0, id, output)
	c.think(r, 2, words(answer))
	return r, c.settle(r, answer, run.Answered)
}

func TestSearchFindsWhatWasSaidCalledAndPrinted(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.toolRun("C1", "Which kernel?", "bash", `{"command":"date +%s%N | sha1sum"}`, "9f86d081 Linux-6.1", "It is Linux-6.1")
	c.wantFound("KERNEL", "prompt Which kernel?")
	c.wantFound("date +%s%N sha1sum", `assistant bash {"command":"date +%s%N | sha1sum"}`)
	c.wantFound("linux", "tool_result 9f86d081 Linux-6.1", "assistant It is Linux-6.1")
	c.wantFound("86d08 linux", "tool_result 9f86d081 Linux-6.1")
	c.wantFound("linux kernel")
	c.wantFound("ann", "prompt Which kernel?")
}

func TestArgumentsAreFoundByWhatTheyMean(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	arguments := `{"content":"first\nsecond \"quoted\" caf\u00e9","id":2932809024865746956}`
	c.toolRun("C1", "go", "write", arguments, "ok", "done")
	for _, query := range []string{"second", `"quoted"`, "café", "2932809024865746956", "write content"} {
		c.wantFound(query, "assistant write "+arguments)
	}
	c.wantFound("nsecond")
}

func TestTheHistoryToolNeverFindsItself(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "look it up")
	r := c.claim("C1")
	c.think(r, 1, call("h1", "history", `{"action":"search","query":"zebra"}`), call("b1", "bash", `{"command":"echo giraffe"}`))
	c.result(r, 1, 0, "h1", "1 match: zebra crossing")
	c.result(r, 1, 1, "b1", "giraffe")
	c.think(r, 2, call("h1", "bash", `{"command":"true"}`)) // providers reuse ids from turn to turn
	c.result(r, 2, 0, "h1", "tapir")
	c.wantFound("zebra")
	c.wantFound("history")
	c.wantFound("giraffe", `assistant history {"action":"search","query":"zebra"}bash {"command":"echo giraffe"}`, "tool_result giraffe")
	c.wantFound("tapir", "tool_result tapir")
}

func TestInheritedEntriesAreFoundOnceInTheirOwnSession(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	_, answer := c.toolRun("C1", "question", "bash", `{"command":"uname"}`, "walrus", "told")
	for range 3 {
		c.ask("C1:"+answer, "bob", "and what now?")
		c.answer("C1:"+answer, "nothing")
	}
	c.wantFound("walrus", "tool_result walrus")
	parent, fork := c.session("C1").ID, c.session("C1:"+answer).ID
	if got, _ := c.find("walrus", parent, store.Page{Limit: 9}); len(got) != 1 {
		t.Errorf("the parent has %v", got)
	}
	if got, _ := c.find("walrus", fork, store.Page{Limit: 9}); len(got) != 0 {
		t.Errorf("the fork has %v", got)
	}
	if got, _ := c.find("now", fork, store.Page{Limit: 9}); len(got) != 3 {
		t.Errorf("of its own the fork has %v", got)
	}
}

func TestResetsHideNothingFromSearch(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "the old secret word is ocelot")
	c.answer("C1", "noted")
	c.reset("C1")
	c.ask("C1", "ann", "what was it?")
	c.claim("C1")
	c.wantContext("C1", "prompt [ann]: what was it?")
	c.wantFound("ocelot", "prompt the old secret word is ocelot")
}

func TestOfficesAreSearchedApart(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	other := sceneIn(t, c.s, "C2")
	c.ask("C1", "ann", "lynx here")
	c.answer("C1", "one")
	other.ask("C2", "ann", "lynx there")
	other.answer("C2", "two")
	c.wantFound("lynx", "prompt lynx here")
	other.wantFound("lynx", "prompt lynx there")
	if got, _ := c.find("lynx", other.session("C2").ID, store.Page{Limit: 9}); len(got) != 0 {
		t.Errorf("another office's session gives %v", got)
	}
}

func TestPagesBeginAtTheNewestAndReadOldestFirst(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	said := func(from, to int) (lines []string) {
		for i := from; i <= to; i++ {
			lines = append(lines, fmt.Sprintf("prompt hello %d", i))
		}
		return lines
	}
	for i := 1; i <= 7; i++ {
		c.ask("C1", "ann", fmt.Sprintf("hello %d", i))
		c.answer("C1", "hi")
		if i == 4 {
			c.index() // the newer ones are found beside the index, the older ones by it
		}
	}
	for _, want := range []struct {
		skip  int
		lines []string
		more  bool
	}{{0, said(5, 7), true}, {2, said(3, 5), true}, {4, said(1, 3), false}, {6, said(1, 1), false}, {7, nil, false}, {90, nil, false}} {
		got, more := c.find("hello", "", store.Page{Limit: 3, Skip: want.skip})
		if !slices.Equal(got, want.lines) || more != want.more {
			t.Errorf("skip %d gives %v, more %v", want.skip, got, more)
		}
	}
}

// at sets when an entry was made, as an import does.
func (c *scene) at(text string, at time.Time) {
	c.t.Helper()
	tag, err := c.s.Pool().Exec(c.ctx(), `UPDATE entries SET at = $2 WHERE body::text LIKE '%' || $1 || '%'`, text, at)
	c.must(err)
	if tag.RowsAffected() != 1 {
		c.t.Fatalf("%d entries hold %q", tag.RowsAffected(), text)
	}
}

func TestTimeOrdersWhatWasImportedInAnotherOrder(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	for _, key := range []string{"C1:new", "C1:old"} {
		c.ask(key, "ann", "bison in "+key)
		c.answer(key, "ok")
	}
	c.at("bison in C1:new", time.Now().AddDate(0, -1, 0))
	c.at("bison in C1:old", time.Now().AddDate(-2, 0, 0))
	c.wantFound("bison", "prompt bison in C1:old", "prompt bison in C1:new")
}

func TestKeysWithoutTheWordDoNotHideAnOlderMatch(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "the word is aabab")
	c.answer("C1", "ok")
	// Every three characters of the word, but never the word: each of these is a candidate.
	_, err := c.s.Pool().Exec(c.ctx(), `
		INSERT INTO entries (session_id, seq, kind, body)
		SELECT $1, 100 + i, 'chat', '{"blocks":[{"kind":"text","text":"aab aba bab"}]}' FROM generate_series(1, 2500) i`, c.session("C1").ID)
	c.must(err)
	c.wantFound("aabab", "prompt the word is aabab")
}

func TestTheChatLogIsSearchedAsItReadsNow(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	edited := c.chat("C1", "ann", "the puma runs")
	deleted := c.chat("C1:t", "bob", "another puma")
	c.chat("C1", "eve", "no session holds this PUMA")
	check := func(query string, want ...string) {
		t.Helper()
		for range 2 {
			found, more, err := c.s.SearchChat(c.ctx(), c.office.Key, parse(t, query), store.Page{Limit: 10})
			c.must(err)
			var got []string
			for _, m := range found {
				got = append(got, m.AuthorName+": "+m.Text)
			}
			if !slices.Equal(got, want) || more {
				t.Errorf("%q finds %q, want %q", query, got, want)
			}
			c.index()
		}
	}
	check("puma", "ann: the puma runs", "bob: another puma", "eve: no session holds this PUMA")
	_, err := c.s.Revise(c.ctx(), store.Revision{OfficeKey: c.office.Key, MessageID: edited, Text: "the jaguar runs"})
	c.must(err)
	_, err = c.s.Revise(c.ctx(), store.Revision{OfficeKey: c.office.Key, MessageID: deleted, Deleted: true})
	c.must(err)
	check("puma", "eve: no session holds this PUMA")
	check("jaguar", "ann: the jaguar runs")
	check("eve", "eve: no session holds this PUMA")
}

func TestSeveralProcessesIndexAtOnce(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	fill(t, c.s, "many", 5000)
	type outcome struct {
		n   int
		err error
	}
	done := make(chan outcome)
	for range 4 {
		go func() {
			n, err := c.s.IndexHistory(c.ctx())
			done <- outcome{n, err}
		}()
	}
	total := 0
	for range 4 {
		o := <-done
		c.must(o.err)
		total += o.n
	}
	if total != 5000 {
		t.Errorf("%d of 5000 entries are indexed", total)
	}
}
