package slacktest

import (
	"slices"
	"time"
)

// Call is one call that the server received.
type Call struct {
	Time   time.Time     `json:"time"` // the server's clock
	Method string        `json:"method"`
	Team   string        `json:"team,omitempty"`
	Args   args          `json:"args"` // without the token
	OK     bool          `json:"ok"`   // what was answered; see Fault for answers that were lost
	Error  string        `json:"error,omitempty"`
	Fault  string        `json:"fault,omitempty"`
	Took   time.Duration `json:"took"`
}

// Text returns a text argument of the call.
func (c Call) Text(name string) string { return c.Args.text(name) }

// ViolationKind tells what rule was broken.
type ViolationKind string

// The kinds.
const (
	Refused      ViolationKind = "refused"        // a call that Slack refuses whatever the state
	TooFast      ViolationKind = "rate"           // above the documented rate
	BadEnvelope  ViolationKind = "envelope"       // an acknowledgement of nothing, or one that Slack drops
	LeakedToken  ViolationKind = "leaked_token"   // a token at a host that is not Slack's
	BadDownload  ViolationKind = "download"       // a file asked for without a token
	BadUpload    ViolationKind = "upload"         // bytes that do not match their announcement
	BadResponse  ViolationKind = "response_url"   // a response_url used too often or too late
	TooManySocks ViolationKind = "sockets"        // more connections than an app may hold
	BadURL       ViolationKind = "verification"   // an events URL that does not answer the challenge
	Internal     ViolationKind = "slacktest"      // the server contradicts its own table: mend the server
	NoSuchTicket ViolationKind = "socket_ticket"  // a socket URL that was used before
	BadFrame     ViolationKind = "socket_message" // something on the socket that is no acknowledgement
)

// Violation is something that Slack would have refused, dropped or throttled.
type Violation struct {
	Time   time.Time     `json:"time"`
	Kind   ViolationKind `json:"kind"`
	Method string        `json:"method,omitempty"`
	What   string        `json:"what"`
}

func (v Violation) String() string { return string(v.Kind) + " " + v.Method + ": " + v.What }

func (s *Server) violate(kind ViolationKind, method, what string) {
	s.violations = append(s.violations, Violation{Time: s.now(), Kind: kind, Method: method, What: what})
}

// Violations returns what the app did wrong since the start or the last ResetRecords.
func (s *Server) Violations() []Violation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// Calls returns the calls of the given methods in the order in which they were served; of all when none is given.
func (s *Server) Calls(methods ...string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if len(methods) == 0 || slices.Contains(methods, c.Method) {
			out = append(out, c)
		}
	}
	return out
}

// UsedMethods returns the names of all methods that were called.
func (s *Server) UsedMethods() []string {
	var out []string
	for _, c := range s.Calls() {
		out = append(out, c.Method)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ResetRecords forgets calls, violations and the counts of rates.
func (s *Server) ResetRecords() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.violations, s.rates = nil, nil, map[string][]time.Time{}
}
