package slacktest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// NewTeam is a workspace to be made.
type NewTeam struct {
	Name      string `json:"name"`
	Installed bool   `json:"installed"` // with the app
}

// CreateTeam makes a workspace.
func (s *Server) CreateTeam(n NewTeam) (Team, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &Team{ID: s.nextID("T"), Name: n.Name, Domain: strings.ToLower(n.Name), Installed: n.Installed}
	s.teams = append(s.teams, t)
	if n.Installed {
		bot := s.addUser(&User{TeamID: t.ID, Name: s.app.Name, RealName: s.app.Name, Kind: Bot, BotID: s.nextID("B"), AppID: s.app.ID})
		t.BotUser, t.BotID = bot.ID, bot.BotID
		t.BotToken = "xoxb-" + t.ID + "-" + uuid.NewString()
	}
	return *t, nil
}

// Team returns the first workspace, in which the app is installed from the start.
func (s *Server) Team() Team {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.teams[0]
}

// App returns the app: its tokens, scopes and subscriptions.
func (s *Server) App() App {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.app
}

// SetScopes replaces the scopes of the bot tokens.
func (s *Server) SetScopes(scopes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.app.Scopes = scopes
}

// SetEvents replaces the app's subscriptions.
func (s *Server) SetEvents(events ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.app.Events = events
}

// NewUser is a person or a bot to be made.
type NewUser struct {
	Team        string   `json:"team,omitempty"` // empty: the first
	Name        string   `json:"name"`
	DisplayName string   `json:"display_name,omitempty"`
	Kind        UserKind `json:"kind,omitempty"`
	TimeZone    string   `json:"time_zone,omitempty"`
}

func (s *Server) addUser(u *User) *User {
	u.ID = s.nextID("U")
	if u.TimeZone == "" {
		u.TimeZone = "Europe/London"
	}
	s.users = append(s.users, u)
	return u
}

// CreateUser makes a person or a bot.
func (s *Server) CreateUser(n NewUser) (User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	team, err := s.teamOr(n.Team)
	if err != nil {
		return User{}, err
	}
	u := &User{TeamID: team.ID, Name: n.Name, RealName: n.Name, DisplayName: n.DisplayName, Kind: n.Kind, TimeZone: n.TimeZone}
	if n.Kind == Bot {
		u.BotID, u.AppID = s.nextID("B"), s.nextID("A")
	}
	return *s.addUser(u), nil
}

func (s *Server) teamOr(id string) (*Team, error) {
	if id == "" {
		return s.teams[0], nil
	}
	t, ok := s.team(id)
	if !ok {
		return nil, fmt.Errorf("slacktest: no workspace %q", id)
	}
	return t, nil
}

// CreateUserGroup makes a group of users that can be mentioned.
func (s *Server) CreateUserGroup(g UserGroup) (UserGroup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	team, err := s.teamOr(g.TeamID)
	if err != nil {
		return g, err
	}
	g.ID, g.TeamID = s.nextID("S"), team.ID
	s.groups = append(s.groups, &g)
	return g, nil
}

// NewChannel is a conversation to be made. The app's bot is a member where it is named, and always of an im or mpim
// that Members say it is in.
type NewChannel struct {
	Team       string      `json:"team,omitempty"` // empty: the first
	Name       string      `json:"name"`
	Kind       ChannelKind `json:"kind"` // empty: public
	Members    []string    `json:"members"`
	WithBot    bool        `json:"with_bot"` // the app's bot of that workspace is a member, without an event
	SharedWith []string    `json:"shared_with,omitempty"`
}

// CreateChannel makes a conversation. Nobody is told.
func (s *Server) CreateChannel(n NewChannel) (Channel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	team, err := s.teamOr(n.Team)
	if err != nil {
		return Channel{}, err
	}
	members := slices.Clone(n.Members)
	if n.WithBot {
		if !team.Installed {
			return Channel{}, fmt.Errorf("slacktest: the app is not installed in %s", team.ID)
		}
		members = append(members, team.BotUser)
	}
	for _, id := range members {
		if _, ok := s.user(id); !ok {
			return Channel{}, fmt.Errorf("slacktest: no user %q", id)
		}
	}
	if n.Kind == "" {
		n.Kind = PublicChannel
	}
	return *s.addChannel(&Channel{TeamID: team.ID, Name: n.Name, Kind: n.Kind, Members: members, SharedWith: n.SharedWith}), nil
}

func (s *Server) addChannel(c *Channel) *Channel {
	prefix := map[ChannelKind]string{PublicChannel: "C", PrivateChannel: "C", DirectMessage: "D", GroupDM: "G"}[c.Kind]
	c.ID = s.nextID(prefix)
	if c.Kind == GroupDM && c.Name == "" {
		c.Name = "mpdm-" + strings.ToLower(c.ID)
	}
	s.channels = append(s.channels, c)
	return c
}

// Archive archives a channel, or ends that.
func (s *Server) Archive(channel string, state ArchiveState) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, ok := s.channel(channel)
	if !ok {
		return fmt.Errorf("slacktest: no channel %q", channel)
	}
	ch.Archived = state == Archived
	return nil
}

// ArchiveState tells whether a channel is archived.
type ArchiveState string

// The states.
const (
	Archived ArchiveState = "archived"
	Open     ArchiveState = "open"
)

// Saying is a message by a person or a bot.
type Saying struct {
	Channel     string          `json:"channel"`
	User        string          `json:"user"`
	Text        string          `json:"text"` // as on the wire: <@U…> for mentions, &lt; for <
	Thread      string          `json:"thread,omitempty"`
	Broadcast   bool            `json:"broadcast,omitempty"`
	Blocks      json.RawMessage `json:"blocks,omitempty"`
	Attachments json.RawMessage `json:"attachments,omitempty"`
	Files       []string        `json:"files,omitempty"`   // ids of files made with CreateFile: the subtype is file_share
	Subtype     string          `json:"subtype,omitempty"` // channel_join, channel_topic, me_message, …
	Via         Via             `json:"via,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	WithoutTeam bool            `json:"without_team,omitempty"` // only the envelope names the workspace
}

// Via tells how a message was written.
type Via string

// The ways.
const (
	ViaClient    Via = ""           // typed in Slack, with a client_msg_id; a bot's own way is the API
	ViaUserToken Via = "user_token" // by some app in a person's name: bot_id beside a human user
	ViaClassic   Via = "classic"    // a bot of the old kind, or a webhook: subtype bot_message, no user
)

// Say writes a message and returns it.
func (s *Server) Say(w Saying) (Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, u, err := s.placeOf(w.Channel, w.User)
	if err != nil {
		return Message{}, err
	}
	if ch.Archived {
		return Message{}, fmt.Errorf("slacktest: %s is archived", ch.ID)
	}
	if !ch.has(u.ID) && w.Via != ViaClassic {
		return Message{}, fmt.Errorf("slacktest: %s is not in %s", u.ID, ch.ID)
	}
	if _, ok := ch.message(w.Thread); w.Thread != "" && !ok {
		return Message{}, fmt.Errorf("slacktest: no thread %s in %s", w.Thread, ch.ID)
	}
	m := &Message{ThreadTS: w.Thread, Broadcast: w.Broadcast, Team: u.TeamID, User: u.ID, Text: w.Text, Blocks: w.Blocks,
		Attachments: w.Attachments, Files: w.Files, Subtype: w.Subtype, Metadata: w.Metadata}
	if w.WithoutTeam {
		m.Team = ""
	}
	switch {
	case w.Via == ViaClassic:
		m.User, m.BotID, m.Username, m.Subtype = "", u.BotID, u.Name, "bot_message"
		if m.BotID == "" {
			m.BotID = s.nextID("B")
		}
	case w.Via == ViaUserToken:
		m.BotID, m.AppID = s.nextID("B"), s.nextID("A")
	case u.Kind == Bot:
		m.BotID, m.AppID = u.BotID, u.AppID
	default:
		m.ClientMsgID = uuid.NewString()
		if len(m.Blocks) == 0 && m.Text != "" && m.Subtype == "" {
			m.Blocks = copyJSON([]reply{richText(m.Text)})
		}
	}
	if len(m.Files) > 0 && m.Subtype == "" {
		m.Subtype = "file_share"
	}
	for _, id := range w.Files {
		f, ok := s.file(id)
		if !ok {
			return Message{}, fmt.Errorf("slacktest: no file %q", id)
		}
		f.share(ch.ID)
	}
	return *s.post(ch, m), nil
}

func (s *Server) placeOf(channel, user string) (*Channel, *User, error) {
	ch, ok := s.channel(channel)
	if !ok {
		return nil, nil, fmt.Errorf("slacktest: no channel %q", channel)
	}
	u, ok := s.user(user)
	if !ok {
		return nil, nil, fmt.Errorf("slacktest: no user %q", user)
	}
	return ch, u, nil
}

// Editing is a change of a person's message.
type Editing struct {
	Channel string   `json:"channel"`
	TS      string   `json:"ts"`
	Text    string   `json:"text"` // ignored by previews
	Kind    EditKind `json:"kind,omitempty"`
}

// EditKind tells what a message_changed event is about.
type EditKind string

// The kinds.
const (
	EditText    EditKind = ""        // a person changed the text
	EditPreview EditKind = "preview" // Slack added a link's preview: no text changed, nothing is marked as edited
	EditSame    EditKind = "same"    // Slack sends the message again unchanged, as after language detection
)

// Edit changes a message.
func (s *Server) Edit(e Editing) (Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, ok := s.channel(e.Channel)
	if !ok {
		return Message{}, fmt.Errorf("slacktest: no channel %q", e.Channel)
	}
	m, ok := ch.message(e.TS)
	if !ok {
		return Message{}, fmt.Errorf("slacktest: no message %s in %s", e.TS, e.Channel)
	}
	before := *m
	by := ""
	switch e.Kind {
	case EditPreview:
		m.Attachments = copyJSON([]reply{{"id": 1, "from_url": "https://example.com/", "title": "Example", "text": "A preview", "fallback": "Example"}})
	case EditText:
		m.Text, by = e.Text, m.User
		m.Blocks = nil
		m.Edits++
		m.EditedBy, m.EditedAt = m.User, formatTS(s.now().UnixMicro())
	}
	s.emitChanged(ch, m, &before, by)
	return *m, nil
}

// Delete deletes a person's message.
func (s *Server) Delete(channel, ts string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, ok := s.channel(channel)
	if !ok {
		return fmt.Errorf("slacktest: no channel %q", channel)
	}
	m, ok := ch.message(ts)
	if !ok {
		return fmt.Errorf("slacktest: no message %s in %s", ts, channel)
	}
	s.remove(ch, m)
	return nil
}

// Join makes somebody a member of a channel, the app's bot for instance. Slack writes a line and tells the members.
func (s *Server) Join(channel, user, inviter string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, u, err := s.placeOf(channel, user)
	if err != nil {
		return err
	}
	if ch.has(user) {
		return fmt.Errorf("slacktest: %s is in %s already", user, channel)
	}
	ch.Members = append(ch.Members, user)
	s.post(ch, &Message{Team: u.TeamID, User: user, Subtype: "channel_join", Text: "<@" + user + "> has joined the channel"})
	event := reply{"type": "member_joined_channel", "user": user, "channel": channel, "channel_type": channelLetter(ch), "team": u.TeamID}
	if inviter != "" {
		event["inviter"] = inviter
	}
	for _, t := range s.listeners(ch) {
		s.emit(t, "member_joined_channel", event)
	}
	return nil
}

// Leave ends a membership.
func (s *Server) Leave(channel, user string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, u, err := s.placeOf(channel, user)
	if err != nil {
		return err
	}
	listeners := s.listeners(ch)
	ch.Members = slices.DeleteFunc(ch.Members, func(id string) bool { return id == user })
	for _, t := range listeners {
		s.emit(t, "member_left_channel", reply{"type": "member_left_channel", "user": user, "channel": channel, "channel_type": channelLetter(ch), "team": u.TeamID})
	}
	return nil
}

// Rename gives a channel another name.
func (s *Server) Rename(channel, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, ok := s.channel(channel)
	if !ok {
		return fmt.Errorf("slacktest: no channel %q", channel)
	}
	ch.Name = name
	kind := map[ChannelKind]string{PublicChannel: "channel_rename", PrivateChannel: "group_rename"}[ch.Kind]
	if kind == "" {
		return fmt.Errorf("slacktest: %s has no name", channel)
	}
	for _, t := range s.listeners(ch) {
		s.emit(t, kind, reply{"type": kind, "channel": reply{"id": ch.ID, "name": name, "created": time.Now().Unix()}})
	}
	return nil
}

func channelLetter(ch *Channel) string {
	if ch.Kind == PublicChannel {
		return "C"
	}
	return "G"
}
