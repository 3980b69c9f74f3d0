package migrate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
)

// Export writes a session as version 3 JSONL, which 0.5.3's session library opens and this package imports. Entries that
// were imported become the records that they were, others new ones that follow the newest. What a fork inherited comes
// first, since such a file stands for itself. No path is written.
func Export(ctx context.Context, s *store.Store, sessionID string, to io.Writer) error {
	found, err := s.SessionByID(ctx, sessionID)
	if err != nil {
		return err
	}
	x := &exporter{ctx: ctx, store: s, to: json.NewEncoder(to), session: found}
	x.to.SetEscapeHTML(false)
	head := map[string]any{
		"type": typeHeader, "version": formatVersion, "id": found.ID, "timestamp": stamp(found.CreatedAt), "cwd": "",
	}
	if err := x.to.Encode(head); err != nil {
		return err
	}
	if err := x.inherited(); err != nil {
		return err
	}
	for e, err := range s.EachEntry(ctx, sessionID) {
		if err != nil {
			return err
		}
		if err := x.entry(e); err != nil {
			return err
		}
	}
	return nil
}

// stamp is a moment as the session library writes it.
func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000Z") }

// object is a record, by field.
type object map[string]any

type exporter struct {
	ctx     context.Context
	store   *store.Store
	to      *json.Encoder
	session store.Session
	last    string // id of the record that the next new one follows; "" at the root
	named   bool
	tools   map[string]string // names of the newest turn's tools by call
}

// inherited writes what a fork's context began with: the summary and the entries of its ancestors.
func (x *exporter) inherited() error {
	if x.session.ParentID == "" || x.session.Whole {
		return nil
	}
	fork, err := x.store.InheritedContext(x.ctx, x.session)
	if err != nil {
		return err
	}
	if fork.Summary != "" {
		// Nothing stands before it that it could keep; all that follows is read anyway.
		id := x.session.ID + "-summary"
		err := x.put(object{"type": typeCompaction, "id": id, "parentId": x.parent(), "timestamp": stamp(x.session.CreatedAt),
			"summary": fork.Summary, "firstKeptEntryId": "", "tokensBefore": 0}, id)
		if err != nil {
			return err
		}
	}
	for _, e := range fork.Entries {
		e.Body.Raw = nil // its parent may not be in this file
		if err := x.entry(e); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) parent() any {
	if x.last == "" {
		return nil
	}
	return x.last
}

func (x *exporter) put(record object, id string) error {
	x.last = id
	return x.to.Encode(record)
}

// entryID names a record that this installation made: no imported one has such an id.
func entryID(e store.Entry) string { return "mikan-" + strconv.FormatInt(e.ID, 36) }

func (x *exporter) entry(e store.Entry) error {
	var kept leftover
	if len(e.Body.Raw) > 0 {
		if err := json.Unmarshal(e.Body.Raw, &kept); err != nil {
			return fmt.Errorf("entry %d holds what cannot be read: %w", e.Seq, err)
		}
	}
	if kept.Closes {
		return nil // importing it makes it again
	}
	if kept.Record != nil {
		record, id := restored(e, kept)
		return x.put(record, id)
	}
	if !x.named && x.session.Title != "" {
		x.named = true
		id := x.session.ID + "-name"
		if err := x.put(object{"type": typeInfo, "id": id, "parentId": x.parent(), "timestamp": stamp(e.At), "name": x.session.Title}, id); err != nil {
			return err
		}
	}
	return x.native(e)
}

// restored is an imported record as it was.
func restored(e store.Entry, kept leftover) (object, string) {
	record := object{}
	for name, value := range kept.Record {
		record[name] = value
	}
	var id string
	_ = json.Unmarshal(kept.Record["id"], &id)
	if e.MessageID != "" {
		record["mikan"] = object{"messageId": e.MessageID}
	}
	var content any
	if kept.Content != nil {
		content = kept.Content
	} else if kept.Plain && len(e.Body.Blocks) == 1 {
		content = e.Body.Blocks[0].Text
	} else {
		content = contentOf(e.Body.Blocks, kept.Blocks)
	}
	var kind recordType
	_ = json.Unmarshal(kept.Record["type"], &kind)
	switch kind {
	case typeMessage:
		message := object{}
		for name, value := range kept.Message {
			message[name] = value
		}
		switch role, _ := strconv.Unquote(string(kept.Message["role"])); messageRole(role) {
		case roleUser, roleCustom, roleAssistant, roleToolResult:
			message["content"] = content
		}
		record["message"] = message
	case typeCustomMessage:
		record["content"] = content
	case typeCompaction:
		record["summary"] = e.Body.Summary
	}
	return record, id
}

// native writes an entry that this installation made.
func (x *exporter) native(e store.Entry) error {
	id := entryID(e)
	record := object{"id": id, "parentId": x.parent(), "timestamp": stamp(e.At)}
	mark := object{}
	if e.MessageID != "" {
		mark["messageId"] = e.MessageID
	}
	at := e.At.UnixMilli()
	switch e.Kind {
	case store.EntryPrompt, store.EntryChat:
		record["type"], record["message"] = typeMessage, object{"role": roleUser, "content": contentOf(e.Body.Blocks, nil), "timestamp": at}
		if e.Kind == store.EntryChat {
			mark["kind"] = "chat"
		}
	case store.EntryAssistant:
		record["type"], record["message"] = typeMessage, x.assistant(e, at)
	case store.EntryToolResult:
		return x.results(e, record, at)
	case store.EntryCompaction:
		kept, err := x.keptID(e)
		if err != nil {
			return err
		}
		record["type"], record["summary"], record["tokensBefore"], record["firstKeptEntryId"] = typeCompaction, e.Body.Summary, 0, kept
	case store.EntryReset:
		// It is a new root: what came before is on another branch.
		data := object{}
		if x.session.SyncFloor != nil {
			data["syncFloor"] = stamp(*x.session.SyncFloor)
		}
		record["type"], record["customType"], record["data"], record["parentId"] = typeCustom, customReset, data, nil
	default:
		record["type"], record["customType"], record["data"] = typeCustom, "mikan.note", object{"note": e.Body.Note}
	}
	if len(mark) > 0 {
		record["mikan"] = mark
	}
	return x.put(record, id)
}

// keptID names the record that a compaction of this installation's own kept first; "" when it kept none.
func (x *exporter) keptID(compaction store.Entry) (string, error) {
	kept, err := x.store.EntriesBetween(x.ctx, compaction.Body.KeptSession, compaction.Body.KeptSeq, compaction.Body.KeptSeq, store.EntryKinds()...)
	if err != nil || len(kept) == 0 {
		return "", err
	}
	var imported leftover
	if len(kept[0].Body.Raw) > 0 && kept[0].SessionID == x.session.ID {
		if err := json.Unmarshal(kept[0].Body.Raw, &imported); err != nil {
			return "", err
		}
	}
	var id string
	if json.Unmarshal(imported.Record["id"], &id) == nil && id != "" {
		return id, nil
	}
	return entryID(kept[0]), nil
}

// results writes one record for each result of an entry.
func (x *exporter) results(e store.Entry, record object, at int64) error {
	for i, b := range e.Body.Blocks {
		content := []object{{"type": "text", "text": b.Text}}
		for _, image := range b.Images {
			content = append(content, blockOf(image))
		}
		result := object{
			"type": typeMessage, "id": record["id"], "parentId": x.parent(), "timestamp": record["timestamp"],
			"message": object{"role": roleToolResult, "toolCallId": b.CallID, "toolName": x.tools[b.CallID], "content": content, "isError": b.IsError, "timestamp": at},
		}
		id := entryID(e)
		if i > 0 {
			id += "-" + strconv.Itoa(i)
			result["id"] = id
		}
		if err := x.put(result, id); err != nil {
			return err
		}
	}
	return nil
}

// The library's names of why a model stopped.
var stopNames = map[llm.StopReason]string{llm.StopEnd: "stop", llm.StopTools: "toolUse", llm.StopLength: "length", llm.StopRefused: "stop"}

func (x *exporter) assistant(e store.Entry, at int64) object {
	x.tools = map[string]string{}
	api := "openai-completions"
	for _, b := range e.Body.Blocks {
		switch b.Kind {
		case llm.BlockToolCall:
			x.tools[b.CallID] = b.Name
		case llm.BlockThinking:
			for name, dialect := range dialects {
				if b.Provider == dialect {
					api = name
				}
			}
		}
	}
	var u llm.Usage
	if e.Body.Usage != nil {
		u = *e.Body.Usage
	}
	stop := stopNames[e.Body.Stop]
	if stop == "" {
		stop = "stop"
	}
	return object{
		"role": roleAssistant, "content": contentOf(e.Body.Blocks, nil), "api": api, "provider": "mikan", "model": e.Body.Model,
		"usage": object{
			"input": u.Input, "output": u.Output, "cacheRead": u.CacheRead, "cacheWrite": u.CacheWrite,
			"totalTokens": u.Input + u.Output + u.CacheRead + u.CacheWrite,
			"cost":        object{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
		},
		"stopReason": stop, "timestamp": at,
	}
}

// contentOf writes blocks as the library has them, with what an import kept beside them.
func contentOf(blocks []llm.Block, rest map[string]map[string]json.RawMessage) []object {
	content := make([]object, 0, len(blocks))
	add := func(b llm.Block) {
		o := blockOf(b)
		for name, value := range rest[strconv.Itoa(len(content))] {
			o[name] = value
		}
		content = append(content, o)
	}
	for _, b := range blocks {
		if b.Kind != llm.BlockToolResult {
			add(b)
			continue
		}
		if b.Text != "" || len(b.Images) == 0 {
			add(llm.Block{Kind: llm.BlockText, Text: b.Text})
		}
		for _, image := range b.Images {
			add(image)
		}
	}
	return content
}

func blockOf(b llm.Block) object {
	switch b.Kind {
	case llm.BlockThinking:
		o := object{"type": "thinking", "thinking": b.Text}
		switch {
		case b.Signature != "":
			o["thinkingSignature"] = b.Signature
		case b.Opaque != "" && b.Provider == dialects["anthropic-messages"]:
			o["thinkingSignature"], o["redacted"] = b.Opaque, true
		case b.Opaque != "":
			o["thinkingSignature"] = b.Opaque
		}
		return o
	case llm.BlockToolCall:
		arguments := json.RawMessage(b.Arguments)
		if !json.Valid(arguments) {
			arguments = json.RawMessage("{}")
		}
		return object{"type": "toolCall", "id": b.CallID, "name": b.Name, "arguments": arguments}
	case llm.BlockImage:
		return object{"type": "image", "mimeType": b.MediaType, "data": base64.StdEncoding.EncodeToString(b.Data)}
	}
	return object{"type": "text", "text": b.Text}
}
