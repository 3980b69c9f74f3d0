package slacktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// RateMode tells what happens beyond a documented rate.
type RateMode string

// The modes.
const (
	RatesWatched  RateMode = ""         // the call is served, a Violation is kept
	RatesEnforced RateMode = "enforced" // 429 with Retry-After, and a Violation
	RatesOff      RateMode = "off"
)

// FilesHost tells where files are downloaded from and uploaded to.
type FilesHost string

// The choices. The SDK sends its token to the API's own host and to Slack's https hosts only.
const (
	FilesWithAPI FilesHost = ""      // at the address of the API
	FilesApart   FilesHost = "apart" // at an address of their own, as files.slack.com is
)

// HistoryAccess tells how much of conversations an app may read.
type HistoryAccess string

// The choices. https://docs.slack.dev/changelog/2025/05/29/rate-limit-changes-for-non-marketplace-apps
const (
	HistoryFull   HistoryAccess = ""       // internal apps and those of the Marketplace
	HistoryScarce HistoryAccess = "scarce" // other distributed apps: one call a minute, 15 messages a call
)

// SocketRule tells how many sockets an app may hold.
type SocketRule string

// The rules.
const (
	TenSockets SocketRule = ""    // as Slack has it
	OneSocket  SocketRule = "one" // the next one ends it
)

// Options are how a server differs from Slack's documented behaviour. The zero value is Slack, as far as modelled.
type Options struct {
	Addr  string // host:port to listen on; empty: a free port of 127.0.0.1
	Files FilesHost

	History HistoryAccess

	Rates RateMode
	// RateScale makes the minutes of rates shorter: 60 turns a minute into a second. 0 is 1.
	RateScale float64

	// AckTimeout is how long an event may stay unacknowledged before it is sent again. 0: Slack's 3 s.
	AckTimeout time.Duration
	// RetryDelays are the waits before each repetition. nil: Slack's "nearly at once, one minute, five minutes".
	RetryDelays []time.Duration
	// Sockets is how many an app may hold.
	Sockets SocketRule
	// PingInterval is the time between pings on a socket. 0: 10 s.
	PingInterval time.Duration
	// StreamLifetime ends streams that are still open. 0: 5 minutes, which Slack does not document.
	StreamLifetime time.Duration
	// StatusLifetime ends an assistant status. 0: Slack's two minutes.
	StatusLifetime time.Duration
	// EditWindow refuses edits of older messages, as a workspace may set. 0: no limit.
	EditWindow time.Duration
	// ClockOffset sets this server's clock apart from the machine's. Advance moves it on.
	ClockOffset time.Duration
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.RateScale == 0 {
		o.RateScale = 1
	}
	if o.RetryDelays == nil {
		o.RetryDelays = []time.Duration{0, time.Minute, 5 * time.Minute}
	}
	set(&o.AckTimeout, 3*time.Second)
	set(&o.PingInterval, 10*time.Second)
	set(&o.StreamLifetime, 5*time.Minute)
	set(&o.StatusLifetime, 2*time.Minute)
	return o
}

// Server is one Slack with one app, which is installed in one or more workspaces.
type Server struct {
	opts    Options
	hosts   []*http.Server
	url     string
	files   string
	foreign string
	mux     *http.ServeMux

	mu     sync.Mutex // guards all below
	offset time.Duration
	closed bool

	app      App
	ids      int
	teams    []*Team
	users    []*User
	channels []*Channel
	groups   []*UserGroup
	uploads  []*File
	views    map[string]*HomeView
	statuses map[place]*Status
	threads  map[place]*AssistantThread

	faults     []*Fault
	calls      []Call
	violations []Violation
	rates      map[string][]time.Time
	deliveries []*delivery
	holding    bool
	sockets    []*socket
	tickets    map[string]bool
	envelopes  map[string]bool // ever sent on any socket
	nextSocket int
	changes    chan struct{} // closed and replaced at each change
	turn       int
	downloads  int
	endpoints  Endpoints
	responses  map[string]*responseURL
}

// Start listens on loopback and serves until Close. The first workspace exists, with the app installed.
func Start(o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{
		opts: o, offset: o.ClockOffset,
		app:   App{ID: "A0000000001", Name: "mikan", AppToken: "xapp-1-A0000000001-1-slacktest", SigningSecret: "8f742231b10e8888abcd99yyyzzz85a5", Scopes: BotScopes(), Events: BotEvents()},
		views: map[string]*HomeView{}, statuses: map[place]*Status{}, threads: map[place]*AssistantThread{},
		changes: make(chan struct{}), rates: map[string][]time.Time{}, tickets: map[string]bool{}, envelopes: map[string]bool{}, responses: map[string]*responseURL{},
	}
	s.mux = s.routes()
	var err error
	if s.url, err = s.listen(o.Addr, "127.0.0.1", s); err != nil {
		return nil, err
	}
	s.files = s.url
	if o.Files == FilesApart {
		if s.files, err = s.listen("127.0.0.1:0", "127.0.0.1", s.fileRoutes()); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	// Another name of the same machine, since a client may keep its Authorization header on a redirect between
	// ports of one host.
	if s.foreign, err = s.listen("127.0.0.1:0", "localhost", http.HandlerFunc(s.serveForeign)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if _, err := s.CreateTeam(NewTeam{Name: "Test", Installed: true}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) listen(addr, name string, h http.Handler) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("slacktest: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", fmt.Errorf("slacktest: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	s.hosts = append(s.hosts, srv)
	go func() { _ = srv.Serve(l) }()
	return "http://" + net.JoinHostPort(name, port), nil
}

// URL is the server's address. The SDK's OptionAPIURL takes APIURL.
func (s *Server) URL() string { return s.url }

// APIURL is the address of the Web API, with the slash at its end that the SDK wants.
func (s *Server) APIURL() string { return s.url + "/api/" }

// FilesURL is the address of the host of files.
func (s *Server) FilesURL() string { return s.files }

// ForeignURL is the address of a host that is not Slack's: a token that arrives there is a Violation.
func (s *Server) ForeignURL() string { return s.foreign }

// ServeHTTP serves the API's host: /api/, /link/ (sockets), /response/, /control/ and, unless apart, files.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close ends every connection.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	sockets := append([]*socket(nil), s.sockets...)
	s.mu.Unlock()
	for _, c := range sockets {
		c.drop()
	}
	var errs []error
	for _, h := range s.hosts {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // what still runs is cut off
		if err := h.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
		}
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}

func (s *Server) routes() *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("/api/{method}", s.serveMethod)
	m.HandleFunc("/link/", s.serveSocket)
	m.HandleFunc("/response/{id}", s.serveResponse)
	m.HandleFunc("/control/{op}", s.serveControl)
	if s.opts.Files == FilesWithAPI {
		m.Handle("/", s.fileRoutes())
	}
	return m
}

func (s *Server) now() time.Time { return time.Now().Add(s.offset) }

// Now is the server's time.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// Advance moves the server's clock on. Time never runs backwards.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += max(d, 0)
}
