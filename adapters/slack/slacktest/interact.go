package slacktest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// Command is a slash command that somebody types.
type Command struct {
	Channel string `json:"channel"`
	User    string `json:"user"`
	Command string `json:"command"` // with the slash
	Text    string `json:"text"`
}

// Answered tells what became of a command or a button press.
type Answered struct {
	Acked   bool            `json:"acked"` // within the time; otherwise the person reads that the app did not respond
	Payload json.RawMessage `json:"payload,omitempty"`
}

// responseURL takes delayed answers.
type responseURL struct {
	team    *Team
	channel string
	user    string
	thread  string
	ts      string // the message that the button is on; empty for commands
	made    time.Time
	uses    int
}

func (s *Server) newResponseURL(r responseURL) string {
	id := uuid.NewString()
	r.made = s.now()
	s.responses[id] = &r
	return s.url + "/response/" + id
}

// trigger makes the id of something that a person did.
func (s *Server) trigger() string {
	s.ids++
	return fmt.Sprintf("%d.%d.%032x", 13345224609+s.ids, s.now().UnixMilli(), s.ids)
}

// installation is the workspace in which a person meets the app.
func (s *Server) installation(u *User) (*Team, error) {
	t, ok := s.team(u.TeamID)
	if !ok || !t.Installed {
		return nil, fmt.Errorf("slacktest: the app is not installed in %s", u.TeamID)
	}
	return t, nil
}

// Command sends a slash command, which works in every channel, the bot being a member or not.
func (s *Server) Command(ctx context.Context, c Command) (Answered, error) {
	s.mu.Lock()
	ch, u, err := s.placeOf(c.Channel, c.User)
	if err != nil {
		s.mu.Unlock()
		return Answered{}, err
	}
	team, err := s.installation(u)
	if err != nil {
		s.mu.Unlock()
		return Answered{}, err
	}
	name := ch.Name
	switch ch.Kind {
	case DirectMessage:
		name = "directmessage"
	case PrivateChannel:
		name = "privategroup"
	}
	to := responseURL{team: team, channel: ch.ID, user: u.ID}
	d := &delivery{id: s.nextID("Cm"), kind: "slash_commands", name: c.Command, team: team.ID, accepts: true, payload: copyJSON(reply{
		"token": "verification", "team_id": team.ID, "team_domain": team.Domain, "channel_id": ch.ID, "channel_name": name,
		"user_id": u.ID, "user_name": u.Name, "command": c.Command, "text": c.Text, "api_app_id": s.app.ID, "is_enterprise_install": "false",
		"response_url": s.newResponseURL(to), "trigger_id": s.trigger(),
	})}
	s.dispatch(d)
	s.mu.Unlock()
	return s.settle(ctx, d, &to)
}

// settle waits for the acknowledgement; its payload, if any, is posted as an answer.
func (s *Server) settle(ctx context.Context, d *delivery, to *responseURL) (Answered, error) {
	select {
	case <-d.settled:
	case <-ctx.Done():
		return Answered{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.acked && d.kind == "slash_commands" && len(d.ack) > 2 {
		if e := s.respond(to, d.ack); e != nil {
			s.violate(Refused, "acknowledgement", e.Error())
		}
	}
	return Answered{Acked: d.acked, Payload: d.ack}, nil
}

// Press is a press of a button in a message or in App Home.
type Press struct {
	Channel  string `json:"channel,omitempty"` // empty: App Home
	TS       string `json:"ts,omitempty"`
	User     string `json:"user"`
	ActionID string `json:"action_id"`
	Value    string `json:"value,omitempty"` // of several buttons with one id; empty: the first
}

// Press presses a button that must be there to be pressed.
func (s *Server) Press(ctx context.Context, p Press) (Answered, error) {
	s.mu.Lock()
	d, to, err := s.pressed(p)
	if err != nil {
		s.mu.Unlock()
		return Answered{}, err
	}
	s.dispatch(d)
	s.mu.Unlock()
	return s.settle(ctx, d, to)
}

func (s *Server) pressed(p Press) (*delivery, *responseURL, error) {
	u, ok := s.user(p.User)
	if !ok {
		return nil, nil, fmt.Errorf("slacktest: no user %q", p.User)
	}
	team, err := s.installation(u)
	if err != nil {
		return nil, nil, err
	}
	payload := reply{"type": "block_actions", "api_app_id": s.app.ID, "token": "verification", "trigger_id": s.trigger(),
		"user": reply{"id": u.ID, "username": u.Name, "name": u.Name, "team_id": u.TeamID}, "team": reply{"id": team.ID, "domain": team.Domain},
		"enterprise": nil, "is_enterprise_install": false}
	var blocks json.RawMessage
	var to *responseURL
	if p.Channel == "" {
		v, ok := s.views[u.ID]
		if !ok {
			return nil, nil, fmt.Errorf("slacktest: %s has no App Home", u.ID)
		}
		blocks = v.Blocks
		payload["view"] = reply{"id": v.ID, "type": "home", "hash": v.Hash, "blocks": v.Blocks, "team_id": team.ID, "app_id": s.app.ID}
		payload["container"] = reply{"type": "view", "view_id": v.ID}
	} else {
		ch, ok := s.channel(p.Channel)
		if !ok {
			return nil, nil, fmt.Errorf("slacktest: no channel %q", p.Channel)
		}
		m, ok := ch.any(p.TS)
		if !ok || m.Deleted || m.EphemeralTo != "" && m.EphemeralTo != u.ID {
			return nil, nil, fmt.Errorf("slacktest: %s sees no message %s", u.ID, p.TS)
		}
		blocks = m.Blocks
		to = &responseURL{team: team, channel: ch.ID, user: u.ID, thread: m.ThreadTS, ts: m.TS}
		payload["channel"] = reply{"id": ch.ID, "name": ch.Name}
		payload["message"] = s.wire(m, WithoutMetadata)
		payload["container"] = reply{"type": "message", "message_ts": m.TS, "channel_id": ch.ID, "is_ephemeral": m.EphemeralTo != "", "thread_ts": m.ThreadTS}
		payload["response_url"] = s.newResponseURL(*to)
	}
	action, ok := button(blocks, p)
	if !ok {
		return nil, nil, fmt.Errorf("slacktest: no button %q there", p.ActionID)
	}
	action["action_ts"] = formatTS(s.now().UnixMicro())
	payload["actions"] = []reply{action}
	return &delivery{id: s.nextID("Ac"), kind: "interactive", name: p.ActionID, team: team.ID, payload: copyJSON(payload)}, to, nil
}

// button finds a button in blocks and writes it as an action.
func button(raw json.RawMessage, p Press) (reply, bool) {
	var blocks []object
	if json.Unmarshal(raw, &blocks) != nil {
		return nil, false
	}
	for i, b := range blocks {
		candidates, _ := b["elements"].([]any)
		if a, ok := b["accessory"]; ok {
			candidates = append(candidates, a)
		}
		for _, v := range candidates {
			e, _ := v.(object)
			if e["type"] == "button" && e["action_id"] == p.ActionID && (p.Value == "" || e["value"] == p.Value) {
				block, ok := b["block_id"].(string)
				if !ok || block == "" {
					block = fmt.Sprintf("b%d", i)
				}
				return reply{"type": "button", "action_id": e["action_id"], "block_id": block, "value": e["value"], "text": e["text"]}, true
			}
		}
	}
	return nil, false
}

// OpenHome is a person opening the app's home.
func (s *Server) OpenHome(user string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.user(user)
	if !ok {
		return fmt.Errorf("slacktest: no user %q", user)
	}
	team, err := s.installation(u)
	if err != nil {
		return err
	}
	event := reply{"type": "app_home_opened", "user": user, "tab": "home", "channel": s.directMessage(team, u).ID}
	if v, ok := s.views[user]; ok {
		event["view"] = reply{"id": v.ID, "type": "home", "hash": v.Hash, "blocks": v.Blocks}
	}
	s.emit(team, "app_home_opened", event)
	return nil
}

// directMessage returns a person's conversation with the app, which exists once it is needed.
func (s *Server) directMessage(team *Team, u *User) *Channel {
	ch, ok := find(s.channels, func(c *Channel) bool {
		return c.Kind == DirectMessage && c.TeamID == team.ID && c.has(u.ID) && c.has(team.BotUser)
	})
	if !ok {
		ch = s.addChannel(&Channel{TeamID: team.ID, Kind: DirectMessage, Members: []string{team.BotUser, u.ID}})
	}
	return ch
}

// OpenDM returns a person's conversation with the app.
func (s *Server) OpenDM(user string) (Channel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.user(user)
	if !ok {
		return Channel{}, fmt.Errorf("slacktest: no user %q", user)
	}
	team, err := s.installation(u)
	if err != nil {
		return Channel{}, err
	}
	return *s.directMessage(team, u), nil
}

// threadRoot is the subtype of the message, unseen by people, that a thread of the pane hangs on.
const threadRoot = "assistant_app_thread"

// OpenAssistant is a person opening the app's pane, which begins a thread; context is the channel they look at.
func (s *Server) OpenAssistant(user, context string) (AssistantThread, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.user(user)
	if !ok {
		return AssistantThread{}, fmt.Errorf("slacktest: no user %q", user)
	}
	team, err := s.installation(u)
	if err != nil {
		return AssistantThread{}, err
	}
	ch := s.directMessage(team, u)
	root := s.store(ch, &Message{Team: team.ID, User: team.BotUser, BotID: team.BotID, AppID: s.app.ID, Subtype: threadRoot, Text: "New Assistant Thread"})
	t := &AssistantThread{Channel: ch.ID, Thread: root.TS, User: user}
	s.threads[place{t.Channel, t.Thread}] = t
	seen := reply{}
	if context != "" {
		seen = reply{"channel_id": context, "team_id": team.ID, "enterprise_id": nil}
	}
	s.emit(team, "assistant_thread_started", reply{"type": "assistant_thread_started", "assistant_thread": reply{
		"user_id": user, "context": seen, "channel_id": t.Channel, "thread_ts": t.Thread}})
	return *t, nil
}

// serveResponse takes a post to a response_url.
func (s *Server) serveResponse(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	s.mu.Lock()
	defer s.mu.Unlock()
	to, ok := s.responses[r.PathValue("id")]
	var e *apiError
	switch {
	case err != nil || !ok || r.Method != http.MethodPost:
		e = wrong("invalid_url", "no such response_url")
	case s.now().Sub(to.made) > 30*time.Minute || to.uses >= MaxResponses:
		e = wrong("used_url", "a response_url works for half an hour and %d posts", MaxResponses)
	default:
		to.uses++
		e = s.respond(to, body)
	}
	defer s.tell()
	s.calls = append(s.calls, Call{Time: s.now(), Method: "response_url", Args: args{"body": string(body)}, OK: e == nil})
	if e != nil {
		s.violate(BadResponse, "response_url", e.Error()+": "+fmt.Sprint(e.messages))
		writeJSON(w, http.StatusNotFound, envelope(nil, e))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok") // the client has gone
}

// respond does what a delayed answer asks for.
func (s *Server) respond(to *responseURL, body []byte) *apiError {
	var a struct {
		Text            string          `json:"text"`
		Blocks          json.RawMessage `json:"blocks"`
		ResponseType    string          `json:"response_type"`
		ThreadTS        string          `json:"thread_ts"`
		ReplaceOriginal bool            `json:"replace_original"`
		DeleteOriginal  bool            `json:"delete_original"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return wrong("invalid_payload", "%v", err)
	}
	if len(a.Blocks) > 0 && string(a.Blocks) != "null" {
		if e := checkBlocks(a.Blocks, inMessage); e != nil {
			return e
		}
	} else {
		a.Blocks = nil
	}
	ch, ok := s.channel(to.channel)
	if !ok {
		return refuse("channel_not_found")
	}
	if a.ReplaceOriginal || a.DeleteOriginal {
		m, ok := ch.any(to.ts)
		if !ok || m.Deleted {
			return refuse("message_not_found")
		}
		if a.DeleteOriginal {
			s.remove(ch, m)
			return nil
		}
		before := *m
		m.Text, m.Blocks = a.Text, a.Blocks
		m.Edits++
		if m.EphemeralTo == "" {
			s.emitChanged(ch, m, &before, m.User)
		}
		return nil
	}
	if a.Text == "" && a.Blocks == nil {
		return wrong("no_text", "neither text nor blocks")
	}
	m := &Message{Team: to.team.ID, User: to.team.BotUser, BotID: to.team.BotID, AppID: s.app.ID, Text: a.Text, Blocks: a.Blocks, ThreadTS: a.ThreadTS}
	switch a.ResponseType {
	case "", "ephemeral":
		m.EphemeralTo = to.user
		s.store(ch, m)
	case "in_channel":
		s.post(ch, m)
	default:
		return wrong("invalid_payload", "response_type %q", a.ResponseType)
	}
	return nil
}
