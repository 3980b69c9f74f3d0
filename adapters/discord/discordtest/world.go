package discordtest

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Channel types (resources/channel#channel-object-channel-types).
const (
	typeText         = 0
	typeDM           = 1
	typePublicThread = 11
	typeForum        = 15
)

// Message types (resources/message#message-object-message-types).
const (
	messageDefault       = 0
	messageThreadCreated = 18
	messageReply         = 19
	messageCommand       = 20
)

// User is a user object.
type User struct {
	ID            string `json:"id"`
	Username      string `json:"username"`
	GlobalName    string `json:"global_name"`
	Discriminator string `json:"discriminator"`
	Bot           bool   `json:"bot,omitempty"`
}

// Member is a guild member object, without the user in message events.
type Member struct {
	User  *User    `json:"user,omitempty"`
	Nick  string   `json:"nick,omitempty"`
	Roles []string `json:"roles"`
}

type role struct {
	ID   string            `json:"id"`
	Name string            `json:"name"`
	Tags map[string]string `json:"tags,omitempty"`
}

type guild struct {
	id, name string
	roles    []role
	members  map[string]*Member
}

// hidden and locked restrict a channel.
type channelState string

const (
	open      channelState = ""
	hidden    channelState = "hidden"     // the bot may not see it
	silent    channelState = "silent"     // the bot may not write in it
	locked    channelState = "locked"     // an archived and locked thread
	archived  channelState = "archived"   // a message opens it again
	noHistory channelState = "no_history" // replies are refused
)

type channel struct {
	id, name, guild, parent string
	kind                    int
	state                   channelState
	recipient               string // of a DM
	messages                []*Message
	typing                  int
}

// Attachment is an attachment object.
type Attachment struct {
	ID          string `json:"id"`
	Filename    string `json:"filename"`
	ContentType string `json:"content_type,omitempty"`
	Size        int    `json:"size"`
	URL         string `json:"url"`
	ProxyURL    string `json:"proxy_url"`
}

// Reference is a message reference. Type 0 is a reply, 1 a forward.
type Reference struct {
	Type            int    `json:"type"`
	MessageID       string `json:"message_id,omitempty"`
	ChannelID       string `json:"channel_id,omitempty"`
	GuildID         string `json:"guild_id,omitempty"`
	FailIfNotExists *bool  `json:"fail_if_not_exists,omitempty"`
}

// Message is a message object, and what the tests want to know of it.
type Message struct {
	ID              string       `json:"id"`
	ChannelID       string       `json:"channel_id"`
	GuildID         string       `json:"guild_id,omitempty"` // in events only
	Author          User         `json:"author"`
	Member          *Member      `json:"member,omitempty"` // in events only
	Content         string       `json:"content"`
	Timestamp       string       `json:"timestamp"`
	EditedTimestamp *string      `json:"edited_timestamp"`
	TTS             bool         `json:"tts"`
	MentionEveryone bool         `json:"mention_everyone"`
	Mentions        []User       `json:"mentions"`
	MentionRoles    []string     `json:"mention_roles"`
	Attachments     []Attachment `json:"attachments"`
	Embeds          []any        `json:"embeds"`
	Components      []any        `json:"components"`
	Pinned          bool         `json:"pinned"`
	Type            int          `json:"type"`
	Flags           int          `json:"flags"`
	WebhookID       string       `json:"webhook_id,omitempty"`
	Reference       *Reference   `json:"message_reference,omitempty"`
	Referenced      *Message     `json:"referenced_message,omitempty"`
	Nonce           string       `json:"nonce,omitempty"` // to the sender's own connection only

	Pinged    []string `json:"-"` // who was notified: user ids, "role:<id>", "everyone"
	Reactions []string `json:"-"` // ours
	Edits     int      `json:"-"`
}

// AddGuild makes a guild that the bot is in, with a role that Discord made for the bot, and returns its id.
func (s *Server) AddGuild(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &guild{id: s.snowflake(), name: name, members: map[string]*Member{}}
	g.roles = []role{{ID: g.id, Name: "@everyone"}, {ID: s.snowflake(), Name: "mikan", Tags: map[string]string{"bot_id": s.bot.ID}}}
	g.members[s.bot.ID] = &Member{User: &s.bot, Roles: []string{g.roles[1].ID}}
	s.guilds[g.id] = g
	s.dispatch("GUILD_CREATE", s.guildEvent(g), forGuilds)
	return g.id
}

// BotRole is the role that Discord made for the bot.
func (s *Server) BotRole(guildID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guilds[guildID].roles[1].ID
}

// AddChannel makes a text channel and returns its id.
func (s *Server) AddChannel(guildID, name string) string {
	return s.addChannel(&channel{guild: guildID, name: name, kind: typeText})
}

// AddForum makes a forum channel, which holds threads only.
func (s *Server) AddForum(guildID, name string) string {
	return s.addChannel(&channel{guild: guildID, name: name, kind: typeForum})
}

func (s *Server) addChannel(c *channel) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.id = s.snowflake()
	s.channels[c.id] = c
	s.dispatch("CHANNEL_CREATE", s.channelObject(c), forGuilds)
	return c.id
}

// OpenThread makes a thread of a message, whose id it shares, or, without one, a thread of its own.
func (s *Server) OpenThread(channelID, messageID, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	parent := s.channels[channelID]
	id := messageID
	if id == "" {
		id = s.snowflake()
	}
	t := &channel{id: id, guild: parent.guild, parent: channelID, name: name, kind: typePublicThread}
	s.channels[id] = t
	s.dispatch("THREAD_CREATE", s.channelObject(t), forGuilds)
	if parent.kind == typeText && messageID == "" {
		note := s.message(parent, s.bot, name)
		note.Type, note.Reference = messageThreadCreated, &Reference{ChannelID: id, GuildID: parent.guild}
		s.append(parent, note)
	}
	return id
}

// AddUser makes a person who is in no guild.
func (s *Server) AddUser(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &User{ID: s.snowflake(), Username: strings.ToLower(name), GlobalName: name, Discriminator: "0"}
	s.users[u.ID] = u
	return u.ID
}

// AddBot makes another application's bot.
func (s *Server) AddBot(name string) string {
	id := s.AddUser(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[id].Bot = true
	return id
}

// Join lets a user into a guild, with roles.
func (s *Server) Join(guildID, userID string, roles ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guilds[guildID].members[userID] = &Member{User: s.users[userID], Roles: append([]string{}, roles...)}
}

// Leave takes a user out of a guild.
func (s *Server) Leave(guildID, userID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guilds[guildID].members, userID)
}

// DM is the direct conversation of a user with the bot.
func (s *Server) DM(userID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dm(userID).id
}

func (s *Server) dm(userID string) *channel {
	for _, c := range s.channels {
		if c.kind == typeDM && c.recipient == userID {
			return c
		}
	}
	c := &channel{id: s.snowflake(), kind: typeDM, recipient: userID}
	s.channels[c.id] = c
	return c
}

// RefuseDMs makes a user refuse direct messages.
func (s *Server) RefuseDMs(userID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closedDM[userID] = true
}

// Restrict changes what the bot may do in a channel: "hidden", "silent", "locked", "archived", "no_history" or "".
func (s *Server) Restrict(channelID, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.channels[channelID].state = channelState(state)
}

// Utterance is something that a user says.
type Utterance struct {
	Channel string            `json:"channel"`
	User    string            `json:"user"`
	Text    string            `json:"text"`
	ReplyTo string            `json:"reply_to,omitempty"` // a message id
	Ping    bool              `json:"ping,omitempty"`     // the reply notifies its author, as clients do by default
	Files   map[string][]byte `json:"files,omitempty"`    // by name
	At      time.Time         `json:"at,omitzero"`        // default now
	Webhook string            `json:"webhook,omitempty"`  // the id of a webhook that says it
	Forward bool              `json:"forward,omitempty"`  // ReplyTo is forwarded, not answered
}

// Mention is how a client writes a mention.
func Mention(userID string) string { return "<@" + userID + ">" }

// Say posts as a user and returns the message's id.
func (s *Server) Say(u Utterance) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.channels[u.Channel]
	if !ok {
		panic(fmt.Sprintf("discordtest: there is no channel %s", u.Channel))
	}
	author := User{ID: u.Webhook, Username: "hook", Discriminator: "0000"}
	if u.Webhook == "" {
		author = *s.users[u.User]
	}
	m := s.message(c, author, u.Text)
	m.WebhookID = u.Webhook
	if !u.At.IsZero() {
		m.ID, m.Timestamp = s.snowflakeAt(u.At), u.At.UTC().Format(time.RFC3339Nano)
	}
	if u.ReplyTo != "" {
		m.Reference = &Reference{MessageID: u.ReplyTo, ChannelID: c.id, GuildID: c.guild}
		if u.Forward {
			m.Reference.Type = 1
		} else {
			m.Type = messageReply
			m.Referenced = find(c, u.ReplyTo)
		}
	}
	s.mention(m, func(string) bool { return true })
	if u.Ping && m.Referenced != nil {
		s.ping(m, m.Referenced.Author)
	}
	for _, name := range sortedKeys(u.Files) {
		m.Attachments = append(m.Attachments, s.keep(c.id, name, u.Files[name]))
	}
	s.append(c, m)
	return m.ID
}

// EditText changes what a message says, as its author.
func (s *Server) EditText(channelID, messageID, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channelID]
	m := find(c, messageID)
	m.Content = text
	now := time.Now().UTC().Format(time.RFC3339Nano)
	m.EditedTimestamp = &now
	m.Mentions, m.MentionRoles, m.MentionEveryone = []User{}, []string{}, false
	s.mention(m, func(string) bool { return true })
	s.dispatch("MESSAGE_UPDATE", s.event(c, m), forMessages(c))
}

// Unfurl sends the update that a link preview causes: it names no content.
func (s *Server) Unfurl(channelID, messageID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channelID]
	s.dispatch("MESSAGE_UPDATE", map[string]any{
		"id": messageID, "channel_id": channelID, "guild_id": c.guild, "embeds": []any{map[string]any{"type": "link", "title": "A page"}},
	}, forMessages(c))
}

// Remove deletes a message, as a person.
func (s *Server) Remove(channelID, messageID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(s.channels[channelID], messageID)
}

func (s *Server) remove(c *channel, messageID string) {
	c.messages = slices.DeleteFunc(c.messages, func(m *Message) bool { return m.ID == messageID })
	s.dispatch("MESSAGE_DELETE", map[string]any{"id": messageID, "channel_id": c.id, "guild_id": c.guild}, forMessages(c))
}

// Messages lists what people see in a channel or thread, oldest first.
func (s *Server) Messages(channelID string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.channels[channelID]
	if !ok {
		return nil
	}
	seen := make([]Message, len(c.messages))
	for i, m := range c.messages {
		seen[i] = *m
		seen[i].Reactions = slices.Clone(m.Reactions)
	}
	return seen
}

// Own lists the bot's messages in a channel or thread, oldest first.
func (s *Server) Own(channelID string) []Message {
	return slices.DeleteFunc(s.Messages(channelID), func(m Message) bool { return m.Author.ID != s.bot.ID || m.Type == messageThreadCreated })
}

// Bot is the application's user.
func (s *Server) Bot() User {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bot
}

// Typed counts how often typing was shown in a channel.
func (s *Server) Typed(channelID string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.channels[channelID].typing
}

func (s *Server) message(c *channel, author User, text string) *Message {
	return &Message{
		ID: s.snowflake(), ChannelID: c.id, Author: author, Content: strings.TrimSpace(text), Timestamp: time.Now().UTC().Format(time.RFC3339Nano),
		Mentions: []User{}, MentionRoles: []string{}, Attachments: []Attachment{}, Embeds: []any{}, Components: []any{},
	}
}

// append puts a message into its channel in the order of ids and tells the connections.
func (s *Server) append(c *channel, m *Message) {
	at, _ := slices.BinarySearchFunc(c.messages, m, func(a, b *Message) int {
		if newer(a.ID, b.ID) {
			return 1
		}
		return -1
	})
	c.messages = slices.Insert(c.messages, at, m)
	if c.state == archived {
		c.state = open
		s.dispatch("THREAD_UPDATE", s.channelObject(c), forGuilds)
	}
	s.dispatch("MESSAGE_CREATE", s.event(c, m), forMessages(c))
}

func (s *Server) event(c *channel, m *Message) *Message {
	e := *m
	e.GuildID = c.guild
	if g := s.guilds[c.guild]; g != nil && g.members[m.Author.ID] != nil && m.WebhookID == "" {
		e.Member = &Member{Nick: g.members[m.Author.ID].Nick, Roles: g.members[m.Author.ID].Roles}
	}
	return &e
}

// mention fills in who a text mentions, of those that may be; may is asked for user ids, "role:<id>" and "everyone".
func (s *Server) mention(m *Message, may func(string) bool) {
	for rest := m.Content; ; {
		_, after, found := strings.Cut(rest, "<@")
		if !found {
			break
		}
		id, tail, closed := strings.Cut(after, ">")
		rest = after
		if !closed {
			break
		}
		if r, isRole := strings.CutPrefix(id, "&"); isRole && may("role:"+r) {
			m.MentionRoles = append(m.MentionRoles, r)
			m.Pinged = append(m.Pinged, "role:"+r)
		} else if u := s.users[strings.TrimPrefix(id, "!")]; u != nil && may(u.ID) {
			s.ping(m, *u)
		}
		rest = tail
	}
	if (strings.Contains(m.Content, "@everyone") || strings.Contains(m.Content, "@here")) && may("everyone") {
		m.MentionEveryone = true
		m.Pinged = append(m.Pinged, "everyone")
	}
}

func (s *Server) ping(m *Message, u User) {
	if !slices.ContainsFunc(m.Mentions, func(known User) bool { return known.ID == u.ID }) {
		m.Mentions = append(m.Mentions, u)
		m.Pinged = append(m.Pinged, u.ID)
	}
}

func find(c *channel, messageID string) *Message {
	for _, m := range c.messages {
		if m.ID == messageID {
			return m
		}
	}
	return nil
}

func (s *Server) channelObject(c *channel) map[string]any {
	o := map[string]any{"id": c.id, "type": c.kind, "last_message_id": nil, "flags": 0}
	if len(c.messages) > 0 {
		o["last_message_id"] = c.messages[len(c.messages)-1].ID
	}
	switch c.kind {
	case typeDM:
		o["recipients"] = []User{*s.users[c.recipient]}
		return o
	case typePublicThread:
		o["thread_metadata"] = map[string]any{"archived": c.state == archived || c.state == locked, "locked": c.state == locked, "auto_archive_duration": 1440}
	}
	o["guild_id"], o["name"] = c.guild, c.name
	if c.parent != "" {
		o["parent_id"] = c.parent
	}
	return o
}

func (s *Server) guildEvent(g *guild) map[string]any {
	channels, threads := []any{}, []any{}
	for _, id := range sortedKeys(s.channels) {
		switch c := s.channels[id]; {
		case c.guild != g.id || c.state == hidden:
		case c.kind == typePublicThread:
			if c.state != archived && c.state != locked {
				threads = append(threads, s.channelObject(c))
			}
		default:
			channels = append(channels, s.channelObject(c))
		}
	}
	return map[string]any{
		"id": g.id, "name": g.name, "unavailable": false, "roles": g.roles, "channels": channels, "threads": threads,
		"members": []Member{*g.members[s.bot.ID]}, "member_count": len(g.members), "large": false,
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// characters counts as Discord's limits do: code points.
func characters(text string) int { return utf8.RuneCountInString(text) }
