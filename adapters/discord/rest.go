package discord

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/store"
)

// client calls Discord's REST API.
type client struct {
	session *discordgo.Session
	limiter *rate.Limiter
}

// call is one request.
type call struct {
	what   string // names it in errors, limits and fail points
	method string
	path   string // below the API's version
	major  string // the channel, guild or webhook that Discord counts it for
	body   any    // JSON; nil: none
	form   *form  // instead of body
	limit  rate.Limit
	urgent rate.Priority
}

type form struct {
	contentType string
	body        []byte
}

// Discord documents no numbers: these were seen in its headers, and its headers decide. They keep mikan's processes
// together, and progress behind final messages. Each is for one channel.
var (
	writes    = rate.Limit{PerMinute: 60, Burst: 5, Reserve: 2}
	deletions = rate.Limit{PerMinute: 300, Burst: 5}
	reactions = rate.Limit{PerMinute: 240, Burst: 1}
	// everything is documented: 50 requests a second for a bot.
	everything = rate.Limit{PerMinute: 50 * 60, Burst: 50, Reserve: 10}
)

const requestWithin = 20 * time.Second

func newClient(c config.DiscordConfig, s *store.Store) (*client, error) {
	session, err := newSession(c)
	if err != nil {
		return nil, err
	}
	return &client{session: session, limiter: &rate.Limiter{Store: s, Installation: tokenName(c.BotToken.Reveal())}}, nil
}

// newSession is the library's client with the transport that reaches the configured API.
func newSession(c config.DiscordConfig) (*discordgo.Session, error) {
	session, err := discordgo.New("Bot " + c.BotToken.Reveal())
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the Discord client cannot be made")
	}
	base, err := apiBase(c.APIURL)
	if err != nil {
		return nil, err
	}
	session.Client = &http.Client{Timeout: requestWithin, Transport: &transport{base: base, next: http.DefaultTransport}}
	session.UserAgent = "DiscordBot (https://github.com/geminixiang/mikan, 1)"
	session.StateEnabled = false
	session.LogLevel = -1 // its log lines hold payloads
	return session, nil
}

// apiBase is where the versioned API begins: https://host/api/ and https://host both become https://host/api/v9/, and
// a version that is given stays. Empty means Discord's own.
func apiBase(configured string) (*url.URL, error) {
	if configured == "" {
		return nil, nil
	}
	u, err := url.Parse(configured)
	if err != nil || u.Host == "" {
		return nil, fault.New(fault.Invalid, "DISCORD_API_URL is no URL.")
	}
	path := strings.Trim(u.Path, "/")
	if path == "" {
		path = "api"
	}
	if last := path[strings.LastIndex(path, "/")+1:]; !isVersion(last) {
		path += "/v" + discordgo.APIVersion
	}
	u.Path, u.RawPath, u.RawQuery = "/"+path+"/", "", ""
	return u, nil
}

func isVersion(s string) bool {
	number, found := strings.CutPrefix(s, "v")
	_, err := strconv.Atoi(number)
	return found && err == nil
}

// exchange keeps what the library drops of a response.
type exchange struct {
	status int
	header http.Header
}

type exchangeKey struct{}

// transport sends the library's requests to the configured API.
type transport struct {
	base *url.URL // nil: Discord's own
	next http.RoundTripper
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	own, _ := url.Parse(discordgo.EndpointAPI)
	if rest, ours := strings.CutPrefix(r.URL.EscapedPath(), own.EscapedPath()); ours && t.base != nil && r.URL.Host == own.Host {
		to, err := t.base.Parse(rest)
		if err != nil {
			return nil, err
		}
		to.RawQuery = r.URL.RawQuery
		r = r.Clone(r.Context())
		r.URL, r.Host = to, to.Host
	}
	resp, err := t.next.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusNotFound && strings.HasSuffix(r.URL.Path, "/gateway") {
		// The library asks where anybody may; some servers tell bots only.
		_ = resp.Body.Close()
		again := r.Clone(r.Context())
		again.URL = r.URL.JoinPath("bot")
		resp, err = t.next.RoundTrip(again)
	}
	if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok && err == nil {
		x.status, x.header = resp.StatusCode, resp.Header
	}
	return resp, err
}

// do makes one attempt at a call and decodes what it returns into result, unless that is nil. It waits for limits as
// long as ctx lives. Errors have the codes of adapters.Outbound and name neither URL nor token.
func (c *client) do(ctx context.Context, r call, result any) error {
	_, err := c.exchange(ctx, r, result)
	return err
}

func (c *client) exchange(ctx context.Context, r call, result any) (exchange, error) {
	var x exchange
	if err := c.admit(ctx, r); err != nil {
		return x, err
	}
	body, contentType, err := r.encode()
	if err != nil {
		return x, err
	}
	bucket, err := c.bucket(ctx, r)
	if err != nil {
		return x, err
	}
	failpoint.Hit("discord." + r.what + ".before")
	reply, err := c.session.RequestWithLockedBucket(r.method, discordgo.EndpointAPI+r.path, contentType, body, bucket, 0,
		discordgo.WithContext(context.WithValue(ctx, exchangeKey{}, &x)),
		discordgo.WithRetryOnRatelimit(false), discordgo.WithRestRetries(0))
	failpoint.Hit("discord." + r.what + ".after")
	c.heed(ctx, r, x, err)
	if err != nil {
		return x, refusal(ctx, r.what, x, err)
	}
	if result == nil {
		return x, nil
	}
	if json.Unmarshal(reply, result) != nil {
		return x, fault.New(fault.Unavailable, "Discord's reply to %s cannot be read", r.what)
	}
	return x, nil
}

func (r call) encode() ([]byte, string, error) {
	switch {
	case r.form != nil:
		return r.form.body, r.form.contentType, nil
	case r.body == nil:
		return nil, "", nil
	}
	raw, err := json.Marshal(r.body)
	if err != nil {
		return nil, "", fault.Wrap(fault.Internal, err, "the parameters of %s cannot be encoded", r.what)
	}
	return raw, "application/json", nil
}

// admit spends the limits that all processes share. Calls without a limit of their own are read-only.
func (c *client) admit(ctx context.Context, r call) error {
	if r.limit == (rate.Limit{}) {
		return nil
	}
	if err := c.limiter.Take(ctx, "everything", everything, r.urgent); err != nil {
		return err
	}
	return c.limiter.Take(ctx, r.what+"/"+r.major, r.limit, r.urgent)
}

// bucket locks the library's bucket when it has something left. The library itself would sleep for as long as Discord
// asked, whatever ctx says.
func (c *client) bucket(ctx context.Context, r call) (*discordgo.Bucket, error) {
	b := c.session.Ratelimiter.GetBucket(r.what + "/" + r.major)
	for {
		b.Lock()
		wait := c.session.Ratelimiter.GetWaitTime(b, 1)
		if wait <= 0 {
			b.Remaining--
			return b, nil
		}
		b.Unlock()
		deadline, ok := ctx.Deadline()
		if r.urgent == rate.Progress || ok && time.Until(deadline) < wait {
			return nil, fault.New(fault.RateLimited, "Discord's limit of %s is used up", r.what).After(wait)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// heed tells the other processes what Discord said about its limits.
func (c *client) heed(ctx context.Context, r call, x exchange, err error) {
	wait := retryAfter(x, err)
	name := r.what + "/" + r.major
	switch {
	case x.status == http.StatusTooManyRequests && x.header.Get("X-RateLimit-Global") != "":
		name = "everything"
	case x.status == http.StatusTooManyRequests:
	case x.header.Get("X-RateLimit-Remaining") == "0" && r.limit != (rate.Limit{}):
		wait = seconds(x.header.Get("X-RateLimit-Reset-After"))
	default:
		return
	}
	if wait > 0 {
		_ = c.limiter.Obey(context.WithoutCancel(ctx), name, wait) // the others find out by a 429 of their own
	}
}

func seconds(text string) time.Duration {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 {
		return 0
	}
	return time.Duration(f * float64(time.Second))
}

// retryAfter is how long a 429 asks to wait: by its body, else by its header, else a moment.
func retryAfter(x exchange, err error) time.Duration {
	var limited *discordgo.RateLimitError
	if errors.As(err, &limited) && limited.RetryAfter > 0 {
		return limited.RetryAfter
	}
	if after := seconds(x.header.Get("Retry-After")); after > 0 {
		return after
	}
	return time.Second
}

// The error codes that mean something here:
// https://discord.com/developers/docs/topics/opcodes-and-status-codes#json.
const (
	codeUnknownChannel     = 10003
	codeUnknownGuild       = 10004
	codeUnknownMember      = 10007
	codeUnknownMessage     = 10008
	codeUnknownUser        = 10013
	codeUnknownWebhook     = 10015
	codeUnknownInteraction = 10062
	codeTooLarge           = 40005
	codeAcknowledged       = 40060
	codeInvalidToken       = 50027
	codeInvalidForm        = 50035
	codeOldEdits           = 30046 // too many edits of a message older than an hour
	codeNoReply            = 160002
)

// refused is what Discord itself said about a call; errors.As finds it below the fault.
type refused struct {
	status, code int
	text         string
}

func (r *refused) Error() string { return r.text + " (" + strconv.Itoa(r.code) + ")" }

// saidNo tells whether Discord refused a call with one of its error codes.
func saidNo(err error, codes ...int) bool {
	var r *refused
	if !errors.As(err, &r) {
		return false
	}
	for _, code := range codes {
		if r.code == code {
			return true
		}
	}
	return false
}

func refusal(ctx context.Context, what string, x exchange, err error) error {
	var rest *discordgo.RESTError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case x.status == http.StatusTooManyRequests:
		return fault.New(fault.RateLimited, "Discord limits %s", what).After(retryAfter(x, err))
	case x.status == http.StatusUnauthorized && !isWebhookToken(err):
		return fault.New(fault.Forbidden, "Discord refuses the token; set DISCORD_BOT_TOKEN to the bot's current one")
	case x.status >= 500 || x.status == 0 || x.status < 400 || !errors.As(err, &rest):
		return fault.New(fault.Unavailable, "Discord could not be asked for %s (status %d)", what, x.status)
	}
	r := &refused{status: x.status}
	if rest.Message != nil {
		r.code, r.text = rest.Message.Code, rest.Message.Message
	}
	switch {
	case r.code == codeOldEdits:
		return fault.Wrap(fault.RateLimited, r, "Discord limits %s", what).After(time.Minute)
	case r.code == codeTooLarge, x.status == http.StatusRequestEntityTooLarge, r.code == codeInvalidForm && strings.Contains(string(rest.ResponseBody), "MAX_LENGTH"):
		return fault.Wrap(fault.TooLarge, r, "Discord refused %s", what)
	case x.status == http.StatusNotFound, r.code == codeInvalidToken:
		return fault.Wrap(fault.NotFound, r, "Discord does not know what %s is about", what)
	case x.status == http.StatusForbidden:
		return fault.Wrap(fault.Forbidden, r, "Discord does not allow %s", what)
	}
	return fault.Wrap(fault.Invalid, r, "Discord refused %s", what)
}

func isWebhookToken(err error) bool {
	var rest *discordgo.RESTError
	return errors.As(err, &rest) && rest.Message != nil && rest.Message.Code == codeInvalidToken
}

// redirected tells whether the API is another than Discord's own.
func (c *client) redirected() bool {
	t, ok := c.session.Client.Transport.(*transport)
	return ok && t.base != nil
}

// url is the API that calls go to, for another client; empty: Discord's own.
func (c *client) url() string {
	if t, ok := c.session.Client.Transport.(*transport); ok && t.base != nil {
		return t.base.String()
	}
	return ""
}
