package adaptertest

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

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

var githubPeople = map[Who]string{Ann: "ann", Stranger: "eve", OtherBot: "ci[bot]"}

// NewGitHub starts a local GitHub with one public repository.
func NewGitHub(t testing.TB) Platform {
	t.Helper()
	hub := githubtest.New(t)
	hub.AddUser(githubMe, githubtest.Person)
	hub.AddUser(githubPeople[Ann], githubtest.Person)
	hub.AddUser(githubPeople[Stranger], githubtest.Person)
	hub.AddUser(githubPeople[OtherBot], githubtest.Bot)
	hub.AddRepo("acme", "web", githubtest.PublicRepo)
	hub.Permit(githubRepo, githubPeople[Ann], "write")
	hub.Permit(githubRepo, githubMe, "write")
	hub.AddToken(githubToken, githubMe, githubtest.FullLevels(), githubRepo)
	return &github{Server: hub, t: t}
}

func (g *github) Name() office.Platform { return office.GitHub }

func (g *github) Env() map[string]string {
	return map[string]string{"GITHUB_AGENT_TOKEN": githubToken, "GITHUB_WEBHOOK_SECRET": githubSecret, "GITHUB_API_URL": g.URL}
}

func (g *github) Lines() []string { return []string{"github: {capabilities: [issue]}"} }

// serve makes a webhook of each gateway: two for one repository.
func (g *github) Serve(gateway http.Handler) {
	address := httptest.NewServer(gateway)
	g.t.Cleanup(address.Close)
	g.AddHook(githubRepo, address.URL+"/github/webhook", githubSecret, githubtest.JSONHook)
}

func (g *github) Mention() string { return "@" + githubMe }

func (g *github) Person(who Who) string { return githubPeople[who] }

func (g *github) Connected(int) bool { return true }

func (g *github) Features() Features { return Features{Long: 130_000} }

func (g *github) Again(testing.TB) { g.Redeliver(3) }

func (g *github) Disturb(_ testing.TB, how Fault, n int) {
	g.disturb(http.MethodPost, "{number}/comments", how, n) // and no reactions to comments
}

func (g *github) Violations() []string {
	var all []string
	for _, v := range g.Server.Violations() {
		all = append(all, v.Call.Method+" "+v.Call.Path+": "+v.What)
	}
	return all
}

func (g *github) Room(testing.TB) Room {
	return &githubRoom{hub: g, number: g.OpenIssue(githubRepo, githubPeople[Ann], Word(), "")}
}

type githubRoom struct {
	hub    *github
	number int64
}

func (r *githubRoom) ID() string { return strconv.FormatInt(r.number, 10) }

func (r *githubRoom) Say(_ testing.TB, what Saying) string {
	if what.Mention {
		what.Text = r.hub.Mention() + " " + what.Text
	}
	if len(what.File) > 0 {
		name := Word()
		r.hub.AddAsset(name, what.File)
		what.Text += "\n\n![" + pictureName + "](https://github.com/user-attachments/assets/" + name + ")"
	}
	return strconv.FormatInt(r.hub.Comment(githubRepo, r.number, githubPeople[what.By], what.Text), 10)
}

func (r *githubRoom) Edit(t testing.TB, id, text string) {
	t.Helper()
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	r.hub.EditComment(githubRepo, n, githubPeople[Ann], text)
}

// invisible is what GitHub does not show.
var invisible = regexp.MustCompile(`<!--[^>]*-->`)

// pinging is what GitHub takes for a mention.
var pinging = regexp.MustCompile(`(^|[\s(])@[A-Za-z0-9][A-Za-z0-9-]*`)

func (r *githubRoom) Seen(testing.TB) []Shown {
	var all []Shown
	for _, c := range r.hub.Visible(githubRepo, r.number) {
		if c.Author != githubMe {
			continue
		}
		text := strings.TrimSpace(invisible.ReplaceAllString(c.Body, ""))
		all = append(all, Shown{ID: strconv.FormatInt(c.ID, 10), Text: text, Pings: pinging.FindAllString(text, -1)})
	}
	return all
}
