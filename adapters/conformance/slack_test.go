package conformance_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/office"
)

type slack struct {
	*slacktest.Server
	people map[who]string
}

func newSlack(t testing.TB) platform {
	t.Helper()
	server, err := slacktest.Start(slacktest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	s := &slack{Server: server, people: map[who]string{}}
	for name, kind := range map[who]slacktest.UserKind{ann: "", stranger: slacktest.Guest, otherBot: slacktest.Bot} {
		u, err := server.CreateUser(slacktest.NewUser{Name: string(name), Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		s.people[name] = u.ID
	}
	return s
}

func (s *slack) name() office.Platform { return office.Slack }

func (s *slack) env() map[string]string {
	return map[string]string{"SLACK_BOT_TOKEN": s.Team().BotToken, "SLACK_APP_TOKEN": s.App().AppToken, "SLACK_API_URL": s.APIURL()}
}

func (s *slack) lines() []string { return nil }

func (s *slack) serve(http.Handler) {}

func (s *slack) connected(want int) bool { return s.Sockets() >= want }

func (s *slack) features() features { return features{tellsStrangers: true, long: 30_000} }

func (s *slack) again(t testing.TB) {
	t.Helper()
	if err := s.Redeliver(slacktest.Redelivery{Count: 4, Times: 2}); err != nil {
		t.Fatal(err)
	}
}

func (s *slack) disturb(t testing.TB, how fault, n int) {
	t.Helper()
	f := slacktest.Fault{Method: "chat.postMessage", Times: n}
	switch how {
	case lostReply:
		f.Kind = slacktest.DropReply
	case rateLimited:
		f.Kind, f.RetryAfter = slacktest.TooMany, time.Second
	case serverError:
		f.Kind = slacktest.ErrorCode
	}
	if err := s.Inject(f); err != nil {
		t.Fatal(err)
	}
}

func (s *slack) violations() []string {
	var all []string
	for _, v := range s.Violations() {
		all = append(all, v.String())
	}
	return all
}

func (s *slack) room(t testing.TB) room {
	t.Helper()
	c, err := s.CreateChannel(slacktest.NewChannel{Name: word(), WithBot: true, Members: []string{s.people[ann], s.people[stranger], s.people[otherBot]}})
	if err != nil {
		t.Fatal(err)
	}
	return &slackRoom{slack: s, id: c.ID}
}

type slackRoom struct {
	slack *slack
	id    string
}

func (r *slackRoom) say(t testing.TB, what saying) string {
	t.Helper()
	if what.mention {
		what.text = "<@" + r.slack.Team().BotUser + "> " + what.text
	}
	m, err := r.slack.Say(slacktest.Saying{Channel: r.id, User: r.slack.people[what.by], Thread: what.under, Text: what.text})
	if err != nil {
		t.Fatal(err)
	}
	return m.TS
}

func (r *slackRoom) edit(t testing.TB, id, text string) {
	t.Helper()
	if _, err := r.slack.Edit(slacktest.Editing{Channel: r.id, TS: id, Text: text}); err != nil {
		t.Fatal(err)
	}
}

// alive are the forms in which Slack would ping somebody; in text that Slack shows as it is they are escaped.
var alive = regexp.MustCompile(`<(!channel|!here|!everyone|@U\w+|!subteam)`)

func (r *slackRoom) seen(testing.TB) []shown {
	var all []shown
	for _, m := range r.slack.Messages(slacktest.Which{Channel: r.id, ByApp: true}) {
		raw := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(m.Blocks)) + m.Text
		all = append(all, shown{id: m.TS, text: m.Shown, pings: alive.FindAllString(raw, -1)})
	}
	return all
}
