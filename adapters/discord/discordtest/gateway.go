package discordtest

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Opcodes (topics/opcodes-and-status-codes#gateway-gateway-opcodes).
const (
	opDispatch       = 0
	opHeartbeat      = 1
	opIdentify       = 2
	opPresence       = 3
	opVoiceState     = 4
	opResume         = 6
	opReconnect      = 7
	opRequestMembers = 8
	opInvalidSession = 9
	opHello          = 10
	opHeartbeatAck   = 11
)

// Close codes (topics/opcodes-and-status-codes#gateway-gateway-close-event-codes).
const (
	closeUnknownOpcode     = 4001
	closeDecode            = 4002
	closeNotAuthenticated  = 4003
	closeAuthentication    = 4004
	closeAlreadyAuthorised = 4005
	closeInvalidSequence   = 4007
	closeRateLimited       = 4008
	closeInvalidVersion    = 4012
	closeInvalidIntents    = 4013
	closeDisallowedIntents = 4014
)

// Intents (topics/gateway#list-of-intents).
const (
	intentGuilds         = 1 << 0
	intentGuildMembers   = 1 << 1
	intentPresences      = 1 << 8
	intentGuildMessages  = 1 << 9
	intentDirectMessages = 1 << 12
	intentMessageContent = 1 << 15
	intentsAll           = 1<<26 - 1
)

// audience is the intent that an event needs; 0: every session gets it.
type audience int

const forGuilds audience = intentGuilds

func forMessages(c *channel) audience {
	if c.kind == typeDM {
		return intentDirectMessages
	}
	return intentGuildMessages
}

type dispatched struct {
	name    string
	payload json.RawMessage
	needs   audience
}

type event struct {
	seq  int
	name string
	data json.RawMessage
}

// session outlives its connections until it is invalidated.
type session struct {
	id      string
	intents int
	events  []event // everything since its start, for resume
	conn    *connection
}

type connection struct {
	socket     *websocket.Conn
	write      sync.Mutex
	compressed bool
	session    *session
	sent       int // events of the session that this connection has been given
	wake       chan struct{}
	closed     chan struct{}
	once       sync.Once
}

type packet struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  *int            `json:"s"`
	Name *string         `json:"t"`
}

func (c *connection) send(op int, data any, seq int, name string) {
	raw, _ := json.Marshal(data)
	p := packet{Op: op, Data: raw}
	if op == opDispatch {
		p.Seq, p.Name = &seq, &name
	}
	text, _ := json.Marshal(p)
	c.write.Lock()
	defer c.write.Unlock()
	_ = c.socket.SetWriteDeadline(time.Now().Add(5 * time.Second))
	if !c.compressed || op != opDispatch {
		_ = c.socket.WriteMessage(websocket.TextMessage, text)
		return
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = z.Write(text)
	_ = z.Close()
	_ = c.socket.WriteMessage(websocket.BinaryMessage, packed.Bytes())
}

func (c *connection) close(code int, reason string) {
	c.once.Do(func() {
		if code != 0 {
			c.write.Lock()
			_ = c.socket.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(time.Second))
			c.write.Unlock()
		}
		close(c.closed)
		_ = c.socket.Close()
	})
}

// deliver sends what the session has and the connection has not.
func (s *Server) deliver(c *connection) {
	for {
		s.mu.Lock()
		var next *event
		if c.session != nil && c.session.conn == c && c.sent < len(c.session.events) {
			next = &c.session.events[c.sent]
			c.sent++
		}
		s.mu.Unlock()
		if next != nil {
			c.send(opDispatch, next.data, next.seq, next.name)
			continue
		}
		select {
		case <-c.wake:
		case <-c.closed:
			return
		}
	}
}

func (c *connection) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// dispatch gives an event to every session that has the intent for it. The caller holds s.mu.
func (s *Server) dispatch(name string, data any, needs audience) {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	s.last = &dispatched{name: name, payload: raw, needs: needs}
	for _, to := range s.sessions {
		s.give(to, *s.last)
	}
}

func (s *Server) give(to *session, d dispatched) {
	if to.intents&int(d.needs) != int(d.needs) {
		return
	}
	to.events = append(to.events, event{seq: len(to.events) + 1, name: d.name, data: s.withheld(to, d)})
	if to.conn != nil {
		to.conn.nudge()
	}
}

// withheld takes out of a message what a session without the message content intent does not get: everything but what
// the bot wrote, was sent directly, or is mentioned in.
func (s *Server) withheld(to *session, d dispatched) json.RawMessage {
	if !strings.HasPrefix(d.name, "MESSAGE_") || to.intents&intentMessageContent != 0 || d.needs == intentDirectMessages {
		return d.payload
	}
	var m map[string]any
	_ = json.Unmarshal(d.payload, &m)
	if _, written := m["content"]; !written {
		return d.payload
	}
	author, _ := m["author"].(map[string]any)
	mentions, _ := m["mentions"].([]any)
	for _, u := range append(mentions, author) {
		if user, ok := u.(map[string]any); ok && user["id"] == s.bot.ID {
			return d.payload
		}
	}
	m["content"], m["attachments"], m["embeds"], m["components"] = "", []any{}, []any{}, []any{}
	raw, _ := json.Marshal(m)
	return raw
}

var upgrader = websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}

func (s *Server) gateway(w http.ResponseWriter, r *http.Request) {
	socket, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &connection{socket: socket, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	defer c.close(0, "")
	if v := r.URL.Query().Get("v"); v != "9" && v != "10" || r.URL.Query().Get("encoding") != "json" {
		s.mu.Lock()
		s.violate("a gateway connection asked for %s", r.URL.RawQuery)
		s.mu.Unlock()
		c.close(closeInvalidVersion, "Invalid API version.")
		return
	}
	c.send(opHello, map[string]any{"heartbeat_interval": s.options.HeartbeatInterval.Milliseconds()}, 0, "")
	go s.deliver(c)
	s.listen(c)
}

func (s *Server) listen(c *connection) {
	started, packets := time.Now(), 0
	for {
		// Discord ends a connection that misses its heartbeats.
		_ = c.socket.SetReadDeadline(time.Now().Add(2 * s.options.HeartbeatInterval))
		_, text, err := c.socket.ReadMessage()
		if err != nil {
			s.gone(c, err)
			return
		}
		if packets++; packets > 120 && time.Since(started) < time.Minute {
			c.close(closeRateLimited, "Rate limited.")
			return
		}
		var p packet
		if len(text) > 4096 || json.Unmarshal(text, &p) != nil {
			s.mu.Lock()
			s.violate("a gateway packet of %d bytes could not be read", len(text))
			s.mu.Unlock()
			c.close(closeDecode, "Error while decoding payload.")
			return
		}
		if code, reason := s.take(c, p); code != 0 {
			c.close(code, reason)
			s.gone(c, nil)
			return
		}
	}
}

// gone keeps the session for a resume, unless the client closed with 1000 or 1001.
func (s *Server) gone(c *connection, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.session == nil || c.session.conn != c {
		return
	}
	c.session.conn = nil
	if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway) {
		delete(s.sessions, c.session.id)
	}
}

func (s *Server) take(c *connection, p packet) (code int, reason string) {
	switch p.Op {
	case opHeartbeat:
		s.mu.Lock()
		mute := s.muteAcks
		s.mu.Unlock()
		if !mute {
			c.send(opHeartbeatAck, nil, 0, "")
		}
		return 0, ""
	case opIdentify:
		return s.identify(c, p.Data)
	case opResume:
		return s.resume(c, p.Data)
	case opPresence, opVoiceState, opRequestMembers:
		if c.session == nil {
			return closeNotAuthenticated, "Not authenticated."
		}
		return 0, ""
	}
	s.mu.Lock()
	s.violate("gateway opcode %d is not for clients to send", p.Op)
	s.mu.Unlock()
	return closeUnknownOpcode, "Unknown opcode."
}

func (s *Server) identify(c *connection, data json.RawMessage) (int, string) {
	var d struct {
		Token      string            `json:"token"`
		Properties map[string]string `json:"properties"`
		Compress   bool              `json:"compress"`
		Intents    *int              `json:"intents"`
	}
	if json.Unmarshal(data, &d) != nil || d.Properties["os"] == "" && d.Properties["$os"] == "" {
		return closeDecode, "Error while decoding payload."
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.identified++
	privileged := 0
	if d.Intents != nil && s.flags&(flagMessageContent|flagMessageContentLimited) == 0 {
		privileged = *d.Intents & intentMessageContent
	}
	switch {
	case s.refusal != 0:
		return s.refusal, "Refused."
	case strings.TrimPrefix(d.Token, "Bot ") != s.options.Token:
		return closeAuthentication, "Authentication failed."
	case c.session != nil:
		return closeAlreadyAuthorised, "Already authenticated."
	case d.Intents == nil || *d.Intents&^intentsAll != 0:
		return closeInvalidIntents, "Invalid intent(s)."
	case privileged != 0 || *d.Intents&(intentGuildMembers|intentPresences) != 0:
		return closeDisallowedIntents, "Disallowed intent(s)."
	}
	c.compressed = d.Compress
	n := &session{id: "s" + s.snowflake(), intents: *d.Intents, conn: c}
	s.sessions[n.id], c.session = n, n
	unavailable := []any{}
	for _, id := range sortedKeys(s.guilds) {
		unavailable = append(unavailable, map[string]any{"id": id, "unavailable": true})
	}
	ready, _ := json.Marshal(map[string]any{
		"v": 9, "user": s.bot, "guilds": unavailable, "session_id": n.id, "resume_gateway_url": s.gatewayURL(),
		"private_channels": []any{}, "application": map[string]any{"id": s.bot.ID, "flags": s.flags}, "shard": []int{0, 1},
	})
	s.give(n, dispatched{name: "READY", payload: ready})
	if s.guildsDown {
		return 0, ""
	}
	for _, id := range sortedKeys(s.guilds) {
		g, _ := json.Marshal(s.guildEvent(s.guilds[id]))
		s.give(n, dispatched{name: "GUILD_CREATE", payload: g, needs: forGuilds})
	}
	return 0, ""
}

func (s *Server) resume(c *connection, data json.RawMessage) (int, string) {
	var d struct {
		Token     string `json:"token"`
		SessionID string `json:"session_id"`
		Seq       int    `json:"seq"`
	}
	if json.Unmarshal(data, &d) != nil {
		return closeDecode, "Error while decoding payload."
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.sessions[d.SessionID]
	switch {
	case s.refusal != 0:
		return s.refusal, "Refused."
	case strings.TrimPrefix(d.Token, "Bot ") != s.options.Token:
		return closeAuthentication, "Authentication failed."
	case known == nil:
		go c.send(opInvalidSession, false, 0, "")
		return 0, ""
	case d.Seq > len(known.events):
		return closeInvalidSequence, "Invalid seq."
	}
	if known.conn != nil {
		known.conn.close(0, "")
	}
	s.resumed++
	known.conn, c.session, c.sent = c, known, d.Seq
	known.events = append(known.events, event{seq: len(known.events) + 1, name: "RESUMED", data: json.RawMessage(`{}`)})
	c.nudge()
	return 0, ""
}

func (s *Server) gatewayURL() string { return "ws://" + s.listener.Addr().String() + "/gateway" }
