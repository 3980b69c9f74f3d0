package slacktest

import (
	"fmt"
	"slices"
)

// Visible is a message as people see it now, with what became of it.
type Visible struct {
	Message
	// Shown is what a person reads: the blocks where there are any, else the text; a stream's text so far.
	Shown string `json:"shown"`
	// ByApp tells that the app under test wrote it.
	ByApp bool `json:"by_app"`
}

// Which chooses messages.
type Which struct {
	Channel string `json:"channel,omitempty"`
	Thread  string `json:"thread,omitempty"` // replies and the parent
	ByApp   bool   `json:"by_app,omitempty"` // only the app's
	Deleted bool   `json:"deleted,omitempty"`
}

// Messages returns messages in the order in which they were written, deleted ones only when asked for, ephemeral ones
// marked as such.
func (s *Server) Messages(w Which) []Visible {
	s.mu.Lock()
	defer s.mu.Unlock()
	bots := []string{}
	for _, t := range s.teams {
		if t.Installed {
			bots = append(bots, t.BotUser)
		}
	}
	out := []Visible{}
	for _, ch := range s.channels {
		if w.Channel != "" && ch.ID != w.Channel {
			continue
		}
		for _, m := range ch.messages {
			s.expireStream(m)
			mine := slices.Contains(bots, m.User)
			switch {
			case m.Deleted && !w.Deleted, m.Subtype == threadRoot:
			case w.ByApp && !mine:
			case w.Thread != "" && m.ThreadTS != w.Thread && m.TS != w.Thread:
			default:
				out = append(out, s.visible(m, mine))
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Visible) int {
		x, _ := parseTS(a.TS)
		y, _ := parseTS(b.TS)
		return int(x - y)
	})
	return out
}

func (s *Server) visible(m *Message, mine bool) Visible {
	v := Visible{Message: *m, ByApp: mine, Shown: m.Text}
	if m.Stream != nil {
		stream := *m.Stream
		v.Stream = &stream
	}
	if t := plainBlocks(m.Blocks); t != "" && (m.ClientMsgID == "" || m.Text == "") {
		v.Shown = t
	}
	v.Reactions = map[string][]string{}
	for name, users := range m.Reactions {
		v.Reactions[name] = slices.Clone(users)
	}
	return v
}

// StopStream presses the stop button that Slack shows beside a stream.
func (s *Server) StopStream(channel, ts string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endStream(channel, ts, StoppedByUser)
}

// ExpireStream ends a stream as Slack does when its time is up.
func (s *Server) ExpireStream(channel, ts string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endStream(channel, ts, Expired)
}

// endStream ends a stream that is open. Lock held.
func (s *Server) endStream(channel, ts string, state StreamState) error {
	ch, ok := s.channel(channel)
	if !ok {
		return fmt.Errorf("slacktest: no channel %q", channel)
	}
	m, ok := ch.message(ts)
	if !ok || m.Stream == nil || m.Stream.State != Streaming {
		return fmt.Errorf("slacktest: no open stream %s in %s", ts, channel)
	}
	m.Stream.State = state
	s.settleStream(m)
	return nil
}
