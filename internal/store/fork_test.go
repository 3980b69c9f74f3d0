package store_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

// toolRun plays a run in the channel that calls a tool, and says something in the channel afterwards.
func toolRun(c *scene) (trigger, answer string) {
	trigger = c.ask("C1", "ann", "what is running?")
	r := c.claim("C1")
	c.think(r, 1, call("t1", "bash", `{"command":"uname"}`))
	c.result(r, 1, 0, "t1", "Linux")
	c.think(r, 2, words("It is Linux."))
	answer = c.settle(r, "It is Linux.", run.Answered)
	c.ask("C1", "bob", "something later")
	c.answer("C1", "a later answer")
	return trigger, answer
}

var forked = []string{
	"prompt [ann]: what is running?", `assistant call bash {"command":"uname"}`, "tool_result result Linux", "assistant It is Linux.",
}

func TestAThreadUnderAnAnswerContinuesTheRunThatGaveIt(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	_, answer := toolRun(c)
	key := "C1:" + answer
	c.ask(key, "cat", "and its version?")
	c.claim(key)
	c.wantContext(key, append(slices.Clone(forked), "prompt [cat] [in-thread:"+answer+"]: and its version?")...)
	session := c.session(key)
	if session.ParentID != c.session("C1").ID || session.NextSeq != 2 {
		t.Errorf("the fork has parent %q and %d entries of its own; it must copy none", session.ParentID, session.NextSeq-1)
	}
	if session.Title != "[mikan]: It is Linux." {
		t.Errorf("title %q", session.Title)
	}
}

func TestAThreadUnderATriggerContinuesTheRunItCaused(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	trigger, _ := toolRun(c)
	key := "C1:" + trigger
	c.chat(key, "carol", "a remark in the thread")
	c.ask(key, "cat", "go on")
	c.claim(key)
	c.wantContext(key, append(slices.Clone(forked), "chat [carol]: a remark in the thread", "prompt [cat] [in-thread:"+trigger+"]: go on")...)
}

func TestAThreadThatNoRunCausedStartsFromItsRoot(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	toolRun(c)
	root := c.chat("C1", "dan", "unrelated root\nsecond line")
	key := "C1:" + root
	c.chat(key, "eve", "first reply")
	c.chat("C1", "dan", "top level talk")
	c.ask(key, "cat", "what do you think?")
	c.claim(key)
	c.wantContext(key, "chat [dan]: unrelated root\nsecond line", "chat [eve]: first reply", "prompt [cat] [in-thread:"+root+"]: what do you think?")
	if title := c.session(key).Title; title != "[dan]: unrelated root" {
		t.Errorf("title %q", title)
	}
}

func TestNoticesAndOtherBotsCauseNothing(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	toolRun(c)
	bot := c.receive(c.message("C1", "deploybot", "deployed", store.AuthorBot), nil)
	key := "C1:" + bot
	c.ask(key, "cat", "what was deployed?")
	c.claim(key)
	c.wantContext(key, "chat [deploybot]: deployed", "prompt [cat] [in-thread:"+bot+"]: what was deployed?")
	if c.session(key).ParentID != "" {
		t.Error("a bot's message was forked from")
	}
}

func TestAThreadWaitsForTheRunItGrewFrom(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	trigger := c.ask("C1", "ann", "long work")
	r := c.claim("C1")
	c.think(r, 1, call("t1", "bash", `{}`))
	key := "C1:" + trigger
	c.ask(key, "bob", "how is it going?")
	if claim := c.claimAs(key, "thread", store.Wait); claim.Kind != store.BlockedRun || claim.WaitFor != r.ID {
		t.Fatalf("claimed %+v while the parent runs", claim)
	}
	c.result(r, 1, 0, "t1", "done")
	c.think(r, 2, words("finished"))
	intent, err := c.s.Finish(c.ctx(), r.ID, nil, store.Settlement{Outcome: run.Silent})
	c.must(err)
	if want := []string{run.WorkflowID(c.office.Key, key)}; !slices.Equal(intent.Woken, want) {
		t.Errorf("settling woke %v, want %v", intent.Woken, want)
	}
	if claim := c.claimAs(key, "thread", store.Wait); claim.Kind != store.ClaimedRun {
		t.Fatalf("claimed %+v after the parent settled", claim)
	}
	c.wantContext(key, "prompt [ann]: long work", "assistant call bash {}", "tool_result result done", "assistant finished",
		"prompt [bob] [in-thread:"+trigger+"]: how is it going?")
}

func TestAThreadWaitsForARunThatHasNotBegun(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	trigger := c.ask("C1", "ann", "queued")
	key := "C1:" + trigger
	c.ask(key, "bob", "reply")
	if claim := c.claimAs(key, "thread", store.Wait); claim.Kind != store.BlockedRun {
		t.Fatalf("claimed %+v before the parent ran", claim)
	}
	c.answer("C1", "answered")
	if claim := c.claimAs(key, "thread", store.Wait); claim.Kind != store.ClaimedRun || c.session(key).ParentID == "" {
		t.Fatalf("claimed %+v without a fork", claim)
	}
}

func TestPatienceEndsAtTheLastConsistentEntry(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	trigger := c.ask("C1", "ann", "endless")
	r := c.claim("C1")
	c.think(r, 1, call("t1", "bash", `{}`))
	c.result(r, 1, 0, "t1", "half")
	key := "C1:" + trigger
	c.ask(key, "bob", "hello?")
	if claim := c.claimAs(key, "thread", store.Now); claim.Kind != store.ClaimedRun {
		t.Fatalf("claimed %+v", claim)
	}
	c.think(r, 2, words("much later"))
	c.wantContext(key, "prompt [ann]: endless", "assistant call bash {}", "tool_result result half", "prompt [bob] [in-thread:"+trigger+"]: hello?")
}

func TestAFailedOrStoppedRunForksAtAConsistentEntry(t *testing.T) {
	t.Parallel()
	for _, outcome := range []run.Outcome{run.Failed, run.Stopped} {
		t.Run(string(outcome), func(t *testing.T) {
			t.Parallel()
			c := newScene(t)
			trigger := c.ask("C1", "ann", "break")
			r := c.claim("C1")
			c.think(r, 1, call("t1", "bash", `{}`))
			c.settle(r, "Stopped.", outcome)
			key := "C1:" + trigger
			c.ask(key, "bob", "what happened?")
			c.claim(key)
			c.wantContext(key, "prompt [ann]: break", "assistant call bash {}", "tool_result result "+store.InterruptedResult,
				"prompt [bob] [in-thread:"+trigger+"]: what happened?")
		})
	}
}

func TestARedeliveredTriggerHasOneRun(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	m := c.message("C1", "ann", "once", store.AuthorHuman)
	row := &store.InboxRow{OfficeKey: c.office.Key, SessionKey: "C1", Kind: store.InboxTrigger, Trigger: run.Human, MessageID: m.MessageID}
	var group sync.WaitGroup
	fresh := make([]bool, 5)
	for i := range fresh {
		group.Go(func() {
			var err error
			if fresh[i], err = c.s.Receive(c.ctx(), store.Arrival{Office: c.office, Message: m, Row: row}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := len(slices.DeleteFunc(fresh, func(f bool) bool { return !f })); n != 1 {
		t.Fatalf("%d of 5 deliveries were fresh", n)
	}
	c.answer("C1", "done")
	c.receive(m, row) // hours later
	if claim := c.claimAs("C1", "again", store.Wait); claim.Kind != store.NothingWaits {
		t.Errorf("a redelivery after the run claimed %+v", claim)
	}
}

func TestTwoOpenersMakeOneFork(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	_, answer := toolRun(c)
	key := "C1:" + answer
	first, second := c.ask(key, "bob", "one"), c.ask(key, "cat", "two")
	var group sync.WaitGroup
	for _, execution := range []string{"e1", "e2"} {
		group.Go(func() { c.claimAs(key, execution, store.Wait) })
	}
	group.Wait()
	sessions, err := c.s.Sessions(c.ctx(), c.office.Key, 100)
	c.must(err)
	if len(sessions) != 2 {
		t.Errorf("%d sessions, want the channel's and one fork", len(sessions))
	}
	r, _, err := c.s.OpenRun(c.ctx(), c.office.Key, key)
	c.must(err)
	if r.TriggerMessageID != first {
		t.Errorf("the first run is for %s, want %s before %s", r.TriggerMessageID, first, second)
	}
}

func TestAReplyUnderAnOlderAnswerForksThatOlderRun(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "one")
	_, first := c.answer("C1", "first")
	c.ask("C1", "ann", "two")
	c.answer("C1", "second")
	key := "C1:" + first
	c.ask(key, "bob", "about the first")
	c.claim(key)
	c.wantContext(key, "prompt [ann]: one", "assistant first", "prompt [bob] [in-thread:"+first+"]: about the first")
}

func TestEveryPartOfAnAnswerIsARootOfTheSameFork(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "long")
	r, _ := c.answer("C1", "part one")
	part := c.message("C1", "mikan", "part two", store.AuthorMikan)
	part.Kind, part.RunID, part.CauseMessageID = store.ChatAnswer, r.ID, r.TriggerMessageID
	c.receive(part, nil)
	key := "C1:" + part.MessageID
	c.ask(key, "bob", "about part two")
	c.claim(key)
	c.wantContext(key, "prompt [ann]: long", "assistant part one", "prompt [bob] [in-thread:"+part.MessageID+"]: about part two")
}

func TestAThreadInsideAThreadForksTheThreadsSession(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "one")
	_, first := c.answer("C1", "first")
	outer := "C1:" + first
	c.ask(outer, "bob", "two")
	_, second := c.answer(outer, "second")
	inner := "C1:" + second
	c.ask(inner, "cat", "three")
	c.claim(inner)
	c.wantContext(inner, "prompt [ann]: one", "assistant first", "prompt [bob] [in-thread:"+first+"]: two", "assistant second",
		"prompt [cat] [in-thread:"+second+"]: three")
	if c.session(inner).ParentID != c.session(outer).ID {
		t.Error("the inner thread is not a fork of the outer one")
	}
}

func TestAForkWorksAcrossAResetOfItsParent(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "before everything")
	c.answer("C1", "old answer")
	c.reset("C1")
	c.ask("C1", "ann", "one")
	_, first := c.answer("C1", "first")
	c.reset("C1")
	key := "C1:" + first
	c.ask(key, "bob", "still there?")
	c.claim(key)
	c.wantContext(key, "prompt [ann]: one", "assistant first", "prompt [bob] [in-thread:"+first+"]: still there?")
}

// compact lets a summary stand for everything before the entry at position kept.
func (c *scene) compact(r store.Run, key, slot, summary string, kept int) {
	c.t.Helper()
	read, err := c.s.Context(c.ctx(), c.session(key).ID)
	c.must(err)
	step, err := c.s.BeginStep(c.ctx(), r.ID, slot)
	c.must(err)
	c.must(c.s.Compact(c.ctx(), step, read.Session, summary, read.Entries[kept], store.Spent{}))
}

func TestAForkBeforeACompactionSeesTheRawEntriesAndOneAfterItTheSummary(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "one")
	_, first := c.answer("C1", "first")
	c.ask("C1", "ann", "two")
	r := c.claim("C1")
	c.compact(r, "C1", "compact/1/1", "they said one", 2) // keeps the prompt "two"
	c.think(r, 1, words("second"))
	second := c.settle(r, "second", run.Answered)
	c.wantContext("C1", "summary they said one", "prompt [ann]: two", "assistant second")

	before, after := "C1:"+first, "C1:"+second
	c.ask(before, "bob", "raw?")
	c.claim(before)
	c.wantContext(before, "prompt [ann]: one", "assistant first", "prompt [bob] [in-thread:"+first+"]: raw?")
	c.ask(after, "bob", "summary?")
	r = c.claim(after)
	c.wantContext(after, "summary they said one", "prompt [ann]: two", "assistant second", "prompt [bob] [in-thread:"+second+"]: summary?")

	// The fork compacts what it inherited: it keeps entries that its parent owns, and the parent does not notice.
	c.compact(r, after, "compact/1/1", "one and two", 1) // keeps the parent's "second"
	c.wantContext(after, "summary one and two", "assistant second", "prompt [bob] [in-thread:"+second+"]: summary?")
	c.wantContext("C1", "summary they said one", "prompt [ann]: two", "assistant second")
}

func TestUsageOfInheritedEntriesIsCountedOnce(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "one")
	_, first := c.answer("C1", "first")
	key := "C1:" + first
	c.ask(key, "bob", "two")
	c.answer(key, "second")
	runs, err := c.s.Runs(c.ctx(), store.RunFilter{OfficeKey: c.office.Key, Limit: 10})
	c.must(err)
	var total int64
	for _, r := range runs {
		total += r.Usage.Input
	}
	if total != 20 {
		t.Errorf("two model calls of 10 input tokens count %d", total)
	}
}

func TestASecondExecutionCannotOpenASecondRun(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "one")
	c.ask("C1", "ann", "two")
	r := c.claim("C1")
	if claim := c.claimAs("C1", "another", store.Wait); claim.Kind != store.OrphanedRun || claim.Run.ID != r.ID {
		t.Errorf("a second execution claimed %+v; it must settle the open run first", claim)
	}
	if claim := c.claimAs("C1", r.OriginRunID, store.Wait); claim.Kind != store.ClaimedRun || claim.Run.ID != r.ID {
		t.Errorf("the same execution claimed %+v; it must get its own run back", claim)
	}
	c.settle(r, "one", run.Answered)
	if claim := c.claimAs("C1", r.OriginRunID, store.Wait); claim.Kind != store.FinishedRun {
		t.Errorf("an execution whose run is settled claimed %+v", claim)
	}
}

func TestAForkCostsOneRow(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.ask("C1", "ann", "one")
	c.answer("C1", "first")
	before := c.sizes()
	const forks = 200
	for i := range forks {
		// Every fork needs a root of its own: parts of the same answer.
		part := c.message("C1", "mikan", "part", store.AuthorMikan)
		part.Kind, part.RunID = store.ChatAnswer, c.lastRun().ID
		root := c.receive(part, nil)
		c.ask("C1:"+root, "bob", "go on")
		if claimed := c.claim("C1:" + root); claimed.FirstSeq != 1 {
			t.Fatalf("fork %d begins with %d entries of its own", i, claimed.FirstSeq-1)
		}
	}
	after := c.sizes()
	if added := after.entries - before.entries; added != forks {
		t.Errorf("%d forks added %d entries, want their own prompts alone", forks, added)
	}
	if added := after.sessions - before.sessions; added != forks {
		t.Errorf("%d forks added %d sessions", forks, added)
	}
}

type sizes struct{ entries, sessions int }

func (c *scene) sizes() sizes {
	c.t.Helper()
	var s sizes
	c.must(c.s.Pool().QueryRow(c.ctx(), `SELECT (SELECT count(*) FROM entries), (SELECT count(*) FROM sessions)`).Scan(&s.entries, &s.sessions))
	return s
}

func (c *scene) lastRun() store.Run {
	c.t.Helper()
	runs, err := c.s.Runs(c.ctx(), store.RunFilter{OfficeKey: c.office.Key, State: store.Settled, Limit: 1})
	c.must(err)
	return runs[0]
}
