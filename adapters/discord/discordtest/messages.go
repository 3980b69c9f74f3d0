package discordtest

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxFile is what a guild without boosts takes, in bytes (reference#uploading-files).
const maxFile = 10 << 20

// outgoing are the parameters of create and edit that mikan uses.
type outgoing struct {
	Content         *string          `json:"content"`
	Nonce           string           `json:"nonce"`
	EnforceNonce    bool             `json:"enforce_nonce"`
	Flags           int              `json:"flags"`
	AllowedMentions *allowedMentions `json:"allowed_mentions"`
	Reference       *Reference       `json:"message_reference"`
	Attachments     []struct {
		ID       json.Number `json:"id"`
		Filename string      `json:"filename"`
	} `json:"attachments"`
}

type allowedMentions struct {
	Parse       []string `json:"parse"`
	Roles       []string `json:"roles"`
	Users       []string `json:"users"`
	RepliedUser bool     `json:"replied_user"`
}

// nonce remembers what was created with one.
type nonce struct {
	message *Message
	until   time.Time
}

// read takes the parameters out of a JSON or multipart body.
func (s *Server) read(r *request) (outgoing, map[string][]byte, *apiError) {
	var o outgoing
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "multipart/form-data" {
		return o, nil, r.decode(&o)
	}
	files := map[string][]byte{}
	parts := multipart.NewReader(bytes.NewReader(r.body), params["boundary"])
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			return o, files, nil
		}
		if err != nil {
			return o, nil, &apiError{status: 400, code: 50035, text: "Invalid Form Body"}
		}
		content, _ := io.ReadAll(part)
		if part.FormName() == "payload_json" {
			if err := (&request{r.Request, content}).decode(&o); err != nil {
				return o, nil, err
			}
			continue
		}
		if !strings.HasPrefix(part.FormName(), "files[") {
			return o, nil, invalid(part.FormName(), "UNKNOWN", "not a file")
		}
		if len(content) > maxFile {
			return o, nil, &apiError{status: 413, code: 40005, text: "Request entity too large"}
		}
		files[part.FileName()] = content
	}
}

func (o outgoing) check() *apiError {
	switch a := o.AllowedMentions; {
	case o.Content != nil && characters(*o.Content) > 2000:
		return invalid("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length.")
	case characters(o.Nonce) > 25:
		return invalid("nonce", "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
	case o.EnforceNonce && o.Nonce == "":
		return invalid("enforce_nonce", "BASE_TYPE_REQUIRED", "a nonce is needed")
	case a == nil:
		return nil
	case len(a.Users) > 100 || len(a.Roles) > 100:
		return invalid("allowed_mentions", "BASE_TYPE_MAX_LENGTH", "Must be 100 or fewer in length.")
	case slices.Contains(a.Parse, "users") && len(a.Users) > 0, slices.Contains(a.Parse, "roles") && len(a.Roles) > 0:
		return invalid("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", "parse and a list exclude each other")
	case slices.ContainsFunc(a.Parse, func(p string) bool { return p != "users" && p != "roles" && p != "everyone" }):
		return invalid("allowed_mentions", "BASE_TYPE_CHOICES", "not one of everyone, roles, users")
	}
	return nil
}

// may tells what a text's mentions may notify. Without allowed_mentions, everything.
func (a *allowedMentions) may(what string) bool {
	switch role, isRole := strings.CutPrefix(what, "role:"); {
	case a == nil:
		return true
	case what == "everyone":
		return slices.Contains(a.Parse, "everyone")
	case isRole:
		return slices.Contains(a.Parse, "roles") || slices.Contains(a.Roles, role)
	}
	return slices.Contains(a.Parse, "users") || slices.Contains(a.Users, what)
}

func (s *Server) createMessage(r *request) (any, *apiError) {
	c, err := s.lookup(r)
	if err != nil {
		return nil, err
	}
	o, files, err := s.read(r)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return nil, err
	}
	if o.AllowedMentions == nil {
		s.violate("a message was posted without allowed_mentions")
	}
	if o.Flags&^(1<<2|1<<12) != 0 {
		return nil, invalid("flags", "UNSUPPORTED", "SUPPRESS_EMBEDS and SUPPRESS_NOTIFICATIONS only")
	}
	key := c.id + "/" + o.Nonce
	if known, ok := s.nonces[key]; ok && o.EnforceNonce && time.Now().Before(known.until) {
		return known.message, nil
	}
	switch {
	case c.state == silent:
		return nil, &apiError{status: 403, code: 50013, text: "Missing Permissions"}
	case c.state == locked:
		return nil, &apiError{status: 403, code: 50083, text: "Thread is archived"}
	case c.kind == typeForum:
		return nil, &apiError{status: 400, code: 50024, text: "Cannot execute action on this channel type"}
	case c.kind == typeDM && s.closedDM[c.recipient]:
		return nil, &apiError{status: 403, code: 50007, text: "Cannot send messages to this user"}
	case (o.Content == nil || strings.TrimSpace(*o.Content) == "") && len(files) == 0:
		return nil, &apiError{status: 400, code: 50006, text: "Cannot send an empty message"}
	}
	text := ""
	if o.Content != nil {
		text = *o.Content
	}
	m := s.message(c, s.bot, text)
	m.Flags, m.Nonce = o.Flags, o.Nonce
	if err := s.reference(c, m, o); err != nil {
		return nil, err
	}
	s.mention(m, o.AllowedMentions.may)
	for _, name := range sortedKeys(files) {
		m.Attachments = append(m.Attachments, s.keep(c.id, name, files[name]))
	}
	s.nonces[key] = nonce{message: m, until: time.Now().Add(s.options.NonceWindow)}
	s.append(c, m)
	created := *m
	return &created, nil
}

// reference makes the message a reply.
func (s *Server) reference(c *channel, m *Message, o outgoing) *apiError {
	if o.Reference == nil {
		return nil
	}
	if c.state == noHistory {
		return &apiError{status: 400, code: 160002, text: "Cannot reply without permission to read message history"}
	}
	to := find(c, o.Reference.MessageID)
	switch {
	case to == nil && (o.Reference.FailIfNotExists == nil || *o.Reference.FailIfNotExists):
		return invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
	case to == nil:
		return nil
	}
	m.Type, m.Referenced = messageReply, s.stored(to)
	m.Referenced.Referenced = nil
	m.Reference = &Reference{MessageID: to.ID, ChannelID: c.id, GuildID: c.guild}
	if o.AllowedMentions == nil || o.AllowedMentions.RepliedUser {
		s.ping(m, to.Author)
	}
	return nil
}

func (s *Server) editMessage(r *request) (any, *apiError) {
	m, c, err := s.lookupMessage(r)
	if err != nil {
		return nil, err
	}
	var o outgoing
	if err := r.decode(&o); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	switch {
	case m.Author.ID != s.bot.ID:
		return nil, &apiError{status: 403, code: 50005, text: "Cannot edit a message authored by another user"}
	case o.Content == nil || strings.TrimSpace(*o.Content) == "" && len(m.Attachments) == 0:
		return nil, &apiError{status: 400, code: 50006, text: "Cannot send an empty message"}
	}
	s.rewrite(c, m, *o.Content)
	return s.stored(m), nil
}

// rewrite changes a text; an edit notifies nobody.
func (s *Server) rewrite(c *channel, m *Message, text string) {
	now := time.Now().UTC().Format(time.RFC3339Nano)
	m.Content, m.EditedTimestamp = strings.TrimSpace(text), &now
	m.Edits++
	s.dispatch("MESSAGE_UPDATE", s.event(c, m), forMessages(c))
}

func (s *Server) deleteMessage(r *request) (any, *apiError) {
	m, c, err := s.lookupMessage(r)
	if err != nil {
		return nil, err
	}
	if m.Author.ID != s.bot.ID {
		return nil, &apiError{status: 403, code: 50013, text: "Missing Permissions"}
	}
	s.remove(c, m.ID)
	return nil, nil
}

func (s *Server) react(r *request) (any, *apiError) {
	m, emoji, err := s.reaction(r)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(m.Reactions, emoji) {
		m.Reactions = append(m.Reactions, emoji)
	}
	return nil, nil
}

func (s *Server) unreact(r *request) (any, *apiError) {
	m, emoji, err := s.reaction(r)
	if err != nil {
		return nil, err
	}
	m.Reactions = slices.DeleteFunc(m.Reactions, func(e string) bool { return e == emoji })
	return nil, nil
}

func (s *Server) reaction(r *request) (*Message, string, *apiError) {
	m, _, err := s.lookupMessage(r)
	if err != nil {
		return nil, "", err
	}
	emoji := r.id("emoji")
	if !strings.Contains(r.URL.EscapedPath(), url.PathEscape(emoji)) || !slices.Contains([]string{"⏳", "👀", "✅", "❌"}, emoji) {
		return nil, "", &apiError{status: 400, code: 10014, text: "Unknown Emoji"}
	}
	return m, emoji, nil
}
