package web

import (
	"bytes"
	"context"
	"encoding/json"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

const (
	// pageEntries is how many entries a page of the timeline shows.
	pageEntries = 200
	// foldWithin is how far behind its call a result may stand and still be folded into it. Farther ones, which only a
	// turn with as many calls could have, stand on their own.
	foldWithin = 128
	// shownBytes is how much of one text a page shows; the whole of it has an address of its own.
	shownBytes = 20_000
	// forksShown is how many threads are listed at one entry.
	forksShown = 20
)

// item is one entry of the timeline, with what is folded into it.
type item struct {
	Seq     int64
	Kind    store.EntryKind
	Title   string
	Detail  string // beside the title: the model that answered
	At      time.Time
	Aside   bool // kept and searchable, but not part of what the model reads
	Parts   []part
	Threads []thread
	More    int // threads that are not listed
	Run     *runEnd
	Kept    *thread // of a compaction: the first entry that it leaves to the model
	RawURL  string  // the entry's text, for copying; empty when it has none

	newest int64 // position of the newest entry that is shown in it
}

// partKind tells how a part is shown.
type partKind string

const (
	textPart     partKind = "text"
	thinkingPart partKind = "thinking"
	summaryPart  partKind = "summary"
	callPart     partKind = "call"
	imagePart    partKind = "image"
)

type part struct {
	Kind partKind
	passage
	Key       string // keeps a folded part open when it is replaced
	Name      string // of the tool
	Hint      string // what the call is about, in one line
	Invalid   string // why the call could not be carried out
	Result    *result
	State     callState
	MediaType string
	Size      int64
	URL       string

	callID string
}

// callState tells what became of a tool call.
type callState string

const (
	callDone    callState = "done"
	callFailed  callState = "failed"
	callRunning callState = "running"
	callOpen    callState = "no result"
)

// passage is a text as the page shows it.
type passage struct {
	Text    string
	HTML    template.HTML // the text rendered; empty: it is shown as it is
	LeftOut int64         // bytes that are not shown
	Whole   string        // address of the whole text
}

type result struct {
	Seq int64
	At  time.Time
	passage
	RawURL string
	Images []part
}

type thread struct{ Title, URL string }

// runEnd tells at a run's last entry how it ended.
type runEnd struct {
	Outcome string
	Failed  bool
	Error   string
	Model   string
	Steps   int64
	Took    string
	Usage   llm.Usage
	Cost    *int64
}

func passageOf(s, whole string) passage {
	shown := text.Head(s, shownBytes)
	return passage{Text: text.Visible(shown), LeftOut: int64(len(s) - len(shown)), Whole: whole}
}

// timeline makes the items of a session's entries from one position to another. running is the id of the open run.
func (v *Viewer) timeline(ctx context.Context, at visit, running string, from, to int64) ([]item, error) {
	id := at.session.ID
	entries, err := v.store.EntriesBetween(ctx, id, from, to, store.EntryKinds()...)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	m := matchResults(entries)
	if len(m.unmatched) > 0 && m.unmatched[0]-from <= foldWithin {
		// Results whose calls are on the page before are shown there.
		before, err := v.store.EntriesBetween(ctx, id, from-foldWithin, from-1, store.EntryAssistant, store.EntryToolResult)
		if err != nil {
			return nil, err
		}
		entries = append(before, entries...)
		m = matchResults(entries)
	}
	if m.unanswered > 0 && to-m.unanswered < foldWithin {
		after, err := v.store.EntriesBetween(ctx, id, to+1, m.unanswered+foldWithin, store.EntryToolResult)
		if err != nil {
			return nil, err
		}
		entries = append(entries, after...)
		m = matchResults(entries)
	}
	items := itemsOf(entries, m, at.links, running, from, to)
	return items, v.annotate(ctx, at, items, from, to)
}

// call names a tool call by its entry and its place among the calls there.
type call struct {
	seq   int64
	index int
}

type matched struct {
	results    map[call]store.Entry
	owner      map[int64]call // by the result's position
	unmatched  []int64        // positions of results without a call, in order
	unanswered int64          // position of the newest entry that has a call without a result; 0 = none
}

// matchResults finds the call of each result: the nearest before it that bears its id and has no result yet.
func matchResults(entries []store.Entry) matched {
	m := matched{results: map[call]store.Entry{}, owner: map[int64]call{}}
	open := map[string]call{}
	for _, e := range entries {
		switch e.Kind {
		case store.EntryAssistant:
			for i, block := range e.Body.Calls() {
				open[block.CallID] = call{e.Seq, i}
			}
		case store.EntryToolResult:
			c, ok := open[resultOf(e).CallID]
			if !ok || e.Seq-c.seq > foldWithin {
				m.unmatched = append(m.unmatched, e.Seq)
				continue
			}
			delete(open, resultOf(e).CallID)
			m.results[c], m.owner[e.Seq] = e, c
		}
	}
	for _, c := range open {
		m.unanswered = max(m.unanswered, c.seq)
	}
	return m
}

func resultOf(e store.Entry) llm.Block {
	for _, block := range e.Body.Blocks {
		if block.Kind == llm.BlockToolResult {
			return block
		}
	}
	return llm.Block{}
}

func itemsOf(entries []store.Entry, m matched, l links, running string, from, to int64) []item {
	var items []item
	md := &answers{left: pageMarkdown}
	for _, e := range entries {
		if e.Seq < from || e.Seq > to {
			continue
		}
		if _, folded := m.owner[e.Seq]; folded {
			continue
		}
		items = append(items, itemOf(e, m, l, running, md))
	}
	return items
}

var titles = map[store.EntryKind]string{
	store.EntryPrompt: "User", store.EntryChat: "Chat line", store.EntryAssistant: "Assistant", store.EntryToolResult: "Tool result",
	store.EntryCompaction: "Compaction", store.EntryReset: "Reset", store.EntryNote: "Note",
}

func itemOf(e store.Entry, m matched, l links, running string, md *answers) item {
	it := item{Seq: e.Seq, Kind: e.Kind, Title: titles[e.Kind], Detail: text.VisibleLine(e.Body.Model), At: e.At, Aside: !e.InContext, newest: e.Seq}
	whole := l.text(e.Seq)
	if rawText(e) != "" {
		it.RawURL = whole
	}
	if e.Body.KeptSeq != 0 {
		it.Kept = &thread{Title: "#" + strconv.FormatInt(e.Body.KeptSeq, 10), URL: l.entry(e.Body.KeptSession, e.Body.KeptSeq)}
	}
	if e.Body.Summary != "" {
		it.Parts = append(it.Parts, part{Kind: summaryPart, passage: passageOf(e.Body.Summary, whole), Key: key("s", e.Seq, 0)})
	}
	if e.Body.Note != "" {
		it.Parts = append(it.Parts, part{Kind: textPart, passage: passageOf(e.Body.Note, whole)})
	}
	calls, images := 0, 0
	for i, block := range e.Body.Blocks {
		switch block.Kind {
		case llm.BlockText:
			p := part{Kind: textPart, passage: passageOf(block.Text, whole)}
			if e.Kind == store.EntryAssistant {
				p.HTML = md.rendered(text.Head(block.Text, shownBytes))
			}
			it.Parts = append(it.Parts, p)
		case llm.BlockThinking:
			if block.Text != "" {
				it.Parts = append(it.Parts, part{Kind: thinkingPart, passage: passageOf(block.Text, ""), Key: key("t", e.Seq, i)})
			}
		case llm.BlockToolCall:
			p := callOf(block, e, calls)
			if answer, ok := m.results[call{e.Seq, calls}]; ok {
				p.Result, p.State = resultPart(answer, l)
				it.newest = max(it.newest, answer.Seq)
			} else if running != "" && e.RunID == running && block.Invalid == "" {
				p.State = callRunning
			}
			it.Parts = append(it.Parts, p)
			calls++
		case llm.BlockToolResult:
			r, state := resultPart(e, l)
			it.Parts = append(it.Parts, part{Kind: textPart, passage: r.passage, State: state})
			it.Parts = append(it.Parts, r.Images...)
		case llm.BlockImage:
			it.Parts = append(it.Parts, imageOf(block, l.image(e.Seq, images)))
			images++
		}
	}
	return it
}

func key(kind string, seq int64, i int) string { return kind + number(seq) + "." + number(int64(i)) }

func callOf(block llm.Block, e store.Entry, i int) part {
	arguments := block.Arguments
	var indented bytes.Buffer
	if json.Indent(&indented, []byte(arguments), "", "  ") == nil { // keeps every digit and every escape as written
		arguments = indented.String()
	}
	hint := strings.TrimSpace(block.Arguments)
	var one map[string]json.RawMessage
	if json.Unmarshal([]byte(hint), &one) == nil && len(one) == 1 {
		for _, value := range one {
			var s string
			if json.Unmarshal(value, &s) == nil {
				hint = s
			}
		}
	}
	return part{
		Kind: callPart, passage: passageOf(arguments, ""), Key: key("c", e.Seq, i), Name: text.VisibleLine(block.Name),
		Hint: text.Clip(text.VisibleLine(text.Head(hint, 1000)), 100), Invalid: text.Visible(block.Invalid), State: callOpen, callID: block.CallID,
	}
}

func resultPart(e store.Entry, l links) (*result, callState) {
	block := resultOf(e)
	r := &result{Seq: e.Seq, At: e.At, passage: passageOf(block.Text, l.text(e.Seq)), RawURL: l.text(e.Seq)}
	for i, image := range block.Images {
		r.Images = append(r.Images, imageOf(image, l.image(e.Seq, i)))
	}
	if block.IsError {
		return r, callFailed
	}
	return r, callDone
}

func imageOf(block llm.Block, url string) part {
	return part{Kind: imagePart, MediaType: text.VisibleLine(block.MediaType), Size: int64(len(block.Data)), URL: url}
}

// annotate adds to the items which threads forked after them and which runs ended with them.
func (v *Viewer) annotate(ctx context.Context, at visit, items []item, from, to int64) error {
	if len(items) == 0 {
		return nil
	}
	to = max(to, items[len(items)-1].newest)
	forks, err := v.store.SessionForks(ctx, at.session.ID, from, to, 10*pageEntries)
	if err != nil {
		return err
	}
	runs, err := v.store.RunsEnding(ctx, at.session.ID, from, to)
	if err != nil {
		return err
	}
	for _, fork := range forks {
		it := itemAt(items, fork.ForkSeq)
		switch {
		case it == nil:
		case len(it.Threads) == forksShown:
			it.More++
		default:
			it.Threads = append(it.Threads, thread{Title: nameOf(fork, at.office), URL: at.links.session(fork.ID)})
		}
	}
	for _, r := range runs {
		if it := itemAt(items, r.LastSeq); it != nil && r.State == store.Settled {
			it.Run = runEndOf(r)
		}
	}
	return nil
}

// itemAt finds the item in which an entry is shown: the newest that begins at it or before, and reaches it.
func itemAt(items []item, seq int64) *item {
	for i := range items {
		if items[i].Seq == seq {
			return &items[i]
		}
		for _, p := range items[i].Parts {
			if p.Result != nil && p.Result.Seq == seq {
				return &items[i]
			}
		}
	}
	return nil
}

func runEndOf(r store.Run) *runEnd {
	end := &runEnd{Outcome: string(r.Outcome), Failed: r.ErrorCode != "", Model: text.VisibleLine(r.Model), Steps: int64(r.Steps), Usage: r.Usage, Cost: r.CostMicros}
	if end.Failed {
		end.Error = string(r.ErrorCode)
	}
	if r.SettledAt != nil {
		end.Took = r.SettledAt.Sub(r.StartedAt).Round(time.Millisecond).String()
	}
	return end
}

// nameOf is what a session is called: a thread by its title, the top level as its conversation.
func nameOf(s store.Session, o store.Office) string {
	switch {
	case s.Title != "":
		return text.VisibleLine(s.Title)
	case s.SessionKey == o.ConversationID && o.Name != "":
		return text.VisibleLine(o.Name)
	}
	return text.VisibleLine(s.SessionKey)
}

// rawText is what an entry says, whole and as it is kept.
func rawText(e store.Entry) string {
	if e.Body.Summary != "" {
		return e.Body.Summary
	}
	if e.Body.Note != "" {
		return e.Body.Note
	}
	return e.Body.Text()
}
