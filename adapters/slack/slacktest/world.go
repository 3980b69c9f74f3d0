package slacktest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// App is the app under test.
type App struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	AppToken      string   `json:"app_token"`
	SigningSecret string   `json:"signing_secret"`
	Scopes        []string `json:"scopes"` // of the bot tokens
	Events        []string `json:"events"` // subscriptions
}

// Team is a workspace.
type Team struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Domain    string `json:"domain"`
	Installed bool   `json:"installed"` // the app
	BotToken  string `json:"bot_token,omitempty"`
	BotUser   string `json:"bot_user,omitempty"`
	BotID     string `json:"bot_id,omitempty"`
}

// UserKind tells what a user is to a workspace.
type UserKind string

// The kinds. A stranger is a member of another workspace, met in a shared channel: create it in that workspace.
const (
	Member             UserKind = ""
	Guest              UserKind = "guest"
	SingleChannelGuest UserKind = "single_channel_guest"
	Bot                UserKind = "bot"
	Deactivated        UserKind = "deactivated"
)

// User is a person or a bot.
type User struct {
	ID          string   `json:"id"`
	TeamID      string   `json:"team_id"`
	Name        string   `json:"name"`
	RealName    string   `json:"real_name"`
	DisplayName string   `json:"display_name"`
	Kind        UserKind `json:"kind"`
	BotID       string   `json:"bot_id,omitempty"`
	AppID       string   `json:"app_id,omitempty"`
	TimeZone    string   `json:"time_zone"`
}

// UserGroup is a group that can be mentioned.
type UserGroup struct {
	ID     string   `json:"id"`
	TeamID string   `json:"team_id"`
	Handle string   `json:"handle"`
	Users  []string `json:"users"`
}

// ChannelKind is the kind of a conversation.
type ChannelKind string

// The kinds, as conversations.list names them.
const (
	PublicChannel  ChannelKind = "public_channel"
	PrivateChannel ChannelKind = "private_channel"
	DirectMessage  ChannelKind = "im"
	GroupDM        ChannelKind = "mpim"
)

// eventType is what events call the kind.
func (k ChannelKind) eventType() string {
	switch k {
	case PublicChannel:
		return "channel"
	case PrivateChannel:
		return "group"
	}
	return string(k)
}

// Channel is a conversation of any kind.
type Channel struct {
	ID         string      `json:"id"`
	TeamID     string      `json:"team_id"`
	Name       string      `json:"name"`
	Kind       ChannelKind `json:"kind"`
	Archived   bool        `json:"archived"`
	Members    []string    `json:"members"`
	SharedWith []string    `json:"shared_with,omitempty"` // ids of other workspaces
	Topic      string      `json:"topic,omitempty"`

	messages []*Message
	last     int64 // microseconds
}

func (c *Channel) has(user string) bool { return slices.Contains(c.Members, user) }

// Message is one message as the server keeps it.
type Message struct {
	Channel     string              `json:"channel"`
	TS          string              `json:"ts"`
	ThreadTS    string              `json:"thread_ts,omitempty"`
	Broadcast   bool                `json:"broadcast,omitempty"`
	Team        string              `json:"team,omitempty"`
	User        string              `json:"user,omitempty"`
	BotID       string              `json:"bot_id,omitempty"`
	AppID       string              `json:"app_id,omitempty"`
	Username    string              `json:"username,omitempty"`
	Subtype     string              `json:"subtype,omitempty"`
	ClientMsgID string              `json:"client_msg_id,omitempty"`
	Text        string              `json:"text"`
	Blocks      json.RawMessage     `json:"blocks,omitempty"`
	Attachments json.RawMessage     `json:"attachments,omitempty"`
	Metadata    json.RawMessage     `json:"metadata,omitempty"`
	Files       []string            `json:"files,omitempty"`
	Reactions   map[string][]string `json:"reactions,omitempty"`
	EphemeralTo string              `json:"ephemeral_to,omitempty"`
	EditedAt    string              `json:"edited_at,omitempty"`
	EditedBy    string              `json:"edited_by,omitempty"`
	Edits       int                 `json:"edits"`
	Deleted     bool                `json:"deleted,omitempty"`
	Stream      *Stream             `json:"stream,omitempty"`
}

// StreamState tells where a streamed message is.
type StreamState string

// The states.
const (
	Streaming     StreamState = "streaming"
	Stopped       StreamState = "stopped"         // by the app
	StoppedByUser StreamState = "stopped_by_user" // by the button
	Expired       StreamState = "expired"         // by Slack
)

// Stream is what is special about a streamed message.
type Stream struct {
	State   StreamState       `json:"state"`
	Started time.Time         `json:"started"`
	Appends int               `json:"appends"`
	Text    string            `json:"text"`
	Plan    string            `json:"plan,omitempty"`
	Blocks  []json.RawMessage `json:"blocks,omitempty"` // lists of blocks that came as chunks or with the stop

	order []string // ids of tasks
	tasks map[string]reply
}

// place is a thread in a channel.
type place struct{ channel, thread string }

func (s *Server) nextID(prefix string) string {
	s.ids++
	return fmt.Sprintf("%s%010d", prefix, s.ids)
}

// stamp makes the next message id of a channel: unique and rising.
func (s *Server) stamp(c *Channel) string {
	c.last = max(c.last+1, s.now().UnixMicro())
	return formatTS(c.last)
}

func formatTS(micros int64) string { return fmt.Sprintf("%d.%06d", micros/1e6, micros%1e6) }

// parseTS reads 1234567890.123456 as microseconds.
func parseTS(ts string) (int64, bool) {
	sec, frac, _ := strings.Cut(ts, ".")
	if len(frac) > 6 {
		return 0, false
	}
	frac += strings.Repeat("0", 6-len(frac))
	a, err := strconv.ParseInt(sec, 10, 64)
	if err != nil || a < 0 || a > 1e11 {
		return 0, false
	}
	b, err := strconv.ParseUint(frac, 10, 32)
	if err != nil {
		return 0, false
	}
	return a*1e6 + int64(b), true
}

func find[T any](list []T, is func(T) bool) (T, bool) {
	i := slices.IndexFunc(list, is)
	if i < 0 {
		var none T
		return none, false
	}
	return list[i], true
}

func (s *Server) team(id string) (*Team, bool) {
	return find(s.teams, func(t *Team) bool { return t.ID == id })
}

func (s *Server) user(id string) (*User, bool) {
	return find(s.users, func(u *User) bool { return u.ID == id })
}

func (s *Server) channel(id string) (*Channel, bool) {
	return find(s.channels, func(c *Channel) bool { return c.ID == id })
}

func (s *Server) file(id string) (*File, bool) {
	return find(s.uploads, func(f *File) bool { return f.ID == id })
}

// message returns a message that is there to be seen.
func (c *Channel) message(ts string) (*Message, bool) {
	m, ok := c.any(ts)
	if !ok || m.Deleted || m.EphemeralTo != "" {
		return nil, false
	}
	return m, true
}

// any returns a message, deleted or private as it may be.
func (c *Channel) any(ts string) (*Message, bool) {
	i, ok := slices.BinarySearchFunc(c.messages, ts, func(m *Message, ts string) int { return strings.Compare(m.TS, ts) })
	if !ok {
		return nil, false
	}
	return c.messages[i], true
}

// reaches tells whether people and apps of a workspace can meet the channel.
func (c *Channel) reaches(team string) bool {
	return c.TeamID == team || slices.Contains(c.SharedWith, team)
}

// replies returns the visible replies of a thread, oldest first.
func (c *Channel) replies(ts string) []*Message {
	var out []*Message
	// Replies are younger than what they reply to.
	i, _ := slices.BinarySearchFunc(c.messages, ts, func(m *Message, ts string) int { return strings.Compare(m.TS, ts) })
	for _, m := range c.messages[i:] {
		if m.ThreadTS == ts && m.TS != ts && !m.Deleted && m.EphemeralTo == "" {
			out = append(out, m)
		}
	}
	return out
}
