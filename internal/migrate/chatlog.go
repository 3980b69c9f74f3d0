package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

// mikanUser is what log.jsonl calls mikan.
const mikanUser = "bot"

// chatCommand is what 0.5.3 took for a command: said to mikan, and no part of any context.
var chatCommand = regexp.MustCompile(`(?i)^/(?:pi-[\w-]+|login|session|new|stop|model|sandbox|admin|auto-reply)(?:@\w+)?(?:\s|$)`)

// chatLog is what a log.jsonl holds beside its messages.
type chatLog struct {
	hash    [sha256.Size]byte
	lines   int64
	repairs []repair
	broken  []lineError
}

// logReader reads a conversation's log.jsonl.
type logReader struct {
	address office.Address
	key     office.Key
	last    time.Time
	pending *store.ChatMessage // may still be continued by the next line
}

// read hands out the messages of a log in its order, the parts of one message joined. Lines that cannot be read are
// listed and passed over. Errors are those of each, of the context and of the file system.
func (r *logReader) read(ctx context.Context, file *os.File, each func(store.ChatMessage) error) (chatLog, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return chatLog{}, err
	}
	var log chatLog
	digest := sha256.New()
	lines := newLineReader(io.TeeReader(file, digest))
	defer lines.done()
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return log, ctx.Err()
		}
		l, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errTooLong) {
			log.broken = append(log.broken, lineError{Line: l.number, Cause: err})
			continue
		}
		if err != nil {
			return log, err
		}
		log.lines++
		o, err := parseObject(l.bytes)
		switch {
		case err != nil && !l.ended:
			log.repairs = append(log.repairs, repair{Line: l.number, What: "the last line was torn and is left out"})
			continue
		case err != nil:
			log.broken = append(log.broken, lineError{Line: l.number, Cause: err})
			continue
		}
		if err := r.take(r.message(o, l.bytes), each); err != nil {
			return log, err
		}
	}
	digest.Sum(log.hash[:0])
	if r.pending == nil {
		return log, nil
	}
	return log, each(*r.pending)
}

// take joins a message with the one before where both are parts of what a bot streamed.
func (r *logReader) take(m store.ChatMessage, each func(store.ChatMessage) error) error {
	before := r.pending
	if before != nil && before.AuthorKind != store.AuthorHuman && m.AuthorKind != store.AuthorHuman &&
		m.MessageID == before.MessageID && m.ThreadID == before.ThreadID && m.AuthorID == before.AuthorID {
		before.Text += m.Text
		before.Attachments = append(before.Attachments, m.Attachments...)
		return nil
	}
	r.pending = &m
	if before == nil {
		return nil
	}
	return each(*before)
}

func (r *logReader) message(o gjson.Result, line []byte) store.ChatMessage {
	m := store.ChatMessage{
		OfficeKey: string(r.key), MessageID: scalar(o.Get("ts")), ThreadID: scalar(o.Get("threadTs")), ReplyTo: scalar(o.Get("replyTo")),
		AuthorID: str(o.Get("user")), AuthorKind: store.AuthorHuman, Kind: store.ChatMessageKind, Text: str(o.Get("text")),
	}
	m.AuthorName = first(str(o.Get("userName")), str(o.Get("displayName")), m.AuthorID, "unknown")
	switch {
	case m.AuthorID == mikanUser:
		m.AuthorID, m.AuthorName, m.AuthorKind, m.Kind = "mikan", "mikan", store.AuthorMikan, store.ChatAnswer
	case o.Get("isMessagingBot").Bool():
		m.AuthorKind = store.AuthorBot
	case chatCommand.MatchString(strings.TrimSpace(m.Text)):
		m.Kind = store.ChatCommand
	}
	switch kind := store.ChatKind(o.Get("kind").Str); kind {
	case store.ChatMessageKind, store.ChatAnswer, store.ChatNotice, store.ChatCommand, store.ChatUpload:
		m.Kind = kind // written by `mikan log export`
	}
	if m.AuthorID == "" {
		m.AuthorID = "unknown"
	}
	m.SentAt = r.sentAt(o, m.MessageID)
	if m.MessageID == "" {
		sum := sha256.Sum256(line)
		m.MessageID = "line:" + hex.EncodeToString(sum[:12])
	}
	m.SessionKey = r.sessionKey(o, m)
	if m.AuthorKind == store.AuthorMikan && m.Kind == store.ChatAnswer && m.ReplyTo != "" && o.Get("sessionKey").Exists() {
		m.CauseMessageID, m.ReplyTo = m.ReplyTo, ""
	}
	o.Get("attachments").ForEach(func(_, a gjson.Result) bool {
		m.Attachments = append(m.Attachments, r.attachment(a))
		return true
	})
	return m
}

// scalar is an id that may have been written as a number: with all its digits.
func scalar(v gjson.Result) string {
	if v.Type == gjson.Number {
		return v.Raw
	}
	return str(v)
}

func first(candidates ...string) string {
	for _, c := range candidates {
		if c != "" {
			return c
		}
	}
	return ""
}

// sentAt is when a message was said: by its date, else by its id where that is a time, else when the one before was.
func (r *logReader) sentAt(o gjson.Result, id string) time.Time {
	at, ok := parseTime(o.Get("date"))
	if !ok && strings.Contains(id, ".") {
		if seconds, err := strconv.ParseFloat(id, 64); err == nil && seconds > 0 && seconds < math.MaxInt32*4 {
			at, ok = time.UnixMicro(int64(math.Round(seconds*1e6))).UTC(), true
		}
	}
	if !ok {
		at = r.last
		if at.IsZero() {
			at = time.Unix(0, 0).UTC()
		}
	}
	r.last = at
	return at
}

// sessionKey is the scope of a message: what the line says, where that is a key of this conversation, else what the
// platform's rule makes of its thread.
func (r *logReader) sessionKey(o gjson.Result, m store.ChatMessage) string {
	if given, err := session.ParseKey(str(o.Get("sessionKey"))); err == nil && given.BelongsTo(r.address.ConversationID) == nil {
		return string(given)
	}
	suffix := m.ThreadID
	switch r.address.Platform {
	case office.Slack:
		if suffix == m.MessageID {
			suffix = ""
		}
	case office.Telegram:
		if suffix == "" && strings.HasPrefix(r.address.ConversationID, "-") && m.AuthorKind == store.AuthorHuman {
			suffix = m.MessageID
		}
	case office.GitHub:
		suffix = ""
	}
	if suffix != "" {
		if key, err := session.MakeKey(r.address.ConversationID, suffix); err == nil {
			return string(key)
		}
	}
	return r.address.ConversationID
}

// attachment takes over where a file is. 0.5.3 wrote paths below the workspace; here they are below the office.
func (r *logReader) attachment(a gjson.Result) store.Attachment {
	kept := store.Attachment{Name: first(str(a.Get("original")), str(a.Get("name")), "file")}
	local := str(a.Get("localPath"))
	if local == "" {
		return kept
	}
	folder, rest, _ := strings.Cut(local, "/")
	if rest == "" || folder == "attachments" {
		rest = local
	}
	if clean := path.Clean(rest); path.IsAbs(local) || clean != rest || clean == ".." || strings.HasPrefix(clean, "../") || strings.Contains(rest, `\`) {
		kept.Problem = "its path leads outside the conversation"
		return kept
	}
	kept.Path = rest
	return kept
}

// revisions tells which of several lines about one message is the newest.
type revisions struct {
	seed maphash.Seed
	seen map[uint64]revision
	last map[uint64]int // of the whole log, once known
}

type revision struct {
	number int
	text   uint64
}

func newRevisions() *revisions {
	return &revisions{seed: maphash.MakeSeed(), seen: map[uint64]revision{}}
}

// take numbers a line about a message; false when it says what the one before said.
func (r *revisions) take(m *store.ChatMessage) bool {
	id, said := maphash.String(r.seed, m.MessageID), maphash.String(r.seed, m.Text)
	before, known := r.seen[id]
	switch {
	case !known:
		r.seen[id] = revision{0, said}
	case before.text == said:
		return false
	default:
		m.Revision = before.number + 1
		r.seen[id] = revision{m.Revision, said}
	}
	return true
}

// finish ends the first reading: newest answers from then on.
func (r *revisions) finish() {
	r.last = make(map[uint64]int, len(r.seen))
	for id, v := range r.seen {
		r.last[id] = v.number
	}
	clear(r.seen)
}

func (r *revisions) newest(m store.ChatMessage) bool {
	return r.last[maphash.String(r.seed, m.MessageID)] == m.Revision
}

// represented finds the messages of a log that a session's texts stand for, as 0.5.3 did: by their text, each once.
type represented struct {
	seed   maphash.Seed
	scopes map[uint64][]string // by scope, role and text: message ids in order
}

func newRepresented() *represented {
	return &represented{seed: maphash.MakeSeed(), scopes: map[uint64][]string{}}
}

// add remembers a message for its scope, and for that of the thread that it is the root of.
func (r *represented) add(m store.ChatMessage, threads map[string]bool) {
	said := strings.TrimSpace(m.Text)
	if said == "" || m.Kind == store.ChatCommand {
		return
	}
	role := roleUser
	if m.AuthorKind != store.AuthorHuman {
		role = roleAssistant
	}
	put := func(scope string) {
		at := r.sum(scope, role, said)
		r.scopes[at] = append(r.scopes[at], m.MessageID)
	}
	put(m.ThreadID)
	if threads[m.MessageID] && m.ThreadID != m.MessageID {
		put(m.MessageID)
	}
}

func (r *represented) sum(scope string, role messageRole, said string) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	_, _ = h.WriteString(scope)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(string(role))
	_ = h.WriteByte(0)
	_, _ = h.WriteString(said)
	return h.Sum64()
}

// of is the matcher of one session. suffix is that of its key, "" at the top level.
func (r *represented) of(suffix string) matcher {
	return &sessionMatcher{represented: r, scope: suffix, used: map[uint64]int{}}
}

type sessionMatcher struct {
	*represented
	scope string
	used  map[uint64]int
}

// The frame that 0.5.3 put around what people said.
var spokenBy = regexp.MustCompile(`^(?:\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}[+-][0-9]{2}:[0-9]{2}\]\s+)?\[[^\]]+\](?:\s+\[in-thread:[^\]]+\])?:\s*`)

// The list of files that it added to what they said.
const (
	filesBefore = "\n\n<slack_attachments>\n"
	filesAfter  = "\n</slack_attachments>"
)

func unframed(said string) string {
	said = spokenBy.ReplaceAllString(said, "")
	if strings.HasSuffix(said, filesAfter) {
		said = said[:max(0, strings.LastIndex(said, filesBefore))]
	}
	return strings.TrimSpace(said)
}

func (m *sessionMatcher) match(role messageRole, said string) string {
	if role == roleUser {
		said = unframed(said)
	}
	at := m.sum(m.scope, role, strings.TrimSpace(said))
	ids := m.scopes[at]
	n := m.used[at]
	if n >= len(ids) {
		return ""
	}
	m.used[at]++
	return ids[n]
}

// What 0.5.3 put before a scheduled task's text.
var eventOpenings = []string{
	"[EVENT:", "Please deliver the following reminder to the user", "Handle the following recurring task.", "Handle the following event/update",
}

func isEvent(said string) bool {
	said = spokenBy.ReplaceAllString(said, "")
	for _, opening := range eventOpenings {
		if strings.HasPrefix(said, opening) {
			return true
		}
	}
	return false
}

// describe shows a message's place for reports, without its text.
func describe(path string, line int) string {
	if line == 0 {
		return path
	}
	return fmt.Sprintf("%s:%d", text.VisibleLine(path), line)
}
