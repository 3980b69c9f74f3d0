package discord

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/rate"
)

// inbound receives over the gateway: https://discord.com/developers/docs/topics/gateway.
type inbound struct {
	*Adapter
	gateway  adapters.Gateway
	settings config.DiscordConfig
}

// Inbound makes the receiving side. Nothing is mounted: Discord needs no webhook.
func (a *Adapter) Inbound(g adapters.Gateway) adapters.Inbound {
	return &inbound{Adapter: a, gateway: g, settings: config.DiscordConfig{BotToken: config.Secret(a.token), APIURL: a.api.url()}}
}

const (
	// leaseLasts is how long no process listens after the one that did has died.
	leaseLasts = 12 * time.Second
	// silence is how long a connection may say nothing. Discord wants a heartbeat every 41.25 s and acknowledges it.
	silence = 100 * time.Second
	// slowest is the longest pause between two attempts to connect.
	slowest = time.Minute
)

// Run keeps one connection for the token, whatever the number of processes: the one that holds the lease has it, the
// others wait.
func (in *inbound) Run(ctx context.Context) error {
	self, err := in.introduce(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	in.gateway.Ready(nil) // whoever holds the lease tells how its connection is
	lease := rate.Lease{Store: in.services.Store, Name: tokenName(in.token) + "/gateway", Holder: in.services.Process, Lasts: leaseLasts}
	err = lease.Hold(ctx, func(ctx context.Context) error { return in.hold(ctx, self) })
	if err != nil && ctx.Err() == nil {
		in.gateway.Ready(err)
		return err
	}
	return nil
}

// introduce asks who the token belongs to, until Discord answers.
func (in *inbound) introduce(ctx context.Context) (string, error) {
	for pause := time.Second; ; pause = min(2*pause, slowest) {
		self, err := in.me(ctx)
		switch {
		case err == nil:
			return self.ID, nil
		case ctx.Err() != nil:
			return "", nil
		}
		in.gateway.Ready(err)
		if !fault.Retryable(fault.CodeOf(err)) {
			return "", err
		}
		if !sleep(ctx, max(pause, fault.RetryAfter(err))) {
			return "", nil
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// connection is what is held while this process has the lease.
type connection struct {
	*inbound
	self    string
	session *discordgo.Session
	lanes   *lanes
	gaps    *gaps
	lost    chan struct{}          // the library has ended a connection
	conn    atomic.Pointer[socket] // the newest
	ready   atomic.Bool            // since it was opened, the connection has begun or resumed its session
	guilds  awaited
	// offering has the commands registered once, when Discord has told for which application.
	offering sync.Once
}

// hold connects, and connects again, until ctx ends or the token is refused.
func (in *inbound) hold(ctx context.Context, self string) error {
	work, stop := context.WithCancel(ctx)
	c := &connection{inbound: in, self: self, lanes: newLanes(), gaps: newGaps(), lost: make(chan struct{}, 1)}
	// Another process may listen as soon as the lease is given back: what is under way here ends before.
	defer c.lanes.wait()
	defer stop()
	var err error
	if c.session, err = newSession(in.settings); err != nil {
		return err
	}
	c.session.Identify.Intents = intents
	c.session.ShouldReconnectOnError, c.session.ShouldRetryOnRateLimit = false, false
	c.session.SyncEvents = true // in order; what takes time happens in the lanes
	c.session.Dialer = &websocket.Dialer{Proxy: http.ProxyFromEnvironment, HandshakeTimeout: requestWithin, NetDialContext: c.dial(work)}
	c.session.AddHandler(func(_ *discordgo.Session, e *discordgo.Event) { c.take(work, e) })
	c.session.AddHandler(func(*discordgo.Session, *discordgo.Disconnect) { c.hangUp() })
	return c.stay(work)
}

func (c *connection) hangUp() {
	select {
	case c.lost <- struct{}{}:
	default:
	}
}

func (c *connection) stay(ctx context.Context) error {
	pause := time.Second
	for {
		c.ready.Store(false)
		failpoint.Hit("discord.gateway.before")
		err := c.session.Open()
		failpoint.Hit("discord.gateway.after")
		switch {
		case ctx.Err() != nil:
			_ = c.session.Close()
			return nil
		case err == nil:
			select {
			case <-c.lost:
			case <-ctx.Done():
				_ = c.session.Close()
				return nil
			}
			if c.ready.Load() {
				pause = time.Second
			}
			err = fault.New(fault.Unavailable, "the connection to Discord is lost")
		case !errors.Is(err, discordgo.ErrWSAlreadyOpen):
			if final := ending(err); final != nil {
				return final
			}
			err = fault.New(fault.Unavailable, "Discord's gateway cannot be reached")
		}
		c.gateway.Ready(err)
		c.log.Warn("the Discord gateway is connected again", "reason", err, "after", pause)
		if !sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, slowest)
		for len(c.lost) > 0 {
			<-c.lost
		}
	}
}

// ending tells what the operator must mend when Discord closes for good:
// https://discord.com/developers/docs/topics/opcodes-and-status-codes#gateway-gateway-close-event-codes.
func ending(err error) error {
	var closed *websocket.CloseError
	var rest *discordgo.RESTError
	switch {
	case errors.As(err, &rest) && rest.Response != nil && rest.Response.StatusCode == http.StatusUnauthorized:
		return fault.New(fault.Forbidden, "Discord refuses the token; set DISCORD_BOT_TOKEN to the bot's current one")
	case !errors.As(err, &closed):
		return nil
	}
	switch closed.Code {
	case 4004:
		return fault.New(fault.Forbidden, "Discord refuses the token (4004); set DISCORD_BOT_TOKEN to the bot's current one")
	case 4010, 4011:
		return fault.New(fault.Forbidden, "Discord demands sharding (%d): the bot is in more guilds than one connection serves", closed.Code)
	case 4012:
		return fault.New(fault.Invalid, "Discord no longer speaks this gateway version (4012); update mikan")
	case 4013:
		return fault.New(fault.Invalid, "Discord does not know the intents that mikan asks for (4013); update mikan")
	case 4014:
		return fault.New(fault.Forbidden, "Discord withholds the content of messages (4014): switch the Message Content Intent on, "+
			"at discord.com/developers/applications under Bot")
	}
	return nil
}

// socket ends a connection on which nothing comes any more, and can be ended from outside while the library waits.
type socket struct{ net.Conn }

func (s *socket) Read(b []byte) (int, error) {
	if err := s.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return s.Conn.Read(b)
}

// dial connects; the connection breaks when ctx, the lease's, ends.
func (c *connection) dial(ctx context.Context) func(context.Context, string, string) (net.Conn, error) {
	return func(dialing context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		conn, err := d.DialContext(dialing, network, address)
		if err != nil {
			return nil, err
		}
		s := &socket{conn}
		c.conn.Store(s)
		context.AfterFunc(ctx, func() {
			// The library says goodbye first, where it can.
			time.AfterFunc(2*time.Second, func() { _ = s.Close() })
		})
		return s, nil
	}
}

// awaited counts the guilds that a session was promised.
type awaited struct {
	mu   sync.Mutex
	left map[string]bool
	all  chan struct{}
}

func (w *awaited) expect(ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.all = map[string]bool{}, make(chan struct{})
	for _, id := range ids {
		w.left[id] = true
	}
	if len(ids) == 0 {
		close(w.all)
	}
}

func (w *awaited) came(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left[id] {
		delete(w.left, id)
		if len(w.left) == 0 {
			close(w.all)
		}
	}
}

func (w *awaited) done() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}
