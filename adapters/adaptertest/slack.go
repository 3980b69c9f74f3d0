package adaptertest

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/office"
)

type slack struct {
	*slacktest.Server
	people map[Who]string
}

// NewSlack starts a local Slack that talks over sockets.
func NewSlack(t testing.TB) Platform {
	t.Helper()
	server, err := slacktest.Start(slacktest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	s := &slack{Server: server, people: map[Who]string{}}
	for name, kind := range map[Who]slacktest.UserKind{Ann: "", Stranger: slacktest.Guest, OtherBot: slacktest.Bot} {
		u, err := server.CreateUser(slacktest.NewUser{Name: string(name), Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		s.people[name] = u.ID
	}
	return s
}

func (s *slack) Name() office.Platform { return office.Slack }

func (s *slack) Env() map[string]string {
	return map[string]string{"SLACK_BOT_TOKEN": s.Team().BotToken, "SLACK_APP_TOKEN": s.App().AppToken, "SLACK_API_URL": s.APIURL()}
}

func (s *slack) Lines() []string { return nil }

func (s *slack) Mention() string { return "<@" + s.Team().BotUser + ">" }

func (s *slack) Person(who Who) string { return s.people[who] }

func (s *slack) Serve(http.Handler) {}

func (s *slack) Connected(want int) bool { return s.Sockets() >= want }

func (s *slack) Features() Features { return Features{TellsStrangers: true, Long: 30_000} }

func (s *slack) Again(t testing.TB) {
	t.Helper()
	if err := s.Redeliver(slacktest.Redelivery{Count: 4, Times: 2}); err != nil {
		t.Fatal(err)
	}
}

func (s *slack) Disturb(t testing.TB, how Fault, n int) {
	t.Helper()
	s.disturb(t, "chat.postMessage", how, n)
}

func (s *slack) Violations() []string {
	var all []string
	for _, v := range s.Server.Violations() {
		all = append(all, v.String())
	}
	return all
}

func (s *slack) Room(t testing.TB) Room {
	t.Helper()
	c, err := s.CreateChannel(slacktest.NewChannel{Name: Word(), WithBot: true, Members: []string{s.people[Ann], s.people[Stranger], s.people[OtherBot]}})
	if err != nil {
		t.Fatal(err)
	}
	return &slackRoom{slack: s, id: c.ID}
}

type slackRoom struct {
	slack *slack
	id    string
}

func (r *slackRoom) ID() string { return r.id }

func (r *slackRoom) Say(t testing.TB, what Saying) string {
	t.Helper()
	if what.Mention {
		what.Text = r.slack.Mention() + " " + what.Text
	}
	said := slacktest.Saying{Channel: r.id, User: r.slack.people[what.By], Thread: what.Under, Text: what.Text}
	for _, m := range r.slack.Messages(slacktest.Which{Channel: r.id}) {
		if m.TS == what.Under && m.ThreadTS != "" {
			said.Thread = m.ThreadTS // a reply has no thread of its own
		}
	}
	if len(what.File) > 0 {
		f, err := r.slack.CreateFile(slacktest.NewFile{User: said.User, Name: pictureName, Content: what.File})
		if err != nil {
			t.Fatal(err)
		}
		said.Files = []string{f.ID}
	}
	m, err := r.slack.Say(said)
	if err != nil {
		t.Fatal(err)
	}
	return m.TS
}

func (r *slackRoom) Edit(t testing.TB, id, text string) {
	t.Helper()
	if _, err := r.slack.Edit(slacktest.Editing{Channel: r.id, TS: id, Text: text}); err != nil {
		t.Fatal(err)
	}
}

// alive are the forms in which Slack would ping somebody; in text that Slack shows as it is they are escaped.
var alive = regexp.MustCompile(`<(!channel|!here|!everyone|@U\w+|!subteam)`)

func (r *slackRoom) Seen(testing.TB) []Shown {
	var all []Shown
	for _, m := range r.slack.Messages(slacktest.Which{Channel: r.id, ByApp: true}) {
		raw := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(m.Blocks)) + m.Text
		all = append(all, Shown{ID: m.TS, Text: m.Shown, Pings: alive.FindAllString(raw, -1)})
	}
	return all
}
