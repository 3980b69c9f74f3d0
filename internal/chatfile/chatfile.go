// Package chatfile writes log.jsonl, the copy of an office's chat log that people and the agent's shell read. mikan
// itself never reads it: the truth is in the database.
package chatfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/workfile"
)

// Name is the file's name in the office's directory.
const Name = "log.jsonl"

// Update brings the file in an office's directory (absolute) up to date. New messages are appended; after an edit, a
// deletion, or when somebody else touched it, the file is replaced as a whole, so a reader never sees half of it. A
// symbolic link in its place is an error and left untouched.
func Update(ctx context.Context, s *store.Store, dir, officeKey string, how store.Renewal) (store.LogFile, error) {
	at, err := workfile.Open(dir)
	if err != nil {
		return store.LogFile{}, fault.Wrap(fault.Unavailable, err, "the office's directory cannot be opened")
	}
	defer at.Close()
	return s.CopyChat(ctx, officeKey, how, &writer{dir: at, platform: string(office.Key(officeKey).Platform())})
}

type writer struct {
	dir      *workfile.Dir
	platform string
}

// Append implements store.LogWriter.
func (w *writer) Append(left int64, messages []store.ChatMessage) (int64, error) {
	var lines bytes.Buffer
	for _, m := range messages {
		if err := encode(&lines, m, w.platform); err != nil {
			return 0, err
		}
	}
	err := w.dir.Append(Name, left, lines.Bytes())
	if errors.Is(err, workfile.ErrChanged) {
		return 0, store.ErrNotAsLeft
	}
	return left + int64(lines.Len()), explain(err)
}

// Rewrite implements store.LogWriter.
func (w *writer) Rewrite(each func(func(store.ChatMessage) error) error) (int64, error) {
	size, err := w.dir.Rewrite(Name, func(out io.Writer) error {
		return each(func(m store.ChatMessage) error { return encode(out, m, w.platform) })
	})
	return size, explain(err)
}

// explain gives what the file system refused a code. A link stays where it is until somebody removes it.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, workfile.ErrLink):
		return fault.Wrap(fault.Invalid, err, "%s is left as it is", Name)
	}
	return fault.Wrap(fault.Unavailable, err, "%s cannot be written", Name)
}

// line is one message. Names and meanings are those of 0.5.3, whose importer reads them back; kind is new.
type line struct {
	Date           string       `json:"date"`
	TS             string       `json:"ts"`
	ThreadTS       string       `json:"threadTs,omitempty"`
	ReplyTo        string       `json:"replyTo,omitempty"`
	SessionKey     string       `json:"sessionKey"`
	User           string       `json:"user"`
	UserName       string       `json:"userName,omitempty"`
	Text           string       `json:"text"`
	Attachments    []attachment `json:"attachments,omitempty"`
	IsMessagingBot bool         `json:"isMessagingBot,omitempty"`
	Platform       string       `json:"platform,omitempty"`
	Kind           string       `json:"kind,omitempty"`
}

type attachment struct {
	Original  string `json:"original"`
	LocalPath string `json:"localPath,omitempty"`
}

// mikanUser is how the file calls mikan.
const mikanUser = "bot"

func encode(to io.Writer, m store.ChatMessage, platform string) error {
	l := line{
		Date: m.SentAt.UTC().Format(time.RFC3339Nano), TS: m.MessageID, ThreadTS: m.ThreadID, ReplyTo: m.ReplyTo,
		SessionKey: m.SessionKey, User: m.AuthorID, UserName: m.AuthorName, Text: m.Text, Platform: platform,
	}
	switch m.AuthorKind {
	case store.AuthorMikan:
		l.User = mikanUser
	case store.AuthorBot:
		l.IsMessagingBot = true
	}
	if m.CauseMessageID != "" {
		l.ReplyTo = m.CauseMessageID
	}
	if m.Kind != store.ChatMessageKind {
		l.Kind = string(m.Kind)
	}
	for _, a := range m.Attachments {
		l.Attachments = append(l.Attachments, attachment{Original: a.Name, LocalPath: a.Path})
	}
	encoder := json.NewEncoder(to) // ends the line
	encoder.SetEscapeHTML(false)
	return encoder.Encode(l)
}
