package telegramtest

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// Call is one request that the server answered.
type Call struct {
	At     time.Time         `json:"at"`
	Method string            `json:"method"`
	Args   map[string]string `json:"args"`
	Fault  FaultKind         `json:"fault,omitempty"`
	Code   int               `json:"code"` // 200, or the refusal's error_code
	Error  string            `json:"error,omitempty"`
}

// Violation is something that a careful client never does.
type Violation struct {
	Method string `json:"method"`
	What   string `json:"what"`
}

func (v Violation) String() string { return v.Method + ": " + v.What }

func (s *Server) record(method string, given args, fault *Fault, problem *refusal) {
	c := Call{At: s.Now(), Method: method, Args: maps.Clone(given.values), Code: http.StatusOK}
	if fault != nil {
		c.Fault = fault.Kind
	}
	if problem != nil {
		c.Code, c.Error = problem.code, problem.description
		if problem.blame == ClientsFault {
			s.violate(method, problem.description)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	s.happen()
}

func (s *Server) violate(method, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violateLocked(method, what)
}

func (s *Server) violateLocked(method, what string) {
	s.violations = append(s.violations, Violation{method, what})
}

// Violations lists what the client did wrong.
func (s *Server) Violations() []Violation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Violation(nil), s.violations...)
}

// ForgiveViolations forgets them, for tests that break a rule on purpose, and returns them.
func (s *Server) ForgiveViolations() []Violation {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.violations
	s.violations = nil
	return all
}

// Calls lists the answered requests to a method, or to all when it is empty.
func (s *Server) Calls(method string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var of []Call
	for _, c := range s.calls {
		if method == "" || c.Method == method {
			of = append(of, c)
		}
	}
	return of
}

// allowance is one of Telegram's limits: at most so many within a time.
type allowance struct {
	name   string
	most   int
	within time.Duration
}

// overLimit counts a call for the limits on messages. One a second in a chat is what Telegram asks for, with short
// bursts; three in a second is what the server still calls a short burst. The lock is held.
func (s *Server) overLimit(c *call) *refusal {
	if c.method.Rate != PerChat {
		return nil
	}
	chat, _ := strconv.ParseInt(c.args.text("chat_id"), 10, 64)
	limits := []allowance{
		{"all", 30, time.Second},
		{fmt.Sprintf("chat %d", chat), 3, time.Second},
		{fmt.Sprintf("chat %d, minute", chat), 62, time.Minute},
	}
	if chat < 0 {
		limits = append(limits, allowance{fmt.Sprintf("group %d", chat), 20, time.Minute})
	}
	now := s.Now()
	for _, l := range limits {
		recent := s.sent[l.name][:0]
		for _, at := range s.sent[l.name] {
			if now.Sub(at) < l.within {
				recent = append(recent, at)
			}
		}
		s.sent[l.name] = recent
		if len(recent) < l.most {
			continue
		}
		if s.Limits != LimitsEnforced {
			continue
		}
		wait := int(l.within.Seconds()-now.Sub(recent[0]).Seconds()) + 1
		s.violateLocked(c.method.Name, fmt.Sprintf("over the limit of %d in %v (%s)", l.most, l.within, l.name))
		return tooMany(wait)
	}
	for _, l := range limits {
		s.sent[l.name] = append(s.sent[l.name], now)
	}
	return nil
}

func tooMany(seconds int) *refusal {
	return &refusal{code: http.StatusTooManyRequests, description: fmt.Sprintf("Too Many Requests: retry after %d", seconds), retryAfter: seconds}
}
