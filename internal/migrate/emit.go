package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tidwall/gjson"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

// emitted is an entry as the import writes it, with what the session's runs are made of.
type emitted struct {
	store.Entry
	Prompt bool  // begins a run
	Micros int64 // what the turn cost
	Priced bool
	Failed bool
	Stop   string
	Event  bool // begins a scheduled run
}

// matcher finds the message of the chat log that a text of a session stands for; "" when there is none.
type matcher interface {
	match(role messageRole, text string) (messageID string)
}

// detail tells whether what a record holds beside its content is collected.
type detail int

const (
	contentOnly detail = iota
	withLeftover
)

// emit reads a session file for the second time and hands out its entries in the order of their positions.
func (x *index) emit(ctx context.Context, file *os.File, match matcher, how detail, each func(emitted) error) error {
	e := emitter{index: x, file: file, match: match, how: how, each: each, last: x.header.Timestamp, open: map[closer]string{}, kept: map[int32]int64{}}
	for _, kept := range x.keepers {
		e.kept[kept] = 0
	}
	defer e.in.done()
	for i, at := range x.order {
		if i%512 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := e.close(at); err != nil {
			return err
		}
		if err := e.node(at); err != nil {
			return err
		}
	}
	return e.close(atEnd)
}

type emitter struct {
	*index
	file  *os.File
	in    lineReader
	match matcher
	how   detail
	each  func(emitted) error
	seq   int64
	last  time.Time
	open  map[closer]string // call ids of the calls that have to be closed
	kept  map[int32]int64   // positions of the records that compactions kept first
}

func (e *emitter) node(at int32) error {
	n := e.nodes[at]
	o, err := e.read(n.offset)
	if err != nil {
		return err
	}
	r, err := parseRecord(o)
	if err != nil {
		return err
	}
	body, err := bodyOf(o, r)
	if err != nil {
		return err
	}
	if r.At.IsZero() {
		r.At = e.last
	}
	e.last = r.At
	out := emitted{Entry: store.Entry{Kind: e.kindOf(n, at, r), Body: body, InContext: n.is(inContext), At: r.At}}
	if _, wanted := e.kept[at]; wanted {
		e.kept[at] = e.seq + 1
	}
	if out.Kind == store.EntryCompaction {
		out.Body.KeptSession, out.Body.KeptSeq = e.header.ID, e.seq+2
		if kept, known := e.keepers[at]; known && e.nodes[kept].is(onBranch) && e.kept[kept] > 0 {
			out.Body.KeptSeq = e.kept[kept]
		}
	}
	e.identify(&out, n, r)
	if n.kind == nodeAssistant {
		e.remember(at, out.Body)
	}
	if n.kind == nodeAssistant || n.kind == nodeFailed {
		out.Micros, out.Priced = cost(o.Get("message"))
		out.Failed, out.Stop = n.kind == nodeFailed, r.Stop
	}
	if e.how == withLeftover {
		if out.Body.Raw, err = leftoverOf(o, r); err != nil {
			return err
		}
	}
	return e.put(out)
}

func (e *emitter) kindOf(n node, at int32, r record) store.EntryKind {
	switch n.kind {
	case nodeAssistant, nodeFailed:
		return store.EntryAssistant
	case nodeResult:
		return store.EntryToolResult
	case nodeCompaction:
		if n.is(onBranch) {
			return store.EntryCompaction
		}
	case nodeReset:
		if n.is(onBranch) {
			return store.EntryReset
		}
	case nodeUser:
		if n.is(prompt) {
			return store.EntryPrompt
		}
		return store.EntryChat
	case nodeNote:
		if r.Role == roleBash {
			return store.EntryChat // kept from the model, but somebody's words all the same
		}
	}
	return store.EntryNote
}

// identify finds the platform message that an entry stands for, and whether it begins a run.
func (e *emitter) identify(out *emitted, n node, r record) {
	if n.kind != nodeUser && n.kind != nodeAssistant || r.Type != typeMessage {
		return
	}
	out.MessageID = r.Own.MessageID
	said := out.Body.Text()
	if out.MessageID == "" && e.match != nil && (r.Role == roleUser || n.is(synced)) {
		out.MessageID = e.match.match(r.Role, said)
	}
	out.Prompt = n.is(prompt) && n.is(onBranch)
	out.Event = out.Prompt && isEvent(said)
}

// remember keeps the ids of the calls that nobody answered.
func (e *emitter) remember(at int32, body store.Body) {
	for i, call := range body.Calls() {
		e.open[closer{at, uint32(i)}] = call.CallID
	}
}

// close makes up the results that stand before a node.
func (e *emitter) close(before int32) error {
	for _, c := range e.closers[before] {
		id, known := e.open[c]
		if !known {
			return fmt.Errorf("the file changed while it was read")
		}
		raw, err := json.Marshal(leftover{Closes: true})
		if err != nil {
			return err
		}
		out := emitted{Entry: store.Entry{Kind: store.EntryToolResult, InContext: true, At: e.last, Body: store.Body{
			Blocks: []llm.Block{{Kind: llm.BlockToolResult, CallID: id, Text: interrupted, IsError: true}},
		}}}
		if e.how == withLeftover {
			out.Body.Raw = raw
		}
		if err := e.put(out); err != nil {
			return err
		}
	}
	if len(e.open) > 0 && before != atEnd && e.nodes[before].kind == nodeUser {
		clear(e.open) // a result is made up before the next turn or never
	}
	return nil
}

func (e *emitter) put(out emitted) error {
	e.seq++
	out.SessionID, out.Seq = e.header.ID, e.seq
	out.Tokens = llm.Estimate([]llm.Message{{Blocks: out.Body.Blocks}})
	return e.each(out)
}

// read reads the line at an offset; lines are mostly read one after the other.
func (e *emitter) read(offset int64) (gjson.Result, error) {
	for e.in.in == nil || e.in.offset != offset {
		if e.in.in != nil && e.in.offset < offset && offset-e.in.offset < 64<<10 {
			// A blank line or a repeated header lies between.
			if _, err := e.in.read(); err != nil {
				return gjson.Result{}, err
			}
			continue
		}
		if _, err := e.file.Seek(offset, io.SeekStart); err != nil {
			return gjson.Result{}, err
		}
		if e.in.in == nil {
			e.in.in = borrow(e.file)
		} else {
			e.in.in.Reset(e.file)
		}
		e.in.offset = offset
	}
	l, err := e.in.next()
	if err != nil {
		return gjson.Result{}, err
	}
	return parseObject(l.bytes)
}

// imported names the trigger of a run that the chat log says nothing about: no message has such an id.
func importedTrigger(sessionID string, seq int64) string {
	return fmt.Sprintf("import/%s/%d", sessionID, seq)
}

// runsOf collects a session's runs while its entries go by: one for each prompt, ended by the next.
type runsOf struct {
	office, key, session string
	causes               map[string]bool // messages that the chat log names as causes of this session's answers
	open                 *store.Run
	answered, failed     bool
	stopped              bool
	unpriced             bool
	micros               int64
	each                 func(store.Run) error
}

func (c *runsOf) entry(e emitted) error {
	if e.Prompt {
		if err := c.end(); err != nil {
			return err
		}
		trigger := importedTrigger(c.session, e.Seq)
		if c.causes[e.MessageID] {
			trigger = e.MessageID
		}
		r := store.Run{
			ID: run.ID(c.office, c.key, trigger, 1), OfficeKey: c.office, SessionKey: c.key, SessionID: c.session,
			Trigger: run.Human, TriggerMessageID: trigger, Attempt: 1, WorkflowID: run.WorkflowID(c.office, c.key),
			State: store.Settled, FirstSeq: e.Seq, LastSeq: e.Seq, ReceivedAt: e.At, StartedAt: e.At, SettledAt: &e.At,
		}
		if e.Event {
			r.Trigger = run.Scheduled
		}
		c.open, c.answered, c.failed, c.stopped, c.unpriced, c.micros = &r, false, false, false, false, 0
		return nil
	}
	if c.open == nil {
		return nil
	}
	if e.Kind != store.EntryAssistant && e.Kind != store.EntryToolResult {
		return nil // what was noted, said or summed up after an answer is no part of what a fork of it sees
	}
	at := e.At
	if at.Before(c.open.StartedAt) {
		at = c.open.StartedAt
	}
	c.open.LastSeq, c.open.SettledAt = e.Seq, &at
	if u := e.Body.Usage; u != nil && e.Body.Model != platformHistory {
		c.open.Steps++
		c.open.Usage = c.open.Usage.Add(*u)
		c.open.Model = e.Body.Model
		c.micros += e.Micros
		c.unpriced = c.unpriced || !e.Priced
		c.failed = e.Stop == "error"
		c.stopped = e.Stop == "aborted"
		c.answered = !e.Failed && e.Body.Text() != ""
	}
	return nil
}

// platformHistory is the model that 0.5.3 names where it copied its own words back from the chat log.
const platformHistory = "platform-history"

func (c *runsOf) end() error {
	if c.open == nil {
		return nil
	}
	r := *c.open
	c.open = nil
	switch {
	case c.answered:
		r.Outcome = run.Answered
	case c.failed:
		r.Outcome = run.Failed
	case c.stopped:
		r.Outcome = run.Stopped
	default:
		r.Outcome = run.Silent
	}
	if !c.unpriced {
		micros := c.micros
		r.CostMicros = &micros
	}
	return c.each(r)
}
