package migrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/geminixiang/mikan/internal/text"
)

// recordType is what a line of a session file records, as its "type" says.
type recordType string

// The types that 0.5.3 and its session library write.
const (
	typeHeader        recordType = "session"
	typeMessage       recordType = "message"
	typeModel         recordType = "model_change"
	typeThinking      recordType = "thinking_level_change"
	typeCompaction    recordType = "compaction"
	typeBranchSummary recordType = "branch_summary"
	typeCustom        recordType = "custom"
	typeCustomMessage recordType = "custom_message"
	typeLabel         recordType = "label"
	typeInfo          recordType = "session_info"
)

// messageRole is who speaks in a record of type message.
type messageRole string

// The roles.
const (
	roleUser              messageRole = "user"
	roleAssistant         messageRole = "assistant"
	roleToolResult        messageRole = "toolResult"
	roleBash              messageRole = "bashExecution"
	roleCustom            messageRole = "custom"
	roleBranchSummary     messageRole = "branchSummary"
	roleCompactionSummary messageRole = "compactionSummary"
)

// The custom records that mean something here: 0.5.3's note of how far it had copied the chat log into a session, and
// what `mikan session export` writes for a reset.
const (
	customSync  = "mikan.chat_sync"
	customReset = "mikan.reset"
)

// formatVersion is the only version of session files that is read. Older ones are rewritten by the original when it
// opens them.
const formatVersion = 3

// header is the first line of a session file.
type header struct {
	ID        string
	Timestamp time.Time
	Parent    string // parentSession: a path, of which only the last element is ever looked at
}

// record is one line of a session file, as far as the tree needs it. Strings are copies.
type record struct {
	Type      recordType
	ID        string
	Parent    string // "" at the root
	Role      messageRole
	Stop      string
	Calls     []string // ids of an assistant's tool calls, in order
	CallID    string   // of the call that a result answers
	FirstKept string
	Custom    string
	Synced    int    // of a chat_sync: how many of the records before it were copied from the chat log
	LastID    string // of a chat_sync: the newest message of the log that it accounts for
	Name      string // of session_info
	Excluded  bool   // a command that the person kept from the model
	Own       ownMark
	At        time.Time // zero when there is none that can be read
	Floor     time.Time // of a reset: messages up to this moment never come back
}

// ownMark is what `mikan session export` adds to a record so that its import loses nothing.
type ownMark struct {
	MessageID string
	Kind      string
	// Origin is set on what an export wrote for the session itself, not for one of its entries.
	Origin string
}

// errNoObject is the reason of a line that is JSON but no record.
var errNoObject = errors.New("is no JSON object")

// jsonError tells why a line is no JSON, without showing any of it.
func jsonError(line []byte) error {
	var any json.RawMessage
	err := json.Unmarshal(line, &any)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("is not valid JSON (at byte %d)", syntax.Offset)
	}
	return errors.New("is not valid JSON")
}

// parseObject checks that a line is one JSON object. The standard library's scanner does it because it bounds how deep
// values may nest; what it lets through is safe for the faster reader that takes the fields out.
func parseObject(line []byte) (gjson.Result, error) {
	if !json.Valid(line) {
		return gjson.Result{}, jsonError(line)
	}
	if line[0] != '{' {
		return gjson.Result{}, errNoObject
	}
	if tooDeep(line) {
		return gjson.Result{}, fmt.Errorf("nests more than %d values", maxDepth)
	}
	return gjson.ParseBytes(line), nil
}

// maxDepth is how deep a record may nest: what the database takes with certainty, and far beyond what any tool returns.
const maxDepth = 512

// tooDeep tells whether valid JSON nests too deep.
func tooDeep(line []byte) bool {
	if bytes.Count(line, []byte{'{'})+bytes.Count(line, []byte{'['}) <= maxDepth {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// parseHeader reads the first line.
func parseHeader(o gjson.Result) (header, error) {
	if o.Get("type").Str != string(typeHeader) {
		return header{}, errors.New("is not the header of a session, which comes first")
	}
	version := int64(1)
	if v := o.Get("version"); v.Exists() {
		version = v.Int()
	}
	if version != formatVersion {
		return header{}, fmt.Errorf("is of version %d, and only version %d is read: let mikan 0.5.3 open the session once, which rewrites it", version, formatVersion)
	}
	h := header{ID: str(o.Get("id")), Parent: o.Get("parentSession").String()}
	if err := checkSessionID(h.ID); err != nil {
		return header{}, err
	}
	h.Timestamp, _ = parseTime(o.Get("timestamp"))
	return h, nil
}

// maxSessionID bounds a session's id, which names it in links and commands.
const maxSessionID = 128

func checkSessionID(id string) error {
	if id == "" || len(id) > maxSessionID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == '/' || r == '\\' || r == 0x7f || r == '\uFFFD' }) {
		return fmt.Errorf("has a session id that cannot be kept (1 to %d characters, no spaces, slashes or control characters)", maxSessionID)
	}
	return nil
}

// parseRecord reads what the tree needs of a line.
func parseRecord(o gjson.Result) (record, error) {
	r := record{Type: recordType(str(o.Get("type"))), ID: str(o.Get("id")), Parent: str(o.Get("parentId"))}
	if r.Type == "" {
		return r, errors.New("has no type")
	}
	if r.Type == typeHeader {
		return r, nil
	}
	if r.ID == "" {
		return r, errors.New("has no id")
	}
	r.At, _ = parseTime(o.Get("timestamp"))
	r.Own = ownMark{MessageID: str(o.Get("mikan.messageId")), Kind: o.Get("mikan.kind").Str, Origin: o.Get("mikan.origin").Str}
	switch r.Type {
	case typeMessage:
		return r, parseMessage(o.Get("message"), &r)
	case typeCompaction:
		r.FirstKept = str(o.Get("firstKeptEntryId"))
	case typeCustom:
		r.Custom = str(o.Get("customType"))
		data := o.Get("data")
		switch r.Custom {
		case customSync:
			r.Synced, r.LastID = int(max(0, min(data.Get("messageCount").Int(), 1<<20))), str(data.Get("lastMessageId"))
		case customReset:
			r.Floor, _ = parseTime(data.Get("syncFloor"))
		}
	case typeInfo:
		r.Name = str(o.Get("name"))
	}
	return r, nil
}

func parseMessage(m gjson.Result, r *record) error {
	if !m.IsObject() {
		return errors.New("is a message without content")
	}
	r.Role = messageRole(m.Get("role").Str)
	switch r.Role {
	case roleAssistant:
		r.Stop = m.Get("stopReason").Str
		if content := m.Get("content"); content.IsArray() {
			content.ForEach(func(_, block gjson.Result) bool {
				if block.Get("type").Str == "toolCall" {
					r.Calls = append(r.Calls, str(block.Get("id")))
				}
				return true
			})
		}
	case roleToolResult:
		r.CallID = str(m.Get("toolCallId"))
	case roleBash:
		r.Excluded = m.Get("excludeFromContext").Bool()
	case "":
		return errors.New("is a message without a role")
	}
	return nil
}

// str is a JSON string as it can be stored; "" for anything else.
func str(v gjson.Result) string {
	if v.Type != gjson.String {
		return ""
	}
	return strings.Clone(text.Storable(v.Str))
}

// The years that a time may have: what is outside was never a clock's.
const (
	firstYear = 1970
	lastYear  = 9999
)

// parseTime reads a moment as ISO 8601 text or as milliseconds since 1970; false when it is neither.
func parseTime(v gjson.Result) (time.Time, bool) {
	var at time.Time
	switch v.Type {
	case gjson.String:
		parsed, err := time.Parse(time.RFC3339Nano, v.Str)
		if err != nil {
			return time.Time{}, false
		}
		at = parsed.UTC()
	case gjson.Number:
		if v.Num < 0 || v.Num > 253402300799999 { // the last millisecond of 9999
			return time.Time{}, false
		}
		at = time.UnixMilli(int64(v.Num)).UTC()
	default:
		return time.Time{}, false
	}
	if at.Year() < firstYear || at.Year() > lastYear {
		return time.Time{}, false
	}
	return at.Truncate(time.Microsecond), true // what the database keeps
}
