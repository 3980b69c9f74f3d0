package slacktest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

var emojiName = regexp.MustCompile(`^[a-z0-9_+'-]+(::skin-tone-[2-6])?$`)

// marked returns the message that a reaction is about.
func (s *Server) marked(c *call) (*Channel, *Message, *apiError) {
	ch, e := s.meet(c, c.args.text("channel"))
	if e != nil {
		return nil, nil, e
	}
	if !emojiName.MatchString(c.args.text("name")) {
		return nil, nil, wrong("invalid_name", "%q is no name of an emoji", c.args.text("name"))
	}
	m, ok := ch.message(c.args.text("timestamp"))
	if !ok {
		return nil, nil, refuse("message_not_found")
	}
	return ch, m, nil
}

func (s *Server) reactionsAdd(c *call) (reply, *apiError) {
	ch, m, e := s.marked(c)
	switch {
	case e != nil:
		return nil, e
	case ch.Archived:
		return nil, refuse("is_archived")
	}
	name := c.args.text("name")
	if slices.Contains(m.Reactions[name], c.team.BotUser) {
		return nil, refuse("already_reacted")
	}
	if m.Reactions == nil {
		m.Reactions = map[string][]string{}
	}
	m.Reactions[name] = append(m.Reactions[name], c.team.BotUser)
	return nil, nil
}

func (s *Server) reactionsRemove(c *call) (reply, *apiError) {
	_, m, e := s.marked(c)
	if e != nil {
		return nil, e
	}
	name := c.args.text("name")
	if !slices.Contains(m.Reactions[name], c.team.BotUser) {
		return nil, refuse("no_reaction")
	}
	m.Reactions[name] = slices.DeleteFunc(slices.Clone(m.Reactions[name]), func(id string) bool { return id == c.team.BotUser })
	if len(m.Reactions[name]) == 0 {
		delete(m.Reactions, name)
	}
	return nil, nil
}

// Status is what an assistant thread shows while the app works.
type Status struct {
	Channel string    `json:"channel"`
	Thread  string    `json:"thread"`
	Text    string    `json:"text"`
	Loading []string  `json:"loading,omitempty"`
	Set     time.Time `json:"set"`
}

// AssistantThread is a thread of the app's pane.
type AssistantThread struct {
	Channel string            `json:"channel"`
	Thread  string            `json:"thread"`
	User    string            `json:"user"`
	Title   string            `json:"title,omitempty"`
	Prompts []AssistantPrompt `json:"prompts,omitempty"`
}

// AssistantPrompt is a suggestion in the app's pane.
type AssistantPrompt struct {
	Title   string `json:"title"`
	Message string `json:"message"`
}

// threadOf returns the place that an assistant call names: a thread of the pane, or a message in a channel that the
// bot is in.
func (s *Server) threadOf(c *call) (place, *apiError) {
	ch, e := s.meet(c, c.args.text("channel_id"))
	if e != nil {
		return place{}, e
	}
	if !ch.has(c.team.BotUser) {
		return place{}, refuse("channel_not_found")
	}
	at := place{ch.ID, c.args.text("thread_ts")}
	if _, ok := ch.message(at.thread); !ok {
		return at, refuse("invalid_thread_ts")
	}
	return at, nil
}

func (s *Server) assistantSetStatus(c *call) (reply, *apiError) {
	at, e := s.threadOf(c)
	if e != nil {
		return nil, e
	}
	if c.args.text("status") == "" {
		delete(s.statuses, at)
		return nil, nil
	}
	s.statuses[at] = &Status{Channel: at.channel, Thread: at.thread, Text: c.args.text("status"), Loading: c.args.words("loading_messages"), Set: s.now()}
	return nil, nil
}

// clearStatus ends the status of a thread in which the app has spoken.
func (s *Server) clearStatus(channel, thread string) { delete(s.statuses, place{channel, thread}) }

// Statuses returns what assistant threads show now.
func (s *Server) Statuses() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Status{}
	for at, st := range s.statuses {
		if s.now().Sub(st.Set) >= s.opts.StatusLifetime {
			delete(s.statuses, at)
			continue
		}
		out = append(out, *st)
	}
	slices.SortFunc(out, func(a, b Status) int { return a.Set.Compare(b.Set) })
	return out
}

func (s *Server) assistantSetSuggestedPrompts(c *call) (reply, *apiError) {
	at, e := s.threadOf(c)
	if e != nil {
		return nil, e
	}
	var prompts []AssistantPrompt
	if err := json.Unmarshal(c.args.raw("prompts"), &prompts); err != nil {
		return nil, wrong("invalid_arguments", "prompts: %v", err)
	}
	for _, p := range prompts {
		if p.Title == "" || p.Message == "" {
			return nil, wrong("invalid_arguments", "a prompt has a title and a message")
		}
	}
	t, ok := s.threads[at]
	if !ok {
		return nil, refuse("invalid_thread_ts")
	}
	t.Prompts = prompts
	return nil, nil
}

func (s *Server) assistantSetTitle(c *call) (reply, *apiError) {
	at, e := s.threadOf(c)
	if e != nil {
		return nil, e
	}
	t, ok := s.threads[at]
	if !ok {
		return nil, refuse("invalid_thread_ts")
	}
	t.Title = c.args.text("title")
	if ch, ok := s.channel(at.channel); ok {
		if root, ok := ch.message(at.thread); ok {
			before := *root
			root.Text = t.Title
			s.emitChanged(ch, root, &before, "")
		}
	}
	return nil, nil
}

// AssistantThreads returns the threads of the app's pane.
func (s *Server) AssistantThreads() []AssistantThread {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []AssistantThread{}
	for _, t := range s.threads {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b AssistantThread) int { return strings.Compare(a.Thread, b.Thread) })
	return out
}

// HomeView is what the app published to a person's App Home.
type HomeView struct {
	ID     string          `json:"id"`
	User   string          `json:"user"`
	Hash   string          `json:"hash"`
	Blocks json.RawMessage `json:"blocks"`
	Text   string          `json:"text"` // what a person reads in it
	Count  int             `json:"count"`
}

func (s *Server) viewsPublish(c *call) (reply, *apiError) {
	u, ok := s.user(c.args.text("user_id"))
	if !ok {
		return nil, refuse("user_not_found")
	}
	raw := c.args.raw("view")
	if len(raw) > MaxViewBytes {
		return nil, wrong("view_too_large", "%d bytes, at most %d", len(raw), MaxViewBytes)
	}
	var view struct {
		Type   string          `json:"type"`
		Blocks json.RawMessage `json:"blocks"`
	}
	if err := json.Unmarshal(raw, &view); err != nil || view.Type != "home" {
		return nil, wrong("invalid_arguments", "a view of type home")
	}
	if e := checkBlocks(view.Blocks, inHome); e != nil {
		return nil, e
	}
	old := s.views[u.ID]
	if old != nil && c.args.has("hash") && c.args.text("hash") != old.Hash {
		return nil, refuse("hash_conflict")
	}
	if old == nil {
		old = &HomeView{ID: s.nextID("V"), User: u.ID}
	}
	old.Count++
	old.Blocks, old.Text = view.Blocks, plainBlocks(view.Blocks)
	old.Hash = fmt.Sprintf("%d.%d", s.now().Unix(), old.Count)
	s.views[u.ID] = old
	return reply{"view": reply{"id": old.ID, "team_id": c.team.ID, "type": "home", "hash": old.Hash, "app_id": s.app.ID, "bot_id": c.team.BotID,
		"blocks": view.Blocks, "private_metadata": "", "callback_id": "", "state": reply{"values": reply{}}}}, nil
}

// Home returns what a person's App Home shows.
func (s *Server) Home(user string) (HomeView, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.views[user]
	if !ok {
		return HomeView{}, false
	}
	return *v, true
}
