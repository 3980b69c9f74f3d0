package slacktest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
)

// socket is one Socket Mode connection. All but conn and out is guarded by the server's lock.
type socket struct {
	server    *Server
	id        int
	conn      *websocket.Conn
	out       chan frame
	end       context.CancelFunc
	envelopes map[string]*delivery
	leaving   bool // told to go: gets nothing new
	silent    bool // looks alive to Slack, and nothing goes through
	gone      bool
}

// frame is something to write: a message, or the end with its reason.
type frame struct {
	text    []byte
	closing string
}

// connectionsOpen hands out the address of a socket, for one use.
func (s *Server) connectionsOpen(*call) (reply, *apiError) {
	ticket := uuid.NewString()
	s.tickets[ticket] = true
	return reply{"url": strings.Replace(s.url, "http://", "ws://", 1) + "/link/?ticket=" + ticket + "&app_id=" + s.app.ID}, nil
}

// serveSocket speaks Socket Mode. https://docs.slack.dev/apis/events-api/using-socket-mode
func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	ticket := r.URL.Query().Get("ticket")
	s.mu.Lock()
	good := s.tickets[ticket]
	delete(s.tickets, ticket)
	if !good {
		s.violate(NoSuchTicket, "", "a socket's URL is good for one connection")
	}
	s.mu.Unlock()
	if !good {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the SDK names Slack as its origin
	if err != nil {
		return
	}
	conn.SetReadLimit(1 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := &socket{server: s, conn: conn, out: make(chan frame, 1024), end: cancel, envelopes: map[string]*delivery{}}
	go c.write(ctx)
	go c.pings(ctx)

	s.mu.Lock()
	s.nextSocket++
	c.id = s.nextSocket
	open := s.openSockets()
	if len(open) >= MaxConnections {
		s.violate(TooManySocks, "", fmt.Sprintf("more than %d connections", MaxConnections))
		c.say(reply{"type": "disconnect", "reason": "too_many_websockets", "debug_info": debugInfo()})
		s.mu.Unlock()
		c.finish("too_many_websockets")
		c.read(ctx)
		return
	}
	if s.opts.Sockets == OneSocket {
		for _, old := range slices.Clone(s.sockets) {
			s.left(old)
			_ = old.conn.CloseNow()
		}
	}
	s.sockets = append(s.sockets, c)
	c.say(reply{"type": "hello", "num_connections": len(open) + 1, "debug_info": debugInfo(), "connection_info": reply{"app_id": s.app.ID}})
	s.resend()
	s.mu.Unlock()

	c.read(ctx)
	_ = conn.CloseNow() // whoever ended it, it is over
	s.mu.Lock()
	s.left(c)
	s.mu.Unlock()
}

func debugInfo() reply {
	return reply{"host": "applink-1", "build_number": 10, "approximate_connection_time": 18060}
}

// left takes a connection out of use. What it had not acknowledged goes to another one, if there is one. Lock held.
func (s *Server) left(c *socket) {
	if c.gone {
		return
	}
	c.gone = true
	s.sockets = slices.DeleteFunc(s.sockets, func(o *socket) bool { return o == c })
	for _, d := range s.deliveries {
		if d.onSocket == c && !d.acked && d.kind != "events_api" {
			s.giveUp(d) // commands and buttons fail before the person's eyes
		}
	}
	if len(s.openSockets()) > 0 {
		s.resend()
	}
}

func (s *Server) openSockets() []*socket {
	var open []*socket
	for _, c := range s.sockets {
		if !c.gone && !c.leaving {
			open = append(open, c)
		}
	}
	return open
}

// pickSocket chooses a connection in turn. A silent one is chosen, too: Slack cannot tell.
func (s *Server) pickSocket() *socket {
	open := s.openSockets()
	if len(open) == 0 {
		return nil
	}
	s.turn++
	return open[s.turn%len(open)]
}

// deliver sends one envelope. Lock held.
func (c *socket) deliver(d *delivery) {
	id := uuid.NewString()
	c.envelopes[id] = d
	c.server.envelopes[id] = true
	c.say(reply{"envelope_id": id, "type": d.kind, "accepts_response_payload": d.accepts, "payload": d.payload,
		"retry_attempt": d.attempt, "retry_reason": d.reason})
}

// say queues a frame, which a silent connection swallows. Lock held.
func (c *socket) say(v reply) {
	if c.silent {
		return
	}
	select {
	case c.out <- frame{text: copyJSON(v)}:
	default: // a client that reads nothing for a thousand frames
		c.end()
	}
}

func (c *socket) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-c.out:
			if f.closing != "" {
				_ = c.conn.Close(websocket.StatusNormalClosure, f.closing) // the other side may be gone
				c.end()
				return
			}
			if err := c.conn.Write(ctx, websocket.MessageText, f.text); err != nil {
				return
			}
		}
	}
}

func (c *socket) pings(ctx context.Context) {
	for {
		c.server.mu.Lock()
		silent, every := c.silent, c.server.opts.PingInterval
		c.server.mu.Unlock()
		if !silent {
			ping, cancel := context.WithTimeout(ctx, every)
			_ = c.conn.Ping(ping) // a client that answers no ping is not Slack's problem
			cancel()
		}
		t := time.NewTimer(every)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// read takes acknowledgements until the connection ends.
func (c *socket) read(ctx context.Context) {
	for {
		_, data, err := c.conn.Read(ctx)
		if err != nil {
			return
		}
		c.server.acknowledged(c, data)
	}
}

func (s *Server) acknowledged(c *socket, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.silent {
		return
	}
	var ack struct {
		EnvelopeID string          `json:"envelope_id"`
		Payload    json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(data, &ack); err != nil || ack.EnvelopeID == "" {
		s.violate(BadFrame, "", "a message that is no acknowledgement")
		return
	}
	d, ok := c.envelopes[ack.EnvelopeID]
	switch {
	case !ok && s.envelopes[ack.EnvelopeID]:
		// Carried by another connection, which ended meanwhile: too late, the event has been sent again.
	case !ok:
		s.violate(BadEnvelope, "", "an acknowledgement of "+ack.EnvelopeID+", which was never sent")
	case len(data) >= MaxSocketResponse:
		s.violate(BadEnvelope, "", fmt.Sprintf("an acknowledgement of %d bytes, which Slack drops", len(data)))
	case len(ack.Payload) > 0 && string(ack.Payload) != "null" && !d.accepts:
		s.violate(BadEnvelope, "", "a payload for a "+d.kind+" that accepts none")
		s.acknowledge(d, nil)
	default:
		s.acknowledge(d, ack.Payload)
	}
}

// finish closes a connection once what is queued has been written.
func (c *socket) finish(reason string) {
	select {
	case c.out <- frame{closing: reason}:
	default:
		c.drop()
	}
}

// drop cuts a connection without a word.
func (c *socket) drop() {
	_ = c.conn.CloseNow()
	c.end()
}

// DisconnectReason is why Slack takes a connection back.
type DisconnectReason string

// The reasons. https://docs.slack.dev/apis/events-api/using-socket-mode#disconnect
const (
	Warning          DisconnectReason = "warning"           // about ten seconds before a refresh
	RefreshRequested DisconnectReason = "refresh_requested" // the connection ends
	LinkDisabled     DisconnectReason = "link_disabled"     // Socket Mode was switched off
)

// Disconnect sends a disconnect frame on all connections. After a warning they go on for Grace, then end; the other
// reasons end them after Grace. A connection that is told to go gets nothing new. 0 ends it once the frame is out.
func (s *Server) Disconnect(reason DisconnectReason, grace time.Duration) int {
	s.mu.Lock()
	open := s.openSockets()
	for _, c := range open {
		c.say(reply{"type": "disconnect", "reason": string(reason), "debug_info": debugInfo()})
		c.leaving = reason != Warning
	}
	s.mu.Unlock()
	for _, c := range open {
		time.AfterFunc(grace, func() { c.finish(string(reason)) })
	}
	return len(open)
}

// Silence makes all present connections dead without closing them: nothing is written, nothing read is heeded, no
// pings are sent. New connections work.
func (s *Server) Silence() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.openSockets()
	for _, c := range open {
		c.silent = true
	}
	return len(open)
}

// DropSockets cuts all connections without a word.
func (s *Server) DropSockets() int {
	s.mu.Lock()
	open := slices.Clone(s.sockets)
	for _, c := range open {
		c.leaving = true
	}
	for _, c := range open {
		s.left(c)
	}
	s.mu.Unlock()
	for _, c := range open {
		c.drop()
	}
	return len(open)
}

// Sockets tells how many connections are open.
func (s *Server) Sockets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.openSockets())
}
