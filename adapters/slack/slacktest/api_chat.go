package slacktest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// meet returns a channel that the app's bot can see: public ones of its workspace and those it is a member of.
func (s *Server) meet(c *call, id string) (*Channel, *apiError) {
	ch, ok := s.channel(id)
	if !ok || !ch.reaches(c.team.ID) || ch.Kind != PublicChannel && !ch.has(c.team.BotUser) {
		return nil, refuse("channel_not_found")
	}
	return ch, nil
}

// enter returns a channel that the app's bot can write to.
func (s *Server) enter(c *call, id string) (*Channel, *apiError) {
	ch, e := s.meet(c, id)
	switch {
	case e != nil:
		return nil, e
	case ch.Archived:
		return nil, refuse("is_archived")
	case !ch.has(c.team.BotUser) && !containsString(s.app.Scopes, "chat:write.public"):
		return nil, refuse("not_in_channel")
	}
	return ch, nil
}

// content is what a message says.
type content struct {
	text        string
	blocks      json.RawMessage
	attachments json.RawMessage
	metadata    json.RawMessage
	hasText     bool
	hasBlocks   bool
}

func (s *Server) content(c *call) (content, *apiError) {
	k := content{text: c.args.text("text"), attachments: c.args.raw("attachments"), metadata: c.args.raw("metadata"), hasText: c.args.has("text")}
	if md := c.args.text("markdown_text"); md != "" {
		if c.args.has("text") || c.args.has("blocks") {
			return k, wrong("markdown_text_conflict", "markdown_text together with text or blocks")
		}
		k.blocks, _ = json.Marshal([]any{reply{"type": "markdown", "text": md}})
		k.text, k.hasText, k.hasBlocks = md, true, true
		return k, nil
	}
	if raw := c.args.raw("blocks"); raw != nil {
		if e := checkBlocks(raw, inMessage); e != nil {
			return k, e
		}
		k.blocks, k.hasBlocks = raw, true
	}
	return k, nil
}

// says tells whether there is anything to see.
func (k content) says() bool {
	return strings.TrimSpace(k.text) != "" || len(k.blocks) > 2 || len(k.attachments) > 2
}

func (s *Server) chatPostMessage(c *call) (reply, *apiError) {
	ch, e := s.enter(c, c.args.text("channel"))
	if e != nil {
		return nil, e
	}
	k, e := s.content(c)
	if e != nil {
		return nil, e
	}
	if !k.says() {
		return nil, wrong("no_text", "neither text nor blocks")
	}
	thread := c.args.text("thread_ts")
	if thread != "" {
		parent, ok := ch.message(thread)
		if ok && parent.ThreadTS != "" && parent.ThreadTS != parent.TS {
			return nil, wrong("cannot_reply_to_message", "thread_ts %s is a reply itself", thread)
		}
		if !ok {
			thread = "" // Slack posts a reply to what is gone outside of any thread
		}
	} else if c.args.flag("reply_broadcast") {
		return nil, wrong("invalid_arguments", "reply_broadcast without thread_ts")
	}
	m := s.post(ch, &Message{
		ThreadTS: thread, Broadcast: thread != "" && c.args.flag("reply_broadcast"),
		Team: c.team.ID, User: c.team.BotUser, BotID: c.team.BotID, AppID: s.app.ID,
		Text: k.text, Blocks: k.blocks, Attachments: k.attachments, Metadata: k.metadata,
	})
	s.clearStatus(ch.ID, thread)
	return reply{"channel": ch.ID, "ts": m.TS, "message": s.wire(m, WithMetadata)}, nil
}

func (s *Server) chatPostEphemeral(c *call) (reply, *apiError) {
	ch, e := s.enter(c, c.args.text("channel"))
	if e != nil {
		return nil, e
	}
	if !ch.has(c.args.text("user")) {
		return nil, refuse("user_not_in_channel")
	}
	k, e := s.content(c)
	if e != nil {
		return nil, e
	}
	if !k.says() {
		return nil, wrong("no_text", "neither text nor blocks")
	}
	m := s.store(ch, &Message{
		ThreadTS: c.args.text("thread_ts"), Team: c.team.ID, User: c.team.BotUser, BotID: c.team.BotID, AppID: s.app.ID,
		Text: k.text, Blocks: k.blocks, Attachments: k.attachments, EphemeralTo: c.args.text("user"),
	})
	return reply{"message_ts": m.TS}, nil
}

// own returns a message of the app's, or why it is not to be changed.
func (s *Server) own(c *call, ch *Channel, ts, refusal string) (*Message, *apiError) {
	m, ok := ch.message(ts)
	if !ok {
		return nil, refuse("message_not_found")
	}
	if m.User != c.team.BotUser {
		return nil, wrong(refusal, "%s is not the app's message", ts)
	}
	return m, nil
}

func (s *Server) chatUpdate(c *call) (reply, *apiError) {
	ch, e := s.meet(c, c.args.text("channel"))
	if e != nil {
		return nil, e
	}
	if ch.Archived {
		return nil, refuse("is_inactive")
	}
	m, e := s.own(c, ch, c.args.text("ts"), "cant_update_message")
	if e != nil {
		return nil, e
	}
	s.expireStream(m)
	if m.Stream != nil && m.Stream.State == Streaming {
		return nil, refuse("streaming_state_conflict")
	}
	if s.opts.EditWindow > 0 {
		if at, ok := parseTS(m.TS); ok && s.now().Sub(time.UnixMicro(at)) > s.opts.EditWindow {
			return nil, refuse("edit_window_closed")
		}
	}
	k, e := s.content(c)
	if e != nil {
		return nil, e
	}
	if !k.says() && !c.args.has("blocks") {
		return nil, wrong("no_text", "neither text nor blocks")
	}
	before := *m
	// Blocks that are not named stay, unless a text alone replaces the message: its page says that both fields are
	// then taken over, the blocks being cleared.
	switch {
	case k.hasBlocks:
		m.Blocks, m.Text = k.blocks, k.text
	case k.hasText:
		m.Text, m.Blocks = k.text, nil
	}
	if c.args.has("attachments") {
		m.Attachments = k.attachments
	}
	if c.args.has("metadata") {
		m.Metadata = k.metadata
		if string(k.metadata) == "{}" {
			m.Metadata = nil
		}
	}
	m.Edits++
	if !k.hasBlocks { // an edit by blocks is not marked as one
		m.EditedBy, m.EditedAt = c.team.BotUser, formatTS(s.now().UnixMicro())
	}
	s.emitChanged(ch, m, &before, c.team.BotUser)
	return reply{"channel": ch.ID, "ts": m.TS, "text": m.Text, "message": s.wire(m, WithMetadata)}, nil
}

func (s *Server) chatDelete(c *call) (reply, *apiError) {
	ch, e := s.meet(c, c.args.text("channel"))
	if e != nil {
		return nil, e
	}
	m, e := s.own(c, ch, c.args.text("ts"), "cant_delete_message")
	if e != nil {
		return nil, e
	}
	s.expireStream(m)
	if m.Stream != nil && m.Stream.State == Streaming {
		return nil, refuse("cant_delete_message")
	}
	s.remove(ch, m)
	return reply{"channel": ch.ID, "ts": m.TS}, nil
}

func (s *Server) chatGetPermalink(c *call) (reply, *apiError) {
	ch, e := s.meet(c, c.args.text("channel"))
	if e != nil {
		return nil, e
	}
	m, ok := ch.message(c.args.text("message_ts"))
	if !ok {
		return nil, refuse("message_not_found")
	}
	link := fmt.Sprintf("https://%s.slack.com/archives/%s/p%s", c.team.Domain, ch.ID, strings.Replace(m.TS, ".", "", 1))
	if m.ThreadTS != "" && m.ThreadTS != m.TS {
		link += "?thread_ts=" + m.ThreadTS + "&cid=" + ch.ID
	}
	return reply{"channel": ch.ID, "permalink": link}, nil
}

func (s *Server) chatStartStream(c *call) (reply, *apiError) {
	ch, e := s.enter(c, c.args.text("channel"))
	if e != nil {
		return nil, e
	}
	// Observed: a bot token needs both, in direct messages too, though the page asks for them in channels only.
	if c.args.text("recipient_team_id") == "" {
		return nil, wrong("missing_recipient_team_id", "recipient_team_id")
	}
	if c.args.text("recipient_user_id") == "" {
		return nil, wrong("missing_recipient_user_id", "recipient_user_id")
	}
	u, ok := s.user(c.args.text("recipient_user_id"))
	if !ok || u.TeamID != c.args.text("recipient_team_id") {
		return nil, wrong("user_not_found", "no user %s in %s", c.args.text("recipient_user_id"), c.args.text("recipient_team_id"))
	}
	thread := c.args.text("thread_ts")
	parent, ok := ch.message(thread)
	switch {
	case !ok:
		return nil, refuse("cannot_reply_to_message")
	case parent.ThreadTS != "" && parent.ThreadTS != parent.TS:
		return nil, wrong("cannot_reply_to_message", "thread_ts %s is a reply itself", thread)
	}
	stream := &Stream{State: Streaming, Started: s.now()}
	if e := stream.take(c); e != nil {
		return nil, e
	}
	m := s.post(ch, &Message{
		ThreadTS: thread, Team: c.team.ID, User: c.team.BotUser, BotID: c.team.BotID, AppID: s.app.ID,
		Text: stream.Text, Stream: stream,
	})
	s.clearStatus(ch.ID, thread)
	return reply{"channel": ch.ID, "ts": m.TS}, nil
}

// streaming returns a stream that is open.
func (s *Server) streaming(c *call) (*Channel, *Message, *apiError) {
	ch, e := s.enter(c, c.args.text("channel"))
	if e != nil {
		return nil, nil, e
	}
	m, e := s.own(c, ch, c.args.text("ts"), "message_not_owned_by_app")
	if e != nil {
		return nil, nil, e
	}
	s.expireStream(m)
	switch {
	case m.Stream != nil && m.Stream.State == StoppedByUser && c.method.Name == "chat.appendStream":
		return nil, nil, refuse("stopped_by_user")
	case m.Stream == nil || m.Stream.State != Streaming:
		return nil, nil, refuse("message_not_in_streaming_state")
	}
	return ch, m, nil
}

func (s *Server) chatAppendStream(c *call) (reply, *apiError) {
	ch, m, e := s.streaming(c)
	if e != nil {
		return nil, e
	}
	if !c.args.has("markdown_text") && !c.args.has("chunks") {
		return nil, wrong("no_text", "neither markdown_text nor chunks")
	}
	if e := m.Stream.take(c); e != nil {
		return nil, e
	}
	m.Stream.Appends++
	m.Text = m.Stream.Text
	return reply{"channel": ch.ID, "ts": m.TS}, nil
}

func (s *Server) chatStopStream(c *call) (reply, *apiError) {
	ch, m, e := s.streaming(c)
	if e != nil {
		return nil, e
	}
	raw := c.args.raw("blocks")
	if raw != nil {
		if e := checkBlocks(raw, inMessage); e != nil {
			return nil, e
		}
	}
	if e := m.Stream.take(c); e != nil {
		return nil, e
	}
	if raw != nil {
		m.Stream.Blocks = append(m.Stream.Blocks, raw)
	}
	before := *m
	m.Text, m.Metadata = m.Stream.Text, c.args.raw("metadata")
	m.Stream.State = Stopped
	s.settleStream(m)
	s.clearStatus(ch.ID, m.ThreadTS)
	s.emitChanged(ch, m, &before, c.team.BotUser)
	return reply{"channel": ch.ID, "ts": m.TS, "message": s.wire(m, WithMetadata)}, nil
}

// settleStream gives a stream that ended the blocks that it is read back with.
func (s *Server) settleStream(m *Message) {
	var blocks []json.RawMessage
	add := func(v any) {
		raw, err := json.Marshal(v)
		if err == nil {
			blocks = append(blocks, raw)
		}
	}
	for _, id := range m.Stream.order {
		card := reply{"type": "task_card", "task_id": id}
		for k, v := range m.Stream.tasks[id] {
			text, _ := v.(string)
			switch {
			case text == "":
			case k == "details" || k == "output":
				card[k] = richText(text)
			default:
				card[k] = text
			}
		}
		add(card)
	}
	if m.Stream.Text != "" {
		add(reply{"type": "markdown", "text": m.Stream.Text})
	}
	for _, raw := range m.Stream.Blocks {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			blocks = append(blocks, list...)
		}
	}
	m.Blocks, _ = json.Marshal(blocks)
}

// richText is a text as a rich text block.
func richText(text string) reply {
	return reply{"type": "rich_text", "elements": []reply{{"type": "rich_text_section", "elements": []reply{{"type": "text", "text": text}}}}}
}

// expireStream ends a stream whose time is up.
func (s *Server) expireStream(m *Message) {
	if m.Stream != nil && m.Stream.State == Streaming && s.now().Sub(m.Stream.Started) >= s.opts.StreamLifetime {
		m.Stream.State = Expired
		s.settleStream(m)
	}
}

// take adds what a call brings to a stream: all of it or, when something is wrong, nothing.
func (st *Stream) take(c *call) *apiError {
	next := *st
	next.Text += c.args.text("markdown_text")
	if raw := c.args.raw("chunks"); raw != nil {
		if c.args.has("markdown_text") {
			return wrong("invalid_arguments", "markdown_text together with chunks")
		}
		var chunks []chunk
		if err := json.Unmarshal(raw, &chunks); err != nil {
			return wrong("invalid_chunks", "%v", err)
		}
		for _, ck := range chunks {
			if e := next.takeChunk(ck); e != nil {
				return e
			}
		}
	}
	*st = next
	return nil
}

type chunk struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	ID      string          `json:"id"`
	Title   string          `json:"title"`
	Status  string          `json:"status"`
	Details string          `json:"details"`
	Output  string          `json:"output"`
	Sources json.RawMessage `json:"sources"`
	Blocks  json.RawMessage `json:"blocks"`
}

func (st *Stream) takeChunk(ck chunk) *apiError {
	switch ck.Type {
	case "markdown_text":
		if utf8.RuneCountInString(ck.Text) > MaxMarkdownText {
			return wrong("msg_too_long", "a chunk of %d characters", utf8.RuneCountInString(ck.Text))
		}
		st.Text += ck.Text
	case "task_update":
		return st.takeTask(ck)
	case "plan_update":
		if ck.Title == "" || utf8.RuneCountInString(ck.Title) > MaxTaskFieldChars {
			return wrong("invalid_chunks", "a plan's title has 1 to %d characters", MaxTaskFieldChars)
		}
		st.Plan = ck.Title
	case "blocks":
		if e := checkBlocks(ck.Blocks, inMessage); e != nil {
			return e
		}
		st.Blocks = append(st.Blocks, ck.Blocks)
	default:
		return wrong("invalid_chunks", "a chunk of type %q", ck.Type)
	}
	return nil
}

// takeTask replaces a task's title and status, and appends to its details, as Slack was observed to do.
func (st *Stream) takeTask(ck chunk) *apiError {
	for _, v := range []string{ck.Title, ck.Details, ck.Output} {
		if utf8.RuneCountInString(v) > MaxTaskFieldChars {
			return wrong("invalid_chunks", "a task's field has at most %d characters", MaxTaskFieldChars)
		}
	}
	if ck.ID == "" || ck.Title == "" || !containsString([]string{"", "pending", "in_progress", "complete", "error"}, ck.Status) {
		return wrong("invalid_chunks", "a task has an id, a title and a known status")
	}
	tasks := map[string]reply{}
	for id, t := range st.tasks {
		tasks[id] = t
	}
	old := tasks[ck.ID]
	if old == nil {
		st.order = append(append([]string(nil), st.order...), ck.ID)
		old = reply{}
	}
	details, _ := old["details"].(string)
	tasks[ck.ID] = reply{"title": ck.Title, "status": ck.Status, "details": details + ck.Details, "output": ck.Output}
	st.tasks = tasks
	return nil
}
