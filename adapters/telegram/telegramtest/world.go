package telegramtest

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Botness tells people and programs apart.
type Botness string

// The choices.
const (
	IsPerson Botness = ""
	IsBot    Botness = "bot"
)

// Person is somebody on Telegram.
type Person struct {
	ID        int64   `json:"id"`
	FirstName string  `json:"first_name"`
	LastName  string  `json:"last_name"`
	Username  string  `json:"username"`
	Bot       Botness `json:"bot"`
}

func (p Person) wire() map[string]any {
	w := map[string]any{"id": p.ID, "is_bot": p.Bot == IsBot, "first_name": p.FirstName}
	if p.LastName != "" {
		w["last_name"] = p.LastName
	}
	if p.Username != "" {
		w["username"] = p.Username
	}
	return w
}

// ChatType is a chat's type, as Telegram names it.
type ChatType string

// The types.
const (
	PrivateChat ChatType = "private"
	GroupChat   ChatType = "group"
	Supergroup  ChatType = "supergroup"
)

// Layout tells whether a supergroup has topics.
type Layout string

// The choices.
const (
	NoTopics  Layout = ""
	ForumChat Layout = "forum"
)

// GeneralID is the topic that a forum always has. Its messages carry no topic.
const GeneralID = 1

// BotStanding is what the bot is in a chat.
type BotStanding string

// The choices.
const (
	BotMember     BotStanding = ""
	BotAdmin      BotStanding = "administrator"
	BotBlocked    BotStanding = "blocked" // by the person of a private chat
	BotKicked     BotStanding = "kicked"
	BotRestricted BotStanding = "restricted" // may not write
)

// Chat describes a chat to AddChat.
type Chat struct {
	ID     int64    `json:"id"` // of a private chat: the person's
	Type   ChatType `json:"type"`
	Title  string   `json:"title"`
	Layout Layout   `json:"layout"`
	// FirstMessage is the id of the first message; default 1. In private chats and groups real ids are anything.
	FirstMessage int `json:"first_message"`
}

// Command is an entry of the bot's menu.
type Command struct {
	Command     string `json:"command"`
	Description string `json:"description"`
}

type topic struct {
	id     int
	name   string
	closed Open
}

// Open tells whether a topic takes messages.
type Open string

// The choices.
const (
	OpenTopic   Open = ""
	ClosedTopic Open = "closed"
)

type chat struct {
	Chat
	bot      BotStanding
	migrated int64 // the supergroup that the group became
	messages map[int]*message
	order    []int
	next     int
	topics   map[int]*topic
	actions  []Action
}

// Action is a "typing" that was shown.
type Action struct {
	At     time.Time `json:"at"`
	Action string    `json:"action"`
	Topic  int       `json:"topic"`
}

// message is one message of a chat.
type message struct {
	id       int
	chat     int64
	thread   int // as Telegram says: the topic, or the root of a chain of replies in a supergroup
	inTopic  Place
	from     int64
	as       int64 // sender_chat; 0: from is the sender
	at       time.Time
	edited   time.Time
	text     string
	caption  string
	entities []entity
	replyTo  int
	media    map[string]any // document, photo, voice …
	service  map[string]any // new_chat_members, forum_topic_created …
	album    string
	deleted  time.Time
	versions int // times that it was changed
	auto     Auto
}

// Place tells whether a message stands in a topic.
type Place string

// The choices.
const (
	Outside Place = ""
	InTopic Place = "topic"
)

// Auto marks a channel's post that Telegram copied into the channel's discussion group.
type Auto string

// The choices.
const (
	ByHand    Auto = ""
	Forwarded Auto = "automatic"
)

// AddPerson makes somebody known.
func (s *Server) AddPerson(p Person) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.people[p.ID] = p
}

// AddChat makes a chat that the bot is in. The person of a private chat must be known.
func (s *Server) AddChat(c Chat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addChat(c)
}

func (s *Server) addChat(c Chat) *chat {
	if c.FirstMessage == 0 {
		c.FirstMessage = 1
		if c.Layout == ForumChat {
			c.FirstMessage = GeneralID + 1 // the general topic has the first id
		}
	}
	made := &chat{Chat: c, messages: map[int]*message{}, next: c.FirstMessage, topics: map[int]*topic{}}
	s.chats[c.ID] = made
	return made
}

// Stand changes what the bot is in a chat.
func (s *Server) Stand(chat int64, as BotStanding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chats[chat].bot = as
}

// AddTopic opens a topic in a forum and returns its id: that of the service message about its creation.
func (s *Server) AddTopic(chat int64, by int64, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[chat]
	m := s.place(c, &message{from: by, service: map[string]any{"forum_topic_created": map[string]any{"name": name, "icon_color": 7322096}}})
	m.thread, m.inTopic = m.id, InTopic
	c.topics[m.id] = &topic{id: m.id, name: name}
	s.tell(c, m, "message")
	return m.id
}

// CloseTopic closes a topic for everybody but administrators.
func (s *Server) CloseTopic(chat int64, id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chats[chat].topics[id].closed = ClosedTopic
}

// place puts a message into a chat. The lock is held.
func (s *Server) place(c *chat, m *message) *message {
	m.id, m.chat, m.at = c.next, c.ID, s.Now()
	c.next++
	c.messages[m.id] = m
	c.order = append(c.order, m.id)
	s.happen()
	return m
}

// Migrate turns a group into a supergroup of the given id, and tells the bot so in both.
func (s *Server) Migrate(group, supergroup int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.chats[group]
	made := s.addChat(Chat{ID: supergroup, Type: Supergroup, Title: old.Title})
	made.bot = old.bot
	s.tell(old, s.place(old, &message{from: s.anyone(), service: map[string]any{"migrate_to_chat_id": supergroup}}), "message")
	old.migrated = supergroup
	s.tell(made, s.place(made, &message{from: s.anyone(), service: map[string]any{"migrate_from_chat_id": group}}), "message")
}

// MigrateUnseen is Migrate while updates about it are yet to come: only an answer to the old id tells.
func (s *Server) MigrateUnseen(group, supergroup int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.chats[group]
	made := s.addChat(Chat{ID: supergroup, Type: Supergroup, Title: old.Title})
	s.place(old, &message{from: s.anyone(), service: map[string]any{"migrate_to_chat_id": supergroup}})
	s.place(made, &message{from: s.anyone(), service: map[string]any{"migrate_from_chat_id": group}})
	old.migrated = supergroup
}

func (s *Server) anyone() int64 {
	for _, id := range slices.Sorted(maps.Keys(s.people)) {
		if s.people[id].Bot == IsPerson {
			return id
		}
	}
	return s.BotID
}

// reach finds a chat that the bot can act in. The lock is held.
func (s *Server) reach(c *call) (*chat, *refusal) {
	found, ok := s.chats[c.args.integer("chat_id")]
	switch {
	case !ok:
		return nil, refuse(chatNotFound)
	case found.migrated != 0 && c.method.Name != "editMessageText" && c.method.Name != "getChat":
		r := refuse(upgraded)
		r.migrateTo = found.migrated
		return nil, r
	case found.bot == BotBlocked:
		return nil, refuse(blocked)
	case found.bot == BotKicked && found.Type == GroupChat:
		return nil, refuse(kickedGroup)
	case found.bot == BotKicked:
		return nil, refuse(kickedSuper)
	}
	return found, nil
}

// wireChat is a chat as messages show it.
func (s *Server) wireChat(id int64) map[string]any {
	c, ok := s.chats[id]
	if !ok { // a channel that posts into a group
		return map[string]any{"id": id, "type": "channel", "title": fmt.Sprintf("channel %d", id)}
	}
	if c.Type == PrivateChat {
		w := s.people[id].wire()
		delete(w, "is_bot")
		w["type"] = PrivateChat
		return w
	}
	w := map[string]any{"id": c.ID, "type": c.Type, "title": c.Title}
	if c.Layout == ForumChat {
		w["is_forum"] = true
	}
	return w
}

// Depth tells whether a message is shown with the one that it replies to.
type Depth string

// The choices.
const (
	WithReply Depth = ""
	Alone     Depth = "alone"
)

// wire is a message as Telegram sends it. The lock is held.
func (s *Server) wire(m *message, depth Depth) map[string]any {
	c := s.chats[m.chat]
	w := map[string]any{"message_id": m.id, "date": m.at.Unix(), "chat": s.wireChat(m.chat)}
	if m.from != 0 {
		w["from"] = s.person(m.from).wire()
	}
	if m.as != 0 {
		w["sender_chat"] = s.wireChat(m.as)
	}
	if m.auto == Forwarded {
		w["is_automatic_forward"] = true
	}
	if m.thread != 0 {
		w["message_thread_id"] = m.thread
	}
	if m.inTopic == InTopic {
		w["is_topic_message"] = true
	}
	if !m.edited.IsZero() {
		w["edit_date"] = m.edited.Unix()
	}
	if replied, ok := c.messages[m.replyTo]; ok && depth == WithReply && replied.deleted.IsZero() {
		w["reply_to_message"] = s.wire(replied, Alone)
	}
	if m.text != "" {
		w["text"] = m.text
	}
	if m.caption != "" {
		w["caption"] = m.caption
	}
	if len(m.entities) > 0 {
		w[map[bool]string{true: "entities", false: "caption_entities"}[m.caption == ""]] = m.entities
	}
	if m.album != "" {
		w["media_group_id"] = m.album
	}
	maps.Copy(w, m.media)
	maps.Copy(w, m.service)
	return w
}

// The ids under which Telegram shows people who hide behind a chat.
const (
	AnonymousAdmin = 1087968824
	ChannelBot     = 136817688
	Telegram       = 777000
)

func (s *Server) person(id int64) Person {
	switch id {
	case AnonymousAdmin:
		return Person{ID: id, FirstName: "Group", Username: "GroupAnonymousBot", Bot: IsBot}
	case ChannelBot:
		return Person{ID: id, FirstName: "Channel", Username: "Channel_Bot", Bot: IsBot}
	case Telegram:
		return Person{ID: id, FirstName: "Telegram"}
	}
	return s.people[id]
}

func (s *Server) getChat(c *call) (any, *refusal) {
	found, problem := s.reach(c)
	if problem != nil {
		return nil, problem
	}
	w := s.wireChat(found.ID)
	w["accent_color_id"], w["max_reaction_count"] = 0, 11
	w["accepted_gift_types"] = map[string]any{"unlimited_gifts": false, "limited_gifts": false, "unique_gifts": false, "premium_subscription": false}
	return w, nil
}

func (s *Server) getChatMember(c *call) (any, *refusal) {
	found, problem := s.reach(c)
	if problem != nil {
		return nil, problem
	}
	id := c.args.integer("user_id")
	p, ok := s.people[id]
	if !ok {
		return nil, refuse("Bad Request: PARTICIPANT_ID_INVALID")
	}
	status := "member"
	if id == s.BotID && found.bot == BotAdmin {
		status = "administrator"
	}
	return map[string]any{"status": status, "user": p.wire()}, nil
}
