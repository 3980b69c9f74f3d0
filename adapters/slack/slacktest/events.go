package slacktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// delivery is something on its way to the app: an event, a command or an interaction.
type delivery struct {
	id       string // event id; of commands and interactions a made-up one
	kind     string // events_api, slash_commands, interactive
	name     string // the event's type
	team     string
	payload  json.RawMessage
	accepts  bool // an answer with the acknowledgement
	attempt  int  // 0 the first time
	reason   string
	acked    bool
	lost     bool
	held     bool
	sent     int
	ack      json.RawMessage
	timer    *time.Timer
	step     int           // of the plan: a timer of an earlier step does nothing
	settled  chan struct{} // closed once acknowledged or lost
	onSocket *socket
}

// Delivery is what tests see of a delivery.
type Delivery struct {
	ID      string          `json:"id"`
	Kind    string          `json:"kind"`
	Name    string          `json:"name"`
	Team    string          `json:"team"`
	Payload json.RawMessage `json:"payload"`
	Sent    int             `json:"sent"` // attempts that left
	Acked   bool            `json:"acked"`
	Lost    bool            `json:"lost"` // given up
}

func (d *delivery) public() Delivery {
	return Delivery{ID: d.id, Kind: d.kind, Name: d.name, Team: d.team, Payload: d.payload, Sent: d.sent, Acked: d.acked, Lost: d.lost}
}

// Deliveries returns everything that was sent, or waits to be sent, to the app.
func (s *Server) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Delivery{}
	for _, d := range s.deliveries {
		out = append(out, d.public())
	}
	return out
}

// BotEvents are the subscriptions that this product needs.
func BotEvents() []string {
	return []string{
		"app_home_opened", "app_mention", "assistant_thread_started", "channel_rename", "group_rename", "member_joined_channel", "member_left_channel",
		"message.channels", "message.groups", "message.im", "message.mpim",
	}
}

// emit sends an event if the app is subscribed to it.
func (s *Server) emit(team *Team, subscription string, event reply) {
	if !team.Installed || !slices.Contains(s.app.Events, subscription) {
		return
	}
	if _, ok := event["event_ts"]; !ok {
		event["event_ts"] = formatTS(s.now().UnixMicro())
	}
	id := s.nextID("Ev")
	// A shared channel's event names the workspace in which it happened; whom it is for, context_team_id and the
	// authorizations say.
	shared := false
	happened := team.ID
	if id, ok := event["channel"].(string); ok {
		if ch, ok := s.channel(id); ok && len(ch.SharedWith) > 0 {
			shared, happened = true, ch.TeamID
			if from, ok := event["user_team"].(string); ok {
				happened = from
			}
		}
	}
	name, _ := event["type"].(string)
	s.dispatch(&delivery{id: id, kind: "events_api", name: name, team: team.ID, payload: copyJSON(reply{
		"token": "verification", "team_id": happened, "context_team_id": team.ID, "api_app_id": s.app.ID, "event": event,
		"type": "event_callback", "event_id": id, "event_time": s.now().Unix(), "is_ext_shared_channel": shared,
		"event_context":  "4-" + id,
		"authorizations": []reply{{"enterprise_id": nil, "team_id": team.ID, "user_id": team.BotUser, "is_bot": true, "is_enterprise_install": false}},
	})})
}

// listeners are the workspaces whose installation hears what is said in a channel: those whose bot is a member.
func (s *Server) listeners(ch *Channel) []*Team {
	var out []*Team
	for _, t := range s.teams {
		if t.Installed && ch.has(t.BotUser) {
			out = append(out, t)
		}
	}
	return out
}

// emitMessageEvent sends a message event, whose subscription depends on the channel's kind.
func (s *Server) emitMessageEvent(ch *Channel, event reply) {
	event["channel"], event["channel_type"] = ch.ID, ch.Kind.eventType()
	plural := map[ChannelKind]string{PublicChannel: "message.channels", PrivateChannel: "message.groups", DirectMessage: "message.im", GroupDM: "message.mpim"}
	for _, t := range s.listeners(ch) {
		s.emit(t, plural[ch.Kind], withheld(t, event))
	}
}

// withheld leaves of other workspaces' files only the id: the app has to ask files.info.
// https://docs.slack.dev/apis/slack-connect
func withheld(t *Team, event reply) reply {
	files, ok := event["files"].([]reply)
	if !ok {
		return event
	}
	out := maps.Clone(event)
	shown := slices.Clone(files)
	for i, f := range shown {
		if team, ok := f["user_team"].(string); ok && team != t.ID {
			shown[i] = reply{"id": f["id"], "mode": "file_access", "file_access": "check_file_info"}
		}
	}
	out["files"] = shown
	return out
}

// emitMessage tells of a new message: as a message, and as a mention where it names the app.
func (s *Server) emitMessage(ch *Channel, m *Message) {
	event := s.wire(m, WithoutMetadata)
	delete(event, "reactions")
	if m.Broadcast {
		if root, ok := ch.message(m.ThreadTS); ok {
			event["root"] = s.wire(root, WithoutMetadata)
		}
	}
	event["event_ts"] = m.TS
	s.foreignMarks(ch, m, event)
	s.emitMessageEvent(ch, event)
	s.emitMention(ch, m)
}

// foreignMarks names the workspaces of people who write in a shared channel.
func (s *Server) foreignMarks(ch *Channel, m *Message, event reply) {
	if len(ch.SharedWith) > 0 && m.Team != "" {
		event["user_team"], event["source_team"] = m.Team, m.Team
	}
}

// emitMention sends app_mention. There is none in direct messages, and none for what the app says itself.
func (s *Server) emitMention(ch *Channel, m *Message) {
	if ch.Kind == DirectMessage || m.Subtype != "" && m.Subtype != "file_share" && m.Subtype != "bot_message" {
		return
	}
	for _, t := range s.listeners(ch) {
		if m.User == t.BotUser || !strings.Contains(m.Text, "<@"+t.BotUser+">") && !strings.Contains(m.Text, "<@"+t.BotUser+"|") {
			continue
		}
		event := reply{"type": "app_mention", "channel": ch.ID, "event_ts": m.TS}
		for k, v := range s.wire(m, WithoutMetadata) {
			switch k {
			case "user", "text", "ts", "thread_ts", "team", "blocks", "files", "attachments", "client_msg_id", "bot_id", "edited", "parent_user_id":
				event[k] = v
			}
		}
		s.foreignMarks(ch, m, event)
		s.emit(t, "app_mention", withheld(t, event))
	}
}

// emitChanged tells of an edit. Slack sends the same for link previews, which change no text.
func (s *Server) emitChanged(ch *Channel, m, before *Message, by string) {
	event := reply{"type": "message", "subtype": "message_changed", "hidden": true, "message": s.wire(m, WithoutMetadata),
		"previous_message": s.wire(before, WithoutMetadata), "ts": formatTS(s.now().UnixMicro())}
	s.emitMessageEvent(ch, event)
	// Slack sends the mention of an edited message again, marked as edited.
	if by == m.User && before.Text != m.Text {
		s.emitMention(ch, m)
	}
}

// dispatch queues a delivery and sends it. Lock held.
func (s *Server) dispatch(d *delivery) {
	d.settled = make(chan struct{})
	s.deliveries = append(s.deliveries, d)
	if s.holding && d.kind == "events_api" {
		d.held = true
		return
	}
	s.send(d)
}

// Hold keeps events back until Release.
func (s *Server) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding = true
}

// Release tells how held events leave.
type Release struct {
	AsRetry bool `json:"as_retry,omitempty"` // as if an earlier attempt had been lost
	Reverse bool `json:"reverse,omitempty"`  // the newest first
	Times   int  `json:"times,omitempty"`    // how often each, at once; 0: once
}

// Release sends the events that were held and ends the hold. It returns how many there were.
func (s *Server) Release(r Release) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding = false
	var held []*delivery
	for _, d := range s.deliveries {
		if d.held && !d.lost {
			d.held = false
			held = append(held, d)
		}
	}
	if r.Reverse {
		slices.Reverse(held)
	}
	for _, d := range held {
		if r.AsRetry {
			d.attempt, d.reason = 1, "timeout"
		}
		s.send(d)
		for range r.Times - 1 {
			s.dispatch(&delivery{id: d.id, kind: d.kind, name: d.name, team: d.team, payload: d.payload, attempt: 1, reason: "timeout"})
		}
	}
	return len(held)
}

// send makes one attempt. Without a receiver the attempt counts, and the retries go on.
func (s *Server) send(d *delivery) {
	if s.closed || d.acked || d.lost {
		return
	}
	d.step++
	switch {
	case s.endpoints.usesHTTP():
		s.postDelivery(d)
	default:
		c := s.pickSocket()
		if c == nil {
			s.failed(d, "no_connection")
			return
		}
		d.sent++
		d.onSocket = c
		c.deliver(d)
		s.after(d, s.opts.AckTimeout, func() { s.failed(d, "timeout") })
	}
}

// after plans what happens to a delivery unless something else happens first. Lock held, then and now.
func (s *Server) after(d *delivery, wait time.Duration, do func()) {
	d.step++
	step := d.step
	d.timer = time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if d.step == step {
			do()
		}
	})
}

// failed plans the next attempt, or gives up. Only events are tried again. Lock held.
func (s *Server) failed(d *delivery, reason string) {
	if d.acked || d.lost {
		return
	}
	if d.kind != "events_api" || d.attempt >= len(s.opts.RetryDelays) {
		s.giveUp(d)
		return
	}
	delay := s.opts.RetryDelays[d.attempt]
	d.attempt++
	d.reason = reason
	s.after(d, delay, func() { s.send(d) })
}

func (s *Server) giveUp(d *delivery) {
	if !d.acked && !d.lost {
		d.lost = true
		close(d.settled)
		s.tell()
	}
}

// acknowledge ends a delivery. Lock held.
func (s *Server) acknowledge(d *delivery, payload json.RawMessage) {
	if d.timer != nil {
		d.timer.Stop()
	}
	if d.acked {
		return
	}
	d.acked, d.ack = true, payload
	if !d.lost {
		close(d.settled)
	}
	s.tell()
}

// resend sends what is not acknowledged, as Slack does when the app is back.
func (s *Server) resend() {
	for _, d := range s.deliveries {
		if d.kind == "events_api" && !d.acked && !d.lost && !d.held && (d.onSocket == nil || d.onSocket.gone) {
			if d.sent > 0 && d.onSocket != nil {
				d.attempt++
				d.reason = "timeout"
			}
			s.send(d)
		}
	}
}

// ForgetPending gives up on all events that are not acknowledged, as after an outage longer than Slack's retries.
func (s *Server) ForgetPending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, d := range s.deliveries {
		if !d.acked && !d.lost {
			s.giveUp(d)
			n++
		}
	}
	return n
}

// Redelivery tells how an earlier event comes again.
type Redelivery struct {
	EventID string `json:"event_id,omitempty"` // empty: the last Count events
	Count   int    `json:"count,omitempty"`    // 0: one
	Reverse bool   `json:"reverse,omitempty"`  // the newest first
	Times   int    `json:"times,omitempty"`    // how often each; 0: once
	Reason  string `json:"reason,omitempty"`   // retry_reason; empty: timeout
}

// Redeliver sends events again with the marks of a retry and their old ids and times, acknowledged or not.
func (s *Server) Redeliver(r Redelivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var chosen []*delivery
	for _, d := range s.deliveries {
		if d.kind == "events_api" && (r.EventID == "" || r.EventID == d.id) {
			chosen = append(chosen, d)
		}
	}
	if r.EventID == "" {
		chosen = chosen[max(0, len(chosen)-max(1, r.Count)):]
	}
	if len(chosen) == 0 {
		return fmt.Errorf("slacktest: no event %q", r.EventID)
	}
	if r.Reverse {
		slices.Reverse(chosen)
	}
	reason := r.Reason
	if reason == "" {
		reason = "timeout"
	}
	for range max(1, r.Times) {
		for _, d := range chosen {
			again := &delivery{id: d.id, kind: d.kind, name: d.name, team: d.team, payload: d.payload, attempt: 1, reason: reason}
			s.dispatch(again)
		}
	}
	return nil
}
