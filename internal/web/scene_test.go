package web_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/web"
)

// scene plays people, platform and worker against a real database, with the view served over real HTTP.
type scene struct {
	t      *testing.T
	s      *store.Store
	base   string // of the server
	office store.Office
	now    time.Time
	count  int
	log    *strings.Builder // what the view logged
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := storetest.Open(t)
	c := &scene{t: t, s: s, now: time.Now().Add(-2 * time.Hour).UTC().Truncate(time.Second), log: &strings.Builder{}}
	c.office = officeOf(t, "C1")
	mux := http.NewServeMux()
	ctx, stop := context.WithCancel(t.Context())
	web.New(ctx, s, slog.New(slog.NewTextHandler(c.log, &slog.HandlerOptions{Level: slog.LevelDebug}))).Mount(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		stop() // ends the streams, for which Close would wait
		server.Close()
	})
	c.base = server.URL
	return c
}

func officeOf(t *testing.T, conversation string) store.Office {
	t.Helper()
	key, err := office.Address{Platform: office.Slack, ConversationID: conversation}.Key()
	if err != nil {
		t.Fatal(err)
	}
	return store.Office{Key: string(key), Platform: "slack", ConversationID: conversation, Audience: store.Shared, Name: "#general"}
}

func (c *scene) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// message logs what somebody says; with a trigger it also asks mikan.
func (c *scene) message(key, author, said string, asks ...run.Trigger) string {
	c.t.Helper()
	c.count++
	c.now = c.now.Add(time.Second)
	m := store.ChatMessage{
		OfficeKey: c.office.Key, MessageID: fmt.Sprintf("m%d", c.count), SessionKey: key, AuthorID: "u1", AuthorName: author,
		AuthorKind: store.AuthorHuman, Kind: store.ChatMessageKind, Text: said, SentAt: c.now,
	}
	arrival := store.Arrival{Office: c.office, Message: m}
	for _, trigger := range asks {
		arrival.Row = &store.InboxRow{OfficeKey: c.office.Key, SessionKey: key, Kind: store.InboxTrigger, Trigger: trigger, MessageID: m.MessageID}
	}
	_, err := c.s.Receive(c.t.Context(), arrival)
	c.must(err)
	return m.MessageID
}

// ask has somebody ask mikan, and begins the run.
func (c *scene) ask(key, author, said string) store.Run {
	c.t.Helper()
	c.message(key, author, said, run.Human)
	execution := fmt.Sprintf("w%d", c.count)
	claim, err := c.s.Claim(c.t.Context(), store.Address{OfficeKey: c.office.Key, SessionKey: key},
		store.Execution{WorkflowID: run.WorkflowID(c.office.Key, key), OriginRun: execution, RunID: execution},
		store.Wait, store.Terms{Model: "demo/demo", Zone: time.UTC})
	c.must(err)
	if claim.Kind != store.ClaimedRun {
		c.t.Fatalf("claimed %+v, want a run", claim)
	}
	return claim.Run
}

func words(said string) llm.Block { return llm.Block{Kind: llm.BlockText, Text: said} }

func calling(id, name, arguments string) llm.Block {
	return llm.Block{Kind: llm.BlockToolCall, CallID: id, Name: name, Arguments: arguments}
}

// think stores the model's turn of a step, at a price of 15 millionths of a dollar.
func (c *scene) think(r store.Run, step int, blocks ...llm.Block) store.Entry {
	c.t.Helper()
	micros := int64(15)
	return c.step(r, store.ThinkSlot(step), store.Spent{Usage: llm.Usage{Input: 1000, Output: 10, CacheRead: 2}, CostMicros: &micros},
		store.Entry{Kind: store.EntryAssistant, Body: store.Body{Blocks: blocks, Model: "demo-1"}})
}

func (c *scene) result(r store.Run, step, i int, callID, said string, images ...llm.Block) store.Entry {
	c.t.Helper()
	slot := store.CallSlot(store.ThinkSlot(step), i)
	return c.step(r, slot, store.Spent{}, store.ResultEntry(r.ID, slot, callID, said, store.Returned, images...))
}

func (c *scene) step(r store.Run, slot string, spent store.Spent, entry store.Entry) store.Entry {
	c.t.Helper()
	attempt, err := c.s.BeginStep(c.t.Context(), r.ID, slot)
	c.must(err)
	stored, err := c.s.CommitStep(c.t.Context(), attempt, spent, entry)
	c.must(err)
	return stored
}

// draw shows an answer that is still growing.
func (c *scene) draw(r store.Run, said string) {
	c.t.Helper()
	c.must(c.s.Confirm(c.t.Context(), c.confirmation(r, said, store.Posted)))
}

func (c *scene) confirmation(r store.Run, said string, state store.DeliveryState) store.Confirmation {
	c.t.Helper()
	key := run.DeliveryKey(r.ID, "answer/0")
	intent, err := c.s.Intend(c.t.Context(), store.Delivery{
		Key: key, OfficeKey: r.OfficeKey, SessionKey: r.SessionKey, RunID: r.ID, Kind: store.AnswerDelivery, Text: said,
	}, time.Second, store.PostOnce)
	c.must(err)
	return store.Confirmation{Key: key, Token: intent.Token, State: state, MessageID: "a" + r.ID[:8], Text: said}
}

// answer finishes a run; it returns the message id of the answer.
func (c *scene) answer(r store.Run, said string) string {
	c.t.Helper()
	confirmation := c.confirmation(r, said, store.Final)
	c.now = c.now.Add(time.Second)
	confirmation.Log = &store.ChatMessage{
		OfficeKey: r.OfficeKey, MessageID: confirmation.MessageID, SessionKey: r.SessionKey, AuthorID: "mikan", AuthorName: "mikan",
		AuthorKind: store.AuthorMikan, Kind: store.ChatAnswer, Text: said, RunID: r.ID, CauseMessageID: r.TriggerMessageID, SentAt: c.now,
	}
	_, err := c.s.Finish(c.t.Context(), r.ID, []store.Confirmation{confirmation}, store.Settlement{Outcome: run.Answered})
	c.must(err)
	return confirmation.MessageID
}

// fill appends entries to a session in bulk, as a long history would have.
func (c *scene) fill(sessionID string, n int, body string) {
	c.t.Helper()
	_, err := c.s.Pool().Exec(c.t.Context(), `
		INSERT INTO entries (session_id, seq, kind, body)
		SELECT $1, next_seq - 1 + i, 'chat', jsonb_build_object('blocks', jsonb_build_array(jsonb_build_object('kind', 'text', 'text', $3 || ' ' || i)))
		FROM sessions, generate_series(1, $2) i WHERE id = $1`, sessionID, n, body)
	c.must(err)
	_, err = c.s.Pool().Exec(c.t.Context(), `UPDATE sessions SET next_seq = next_seq + $2 WHERE id = $1`, sessionID, n)
	c.must(err)
}

// link makes a link to a session.
func (c *scene) link(sessionID string) string {
	c.t.Helper()
	token, _, err := c.s.CreateLink(c.t.Context(), sessionID, store.LinkLifetime)
	c.must(err)
	return web.Link(c.base, token)
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (c *scene) get(url string) answer {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, url, nil)
	c.must(err)
	response, err := http.DefaultClient.Do(request)
	c.must(err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	c.must(err)
	return answer{response.StatusCode, response.Header, string(body)}
}

// document is a parsed page.
type document struct {
	t    *testing.T
	root *html.Node
}

func (c *scene) page(url string) document {
	c.t.Helper()
	a := c.get(url)
	if a.status != http.StatusOK {
		c.t.Fatalf("GET gave %d: %s", a.status, a.body)
	}
	return parse(c.t, a.body)
}

func parse(t *testing.T, markup string) document {
	t.Helper()
	root, err := html.Parse(strings.NewReader(markup))
	if err != nil {
		t.Fatal(err)
	}
	return document{t, root}
}

// id finds the element of an id.
func (d document) id(id string) document {
	d.t.Helper()
	for n := range d.root.Descendants() {
		if attribute(n, "id") == id {
			return document{d.t, n}
		}
	}
	d.t.Fatalf("the page has no element %q", id)
	return document{}
}

func (d document) has(id string) bool {
	for n := range d.root.Descendants() {
		if attribute(n, "id") == id {
			return true
		}
	}
	return false
}

// all finds the elements of a tag that have a class; "" for any.
func (d document) all(tag, class string) []document {
	var found []document
	for n := range d.root.Descendants() {
		if n.Type == html.ElementNode && n.Data == tag && (class == "" || strings.Contains(" "+attribute(n, "class")+" ", " "+class+" ")) {
			found = append(found, document{d.t, n})
		}
	}
	return found
}

func (d document) text() string {
	var b strings.Builder
	for n := range d.root.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// follow is the address that a link of a page leads to.
func follow(t *testing.T, page, href string) string {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, page, nil)
	if err != nil {
		t.Fatal(err)
	}
	to, err := request.URL.Parse(href)
	if err != nil {
		t.Fatal(err)
	}
	return to.String()
}
