// Package discord is Discord: messages come in over one gateway connection, answers go out by REST.
//
// The library is github.com/bwmarrin/discordgo: its gateway (heartbeats, compression, resume) and its REST client with
// the rate limits that Discord's headers tell. Three of its habits are kept out: it reconnects for ever whatever a
// connection was closed for, so reconnecting is done here; its endpoints are package variables, so a redirected API is
// reached by the transport of each client; and its message structures lack the nonce, so payloads are this package's own.
package discord

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/bwmarrin/discordgo"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/markdown"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/store"
)

// Adapter is one Discord application's bot.
type Adapter struct {
	token    string
	services adapters.Services
	log      *slog.Logger
	api      *client
	places   *places
	people   *people
	members  *members
	rules    Rules

	mu   sync.Mutex
	self user // empty until Discord was asked
}

var (
	_ adapters.Adapter  = (*Adapter)(nil)
	_ adapters.Presence = (*Adapter)(nil)
	_ adapters.Marker   = (*Adapter)(nil)
	_ adapters.Fetcher  = (*Adapter)(nil)
	_ adapters.Uploader = (*Adapter)(nil)
	_ adapters.Vetter   = (*Adapter)(nil)
)

// Rules are the access rules in force on a platform, those of the configuration file among them.
type Rules func(ctx context.Context, p office.Platform) ([]store.AccessRule, error)

// New makes the adapter. It calls nothing yet. The error is invalid: a URL that cannot be used.
func New(c config.DiscordConfig, rules Rules, s adapters.Services) (*Adapter, error) {
	api, err := newClient(c, s.Store)
	if err != nil {
		return nil, err
	}
	a := &Adapter{
		token: c.BotToken.Reveal(), services: s, log: s.Log.With("platform", office.Discord), api: api,
		people: newPeople(s.Store), members: newMembers(), rules: rules,
	}
	a.places = newPlaces(a.lookUp)
	return a, nil
}

// tokenName stands for a token where something is named after it: limits and the lease are per token.
func tokenName(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "discord/" + hex.EncodeToString(sum[:6])
}

// Platform is Discord.
func (a *Adapter) Platform() office.Platform { return office.Discord }

// Capabilities of Discord: messages are edited while they grow, answers to one person alone are possible, and a second
// post with one key is looked for, since Discord remembers nonces for some minutes only.
func (a *Adapter) Capabilities(office.Address) adapters.Capabilities {
	return adapters.Capabilities{Redraws: adapters.EditRedraws, Whispers: adapters.ToOnePerson, Waiting: adapters.WaitingMarked}
}

// maxContent is how long a message may be, in characters (code points).
const maxContent = 2_000

// Split cuts Markdown into messages of at most 2,000 characters. A name in it may become a mention when it is sent, or
// stay what it is: a part fits in both cases.
func (a *Adapter) Split(source string) []string {
	plain := markdown.FitsDiscord(markdown.DiscordOptions{})
	resolved := markdown.FitsDiscord(markdown.DiscordOptions{Names: func(string) (string, bool) { return "<@10000000000000000000>", true }})
	return markdown.Split(source, func(part string) bool { return plain(part) && resolved(part) })
}

// Self asks once who the token belongs to. Errors as of every call; forbidden when the token is refused.
func (a *Adapter) Self(ctx context.Context) (id string, err error) {
	u, err := a.me(ctx)
	return u.ID, err
}

func (a *Adapter) me(ctx context.Context) (user, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.self.ID != "" {
		return a.self, nil
	}
	var u user
	if err := a.api.do(ctx, call{what: "self", method: "GET", path: "users/@me"}, &u); err != nil {
		return user{}, err
	}
	a.self = u
	return u, nil
}

// terms tell where an answer goes. They are stored with the run.
type terms struct {
	Guild   string `json:"guild,omitempty"`
	Channel string `json:"channel"`           // where is posted: a channel, a thread or a direct conversation
	Thread  string `json:"thread,omitempty"`  // the same as Channel when it is a thread
	Message string `json:"message,omitempty"` // what is answered; empty for a command
	// Of a command: by these it is answered, to its user alone, for 15 minutes.
	Interaction string `json:"interaction,omitempty"`
	App         string `json:"app,omitempty"`
	Token       string `json:"token,omitempty"`
}

// termsOf reads where an answer goes. A message that answers nobody in particular, as a schedule's, goes where its
// session is.
func (a *Adapter) termsOf(ctx context.Context, m adapters.Outgoing) (terms, error) {
	var t terms
	if len(m.Reply) > 0 {
		if err := json.Unmarshal(m.Reply, &t); err != nil {
			return t, fault.New(fault.Invalid, "the terms of a reply cannot be read")
		}
	}
	if t.Channel != "" {
		return t, nil
	}
	t.Channel = m.Address.ConversationID
	key, err := session.ParseKey(m.SessionKey)
	if err != nil {
		return t, fault.Wrap(fault.Invalid, err, "the session key is refused")
	}
	suffix, scoped := key.Suffix()
	if !scoped {
		return t, nil
	}
	p, err := a.places.find(ctx, suffix)
	switch {
	case err == nil && p.Parent == t.Channel && p.isThread():
		t.Channel, t.Thread = suffix, suffix
	case err == nil || fault.CodeOf(err) == fault.NotFound:
		t.Message = suffix
	default:
		return t, err
	}
	return t, nil
}

// intents are what the gateway is asked for: https://discord.com/developers/docs/topics/gateway#gateway-intents.
// The content of messages is privileged: it has to be switched on for the application.
const intents = discordgo.IntentGuilds | discordgo.IntentGuildMessages | discordgo.IntentDirectMessages | discordgo.IntentMessageContent
