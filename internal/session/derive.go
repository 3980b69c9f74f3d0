package session

// The rules by which a message's place becomes a session key, one a platform. They are pure, so that intake, schedules,
// backfill and the import compute the same key for the same place.

// Place tells who sees a conversation.
type Place string

// The places.
const (
	Private Place = "private" // a direct message or a private chat
	Shared  Place = "shared"  // a channel or a group
)

// SlackPlace is where a Slack message stands.
type SlackPlace struct {
	Channel  string // channel or DM
	TS       string // the message's own timestamp
	ThreadTS string // the thread's root; "" outside threads
}

// SlackKey scopes by thread, also in a DM. A root that has replies carries its own timestamp as its thread's, and
// still stands at the top level.
func SlackKey(p SlackPlace) (Key, error) {
	if p.ThreadTS == "" || p.ThreadTS == p.TS {
		return topLevel(p.Channel)
	}
	return MakeKey(p.Channel, p.ThreadTS)
}

// DiscordPlace is where a Discord message stands.
type DiscordPlace struct {
	Place        Place
	Channel      string // the channel or, in a thread, the thread's own id
	ThreadParent string // in a thread: the channel it hangs under
	RepliedTo    string // the message replied to; "" when none
}

// DiscordKey scopes by thread, whose conversation is the parent channel, and outside threads by reply. A reply inside a
// thread stays in the thread, and a DM has one session.
func DiscordKey(p DiscordPlace) (Key, error) {
	switch {
	case p.Place == Private:
		return topLevel(p.Channel)
	case p.ThreadParent != "":
		return MakeKey(p.ThreadParent, p.Channel)
	case p.RepliedTo != "":
		return MakeKey(p.Channel, p.RepliedTo)
	default:
		return topLevel(p.Channel)
	}
}

// TelegramPlace is where a Telegram message stands.
type TelegramPlace struct {
	Place     Place
	Chat      string
	Message   string // the message's own id
	RepliedTo string // the message replied to; "" when none
	Topic     string // the forum topic, only of messages marked is_topic_message
}

// TelegramKey scopes a group by topic in forums, else by the message replied to, else by the message itself. A topic
// comes first because every message in one implicitly replies to the topic's creation.
func TelegramKey(p TelegramPlace) (Key, error) {
	switch {
	case p.Place == Private:
		return topLevel(p.Chat)
	case p.Topic != "":
		return MakeKey(p.Chat, p.Topic)
	case p.RepliedTo != "":
		return MakeKey(p.Chat, p.RepliedTo)
	default:
		return MakeKey(p.Chat, p.Message)
	}
}

// GitHubKey is flat: everything said on one issue or pull request, inline review threads included, is one session.
func GitHubKey(conversationID string) (Key, error) { return topLevel(conversationID) }

// TerminalKey scopes by thread; an empty thread is the top level.
func TerminalKey(conversation, thread string) (Key, error) {
	if thread == "" {
		return topLevel(conversation)
	}
	return MakeKey(conversation, thread)
}
