// Package history looks into the past of one office: its sessions, what they hold, and its chat log. The model's tool
// and the operator's commands are two faces of it.
package history

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/search"
	"github.com/geminixiang/mikan/internal/store"
)

// Action is one way of looking.
type Action string

// The actions.
const (
	Sessions Action = "sessions" // list the sessions
	Search   Action = "search"   // find entries of sessions
	Read     Action = "read"     // page through one session
	Chat     Action = "chat"     // page through the chat log, or find messages
)

// Actions lists all actions.
func Actions() []Action { return []Action{Sessions, Search, Read, Chat} }

// Bounds of Request.Limit.
const (
	MaxLimit     = 200
	defaultLimit = 20
)

// Current names the session that the request comes from, in Request.Session.
const Current = "current"

// Request is one look. Office is required; it is never the asker's choice, so that no office sees another.
type Request struct {
	Office  string
	Here    string // id of the session that the request comes from; "" when from none
	Action  Action
	Query   string // for search; optional for chat
	Session string // an id, a prefix of at least 8 characters, or Current: required for read, optional for search
	Limit   *int64 // 1 to MaxLimit; nil = 20, for sessions 200
	Skip    int64  // how many of the newest to leave out
}

// Answer is a page, oldest first.
type Answer struct {
	Title string `json:"title"` // what the page shows, in a sentence
	Items []Item `json:"items"`
	Skip  int64  `json:"skip"`
	More  bool   `json:"more"` // there are older ones
}

// Item is one session, entry or message.
type Item struct {
	Head string `json:"head"` // a line that names it
	Text string `json:"text,omitempty"`
	// Session and Seq say where an entry is.
	Session string    `json:"session,omitempty"`
	Seq     int64     `json:"seq,omitempty"`
	Kind    string    `json:"kind,omitempty"`
	At      time.Time `json:"at,omitzero"`
	// focus is the character of Text that a clipped text is shown around.
	focus int
}

// Reader answers requests. It only reads.
type Reader struct {
	Store *store.Store
	Zone  *time.Location // of the times shown; nil = UTC
}

// Look answers a request. What is wrong with it is an error with the code invalid or not_found and a sentence for
// whoever asked.
func (r *Reader) Look(ctx context.Context, in Request) (Answer, error) {
	page, err := pageOf(in)
	if err != nil {
		return Answer{}, err
	}
	var answer Answer
	switch in.Action {
	case Sessions:
		answer, err = r.sessions(ctx, in, page)
	case Search:
		answer, err = r.search(ctx, in, page)
	case Read:
		answer, err = r.read(ctx, in, page)
	case Chat:
		answer, err = r.chat(ctx, in, page)
	default:
		return Answer{}, fault.New(fault.Invalid, "there is no action %q; the actions are sessions, search, read and chat", in.Action)
	}
	answer.Skip = in.Skip
	if answer.Items == nil {
		answer.Items = []Item{}
	}
	return answer, err
}

// maxSkip keeps a page's place within what the database counts with.
const maxSkip = 1_000_000_000

func pageOf(in Request) (store.Page, error) {
	limit := int64(defaultLimit)
	switch {
	case in.Limit != nil:
		limit = *in.Limit
	case in.Action == Sessions:
		limit = MaxLimit
	}
	if limit < 1 || limit > MaxLimit {
		return store.Page{}, fault.New(fault.Invalid, "limit is %d; it must be from 1 to %d", limit, MaxLimit)
	}
	if in.Skip < 0 || in.Skip > maxSkip {
		return store.Page{}, fault.New(fault.Invalid, "skip is %d; it must be from 0 to %d", in.Skip, maxSkip)
	}
	return store.Page{Limit: int(limit), Skip: int(in.Skip)}, nil
}

func (r *Reader) sessions(ctx context.Context, in Request, page store.Page) (Answer, error) {
	list, err := r.Store.SessionSummaries(ctx, in.Office, page.Limit+1, page.Skip)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{More: len(list) > page.Limit}
	if answer.More {
		list = list[:page.Limit]
	}
	answer.Title = counted(answer, len(list), page, "session", "sessions") + " of this conversation, the newest last"
	if in.Here != "" {
		answer.Title += "; * is this session"
	}
	slices.Reverse(list)
	for _, s := range list {
		answer.Items = append(answer.Items, Item{
			Head: r.sessionLine(s, in.Here), Session: s.ID, Kind: "session", At: s.UpdatedAt,
		})
	}
	return answer, nil
}

func (r *Reader) sessionLine(s store.SessionSummary, here string) string {
	mark := " "
	if s.ID == here {
		mark = "*"
	}
	generation := "current"
	if s.ArchivedAt != nil {
		generation = "earlier"
	}
	line := fmt.Sprintf("%s %s %s key=%s entries=%d updated=%s", mark, s.ID, generation, s.SessionKey, s.Entries, r.time(s.UpdatedAt))
	if s.ID == here {
		line += " (this one)"
	}
	if s.ParentID != "" {
		line += fmt.Sprintf(" parent=%s at #%d", s.ParentID, s.ForkSeq)
	}
	if s.Title != "" {
		line += " " + s.Title
	}
	return line
}

func (r *Reader) search(ctx context.Context, in Request, page store.Page) (Answer, error) {
	if strings.TrimSpace(in.Query) == "" {
		return Answer{}, fault.New(fault.Invalid, "search needs a query")
	}
	query, err := search.Parse(in.Query)
	if err != nil {
		return Answer{}, err
	}
	only := ""
	if in.Session != "" {
		session, err := r.session(ctx, in)
		if err != nil {
			return Answer{}, err
		}
		only = session.ID
	}
	found, more, err := r.Store.SearchEntries(ctx, in.Office, only, query, page)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{More: more}
	owners := map[string]bool{}
	for _, e := range found {
		owners[e.SessionID] = true
		item := r.entry(e)
		item.Head = "session " + e.SessionID + " " + item.Head
		item.focus, _ = query.First(item.Text)
		answer.Items = append(answer.Items, item)
	}
	answer.Title = fmt.Sprintf("%s in %s, the newest last", counted(answer, len(found), page, "match", "matches"), number(len(owners), "session", "sessions"))
	return answer, nil
}

func (r *Reader) read(ctx context.Context, in Request, page store.Page) (Answer, error) {
	if in.Session == "" {
		return Answer{}, fault.New(fault.Invalid, "read needs a session: its id, the first 8 characters of it or more, or %q", Current)
	}
	session, err := r.session(ctx, in)
	if err != nil {
		return Answer{}, err
	}
	entries, more, err := r.Store.ReadSession(ctx, session, page)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{
		Title: fmt.Sprintf("Session %s, key %s: %s, the newest last", session.ID, session.SessionKey, number(int(session.NextSeq-1), "entry", "entries")),
		More:  more,
	}
	if session.ParentID != "" {
		answer.Title += fmt.Sprintf("; it was forked from session %s after #%d, which has what came before", session.ParentID, session.ForkSeq)
	}
	for _, e := range entries {
		answer.Items = append(answer.Items, r.entry(e))
	}
	return answer, nil
}

// session finds the session that a request names, in its office only.
func (r *Reader) session(ctx context.Context, in Request) (store.Session, error) {
	if in.Session != Current {
		return r.Store.OfficeSession(ctx, in.Office, in.Session)
	}
	if in.Here == "" {
		return store.Session{}, fault.New(fault.Invalid, "there is no current session here; give a session's id")
	}
	return r.Store.OfficeSession(ctx, in.Office, in.Here)
}

func (r *Reader) chat(ctx context.Context, in Request, page store.Page) (Answer, error) {
	var messages []store.ChatMessage
	var more bool
	var query search.Query
	var err error
	one, several := "message", "messages"
	if strings.TrimSpace(in.Query) == "" {
		messages, more, err = r.Store.ReadChat(ctx, in.Office, page)
	} else {
		one, several = "matching message", "matching messages"
		if query, err = search.Parse(in.Query); err == nil {
			messages, more, err = r.Store.SearchChat(ctx, in.Office, query, page)
		}
	}
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{More: more}
	for _, m := range messages {
		answer.Items = append(answer.Items, r.message(m, query))
	}
	answer.Title = counted(answer, len(messages), page, one, several) + " of the chat log, the newest last"
	return answer, nil
}

func (r *Reader) message(m store.ChatMessage, query search.Query) Item {
	head := fmt.Sprintf("%s [%s]", r.time(m.SentAt), oneLine(m.AuthorName))
	if m.ThreadID != "" {
		head += " in thread " + m.ThreadID
	}
	if m.Kind != store.ChatMessageKind {
		head += " (" + string(m.Kind) + ")"
	}
	item := Item{Head: head, Text: m.Text, Kind: string(m.Kind), At: m.SentAt}
	for _, a := range m.Attachments {
		item.Text += "\n(attached: " + oneLine(a.Name) + ")"
	}
	item.focus, _ = query.First(item.Text)
	return item
}

// entry shows an entry as text. Pictures are named and never shown: a model that looked back would see them all again.
func (r *Reader) entry(e store.Remembered) Item {
	item := Item{
		Head:    fmt.Sprintf("#%d %s %s", e.Seq, r.time(e.At), kindOf(e.Kind)),
		Session: e.SessionID, Seq: e.Seq, Kind: string(e.Kind), At: e.At,
	}
	var lines []string
	if e.Body.Summary != "" {
		lines = append(lines, e.Body.Summary)
	}
	if e.Body.Note != "" {
		lines = append(lines, e.Body.Note)
	}
	for _, block := range e.Body.Blocks {
		switch block.Kind {
		case llm.BlockText:
			lines = append(lines, block.Text)
		case llm.BlockImage:
			lines = append(lines, picture(block))
		case llm.BlockToolCall:
			lines = append(lines, callLine(block))
		case llm.BlockToolResult:
			lines = append(lines, resultLines(block, e.Tools[block.CallID])...)
		}
	}
	item.Text = strings.Join(lines, "\n")
	return item
}

func callLine(block llm.Block) string {
	if block.Name == store.HistoryTool {
		return "calls history (its calls and results are not repeated here)"
	}
	return "calls " + block.Name + " " + plainIfEscaped(block.Arguments)
}

// plainIfEscaped keeps arguments in their form unless JSON's escapes make them hard to read and to find words in.
func plainIfEscaped(arguments string) string {
	if strings.Contains(arguments, `\`) && json.Valid([]byte(arguments)) {
		return store.PlainArguments(arguments)
	}
	return arguments
}

func resultLines(block llm.Block, tool string) []string {
	if tool == store.HistoryTool {
		return []string{"result of history (not repeated here)"}
	}
	if tool == "" {
		tool = "a tool"
	}
	head := "result of " + tool + ":"
	if block.IsError {
		head = "error of " + tool + ":"
	}
	lines := []string{head + " " + block.Text}
	for _, image := range block.Images {
		lines = append(lines, picture(image))
	}
	return lines
}

func picture(block llm.Block) string { return "(a picture, " + block.MediaType + ")" }

func kindOf(k store.EntryKind) string {
	switch k {
	case store.EntryToolResult:
		return "tool"
	case store.EntryReset:
		return "reset: the model's context began anew"
	case store.EntryCompaction:
		return "compaction: for the model, this summary stands for older entries"
	}
	return string(k)
}

const timeLayout = "2006-01-02 15:04:05-07:00"

func (r *Reader) time(t time.Time) string {
	if r.Zone == nil {
		return t.UTC().Format(timeLayout)
	}
	return t.In(r.Zone).Format(timeLayout)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// counted says how many a page has: all there are, or a part.
func counted(a Answer, n int, page store.Page, one, several string) string {
	if page.Skip == 0 && !a.More {
		return number(n, one, several)
	}
	return fmt.Sprintf("%s, from number %d counted from the newest", number(n, one, several), page.Skip+1)
}

func number(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
