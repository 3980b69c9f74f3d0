package telegramtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg" // what sendPhoto takes
	_ "image/png"  // what sendPhoto takes
	"maps"
	"mime"
	"path/filepath"
	"slices"
	"time"
)

// replyParameters is what reply_parameters holds.
type replyParameters struct {
	MessageID                int   `json:"message_id"`
	ChatID                   int64 `json:"chat_id"`
	AllowSendingWithoutReply bool  `json:"allow_sending_without_reply"`
}

// aim finds where a new message of the bot's goes. The lock is held.
func (s *Server) aim(c *call) (*chat, *message, *refusal) {
	found, problem := s.reach(c)
	if problem != nil {
		return nil, nil, problem
	}
	if found.bot == BotRestricted {
		return nil, nil, refuse(noRights)
	}
	m := &message{from: s.BotID}
	if id := int(c.args.integer("message_thread_id")); id != 0 {
		t, ok := found.topics[id]
		switch {
		case found.Layout != ForumChat || !ok:
			return nil, nil, refuse(threadNotFound)
		case t.closed == ClosedTopic && found.bot != BotAdmin:
			return nil, nil, refuse(topicClosed)
		}
		m.thread, m.inTopic, m.replyTo = id, InTopic, id
	}
	if raw := c.args.text("reply_parameters"); raw != "" {
		var to replyParameters
		if err := json.Unmarshal([]byte(raw), &to); err != nil {
			return nil, nil, wrong("can't parse reply parameters JSON object")
		}
		replied, ok := found.messages[to.MessageID]
		switch {
		case to.ChatID != 0 && to.ChatID != found.ID:
			s.violateLocked(c.method.Name, "a reply to another chat")
		case (!ok || !replied.deleted.IsZero()) && !to.AllowSendingWithoutReply:
			return nil, nil, refuse(replyNotFound)
		case ok && replied.deleted.IsZero():
			m.replyTo = to.MessageID
			if found.Layout == ForumChat && m.inTopic == Outside && replied.inTopic == InTopic {
				m.thread, m.inTopic = replied.thread, InTopic
			}
		}
	}
	s.threadOf(found, m)
	return found, m, nil
}

// threadOf gives replies in a supergroup without topics the thread that Telegram counts them to.
func (s *Server) threadOf(c *chat, m *message) {
	if c.Type != Supergroup || m.inTopic == InTopic || m.replyTo == 0 || c.Layout == ForumChat {
		return
	}
	if replied, ok := c.messages[m.replyTo]; ok {
		m.thread = replied.id
		if replied.thread != 0 {
			m.thread = replied.thread
		}
	}
}

func (s *Server) sendMessage(c *call) (any, *refusal) {
	f, problem := s.format(c.method.Name, c.args.text("text"), c.args.text("entities"), tooLong)
	if problem != nil {
		return nil, problem
	}
	found, m, problem := s.aim(c)
	if problem != nil {
		return nil, problem
	}
	m.text, m.entities = f.text, f.entities
	return s.wire(s.place(found, m), WithReply), nil
}

func (s *Server) editMessageText(c *call) (any, *refusal) {
	f, problem := s.format(c.method.Name, c.args.text("text"), c.args.text("entities"), editTooLong)
	if problem != nil {
		return nil, problem
	}
	found, problem := s.reach(c)
	if problem != nil {
		return nil, problem
	}
	m, ok := found.messages[int(c.args.integer("message_id"))]
	switch {
	case !ok || !m.deleted.IsZero():
		return nil, refuse(editNotFound)
	case m.from != s.BotID || found.migrated != 0 || m.media != nil:
		return nil, refuse(cannotEdit)
	case m.text == f.text && slices.EqualFunc(m.entities, f.entities, func(a, b entity) bool {
		return a.Type == b.Type && a.Offset == b.Offset && a.Length == b.Length && a.URL == b.URL && a.Language == b.Language
	}):
		return nil, refuse(notModified)
	}
	m.text, m.entities, m.edited = f.text, f.entities, s.Now()
	m.versions++
	s.happen()
	return s.wire(m, WithReply), nil
}

// deletableFor is how old a message may be and still be deleted by a bot that is no administrator.
const deletableFor = 48 * time.Hour

func (s *Server) deleteMessage(c *call) (any, *refusal) {
	found, problem := s.reach(c)
	if problem != nil {
		return nil, problem
	}
	m, ok := found.messages[int(c.args.integer("message_id"))]
	switch {
	case !ok || !m.deleted.IsZero():
		return nil, refuse(deleteNotFound)
	case m.from != s.BotID && found.bot != BotAdmin, s.Now().Sub(m.at) > deletableFor:
		return nil, refuse(cannotDelete)
	}
	m.deleted = s.Now()
	s.happen()
	return true, nil
}

var chatActions = []string{
	"typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice", "upload_document",
	"choose_sticker", "find_location", "record_video_note", "upload_video_note",
}

func (s *Server) sendChatAction(c *call) (any, *refusal) {
	found, problem := s.reach(c)
	if problem != nil {
		return nil, problem
	}
	action := c.args.text("action")
	if !slices.Contains(chatActions, action) {
		return nil, wrong("wrong parameter action in request")
	}
	id := int(c.args.integer("message_thread_id"))
	if _, ok := found.topics[id]; id != 0 && !ok {
		return nil, refuse(threadNotFound)
	}
	found.actions = append(found.actions, Action{s.Now(), action, id})
	s.happen()
	return true, nil
}

// file is something that can be downloaded.
type file struct {
	id      string
	name    string
	size    int64
	content []byte
}

func (s *Server) keepFile(name string, content []byte, size int64) *file {
	s.sequence++
	f := &file{id: fmt.Sprintf("BQACAgIAAxkBAAI%06dlocal", s.sequence), name: name, size: size, content: content}
	s.files[f.id] = f
	return f
}

func (f *file) wire() map[string]any {
	return map[string]any{"file_id": f.id, "file_unique_id": "AgAD" + f.id[15:], "file_size": f.size}
}

func (s *Server) sendDocument(c *call) (any, *refusal) { return s.sendFile(c, "document", MaxUpload) }

func (s *Server) sendPhoto(c *call) (any, *refusal) { return s.sendFile(c, "photo", MaxPhoto) }

func (s *Server) sendFile(c *call, field string, most int) (any, *refusal) {
	given, ok := c.args.files[field]
	switch {
	case !ok:
		return nil, wrong("there is no %s in the request", field)
	case len(given.Content) == 0:
		return nil, wrong("file must be non-empty")
	case len(given.Content) > most:
		return nil, wrong("%s of %d bytes", field, len(given.Content))
	}
	found, m, problem := s.aim(c)
	if problem != nil {
		return nil, problem
	}
	if c.args.has("caption") {
		f, problem := s.format(c.method.Name, c.args.text("caption"), c.args.text("caption_entities"), longCaption)
		if problem != nil {
			return nil, problem
		}
		if Units(f.text) > 1024 {
			return nil, &refusal{code: 400, description: longCaption, blame: ClientsFault}
		}
		m.caption, m.entities = f.text, f.entities
	}
	kept := s.keepFile(given.Name, given.Content, int64(len(given.Content)))
	w := kept.wire()
	if field == "photo" {
		size, _, err := image.DecodeConfig(bytes.NewReader(given.Content))
		switch {
		case err != nil:
			return nil, refuse(badPhoto)
		case size.Width+size.Height > 10_000 || size.Width > 20*size.Height || size.Height > 20*size.Width:
			return nil, refuse(photoDimensions)
		}
		w["width"], w["height"] = size.Width, size.Height
		m.media = map[string]any{"photo": []any{w}}
	} else {
		w["file_name"] = given.Name
		if kind := mime.TypeByExtension(filepath.Ext(given.Name)); kind != "" {
			w["mime_type"] = kind
		}
		m.media = map[string]any{"document": w}
	}
	return s.wire(s.place(found, m), WithReply), nil
}

func (s *Server) getFile(c *call) (any, *refusal) {
	f, ok := s.files[c.args.text("file_id")]
	switch {
	case !ok:
		return nil, refuse(badFileID)
	case f.size > MaxDownload:
		return nil, refuse(fileTooBig)
	}
	w := maps.Clone(f.wire())
	w["file_path"] = "documents/" + f.id
	return w, nil
}

// Limits of the menu (https://core.telegram.org/bots/api#botcommand).
const (
	maxCommands    = 100
	maxCommand     = 32
	maxDescription = 256
)

func (s *Server) setMyCommands(c *call) (any, *refusal) {
	var commands []Command
	if err := json.Unmarshal([]byte(c.args.text("commands")), &commands); err != nil {
		return nil, wrong("can't parse commands JSON object")
	}
	if len(commands) > maxCommands {
		return nil, wrong("BOT_COMMANDS_TOO_MUCH")
	}
	for _, command := range commands {
		valid := command.Command != "" && len(command.Command) <= maxCommand && command.Description != "" && Units(command.Description) <= maxDescription
		for _, r := range command.Command {
			valid = valid && (r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
		}
		if !valid {
			return nil, wrong("BOT_COMMAND_INVALID (%s)", command.Command)
		}
	}
	s.commands = commands
	return true, nil
}
