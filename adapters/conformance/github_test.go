package conformance_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/github/githubtest"
	"github.com/geminixiang/mikan/internal/office"
)

type github struct {
	*githubtest.Server
	t testing.TB
}

const (
	githubRepo   = "acme/web"
	githubToken  = "github_pat_test-of-mikan"
	githubSecret = "a secret of the webhook"
	githubMe     = "mikan-bot"
)

var githubPeople = map[who]string{ann: "ann", stranger: "eve", otherBot: "ci[bot]"}

func newGitHub(t testing.TB) platform {
	t.Helper()
	hub := githubtest.New(t)
	hub.AddUser(githubMe, githubtest.Person)
	hub.AddUser(githubPeople[ann], githubtest.Person)
	hub.AddUser(githubPeople[stranger], githubtest.Person)
	hub.AddUser(githubPeople[otherBot], githubtest.Bot)
	hub.AddRepo("acme", "web", githubtest.PublicRepo)
	hub.Permit(githubRepo, githubPeople[ann], "write")
	hub.Permit(githubRepo, githubMe, "write")
	hub.AddToken(githubToken, githubMe, githubtest.FullLevels(), githubRepo)
	return &github{Server: hub, t: t}
}

func (g *github) name() office.Platform { return office.GitHub }

func (g *github) env() map[string]string {
	return map[string]string{"GITHUB_AGENT_TOKEN": githubToken, "GITHUB_WEBHOOK_SECRET": githubSecret, "GITHUB_API_URL": g.URL}
}

func (g *github) lines() []string { return nil }

// serve makes a webhook of each gateway: two for one repository.
func (g *github) serve(gateway http.Handler) {
	address := httptest.NewServer(gateway)
	g.t.Cleanup(address.Close)
	g.AddHook(githubRepo, address.URL+"/github/webhook", githubSecret, githubtest.JSONHook)
}

func (g *github) connected(int) bool { return true }

func (g *github) features() features { return features{long: 130_000} }

func (g *github) again(testing.TB) { g.Redeliver(3) }

func (g *github) disturb(_ testing.TB, how fault, n int) {
	f := githubtest.Fault{Method: http.MethodPost, Route: "/comments", Times: n}
	switch how {
	case lostReply:
		f.Kind = githubtest.LostReply
	case rateLimited:
		f.Kind, f.After = githubtest.Secondary, time.Second
	case serverError:
		f.Kind, f.Status = githubtest.Failing, http.StatusBadGateway
	}
	g.Break(f)
}

func (g *github) violations() []string {
	var all []string
	for _, v := range g.Violations() {
		all = append(all, v.Call.Method+" "+v.Call.Path+": "+v.What)
	}
	return all
}

func (g *github) room(testing.TB) room {
	return &githubRoom{hub: g, number: g.OpenIssue(githubRepo, githubPeople[ann], word(), "")}
}

type githubRoom struct {
	hub    *github
	number int64
}

func (r *githubRoom) say(_ testing.TB, what saying) string {
	if what.mention {
		what.text = "@" + githubMe + " " + what.text
	}
	return strconv.FormatInt(r.hub.Comment(githubRepo, r.number, githubPeople[what.by], what.text), 10)
}

func (r *githubRoom) edit(t testing.TB, id, text string) {
	t.Helper()
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	r.hub.EditComment(githubRepo, n, githubPeople[ann], text)
}

// invisible is what GitHub does not show.
var invisible = regexp.MustCompile(`<!--[^>]*-->`)

// pinging is what GitHub takes for a mention.
var pinging = regexp.MustCompile(`(^|[\s(])@[A-Za-z0-9][A-Za-z0-9-]*`)

func (r *githubRoom) seen(testing.TB) []shown {
	var all []shown
	for _, c := range r.hub.Visible(githubRepo, r.number) {
		if c.Author != githubMe {
			continue
		}
		text := strings.TrimSpace(invisible.ReplaceAllString(c.Body, ""))
		all = append(all, shown{id: strconv.FormatInt(c.ID, 10), text: text, pings: pinging.FindAllString(text, -1)})
	}
	return all
}
