package discordtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Rates tells whether rate limits are enforced. Their headers are there in either case.
type Rates string

// The choices.
const (
	RatesLenient  Rates = ""
	RatesEnforced Rates = "enforced"
)

// Options of a server. The zero value is a server with fresh ids and everything that mikan needs granted.
type Options struct {
	Listen            string        // default 127.0.0.1:0
	Token             string        // default a fixed one; see Server.Token
	Rates             Rates         // default lenient
	HeartbeatInterval time.Duration // default 41.25 s, as Discord's
	NonceWindow       time.Duration // how long enforce_nonce remembers; default 5 min
	AnswerWithin      time.Duration // how long an interaction may wait for its callback; default 3 s
}

// Server is a Discord of its own with one application.
type Server struct {
	options  Options
	listener net.Listener
	cdn      net.Listener
	servers  []*http.Server

	mu         sync.Mutex
	clock      int64 // last snowflake
	bot        User
	flags      int // of the application
	guilds     map[string]*guild
	guildsDown bool
	channels   map[string]*channel
	users      map[string]*User
	closedDM   map[string]bool // users who take no direct messages
	nonces     map[string]nonce
	files      map[string]file
	asked      map[string]*interaction // by token
	commands   []command
	sessions   map[string]*session
	identified int
	resumed    int
	refusal    int // close code for every identify and resume; 0: none
	muteAcks   bool
	buckets    map[string]*bucket
	faults     []*Fault
	calls      []Call
	violations []string
	last       *dispatched
}

// Token is the default bot token. It has the shape of a real one and opens nothing.
const Token = "MTA5OTk5.GlocaL.discordtest-token-of-no-account"

// Start runs a server until Close.
func Start(o Options) (*Server, error) {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Token == "" {
		o.Token = Token
	}
	if o.HeartbeatInterval == 0 {
		o.HeartbeatInterval = 41_250 * time.Millisecond
	}
	if o.NonceWindow == 0 {
		o.NonceWindow = 5 * time.Minute
	}
	if o.AnswerWithin == 0 {
		o.AnswerWithin = 3 * time.Second
	}
	s := &Server{
		options: o, flags: flagMessageContentLimited, guilds: map[string]*guild{}, channels: map[string]*channel{}, users: map[string]*User{},
		closedDM: map[string]bool{}, nonces: map[string]nonce{}, files: map[string]file{}, asked: map[string]*interaction{},
		sessions: map[string]*session{}, buckets: map[string]*bucket{},
	}
	s.bot = User{ID: s.snowflake(), Username: "mikan", GlobalName: "Mikan", Discriminator: "0", Bot: true}
	s.users[s.bot.ID] = &s.bot
	var err error
	if s.listener, err = net.Listen("tcp", o.Listen); err != nil {
		return nil, err
	}
	if s.cdn, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	s.serve(s.listener, s.routes())
	s.serve(s.cdn, http.HandlerFunc(s.serveFile))
	return s, nil
}

func (s *Server) serve(l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	s.servers = append(s.servers, server)
	go func() { _ = server.Serve(l) }()
}

// New runs a server for one test, which fails when mikan did something that Discord's documentation forbids.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		for _, v := range s.Violations() {
			t.Errorf("Discord would object: %s", v)
		}
	})
	return s
}

// Close ends the server and all connections.
func (s *Server) Close() {
	s.DropConnections()
	for _, server := range s.servers {
		_ = server.Close()
	}
}

// URL is what DISCORD_API_URL is to be set to.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/api/" }

// Token is what DISCORD_BOT_TOKEN is to be set to.
func (s *Server) Token() string { return s.options.Token }

func (s *Server) cdnURL() string { return "http://" + s.cdn.Addr().String() }

// Flags of the application (resources/application#application-object-application-flags).
const (
	flagMessageContent        = 1 << 18
	flagMessageContentLimited = 1 << 19
)

// epoch is Discord's, in milliseconds: 2015-01-01.
const epoch = 1_420_070_400_000

// snowflake makes ids that grow, also within one millisecond.
func (s *Server) snowflake() string { return s.snowflakeAt(time.Now()) }

func (s *Server) snowflakeAt(at time.Time) string {
	id := (at.UnixMilli() - epoch) << 22
	if time.Since(at) < time.Minute {
		id = max(id, s.clock+1)
		s.clock = id
		return strconv.FormatInt(id, 10)
	}
	for taken := true; taken; { // the past is sparse: step until the id is new
		id++
		taken = false
		for _, c := range s.channels {
			for _, m := range c.messages {
				taken = taken || m.ID == strconv.FormatInt(id, 10)
			}
		}
	}
	return strconv.FormatInt(id, 10)
}

func newer(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

// Call is one request that the server got.
type Call struct {
	Method string          `json:"method"`
	Route  string          `json:"route"` // "/channels/{channel}/messages"
	Path   string          `json:"path"`
	Status int             `json:"status"` // 0: the reply was lost
	Body   json.RawMessage `json:"body,omitempty"`
	At     time.Time       `json:"at"`
}

// Calls lists what was called, oldest first. An empty route lists all.
func (s *Server) Calls(method, route string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Call
	for _, c := range s.calls {
		if route == "" || c.Method == method && c.Route == route {
			found = append(found, c)
		}
	}
	return found
}

// Violations lists what no careful client would have done.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.violations...)
}

func (s *Server) violate(format string, args ...any) {
	s.violations = append(s.violations, fmt.Sprintf(format, args...))
}

// Fault goes wrong a number of times. The zero value of a field does nothing.
type Fault struct {
	Method string        `json:"method"`
	Route  string        `json:"route"` // as in Call
	Times  int           `json:"times"`
	After  int           `json:"after"`  // so many calls go well before
	Status int           `json:"status"` // 429 carries RetryAfter, 5xx an HTML page; nothing is applied
	Code   int           `json:"code"`   // Discord's own error code, with a 4xx status
	Lost   Reply         `json:"lost"`
	Delay  time.Duration `json:"delay"` // before anything is done
	// RetryAfter in seconds, for status 429.
	RetryAfter float64 `json:"retry_after"`
	Global     Scope   `json:"global"`
}

// Reply tells what becomes of the reply to a call that was carried out.
type Reply string

// The choices.
const (
	ReplySent      Reply = ""
	ReplyLost      Reply = "lost"      // the connection breaks
	ReplyMalformed Reply = "malformed" // half a JSON text with status 200
)

// Scope of a rate limit.
type Scope string

// The scopes.
const (
	ScopeUser   Scope = ""
	ScopeGlobal Scope = "global"
	ScopeShared Scope = "shared"
)

// Fail puts a fault into the next f.Times calls of a route; 0 means one.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = max(f.Times, 1)
	s.faults = append(s.faults, &f)
}

// Mend ends all faults.
func (s *Server) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// EnforceRates refuses calls beyond the rates from now on.
func (s *Server) EnforceRates() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Rates = RatesEnforced
}

func (s *Server) fault(method, route string) Fault {
	for _, f := range s.faults {
		if f.Times > 0 && f.Method == method && f.Route == route {
			if f.After > 0 {
				f.After--
				return Fault{}
			}
			f.Times--
			return *f
		}
	}
	return Fault{}
}

// Revoke makes the token worthless: REST answers 401, the gateway closes with 4004.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Token = "revoked"
	s.refusal = closeAuthentication
}

// WithoutMessageContent switches the privileged intent off, as in the developer portal.
func (s *Server) WithoutMessageContent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flags = 0
}

// GuildsDown begins or ends an outage in which sessions that begin hear nothing of their guilds but that they are
// unavailable.
func (s *Server) GuildsDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guildsDown = down
}

func (s *Server) authorised(r *http.Request) bool {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bot ") == s.options.Token && strings.HasPrefix(r.Header.Get("Authorization"), "Bot ")
}

// await polls the server's state: for tests that wait for something that a person would see.
func (s *Server) await(ctx context.Context, holds func() bool) bool {
	for {
		s.mu.Lock()
		ok := holds()
		s.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
}
