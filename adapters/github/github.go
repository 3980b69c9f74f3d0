// Package github is mikan on GitHub: a bound account with a fine-grained token, and webhooks of repositories or
// organisations. One issue or pull request is one conversation with one session: its description, comments, reviews
// and inline review threads.
//
// GitHub sends a webhook once. What a gateway missed is found again by reading what changed since, and by asking for the
// failed deliveries where the token may: see recover.go and deliveries.go. Nothing here calls GitHub between a webhook
// and its acknowledgement, but for old news (see fresh.go).
package github

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/google/go-github/v62/github"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/markdown"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/rate"
)

// Adapter is GitHub for one bound account.
type Adapter struct {
	adapters.Services
	config   config.GitHubConfig
	settings config.GitHubSettings
	api      *sdk.Client
	files    *http.Client
	hosts    hosts
	limiter  *rate.Limiter
	standing *standings
	every    time.Duration // between two readings of what changed

	mu      sync.Mutex
	me      *identity // nil until GitHub has told
	receive receiver  // nil in a process that is no gateway
}

type receiver func(context.Context, adapters.Message) (adapters.Receipt, error)

var (
	_ adapters.Adapter = (*Adapter)(nil)
	_ adapters.Marker  = (*Adapter)(nil)
	_ adapters.Fetcher = (*Adapter)(nil)
	_ adapters.Vetter  = (*Adapter)(nil)
)

// identity is the bound account.
type identity struct {
	login string // lower case, since GitHub's names ignore it
	shown string
}

// readEvery is how often what changed is read beside the webhooks: three cheap calls a repository, answered with 304
// and not counted where nothing is new.
const readEvery = 3 * time.Minute

// New makes the adapter. It calls nothing yet: a wrong token is found out by Inbound and Check.
func New(c config.GitHubConfig, settings config.GitHubSettings, s adapters.Services) (*Adapter, error) {
	client, hosts, err := newClient(c)
	if err != nil {
		return nil, err
	}
	return &Adapter{
		Services: s, config: c, settings: settings, api: client, hosts: hosts, files: newFileClient(c, hosts),
		limiter: &rate.Limiter{Store: s.Store, Installation: "github"}, standing: newStandings(), every: readEvery,
	}, nil
}

// Platform is github.
func (a *Adapter) Platform() office.Platform { return office.GitHub }

// Capabilities of a conversation: one finished comment, which everybody reads. Who was refused leaves no trace, since on
// a public repository anybody may write anything. Whoever is answered may write to the repository, and so may change
// what holds in its conversations.
func (a *Adapter) Capabilities(office.Address) adapters.Capabilities {
	return adapters.Capabilities{
		Redraws: adapters.NoRedraws, Repeats: adapters.RepeatsShow, Strangers: adapters.StrangersUnkept, Lists: adapters.ListsNarrow,
		Governs: adapters.MembersGovern,
	}
}

// Split cuts an answer into comments.
func (a *Adapter) Split(source string) []string {
	return markdown.Split(source, markdown.FitsGitHub(markdown.GitHubOptions{}))
}

// self tells who the bound account is; the answer is kept for the life of the process.
func (a *Adapter) self(ctx context.Context) (identity, error) {
	a.mu.Lock()
	me := a.me
	a.mu.Unlock()
	if me != nil {
		return *me, nil
	}
	var user *sdk.User
	err := a.call(ctx, "user", reading, rate.Final, func(ctx context.Context) error {
		var err error
		user, _, err = a.api.Users.Get(ctx, "")
		return err
	})
	if err != nil {
		return identity{}, err
	}
	if user.GetLogin() == "" {
		return identity{}, fault.New(fault.Unavailable, "GitHub did not tell whose token it is")
	}
	me = &identity{login: strings.ToLower(user.GetLogin()), shown: user.GetLogin()}
	a.mu.Lock()
	a.me = me
	a.mu.Unlock()
	return *me, nil
}

// on tells whether a kind of event starts runs; none configured means all.
func (a *Adapter) on(t config.GitHubTrigger) bool {
	return len(a.settings.Triggers) == 0 || slices.Contains(a.settings.Triggers, t)
}

// apiURL is where the API is; GITHUB_API_URL redirects everything.
func apiURL(c config.GitHubConfig) (*url.URL, error) {
	if c.APIURL == "" {
		return &url.URL{Scheme: "https", Host: "api.github.com", Path: "/"}, nil
	}
	u, err := url.Parse(c.APIURL)
	if err != nil || u.Host == "" {
		return nil, fault.New(fault.Invalid, "GITHUB_API_URL is no address")
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/" // go-github appends paths as they are
	}
	return u, nil
}
