package telegramtest

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf16"
)

// Said is what a person says.
type Said struct {
	Chat    int64  `json:"chat"`
	From    int64  `json:"from"`
	Text    string `json:"text"`
	Topic   int    `json:"topic"` // in a forum
	ReplyTo int    `json:"reply_to"`
	// As is a chat that the person hides behind: the group itself (an anonymous administrator) or a channel.
	As       int64  `json:"as"`
	Auto     Auto   `json:"auto"` // a channel's post, copied by Telegram
	Album    string `json:"album"`
	Media    *Media `json:"media"`
	Mentions int64  `json:"mentions"` // a person without a username, mentioned by the first word
}

// Media is what a message can carry.
type Media struct {
	Kind     string `json:"kind"` // document, photo, voice, video_note, video, audio, animation, sticker, location, contact, poll, dice
	Name     string `json:"name"`
	Type     string `json:"type"` // media type
	Content  []byte `json:"content"`
	Size     int64  `json:"size"`     // default: of Content
	Duration int    `json:"duration"` // seconds
	Fields   map[string]any
}

// Say posts a message as a person, tells the bot if it may hear it, and returns the message's id.
func (s *Server) Say(said Said) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[said.Chat]
	m := &message{from: said.From, as: said.As, auto: said.Auto, album: said.Album, replyTo: said.ReplyTo}
	switch {
	case said.Auto == Forwarded:
		m.from = Telegram
	case said.As == said.Chat:
		m.from = AnonymousAdmin
	case said.As != 0:
		m.from = ChannelBot
	}
	if said.Topic != 0 && said.Topic != GeneralID {
		m.thread, m.inTopic = said.Topic, InTopic
		if m.replyTo == 0 {
			m.replyTo = said.Topic // every message in a topic replies to its creation
		}
	}
	s.threadOf(c, m)
	s.write(m, said)
	s.place(c, m)
	s.tell(c, m, "message")
	return m.id
}

func (s *Server) write(m *message, said Said) {
	entities := recognise(said.Text, nil)
	if said.Mentions != 0 {
		first, _, _ := strings.Cut(said.Text, " ")
		entities = append([]entity{{Type: "text_mention", Length: Units(first), User: s.person(said.Mentions).wire()}}, entities...)
	}
	m.entities = entities
	if said.Media == nil {
		m.text = said.Text
		return
	}
	m.caption, m.media = said.Text, s.attach(*said.Media)
}

func (s *Server) attach(a Media) map[string]any {
	w := map[string]any{}
	switch a.Kind {
	case "location", "contact", "poll", "dice":
	default:
		if a.Size == 0 {
			a.Size = int64(len(a.Content))
		}
		w = s.keepFile(a.Name, a.Content, a.Size).wire()
		if a.Type != "" {
			w["mime_type"] = a.Type
		}
	}
	if a.Name != "" && a.Kind != "photo" {
		w["file_name"] = a.Name
	}
	if a.Kind == "voice" || a.Kind == "video_note" || a.Kind == "video" || a.Kind == "audio" || a.Kind == "animation" {
		w["duration"] = a.Duration
	}
	maps.Copy(w, a.Fields)
	if a.Kind == "photo" {
		small := s.keepFile("small", a.Content[:min(len(a.Content), 10)], 10).wire()
		small["width"], small["height"] = 90, 90
		w["width"], w["height"] = 1280, 1280
		return map[string]any{"photo": []any{small, w}}
	}
	if a.Kind == "animation" {
		return map[string]any{"animation": w, "document": maps.Clone(w)}
	}
	return map[string]any{a.Kind: w}
}

// Change edits what a person has said.
func (s *Server) Change(chat int64, id int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[chat]
	m := c.messages[id]
	s.write(m, Said{Text: text})
	m.edited = s.Now()
	s.happen()
	s.tell(c, m, "edited_message")
}

// Join makes the service message that somebody came into the chat.
func (s *Server) Join(chat, who int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[chat]
	m := s.place(c, &message{from: who, service: map[string]any{"new_chat_members": []any{s.person(who).wire()}}})
	s.tell(c, m, "message")
	return m.id
}

// Delete removes a message, as a person would. Telegram tells no bot.
func (s *Server) Delete(chat int64, id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chats[chat].messages[id].deleted = s.Now()
	s.happen()
}

// Raw queues an update as it is, whatever it holds.
func (s *Server) Raw(body map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue(0, body, s.Now().Add(retention))
}

// Seen is a message as a person sees it.
type Seen struct {
	ID       int      `json:"id"`
	From     int64    `json:"from"`
	Text     string   `json:"text"`
	Topic    int      `json:"topic,omitempty"`
	ReplyTo  int      `json:"reply_to,omitempty"`
	Bold     []string `json:"bold,omitempty"` // the runs of each kind of formatting
	Italic   []string `json:"italic,omitempty"`
	Code     []string `json:"code,omitempty"`
	Pre      []string `json:"pre,omitempty"`
	Links    []string `json:"links,omitempty"` // addresses
	Notified []string `json:"notified,omitempty"`
	File     string   `json:"file,omitempty"`
	Versions int      `json:"versions"` // how often it was changed
}

// Visible lists what stands in a chat, in order; a topic of 0 means everything.
func (s *Server) Visible(chat int64, topic int) []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.chats[chat]
	if !ok {
		return nil
	}
	var seen []Seen
	for _, id := range c.order {
		m := c.messages[id]
		if m.deleted.IsZero() && m.service == nil && (topic == 0 || m.inTopic == InTopic && m.thread == topic) {
			seen = append(seen, look(m))
		}
	}
	return seen
}

// FromBot lists what the bot shows in a chat.
func (s *Server) FromBot(chat int64) []Seen {
	return slices.DeleteFunc(s.Visible(chat, 0), func(m Seen) bool { return m.From != s.BotID })
}

func look(m *message) Seen {
	seen := Seen{ID: m.id, From: m.from, Text: m.text + m.caption, ReplyTo: m.replyTo, Versions: m.versions}
	if m.inTopic == InTopic {
		seen.Topic = m.thread
	}
	for _, e := range m.entities {
		said := slice(seen.Text, e)
		switch e.Type {
		case "bold":
			seen.Bold = append(seen.Bold, said)
		case "italic":
			seen.Italic = append(seen.Italic, said)
		case "code":
			seen.Code = append(seen.Code, said)
		case "pre":
			seen.Pre = append(seen.Pre, said)
		case "text_link":
			seen.Links = append(seen.Links, e.URL)
		case "mention", "text_mention":
			seen.Notified = append(seen.Notified, said)
		}
	}
	for _, kind := range []string{"document", "photo"} {
		switch w := m.media[kind].(type) {
		case map[string]any:
			seen.File, _ = w["file_name"].(string)
		case []any:
			seen.File = kind
		}
	}
	return seen
}

func slice(text string, e entity) string {
	units := utf16.Encode([]rune(text))
	return string(utf16.Decode(units[min(e.Offset, len(units)):min(e.end(), len(units))]))
}

// Actions lists the "typing" that a chat has shown.
func (s *Server) Actions(chat int64) []Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.chats[chat].actions)
}

// Menu lists the bot's commands.
func (s *Server) Menu() []Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

// Webhook is where updates are posted; empty when nowhere.
func (s *Server) Webhook() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.webhook.url
}

// download serves /file/bot<token>/<path>.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	token, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/file/bot"), "/")
	s.mu.Lock()
	f, ok := s.files[strings.TrimPrefix(path, "documents/")]
	s.mu.Unlock()
	if token != s.Token || !ok || f.size > MaxDownload {
		answer(w, &refusal{code: http.StatusNotFound, description: "Not Found"})
		return
	}
	fault := s.takeFault("download", args{})
	if fault != nil && (!fault.before(r) || fault.Kind == LoseReply) {
		hangUp(w)
		return
	}
	if fault != nil && fault.refuses() {
		answer(w, fault.refusal())
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(f.content)
}
