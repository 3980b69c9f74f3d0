package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Prefixes of what the servers hand out and take back as opaque.
const (
	signaturePrefix = "sig-"
	redactedPrefix  = "redacted-"
	encryptedPrefix = "enc-"
)

// Reply is what a script answers. The zero Reply is an empty answer that ends normally.
type Reply struct {
	Parts  []Part
	Stop   Stop
	Ending Ending
	Usage  Usage // zero = small made-up counts

	// Status, when set, makes the reply an error response with Header; Kind and Message fill its body, Body replaces it.
	// With Ending EndError, Kind and Message are those of the error event.
	Status  int
	Header  http.Header
	Kind    string
	Message string
	Body    string

	Delay   time.Duration   // before the response's first byte
	Between time.Duration   // before every piece of the stream
	Hold    <-chan struct{} // when set, the stream stays open behind its parts until it is closed
	Pings   int             // keep-alives before the first part
}

// Stop tells the client why the model stopped.
type Stop string

// The stops. StopAuto is "tool use" beside calls and the normal end otherwise.
const (
	StopAuto    Stop = ""
	StopLength  Stop = "length" // the last part is left open, as a provider leaves it
	StopRefused Stop = "refused"
	StopNormal  Stop = "normal" // the normal end even beside calls, as some compatible servers say
)

// Ending is how the stream ends after its parts.
type Ending int

// The endings. All but EndNormal leave the last part open.
const (
	EndNormal     Ending = iota
	EndCut               // the connection breaks
	EndUnfinished        // the response ends without its terminal event
	EndStall             // silence until the client leaves
	EndError             // an error event inside the stream
)

// Usage are token counts as the providers count them: Input includes nothing that was cached.
type Usage struct {
	Input, Output, CacheRead, CacheWrite int64
}

// Part is one piece of an answer.
type Part struct {
	kind string // text, thinking, redacted, call
	text string
	call Call
}

// Text is a text block, streamed in several pieces.
func Text(format string, args ...any) Part {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	return Part{kind: "text", text: format}
}

// Thinking is visible thinking with a signature or encrypted form that the server takes back.
func Thinking(text string) Part { return Part{kind: "thinking", text: text} }

// Redacted is thinking without text.
func Redacted() Part { return Part{kind: "redacted"} }

// ToolCall is a tool call; arguments is sent as it is.
func ToolCall(id, name, arguments string) Part {
	return Part{kind: "call", call: Call{ID: id, Name: name, Arguments: arguments}}
}

// Say is an answer that is one text.
func Say(format string, args ...any) Reply { return Reply{Parts: []Part{Text(format, args...)}} }

// Fail is an error response.
func Fail(status int, kind, message string) Reply {
	return Reply{Status: status, Kind: kind, Message: message}
}

// Always is a script that gives the same reply to everything.
func Always(r Reply) Script { return func(Request) Reply { return r } }

// InOrder is a script that gives one reply after the other, and the last one for ever.
func InOrder(replies ...Reply) Script {
	return func(r Request) Reply { return replies[min(r.Number, len(replies))-1] }
}

// writer sends one reply.
type writer struct {
	w        http.ResponseWriter
	r        *http.Request
	server   *Server
	between  time.Duration
	canceled bool
}

// abort ends a reply whose client left or whose connection is to break.
func (o *writer) abort() { panic(http.ErrAbortHandler) }

// wait waits for d or, with a channel, until it closes; it aborts when the client or the server goes.
func (o *writer) wait(d time.Duration, until <-chan struct{}) {
	var timeout <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-timeout:
	case <-until:
	case <-o.r.Context().Done():
		o.canceled = true
		o.abort()
	case <-o.server.closed:
		o.abort()
	}
}

func (o *writer) reply(d Dialect, req Request, reply Reply) {
	if reply.Delay > 0 {
		o.wait(reply.Delay, nil)
	}
	if reply.Status != 0 {
		o.fail(d, reply)
		return
	}
	o.w.Header().Set("Content-Type", "text/event-stream")
	for key, values := range reply.Header {
		o.w.Header()[http.CanonicalHeaderKey(key)] = values
	}
	o.w.WriteHeader(http.StatusOK)
	s := newStream(d, o, req, reply)
	s.start()
	for range reply.Pings {
		s.ping()
	}
	for i, p := range reply.Parts {
		last := i == len(reply.Parts)-1
		s.part(i, p, last && (reply.Ending != EndNormal || reply.Stop == StopLength))
	}
	if reply.Hold != nil {
		o.wait(0, reply.Hold)
	}
	switch reply.Ending {
	case EndCut:
		o.flush()
		o.abort()
	case EndStall:
		o.wait(0, nil)
	case EndUnfinished:
	case EndError:
		s.fail(&Violation{Kind: reply.Kind, Message: reply.Message})
	default:
		s.end()
	}
}

func (o *writer) fail(d Dialect, reply Reply) {
	if reply.Body == "" {
		writeError(o.w, d, &Violation{Status: reply.Status, Kind: reply.Kind, Message: reply.Message}, reply.Header)
		return
	}
	for key, values := range reply.Header {
		o.w.Header()[http.CanonicalHeaderKey(key)] = values
	}
	o.w.WriteHeader(reply.Status)
	_, _ = o.w.Write([]byte(reply.Body))
}

// event sends one server-sent event; name may be empty.
func (o *writer) event(name string, data any) {
	if o.between > 0 {
		o.wait(o.between, nil)
	}
	if name != "" {
		fmt.Fprintf(o.w, "event: %s\n", name)
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		panic(err) // only our own maps come here
	}
	fmt.Fprintf(o.w, "data: %s\n\n", encoded)
	o.flush()
	if o.r.Context().Err() != nil {
		o.canceled = true
		o.abort()
	}
}

func (o *writer) raw(text string) {
	fmt.Fprint(o.w, text)
	o.flush()
}

func (o *writer) flush() {
	if f, ok := o.w.(http.Flusher); ok {
		f.Flush()
	}
}

// pieces cuts a text into at most four pieces of whole characters.
func pieces(s string) []string {
	runes := []rune(s)
	size := max(1, (len(runes)+3)/4)
	var out []string
	for len(runes) > 0 {
		n := min(size, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}
