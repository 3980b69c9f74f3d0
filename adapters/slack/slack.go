// Package slack is mikan in Slack: Socket Mode or the HTTP Events API in, the Web API out.
//
// Nothing here calls Slack between an event and the model: people and channels come from what was learned before, and
// whoever is unknown is looked up after their message is committed.
package slack

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	sdk "github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
)

// Adapter is Slack for one installed app: one bot token, one workspace.
type Adapter struct {
	adapters.Services
	config    config.SlackConfig
	replyMode config.ReplyMode
	api       *sdk.Client
	http      *http.Client
	apiURL    *url.URL
	people    *directory
	channels  *channels
	streams   *streams
	responses *responses

	mu sync.Mutex
	me *identity // nil until Slack has told
}

var (
	_ adapters.Adapter  = (*Adapter)(nil)
	_ adapters.Presence = (*Adapter)(nil)
	_ adapters.Marker   = (*Adapter)(nil)
	_ adapters.Fetcher  = (*Adapter)(nil)
	_ adapters.Uploader = (*Adapter)(nil)
	_ adapters.Vetter   = (*Adapter)(nil)
)

// New makes the adapter. It calls nothing yet: a wrong token is found out by Inbound and Check.
func New(c config.SlackConfig, settings config.SlackSettings, s adapters.Services) (*Adapter, error) {
	if c.APIURL == "" {
		c.APIURL = sdk.APIURL
	}
	endpoint, err := url.Parse(c.APIURL)
	if err != nil || endpoint.Host == "" {
		return nil, fault.New(fault.Invalid, "SLACK_API_URL is no address")
	}
	a := &Adapter{Services: s, config: c, replyMode: settings.ReplyMode, apiURL: endpoint}
	transport := &http.Transport{}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		transport = standard.Clone()
	}
	transport.MaxIdleConnsPerHost = 64 // one host answers everything, and a busy gateway posts to many channels at once
	transport.ResponseHeaderTimeout = time.Minute
	a.http = &http.Client{Transport: transport, CheckRedirect: a.refuseForeignHosts}
	a.api = sdk.New(c.BotToken.Reveal(), sdk.OptionAPIURL(c.APIURL), sdk.OptionAppLevelToken(c.AppToken.Reveal()), sdk.OptionHTTPClient(a.http))
	a.people = newDirectory(s.Store)
	a.channels = newChannels(s.Store)
	a.streams = newStreams()
	a.responses = newResponses()
	return a, nil
}

// Platform is slack.
func (*Adapter) Platform() office.Platform { return office.Slack }

// identity is who mikan is in Slack.
type identity struct {
	Team string // workspace id
	User string // the bot's user id, by which it is mentioned
	Bot  string // the bot's id in messages
	Name string
}

// identity asks Slack once who mikan is. Errors: forbidden when the token is refused, else unavailable.
func (a *Adapter) identity(ctx context.Context) (identity, error) {
	a.mu.Lock()
	known := a.me
	a.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	var answer *sdk.AuthTestResponse
	err := a.call(ctx, "", authTest, "", func(ctx context.Context) error {
		var err error
		answer, err = a.api.AuthTestContext(ctx)
		return err
	})
	if err != nil {
		return identity{}, err
	}
	me := identity{Team: answer.TeamID, User: answer.UserID, Bot: answer.BotID, Name: answer.User}
	a.mu.Lock()
	a.me = &me
	a.mu.Unlock()
	return me, nil
}

// Capabilities of Slack.
func (*Adapter) Capabilities(office.Address) adapters.Capabilities {
	return adapters.Capabilities{Redraws: adapters.EditRedraws, Whispers: adapters.ToOnePerson, Waiting: adapters.WaitingMarked}
}

// terms are where an answer goes. They are stored with the run.
type terms struct {
	Team    string `json:"team"`
	Channel string `json:"channel"`
	// Thread is the root of the thread that is answered in; empty: top level.
	Thread string `json:"thread,omitempty"`
	// User and UserTeam are for whom a stream is drawn.
	User     string `json:"user,omitempty"`
	UserTeam string `json:"user_team,omitempty"`
	// OnlyFor is who gave a slash command: its answer is for nobody else.
	OnlyFor string `json:"only_for,omitempty"`
}
