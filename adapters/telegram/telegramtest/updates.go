package telegramtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// retention is how long Telegram keeps what the bot has not taken.
const retention = 24 * time.Hour

// update waits for the bot.
type update struct {
	id      int64
	chat    int64
	expires time.Time
	body    map[string]any
	// of a webhook's
	attempts int
	after    time.Time
}

func (u update) wire() map[string]any {
	w := map[string]any{"update_id": u.id}
	for k, v := range u.body {
		w[k] = v
	}
	return w
}

// poll is a getUpdates that waits.
type poll struct {
	ended chan string // the conflict that ends it
}

// tell queues an update about a message. The lock is held.
func (s *Server) tell(c *chat, m *message, kind string) {
	if m.from == s.BotID || !s.hears(c, m) || s.allowed != nil && !s.allowed[kind] {
		return
	}
	s.queue(c.ID, map[string]any{kind: s.wire(m, WithReply)}, m.at.Add(retention))
}

func (s *Server) queue(chat int64, body map[string]any, expires time.Time) {
	raw, _ := json.Marshal(body) // as it is now, whatever becomes of the message
	var frozen map[string]json.RawMessage
	_ = json.Unmarshal(raw, &frozen)
	body = map[string]any{}
	for k, v := range frozen {
		body[k] = v
	}
	s.updates = append(s.updates, update{id: s.nextUpdate, chat: chat, expires: expires, body: body})
	s.nextUpdate++
	s.happen()
}

// hears tells whether the bot gets a message: by privacy mode, in groups only commands, what mentions it, replies to it
// and service messages (https://core.telegram.org/bots/features#privacy-mode). Other bots' messages it never gets.
func (s *Server) hears(c *chat, m *message) bool {
	switch {
	case c.bot == BotKicked, c.bot == BotBlocked:
		return false
	case s.person(m.from).Bot == IsBot && m.as == 0:
		return false
	case c.Type == PrivateChat, s.Privacy == PrivacyOff, c.bot == BotAdmin, m.service != nil:
		return true
	}
	if replied, ok := c.messages[m.replyTo]; ok && replied.from == s.BotID {
		return true
	}
	for _, e := range m.entities {
		said := slice(m.text+m.caption, e)
		if e.Type == "bot_command" && e.Offset == 0 || e.Type == "mention" && equalFold(said, "@"+s.Username) {
			return true
		}
		if id, ok := e.User["id"].(int64); e.Type == "text_mention" && ok && id == s.BotID {
			return true
		}
	}
	return false
}

func (s *Server) getUpdates(c *call) (any, *refusal) {
	offset, limit, timeout := c.args.integer("offset"), int(c.args.integer("limit")), c.args.integer("timeout")
	if limit <= 0 {
		limit = 100
	}
	s.mu.Lock()
	if s.webhook.url != "" {
		return nil, s.conflict(c.ctx, webhookActive) // unlocks
	}
	if s.poll != nil {
		s.poll.ended <- otherPoller
		s.poll = nil
	}
	s.allow(c.args)
	now := s.Now()
	if offset == s.lastPoll.offset && now.Sub(s.lastPoll.at) < 500*time.Millisecond {
		limit = 1 // the same again at once: Telegram suspects that the bot dies of it
	}
	s.lastPoll.offset, s.lastPoll.at = offset, now
	s.confirm(offset)
	mine := &poll{ended: make(chan string, 1)}
	deadline := time.NewTimer(time.Duration(timeout) * time.Second)
	defer deadline.Stop()
	for {
		if s.revokedLocked() {
			s.mu.Unlock()
			return nil, &refusal{code: http.StatusUnauthorized, description: "Unauthorized"}
		}
		if ready := s.pending(offset, limit); len(ready) > 0 || timeout == 0 {
			s.forget(mine)
			s.mu.Unlock()
			return ready, nil
		}
		s.poll = mine
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
			s.mu.Lock()
		case <-deadline.C:
			s.mu.Lock()
			timeout = 0
		case what := <-mine.ended:
			s.mu.Lock()
			return nil, s.conflict(c.ctx, what) // unlocks
		case <-c.ctx.Context().Done():
			s.mu.Lock()
			s.forget(mine)
			s.mu.Unlock()
			return nil, refuse("Bad Request: the client went away")
		}
	}
}

func (s *Server) revokedLocked() bool {
	return slices.ContainsFunc(s.faults, func(f *Fault) bool { return f.Method == "*" })
}

func (s *Server) forget(p *poll) {
	if s.poll == p {
		s.poll = nil
	}
}

// conflict is a 409. The second within some seconds is held back, so that two pollers cannot spin. It takes the lock
// over and gives it back.
func (s *Server) conflict(r *http.Request, what string) *refusal {
	wait := time.Duration(0)
	if now := time.Now(); now.Sub(s.conflictAt) < s.Pause {
		wait = s.Pause
	} else {
		s.conflictAt = now
	}
	s.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-r.Context().Done():
	}
	return refuse(what)
}

// confirm forgets what the offset confirms. One far in the future or the past confirms nothing.
func (s *Server) confirm(offset int64) {
	if offset < 0 {
		keep := max(0, len(s.updates)+int(offset))
		s.forgotten = append(s.forgotten, s.updates[:keep]...)
		s.updates = s.updates[keep:]
		return
	}
	if offset > s.nextUpdate+10 {
		return
	}
	s.updates = slices.DeleteFunc(s.updates, func(u update) bool {
		if u.id < offset {
			s.forgotten = append(s.forgotten, u)
			return true
		}
		return false
	})
}

func (s *Server) pending(offset int64, limit int) []map[string]any {
	now := s.Now()
	s.updates = slices.DeleteFunc(s.updates, func(u update) bool { return now.After(u.expires) })
	var ready []map[string]any
	for _, u := range s.updates {
		if len(ready) < limit && (u.id >= offset || offset > s.nextUpdate+10) {
			ready = append(ready, u.wire())
		}
	}
	if ready == nil {
		return []map[string]any{}
	}
	return ready
}

// allow takes allowed_updates over, which stay in force until the next time.
func (s *Server) allow(given args) {
	if !given.has("allowed_updates") {
		return
	}
	var kinds []string
	_ = json.Unmarshal([]byte(given.text("allowed_updates")), &kinds)
	s.allowed = nil
	if len(kinds) > 0 {
		s.allowed = map[string]bool{}
		for _, kind := range kinds {
			s.allowed[kind] = true
		}
	}
}

// Redeliver hands the newest n updates out again that the bot has confirmed. Telegram does so after a confirmation that
// was lost; here they have new numbers, so that they reach a bot that goes on counting, too.
func (s *Server) Redeliver(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range slices.Clone(s.forgotten[max(0, len(s.forgotten)-n):]) {
		s.updates = append(s.updates, update{id: s.nextUpdate, chat: u.chat, expires: u.expires, body: u.body})
		s.nextUpdate++
	}
	s.happen()
}

// Pending tells how many updates the bot has not confirmed.
func (s *Server) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.updates)
}
