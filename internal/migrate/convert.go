package migrate

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

// interrupted is what the model reads about a call whose result was never recorded.
const interrupted = "The upgrade of mikan interrupted this call before its result was recorded. It may have had effects; check before you repeat it."

// The texts around summaries, by which 0.5.3 showed them to the model.
const (
	branchSummaryBefore  = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n"
	branchSummaryAfter   = "</summary>"
	contextSummaryBefore = "The conversation history before this point was compacted into the following summary:\n\n<summary>\n"
	contextSummaryAfter  = "\n</summary>"
)

// checkContent tells whether a record's content can be taken over.
func checkContent(o gjson.Result, r record) error {
	_, err := bodyOf(o, r)
	return err
}

// bodyOf turns a record into an entry's body, without what the body keeps beside the content (see leftover).
func bodyOf(o gjson.Result, r record) (store.Body, error) {
	switch r.Type {
	case typeMessage:
		return messageBody(o.Get("message"), r)
	case typeCustomMessage:
		blocks, err := contentBlocks(o.Get("content"), "")
		return store.Body{Blocks: blocks}, err
	case typeBranchSummary:
		return said(branchSummaryBefore + str(o.Get("summary")) + branchSummaryAfter), nil
	case typeCompaction:
		return store.Body{Summary: str(o.Get("summary"))}, nil
	case typeModel:
		return note("The model is now %s/%s.", str(o.Get("provider")), str(o.Get("modelId"))), nil
	case typeThinking:
		return note("The thinking level is now %s.", str(o.Get("thinkingLevel"))), nil
	case typeInfo:
		return note("The session is called %s.", r.Name), nil
	case typeLabel:
		return note("Record %s is labelled %s.", str(o.Get("targetId")), str(o.Get("label"))), nil
	case typeCustom:
		if r.Custom == customReset {
			return store.Body{}, nil
		}
		return note("%s %s", r.Custom, plain(o.Get("data"))), nil
	}
	return note("A record of type %s: %s", string(r.Type), plain(o)), nil
}

func messageBody(m gjson.Result, r record) (store.Body, error) {
	switch r.Role {
	case roleUser, roleCustom:
		blocks, err := contentBlocks(m.Get("content"), "")
		return store.Body{Blocks: blocks}, err
	case roleAssistant:
		return assistantBody(m)
	case roleToolResult:
		block, err := resultBlock(m)
		return store.Body{Blocks: []llm.Block{block}}, err
	case roleBash:
		return said(commandText(m)), nil
	case roleBranchSummary:
		return said(branchSummaryBefore + str(m.Get("summary")) + branchSummaryAfter), nil
	case roleCompactionSummary:
		return said(contextSummaryBefore + str(m.Get("summary")) + contextSummaryAfter), nil
	}
	return note("A message of role %s: %s", text.Storable(string(r.Role)), plain(m)), nil
}

func said(what string) store.Body {
	return store.Body{Blocks: []llm.Block{{Kind: llm.BlockText, Text: what}}}
}

func note(format string, args ...any) store.Body {
	return store.Body{Note: fmt.Sprintf(format, args...)}
}

// plain is JSON as people search it: without escapes.
func plain(v gjson.Result) string {
	return text.Storable(store.PlainArguments(string(text.StorableJSON([]byte(v.Raw)))))
}

func assistantBody(m gjson.Result) (store.Body, error) {
	blocks, err := contentBlocks(m.Get("content"), m.Get("api").Str)
	if err != nil {
		return store.Body{}, err
	}
	b := store.Body{Blocks: blocks, Model: str(m.Get("model"))}
	switch stop := m.Get("stopReason").Str; stop {
	case "toolUse":
		b.Stop = llm.StopTools
	case "length":
		b.Stop = llm.StopLength
	case "aborted":
		b.Note = "The turn was aborted. " + str(m.Get("errorMessage"))
	case "error":
		b.Note = "The turn failed. " + str(m.Get("errorMessage"))
	default:
		b.Stop = llm.StopEnd
	}
	if u := m.Get("usage"); u.IsObject() {
		b.Usage = &llm.Usage{
			Input: count(u.Get("input")), Output: count(u.Get("output")),
			CacheRead: count(u.Get("cacheRead")), CacheWrite: count(u.Get("cacheWrite")),
		}
	}
	return b, nil
}

// count reads a number of tokens; what is none counts as 0.
func count(v gjson.Result) int64 {
	if v.Type != gjson.Number || v.Num < 0 || v.Num > math.MaxInt32 {
		return 0
	}
	return int64(v.Num)
}

// cost reads what a turn cost in millionths of a US dollar; false when it is not known.
func cost(m gjson.Result) (int64, bool) {
	v := m.Get("usage.cost.total")
	if v.Type != gjson.Number || v.Num < 0 || v.Num > 1e6 {
		return 0, false
	}
	return int64(math.Round(v.Num * 1e6)), true
}

// contentBlocks reads a message's content: text, or a list of blocks. api names the protocol that made thinking blocks.
func contentBlocks(content gjson.Result, api string) ([]llm.Block, error) {
	switch {
	case content.Type == gjson.String:
		return []llm.Block{{Kind: llm.BlockText, Text: str(content)}}, nil
	case !content.Exists() || content.Type == gjson.Null:
		return nil, nil
	case !content.IsArray():
		return nil, errors.New("has content that is neither text nor a list")
	}
	var blocks []llm.Block
	var failed error
	content.ForEach(func(_, v gjson.Result) bool {
		block, err := contentBlock(v, api)
		if err != nil {
			failed = err
			return false
		}
		blocks = append(blocks, block)
		return true
	})
	return blocks, failed
}

func contentBlock(v gjson.Result, api string) (llm.Block, error) {
	if !v.IsObject() {
		return llm.Block{}, errors.New("has a block that is no object")
	}
	switch v.Get("type").Str {
	case "text":
		return llm.Block{Kind: llm.BlockText, Text: str(v.Get("text"))}, nil
	case "thinking":
		return thinkingBlock(v, api), nil
	case "toolCall":
		arguments := v.Get("arguments")
		raw := "{}"
		if arguments.Exists() {
			raw = string(text.StorableJSON([]byte(arguments.Raw)))
		}
		return llm.Block{Kind: llm.BlockToolCall, CallID: str(v.Get("id")), Name: str(v.Get("name")), Arguments: raw}, nil
	case "image":
		data, err := base64.StdEncoding.DecodeString(v.Get("data").Str)
		if err != nil {
			return llm.Block{}, errors.New("has a picture that is not base64")
		}
		return llm.Block{Kind: llm.BlockImage, MediaType: str(v.Get("mimeType")), Data: data}, nil
	}
	// A kind of block that is not known here is shown as what it is.
	return llm.Block{Kind: llm.BlockText, Text: string(text.StorableJSON([]byte(v.Raw)))}, nil
}

// The protocols whose thinking can be given back to the same provider, and what they are called here.
var dialects = map[string]string{"anthropic-messages": "anthropic", "openai-responses": "openai-responses"}

func thinkingBlock(v gjson.Result, api string) llm.Block {
	b := llm.Block{Kind: llm.BlockThinking, Text: str(v.Get("thinking"))}
	signature := str(v.Get("thinkingSignature"))
	dialect, known := dialects[api]
	switch {
	case !known:
		b.Provider = text.Storable(api)
	case dialect == "anthropic" && v.Get("redacted").Bool():
		b.Provider, b.Opaque, b.Text = dialect, signature, ""
	case dialect == "anthropic":
		b.Provider, b.Signature = dialect, signature
	default:
		b.Provider, b.Opaque = dialect, signature
	}
	return b
}

func resultBlock(m gjson.Result) (llm.Block, error) {
	content, err := contentBlocks(m.Get("content"), "")
	if err != nil {
		return llm.Block{}, err
	}
	result := llm.Block{Kind: llm.BlockToolResult, CallID: str(m.Get("toolCallId")), IsError: m.Get("isError").Bool()}
	var texts []string
	for _, block := range content {
		if block.Kind == llm.BlockImage {
			result.Images = append(result.Images, block)
			continue
		}
		texts = append(texts, block.Text)
	}
	result.Text = strings.Join(texts, "\n")
	return result, nil
}

// commandText shows a command that a person ran beside the model, as 0.5.3's session library does.
func commandText(m gjson.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Ran `%s`\n", str(m.Get("command")))
	if output := str(m.Get("output")); output != "" {
		fmt.Fprintf(&b, "```\n%s\n```", output)
	} else {
		b.WriteString("(no output)")
	}
	if code := m.Get("exitCode"); m.Get("cancelled").Bool() {
		b.WriteString("\n\n(command cancelled)")
	} else if code.Type == gjson.Number && code.Num != 0 {
		b.WriteString("\n\nCommand exited with code " + strconv.FormatInt(code.Int(), 10))
	}
	if path := str(m.Get("fullOutputPath")); m.Get("truncated").Bool() && path != "" {
		b.WriteString("\n\n[Output truncated. Full output: " + path + "]")
	}
	return b.String()
}

// leftover is what a record holds beside its content, for a later export: all its fields but those that the entry's
// body says already.
type leftover struct {
	// Record is the record without its content.
	Record map[string]json.RawMessage `json:"record"`
	// Message is the message without its content.
	Message map[string]json.RawMessage `json:"message,omitempty"`
	// Blocks are fields of content blocks that the body does not hold, by position.
	Blocks map[string]map[string]json.RawMessage `json:"blocks,omitempty"`
	// Plain marks content that was one text, not a list.
	Plain bool `json:"plain,omitempty"`
	// Content is the content itself, where the body could not take it in as it is.
	Content json.RawMessage `json:"content,omitempty"`
	// Closes marks a result that was made up.
	Closes bool `json:"closes,omitempty"`
}

// The fields of blocks that a body holds.
var blockFields = map[string]map[string]bool{
	"text":     {"type": true, "text": true},
	"thinking": {"type": true, "thinking": true, "thinkingSignature": true, "redacted": true},
	"toolCall": {"type": true, "id": true, "name": true, "arguments": true},
	"image":    {"type": true, "mimeType": true, "data": true},
}

// leftoverOf collects what bodyOf left.
func leftoverOf(o gjson.Result, r record) (json.RawMessage, error) {
	l := leftover{Record: map[string]json.RawMessage{}}
	var content gjson.Result
	o.ForEach(func(key, v gjson.Result) bool {
		switch name := text.Storable(key.Str); {
		case name == "message" && r.Type == typeMessage:
			content = l.takeMessage(v, r)
		case name == "content" && r.Type == typeCustomMessage:
			content = v
		case name == "summary" && r.Type == typeCompaction, name == "mikan":
		default:
			l.Record[name] = raw(v)
		}
		return true
	})
	switch {
	case content.Type == gjson.String:
		l.Plain = true
	case r.Role == roleToolResult && !simpleResult(content):
		l.Content = raw(content)
	case content.IsArray():
		l.takeBlocks(content)
	}
	encoded, err := json.Marshal(l)
	return encoded, err
}

func (l *leftover) takeMessage(m gjson.Result, r record) (content gjson.Result) {
	l.Message = map[string]json.RawMessage{}
	m.ForEach(func(key, v gjson.Result) bool {
		if key.Str == "content" && r.Role != roleBash {
			content = v
		} else {
			l.Message[text.Storable(key.Str)] = raw(v)
		}
		return true
	})
	return content
}

// simpleResult tells whether a result's content is what its body makes of it: at most one text, and before the pictures.
func simpleResult(content gjson.Result) bool {
	if !content.IsArray() {
		return content.Type == gjson.String
	}
	simple, n := true, 0
	content.ForEach(func(_, v gjson.Result) bool {
		kind := v.Get("type").Str
		simple = simple && (kind == "text" && n == 0 || kind == "image")
		n++
		return simple
	})
	return simple
}

func (l *leftover) takeBlocks(content gjson.Result) {
	n := 0
	content.ForEach(func(_, v gjson.Result) bool {
		known := blockFields[v.Get("type").Str]
		v.ForEach(func(key, field gjson.Result) bool {
			if !known[key.Str] {
				if l.Blocks == nil {
					l.Blocks = map[string]map[string]json.RawMessage{}
				}
				at := strconv.Itoa(n)
				if l.Blocks[at] == nil {
					l.Blocks[at] = map[string]json.RawMessage{}
				}
				l.Blocks[at][text.Storable(key.Str)] = raw(field)
			}
			return true
		})
		n++
		return true
	})
}

// suspicious tells whether there may be a number that the database cannot hold: one of a thousand digits, or with an
// exponent of four.
func suspicious(value []byte) bool {
	digits := 0
	for i, c := range value {
		if c < '0' || c > '9' {
			digits = 0
			continue
		}
		digits++
		if digits == 1000 {
			return true
		}
		if at := i - 4; digits == 4 && at >= 0 {
			if at > 0 && (value[at] == '+' || value[at] == '-') {
				at--
			}
			if value[at] == 'e' || value[at] == 'E' {
				return true
			}
		}
	}
	return false
}

// raw is a value as the database can keep it. One that holds a number of thousands of digits is kept as text.
func raw(v gjson.Result) json.RawMessage {
	kept := text.StorableJSON([]byte(v.Raw))
	if !suspicious(kept) {
		return kept
	}
	decoder := json.NewDecoder(bytes.NewReader(kept))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			return kept
		}
		if number, is := token.(json.Number); is && suspicious([]byte(number)) {
			quoted, _ := json.Marshal(string(kept)) // a valid string always encodes
			return quoted
		}
	}
}
