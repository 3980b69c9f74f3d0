package discordtest

import "context"

// connections lists the open ones.
func (s *Server) connections() []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*connection
	for _, n := range s.sessions {
		if n.conn != nil {
			all = append(all, n.conn)
		}
	}
	return all
}

// Connected counts the connections that have a session.
func (s *Server) Connected() int { return len(s.connections()) }

// AwaitConnected waits until exactly n connections have a session.
func (s *Server) AwaitConnected(ctx context.Context, n int) bool {
	return s.await(ctx, func() bool {
		open := 0
		for _, known := range s.sessions {
			if known.conn != nil {
				open++
			}
		}
		return open == n
	})
}

// Identified counts identifies, Resumed successful resumes.
func (s *Server) Identified() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identified
}

// Resumed counts the resumes that succeeded.
func (s *Server) Resumed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resumed
}

// DropConnections breaks every connection without a word; sessions can be resumed.
func (s *Server) DropConnections() {
	for _, c := range s.connections() {
		s.gone(c, nil)
		c.close(0, "")
	}
}

// ForgetSessions makes every later resume an invalid session.
func (s *Server) ForgetSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range sortedKeys(s.sessions) {
		n := s.sessions[id]
		delete(s.sessions, id)
		if n.conn != nil { // goes on until its connection ends, under a name that nobody knows
			n.id = id + "*"
			s.sessions[n.id] = n
		}
	}
}

// AskToReconnect sends opcode 7 to every connection.
func (s *Server) AskToReconnect() {
	for _, c := range s.connections() {
		c.send(opReconnect, nil, 0, "")
	}
}

// CloseAll closes every connection with a code.
func (s *Server) CloseAll(code int) {
	for _, c := range s.connections() {
		s.gone(c, nil)
		c.close(code, "")
	}
}

// Redeliver sends the last event once more, as a resume may.
func (s *Server) Redeliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.sessions {
		s.give(n, *s.last)
	}
}

// Rewind makes the next resume replay the last n events that mikan has seen already.
func (s *Server) Rewind(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.sessions {
		replay := known.events[max(0, len(known.events)-n):]
		for _, e := range replay {
			if e.name != "RESUMED" && e.name != "READY" {
				known.events = append(known.events, event{seq: len(known.events) + 1, name: e.name, data: e.data})
			}
		}
		if known.conn != nil {
			known.conn.nudge()
		}
	}
}

// MuteAcks stops answering heartbeats, as a half-dead connection does.
func (s *Server) MuteAcks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muteAcks = true
}

// SendRaw dispatches an event with any payload to every session.
func (s *Server) SendRaw(name string, payload map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch(name, payload, 0)
}
