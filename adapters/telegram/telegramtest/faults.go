package telegramtest

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// FaultKind tells how a call goes wrong.
type FaultKind string

// The kinds.
const (
	LoseReply   FaultKind = "lose_reply"   // the call takes effect, and the connection breaks before the answer
	Refuse      FaultKind = "refuse"       // nothing happens; Code and Description are answered
	RateLimited FaultKind = "rate_limited" // nothing happens; 429 with RetryAfter
	ServerError FaultKind = "server_error" // nothing happens; 502 without a JSON body
	Malformed   FaultKind = "malformed"    // the call takes effect; the answer is a web page
	Slow        FaultKind = "slow"         // the call takes effect, after Latency
)

// Fault breaks calls to a method.
type Fault struct {
	Method      string        `json:"method"` // empty: any but getUpdates
	Chat        int64         `json:"chat"`   // 0: any
	Kind        FaultKind     `json:"kind"`
	Times       int           `json:"times"` // 0: once; below 0: until Mend
	Code        int           `json:"code"`
	Description string        `json:"description"`
	RetryAfter  int           `json:"retry_after"` // seconds
	Latency     time.Duration `json:"latency"`
}

// Fail makes the next calls go wrong.
func (s *Server) Fail(f Fault) {
	if f.Times == 0 {
		f.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Mend ends all faults.
func (s *Server) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// RevokeToken makes the token as good as any other wrong one.
func (s *Server) RevokeToken() {
	s.Fail(Fault{Method: "*", Kind: Refuse, Code: http.StatusUnauthorized, Times: -1})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.happen()
}

func (s *Server) revoked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.faults, func(f *Fault) bool { return f.Method == "*" })
}

func (s *Server) takeFault(method string, given args) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.Method != method && (f.Method != "" || method == "getUpdates") {
			continue
		}
		if f.Chat != 0 && given.text("chat_id") != strconv.FormatInt(f.Chat, 10) {
			continue
		}
		taken := *f
		if f.Times > 0 {
			f.Times--
		}
		if f.Times == 0 {
			s.faults = slices.Delete(s.faults, i, i+1)
		}
		return &taken
	}
	return nil
}

// before waits as long as the fault wants; false when the client went away meanwhile.
func (f *Fault) before(r *http.Request) bool {
	if f.Latency <= 0 {
		return true
	}
	select {
	case <-time.After(f.Latency):
		return true
	case <-r.Context().Done():
		return false
	}
}

func (f *Fault) refuses() bool {
	return f.Kind == Refuse || f.Kind == RateLimited || f.Kind == ServerError
}

func (f *Fault) refusal() *refusal {
	switch f.Kind {
	case RateLimited:
		return tooMany(f.RetryAfter)
	case ServerError:
		return &refusal{code: http.StatusBadGateway, description: "Bad Gateway"}
	}
	r := &refusal{code: f.Code, description: f.Description}
	if r.code == 0 {
		r = refuse(f.Description)
	}
	return r
}

func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}
