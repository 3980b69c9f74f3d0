package discord

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/bwmarrin/discordgo"
)

// What Discord sends, as far as it is read. The library's own structures refuse a message as a whole when they do not
// know one of its parts.

type user struct {
	ID         string `json:"id"`
	Username   string `json:"username"`
	GlobalName string `json:"global_name"`
	Bot        bool   `json:"bot"`
}

// name is what people read as the author.
func (u user) name() string {
	if u.GlobalName != "" {
		return u.GlobalName
	}
	return u.Username
}

type member struct {
	User  *user    `json:"user"`
	Nick  string   `json:"nick"`
	Roles []string `json:"roles"`
}

type attachment struct {
	ID          string `json:"id"`
	Filename    string `json:"filename"`
	ContentType string `json:"content_type"`
	Size        int64  `json:"size"`
	URL         string `json:"url"`
}

type embed struct {
	Title       string `json:"title"`
	Description string `json:"description"`
	Fields      []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"fields"`
}

// referenceType tells a reply from a forward.
type referenceType int

const (
	isReply   referenceType = 0
	isForward referenceType = 1
)

type reference struct {
	Type      referenceType `json:"type"`
	MessageID string        `json:"message_id"`
	ChannelID string        `json:"channel_id"`
}

type snapshot struct {
	Message struct {
		Content     string       `json:"content"`
		Attachments []attachment `json:"attachments"`
	} `json:"message"`
}

type message struct {
	ID              string                `json:"id"`
	ChannelID       string                `json:"channel_id"`
	GuildID         string                `json:"guild_id"` // in events only
	Author          *user                 `json:"author"`
	Member          *member               `json:"member"`  // in events only
	Content         *string               `json:"content"` // absent in updates that change no text
	Timestamp       time.Time             `json:"timestamp"`
	EditedTimestamp *time.Time            `json:"edited_timestamp"`
	Mentions        []user                `json:"mentions"`
	MentionRoles    []string              `json:"mention_roles"`
	Attachments     []attachment          `json:"attachments"`
	Embeds          []embed               `json:"embeds"`
	Type            discordgo.MessageType `json:"type"`
	Flags           int                   `json:"flags"`
	WebhookID       string                `json:"webhook_id"`
	Reference       *reference            `json:"message_reference"`
	Referenced      *message              `json:"referenced_message"`
	Snapshots       []snapshot            `json:"message_snapshots"`
	Stickers        []struct {
		Name string `json:"name"`
	} `json:"sticker_items"`
}

func (m message) content() string {
	if m.Content == nil {
		return ""
	}
	return *m.Content
}

// Flags of messages.
const (
	flagSuppressEmbeds = 1 << 2
	flagEphemeral      = 1 << 6
	flagLoading        = 1 << 7
)

type channel struct {
	ID          string                `json:"id"`
	GuildID     string                `json:"guild_id"`
	Type        discordgo.ChannelType `json:"type"`
	Name        string                `json:"name"`
	ParentID    string                `json:"parent_id"`
	LastMessage string                `json:"last_message_id"`
}

type guild struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Unavailable bool      `json:"unavailable"`
	Channels    []channel `json:"channels"`
	Threads     []channel `json:"threads"`
	Roles       []role    `json:"roles"`
	Members     []member  `json:"members"` // some of them
}

type role struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Tags struct {
		BotID string `json:"bot_id"`
	} `json:"tags"`
}

type interaction struct {
	ID        string   `json:"id"`
	App       string   `json:"application_id"`
	Type      int      `json:"type"`
	Token     string   `json:"token"`
	GuildID   string   `json:"guild_id"`
	ChannelID string   `json:"channel_id"`
	Channel   *channel `json:"channel"`
	Member    *member  `json:"member"` // in guilds
	User      *user    `json:"user"`   // elsewhere
	Data      struct {
		Name    string `json:"name"`
		Options []struct {
			Name  string          `json:"name"`
			Value json.RawMessage `json:"value"`
		} `json:"options"`
	} `json:"data"`
}

// epoch is the beginning of Discord's ids, in Unix milliseconds: 2015-01-01.
const epoch = 1_420_070_400_000

// idAt is the smallest id of a moment. Ids hold their time, in milliseconds, in the bits above 22.
func idAt(at time.Time) string {
	return strconv.FormatInt(max(at.UnixMilli()-epoch, 0)<<22, 10)
}

// timeOf is when an id was made; zero for what is no id.
func timeOf(id string) time.Time {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n>>22 + epoch)
}

// previous is the id before an id.
func previous(id string) string {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return id
	}
	return strconv.FormatInt(max(n-1, 0), 10)
}

// newer compares ids.
func newer(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }
