package slacktest

import (
	"fmt"
	"time"
)

// FaultKind is what goes wrong with a call.
type FaultKind string

// The kinds.
const (
	Slow          FaultKind = "slow"             // the call is served, after Latency
	DropReply     FaultKind = "drop_reply"       // the call is served, the connection ends without an answer
	ServerError   FaultKind = "http_500"         // not served
	ErrorCode     FaultKind = "error"            // not served: ok:false with Code, internal_error unless given
	ErrorAfter    FaultKind = "error_after"      // served, and still answered with ok:false
	TooMany       FaultKind = "429"              // not served: 429 with Retry-After
	TooManyInBody FaultKind = "ratelimited_body" // not served: 200 with ok:false and ratelimited
	CloseStream   FaultKind = "close_stream"     // Slack ends the stream that the call names, just before the call
)

// Fault is something that goes wrong with calls of one method.
type Fault struct {
	Method     string            `json:"method"` // "*": any
	Kind       FaultKind         `json:"kind"`
	Code       string            `json:"code,omitempty"`
	Skip       int               `json:"skip,omitempty"`  // calls to let pass first
	Times      int               `json:"times,omitempty"` // 0: until ClearFaults
	RetryAfter time.Duration     `json:"retry_after,omitempty"`
	Latency    time.Duration     `json:"latency,omitempty"` // before anything else happens
	Args       map[string]string `json:"args,omitempty"`    // only calls with these arguments

	used int
}

// name is the fault's for the record of a call. A nil fault has none.
func (f *Fault) name() string {
	if f == nil {
		return ""
	}
	return string(f.Kind)
}

// refuses tells whether the call has no effect.
func (f *Fault) refuses() bool {
	switch f.Kind {
	case Slow, DropReply, ErrorAfter, CloseStream:
		return false
	}
	return true
}

func (f *Fault) code() string {
	switch {
	case f.Kind == TooMany || f.Kind == TooManyInBody:
		return "ratelimited"
	case f.Code == "":
		return "internal_error"
	}
	return f.Code
}

// Inject makes something go wrong from now on. Faults of one method are used up in the order they were given.
func (s *Server) Inject(f Fault) error {
	if f.Method != "*" {
		if _, ok := MethodNamed(f.Method); !ok {
			return fmt.Errorf("slacktest: no method %q", f.Method)
		}
	}
	if f.Kind == Slow && f.Latency == 0 {
		return fmt.Errorf("slacktest: a slow call needs a latency")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
	return nil
}

// ClearFaults ends all faults.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// takeFault returns what goes wrong with this call. Latencies of other faults are added to it.
func (s *Server) takeFault(method string, a args) *Fault {
	var taken *Fault
	var latency time.Duration
	for _, f := range s.faults {
		if f.Method != "*" && f.Method != method || !f.matches(a) {
			continue
		}
		if f.Kind != Slow && taken != nil && taken.Kind != Slow {
			continue
		}
		if f.Times > 0 && f.used >= f.Skip+f.Times {
			continue
		}
		f.used++
		if f.used <= f.Skip {
			continue
		}
		latency += f.Latency
		if f.Kind != Slow || taken == nil {
			copied := *f
			taken = &copied
		}
	}
	if taken != nil {
		taken.Latency = latency
	}
	return taken
}

func (f *Fault) matches(a args) bool {
	for k, v := range f.Args {
		if fmt.Sprint(a[k]) != v {
			return false
		}
	}
	return true
}
