package slacktest

import (
	"encoding/json"
	"slices"
)

// shown tells what of a message is told.
type shown int

// The choices. Metadata is told only to those who ask for it, and never in events.
const (
	WithoutMetadata shown = iota
	WithMetadata
)

// wire is a message as Slack writes it in answers and, with the channel added, in events.
func (s *Server) wire(m *Message, show shown) reply {
	ch, _ := s.channel(m.Channel)
	if m.Deleted {
		return reply{"type": "message", "subtype": "tombstone", "text": "This message was deleted.", "user": "USLACKBOT",
			"hidden": true, "ts": m.TS, "thread_ts": m.TS}
	}
	out := reply{"type": "message", "ts": m.TS, "text": m.Text}
	set := func(name, v string) {
		if v != "" {
			out[name] = v
		}
	}
	set("user", m.User)
	set("bot_id", m.BotID)
	set("app_id", m.AppID)
	set("team", m.Team)
	set("username", m.Username)
	set("client_msg_id", m.ClientMsgID)
	set("thread_ts", m.ThreadTS)
	set("subtype", m.Subtype)
	if m.Broadcast {
		out["subtype"] = "thread_broadcast"
	}
	if len(m.Blocks) > 0 {
		out["blocks"] = m.Blocks
	}
	if len(m.Attachments) > 0 {
		out["attachments"] = m.Attachments
	}
	if m.EditedAt != "" {
		out["edited"] = reply{"user": m.EditedBy, "ts": m.EditedAt}
	}
	if len(m.Files) > 0 {
		files := []reply{}
		for _, id := range m.Files {
			if f, ok := s.file(id); ok {
				files = append(files, s.wireFile(f))
			}
		}
		out["files"], out["upload"] = files, false
	}
	if m.BotID != "" {
		if u, ok := find(s.users, func(u *User) bool { return u.BotID == m.BotID }); ok {
			out["bot_profile"] = reply{"id": u.BotID, "app_id": u.AppID, "name": u.Name, "team_id": u.TeamID, "deleted": false}
		}
	}
	if len(m.Reactions) > 0 {
		list := []reply{}
		for _, name := range sortedKeys(m.Reactions) {
			list = append(list, reply{"name": name, "users": m.Reactions[name], "count": len(m.Reactions[name])})
		}
		out["reactions"] = list
	}
	if m.Stream != nil && m.Stream.State == Streaming {
		out["streaming_state"] = "in_progress"
	} else if show == WithMetadata && len(m.Metadata) > 0 {
		out["metadata"] = m.Metadata
	}
	if ch != nil && m.ThreadTS == m.TS {
		replies := ch.replies(m.TS)
		users := []string{}
		for _, r := range replies {
			if !slices.Contains(users, r.User) {
				users = append(users, r.User)
			}
		}
		out["reply_count"], out["reply_users"], out["reply_users_count"] = len(replies), users, len(users)
		if len(replies) > 0 {
			out["latest_reply"] = replies[len(replies)-1].TS
		}
	} else if ch != nil && m.ThreadTS != "" {
		if parent, ok := ch.message(m.ThreadTS); ok {
			out["parent_user_id"] = parent.User
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// store puts a message into its channel without telling anybody.
func (s *Server) store(ch *Channel, m *Message) *Message {
	m.Channel, m.TS = ch.ID, s.stamp(ch)
	ch.messages = append(ch.messages, m)
	if parent, ok := ch.message(m.ThreadTS); ok && m.EphemeralTo == "" {
		parent.ThreadTS = parent.TS
	}
	return m
}

// post puts a message into its channel and tells the app, if it is to be told.
func (s *Server) post(ch *Channel, m *Message) *Message {
	s.store(ch, m)
	s.emitMessage(ch, m)
	return m
}

// remove deletes a message and tells the app.
func (s *Server) remove(ch *Channel, m *Message) {
	before := s.wire(m, WithoutMetadata)
	m.Deleted = true
	s.emitMessageEvent(ch, reply{"type": "message", "subtype": "message_deleted", "hidden": true, "deleted_ts": m.TS,
		"previous_message": before, "ts": formatTS(s.now().UnixMicro())})
}

func copyJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}
