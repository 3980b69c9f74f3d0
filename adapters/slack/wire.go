package slack

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// What Slack sends, as far as mikan reads it. The SDK's own types decode every block and attachment and fail as a whole
// on one that they do not know; whatever other apps post must not make a message unreadable.

// envelope is the payload of an event, by socket or by HTTP.
type envelope struct {
	Type           string          `json:"type"` // "event_callback", "url_verification"
	Challenge      string          `json:"challenge"`
	TeamID         string          `json:"team_id"`
	ContextTeam    string          `json:"context_team_id"`
	EventID        string          `json:"event_id"`
	Event          json.RawMessage `json:"event"`
	Authorizations []struct {
		TeamID string `json:"team_id"`
		UserID string `json:"user_id"`
	} `json:"authorizations"`
}

// of tells for which workspace an event is meant. A shared channel's event names the workspace in which it happened, so
// whom Slack delivers it for counts first.
func (e envelope) of(team string) (string, bool) {
	if len(e.Authorizations) > 0 {
		for _, to := range e.Authorizations {
			if to.TeamID == team {
				return team, true
			}
		}
		return e.Authorizations[0].TeamID, false
	}
	for _, named := range []string{e.ContextTeam, e.TeamID} {
		if named != "" {
			return named, named == team
		}
	}
	return "", true // nobody is named: the socket or the signature vouches for it
}

// event is an inner event. Most fields belong to some types only.
type event struct {
	message
	raw         json.RawMessage
	ChannelType string     `json:"channel_type"`
	Message     *message   `json:"message"`          // message_changed: as it is now
	Previous    *message   `json:"previous_message"` // message_changed, message_deleted
	DeletedTS   string     `json:"deleted_ts"`
	EventTS     string     `json:"event_ts"`
	Tab         string     `json:"tab"`              // app_home_opened
	Assistant   *assistant `json:"assistant_thread"` // assistant_thread_started
}

// renamed is the new name that channel_rename tells, inside the channel.
func renamed(raw json.RawMessage) string {
	var e struct {
		Channel struct {
			Name string `json:"name"`
		} `json:"channel"`
	}
	_ = json.Unmarshal(raw, &e)
	return e.Channel.Name
}

type assistant struct {
	User    string `json:"user_id"`
	Channel string `json:"channel_id"`
	Thread  string `json:"thread_ts"`
}

// message is one message, in an event or in a history.
type message struct {
	Type        string          `json:"type"`
	Subtype     string          `json:"subtype"`
	Channel     ref             `json:"channel"`
	User        ref             `json:"user"`
	UserTeam    string          `json:"user_team"`
	SourceTeam  string          `json:"source_team"`
	Team        string          `json:"team"`
	BotID       string          `json:"bot_id"`
	Username    string          `json:"username"`
	BotProfile  *botProfile     `json:"bot_profile"`
	Text        string          `json:"text"`
	TS          string          `json:"ts"`
	ThreadTS    string          `json:"thread_ts"`
	Edited      *struct{}       `json:"edited"`
	Blocks      json.RawMessage `json:"blocks"`
	Attachments json.RawMessage `json:"attachments"`
	Files       []file          `json:"files"`
	Metadata    *metadata       `json:"metadata"`
	ReplyCount  int             `json:"reply_count"`
	LatestReply string          `json:"latest_reply"`
}

type botProfile struct {
	Name string `json:"name"`
}

type metadata struct {
	EventType string `json:"event_type"`
	Payload   struct {
		Key string `json:"key"`
	} `json:"event_payload"`
}

type file struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Title    string `json:"title"`
	MimeType string `json:"mimetype"`
	Size     int64  `json:"size"`
	URL      string `json:"url_private"`
	Download string `json:"url_private_download"`
	Mode     string `json:"mode"` // "tombstone": deleted
	Access   string `json:"file_access"`
}

// ref is an id, which some events wrap in an object.
type ref string

// UnmarshalJSON takes "U1" and {"id": "U1", …}.
func (r *ref) UnmarshalJSON(raw []byte) error {
	var id string
	if json.Unmarshal(raw, &id) != nil {
		var object struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(raw, &object) // anything else is no id
		id = object.ID
	}
	*r = ref(id)
	return nil
}

// timeOf reads a message id as the time it was sent at; the zero time when it is none.
func timeOf(ts string) time.Time {
	seconds, fraction, _ := strings.Cut(ts, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}
	}
	micros, _ := strconv.ParseInt((fraction + "000000")[:6], 10, 64)
	return time.Unix(s, micros*1000).UTC()
}

// stampOf is the message id that a message of that moment would have.
func stampOf(t time.Time) string {
	return strconv.FormatInt(t.Unix(), 10) + "." + leftPad(strconv.Itoa(t.Nanosecond()/1000), 6)
}

func leftPad(digits string, width int) string {
	return strings.Repeat("0", max(width-len(digits), 0)) + digits
}

// later tells whether one message id is younger than another. They have the same number of digits until the year 2286.
func later(ts, than string) bool { return ts > than }
