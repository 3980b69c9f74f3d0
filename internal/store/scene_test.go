package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
)

// scene plays people, the platform and the worker against a real database: one office, a clock of its own, message ids
// m1, m2, … and temporal executions w1, w2, ….
type scene struct {
	t      testing.TB
	s      *store.Store
	office store.Office
	now    time.Time
	count  int
}

func newScene(t testing.TB) *scene {
	t.Helper()
	return sceneIn(t, storetest.Open(t), "C1")
}

func sceneIn(t testing.TB, s *store.Store, conversation string) *scene {
	return &scene{
		t: t, s: s, now: time.Now().Add(-2 * time.Hour).UTC().Truncate(time.Second),
		office: store.Office{Key: "v1-slack-" + strings.ToLower(conversation) + "-0123456789abcdef", Platform: "slack", ConversationID: conversation, Audience: store.Shared},
	}
}

func (c *scene) ctx() context.Context { return c.t.Context() }

func (c *scene) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *scene) tick() time.Time {
	c.now = c.now.Add(time.Second)
	return c.now
}

func (c *scene) message(key, author, said string, kind store.AuthorKind) store.ChatMessage {
	c.count++
	return store.ChatMessage{
		OfficeKey: c.office.Key, MessageID: fmt.Sprintf("m%d", c.count), SessionKey: key, AuthorID: author, AuthorName: author,
		AuthorKind: kind, Kind: store.ChatMessageKind, Text: said, SentAt: c.tick(),
	}
}

func (c *scene) receive(m store.ChatMessage, row *store.InboxRow) string {
	c.t.Helper()
	_, err := c.s.Receive(c.ctx(), store.Arrival{Office: c.office, Message: m, Row: row})
	c.must(err)
	return m.MessageID
}

// chat logs what somebody said without addressing mikan.
func (c *scene) chat(key, author, said string) string {
	c.t.Helper()
	return c.receive(c.message(key, author, said, store.AuthorHuman), nil)
}

// ask logs and queues a message that addresses mikan.
func (c *scene) ask(key, author, said string) string {
	c.t.Helper()
	m := c.message(key, author, said, store.AuthorHuman)
	return c.receive(m, &store.InboxRow{
		OfficeKey: c.office.Key, SessionKey: key, Kind: store.InboxTrigger, Trigger: run.Human, MessageID: m.MessageID,
	})
}

// claimAs claims for an execution of the given name.
func (c *scene) claimAs(key, execution string, patience store.Patience) store.Claim {
	c.t.Helper()
	claim, err := c.s.Claim(c.ctx(), store.Address{OfficeKey: c.office.Key, SessionKey: key},
		store.Execution{WorkflowID: run.WorkflowID(c.office.Key, key), OriginRun: execution, RunID: execution},
		patience, store.Terms{Model: "demo/demo", Zone: time.UTC})
	c.must(err)
	return claim
}

// claim claims the oldest waiting message of a session for a new execution.
func (c *scene) claim(key string) store.Run {
	c.t.Helper()
	c.count++
	claim := c.claimAs(key, fmt.Sprintf("w%d", c.count), store.Wait)
	if claim.Kind != store.ClaimedRun {
		c.t.Fatalf("claimed %+v, want a run", claim)
	}
	return claim.Run
}

func call(id, name, arguments string) llm.Block {
	return llm.Block{Kind: llm.BlockToolCall, CallID: id, Name: name, Arguments: arguments}
}

func words(said string) llm.Block { return llm.Block{Kind: llm.BlockText, Text: said} }

// think stores the model's turn of a step.
func (c *scene) think(r store.Run, step int, blocks ...llm.Block) {
	c.t.Helper()
	attempt, err := c.s.BeginStep(c.ctx(), r.ID, store.ThinkSlot(step))
	c.must(err)
	c.must(c.s.CloseCalls(c.ctx(), attempt.Run))
	_, err = c.s.CommitStep(c.ctx(), attempt, store.Spent{Usage: llm.Usage{Input: 10, Output: 1}}, store.Entry{Kind: store.EntryAssistant, Body: store.Body{Blocks: blocks}})
	c.must(err)
}

// result stores the result of a tool call.
func (c *scene) result(r store.Run, step, index int, callID, said string) {
	c.t.Helper()
	slot := store.CallSlot(store.ThinkSlot(step), index)
	attempt, err := c.s.BeginStep(c.ctx(), r.ID, slot)
	c.must(err)
	_, err = c.s.CommitStep(c.ctx(), attempt, store.Spent{}, store.ResultEntry(r.ID, slot, callID, said, store.Returned))
	c.must(err)
}

// settle delivers a run's last message and settles it; it returns the message's id.
func (c *scene) settle(r store.Run, said string, outcome run.Outcome) string {
	c.t.Helper()
	c.count++
	id := fmt.Sprintf("a%d", c.count)
	key := run.DeliveryKey(r.ID, "answer/0")
	kind, logged := store.AnswerDelivery, store.ChatAnswer
	if outcome != run.Answered {
		kind, logged = store.NoticeDelivery, store.ChatNotice
	}
	intent, err := c.s.Intend(c.ctx(), store.Delivery{Key: key, OfficeKey: r.OfficeKey, SessionKey: r.SessionKey, RunID: r.ID, Kind: kind, Text: said}, time.Second, store.PostOnce)
	c.must(err)
	_, err = c.s.Finish(c.ctx(), r.ID, []store.Confirmation{{
		Key: key, Token: intent.Token, State: store.Final, MessageID: id, Text: said,
		Log: &store.ChatMessage{
			OfficeKey: r.OfficeKey, MessageID: id, SessionKey: r.SessionKey, AuthorID: "mikan", AuthorName: "mikan",
			AuthorKind: store.AuthorMikan, Kind: logged, Text: said, CauseMessageID: r.TriggerMessageID, RunID: r.ID, SentAt: c.tick(),
		},
	}}, store.Settlement{Outcome: outcome})
	c.must(err)
	return id
}

// answer plays a whole run without tools and returns the answer's message id.
func (c *scene) answer(key, said string) (store.Run, string) {
	c.t.Helper()
	r := c.claim(key)
	c.think(r, 1, words(said))
	return r, c.settle(r, said, run.Answered)
}

// reset starts an empty session, as /new does.
func (c *scene) reset(key string) {
	c.t.Helper()
	m := c.message(key, "ann", "/new", store.AuthorHuman)
	m.Kind = store.ChatCommand
	c.receive(m, nil)
	_, _, err := c.s.Reset(c.ctx(), c.office.Key, key, m.MessageID, m.SentAt)
	c.must(err)
}

// session finds the current session of a key.
func (c *scene) session(key string) store.Session {
	c.t.Helper()
	session, known, err := c.s.CurrentSession(c.ctx(), c.office.Key, key)
	c.must(err)
	if !known {
		c.t.Fatalf("there is no session %s", key)
	}
	return session
}

// context tells what the model of a session would read, one line an entry, without times.
func (c *scene) context(key string) []string {
	c.t.Helper()
	read, err := c.s.Context(c.ctx(), c.session(key).ID)
	c.must(err)
	lines := []string{}
	if read.Summary != "" {
		lines = append(lines, "summary "+read.Summary)
	}
	for _, e := range read.Entries {
		for _, b := range e.Body.Blocks {
			said := b.Text
			switch b.Kind {
			case llm.BlockToolCall:
				said = "call " + b.Name + " " + b.Arguments
			case llm.BlockToolResult:
				said = "result " + b.Text
			}
			if e.Kind == store.EntryPrompt || e.Kind == store.EntryChat {
				_, said, _ = strings.Cut(said, "] ") // the time
			}
			lines = append(lines, string(e.Kind)+" "+said)
		}
	}
	return lines
}

func (c *scene) wantContext(key string, want ...string) {
	c.t.Helper()
	got := c.context(key)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		c.t.Errorf("context of %s:\n  %s\nwant:\n  %s", key, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
