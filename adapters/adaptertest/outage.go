package adaptertest

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/discord/discordtest"
	"github.com/geminixiang/mikan/adapters/github/githubtest"
	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
)

func (s *slack) DisturbAll(t testing.TB, how Fault, n int) {
	t.Helper()
	for _, method := range []string{"chat.postMessage", "chat.update", "chat.delete", "chat.startStream", "chat.appendStream", "chat.stopStream"} {
		s.disturb(t, method, how, n)
	}
}

// Slack tries an event again for some minutes. What it has given up by then is in the history only.
func (s *slack) Lose(_ testing.TB, meanwhile func()) {
	s.Hold()
	meanwhile()
	s.ForgetPending()
	s.Release(slacktest.Release{})
	s.DropSockets()
}

func (s *slack) Calm(testing.TB) { s.ClearFaults() }

func (s *slack) Strict(t testing.TB) {
	t.Helper()
	if err := s.SetRates(slacktest.RatesEnforced, 1); err != nil {
		t.Fatal(err)
	}
}

func (s *slack) Left(testing.TB) []string {
	var all []string
	for _, status := range s.Statuses() {
		all = append(all, fmt.Sprintf("%q below %s in %s", status.Text, status.Thread, status.Channel))
	}
	for _, m := range s.Messages(slacktest.Which{}) {
		if m.Stream != nil && m.Stream.State == slacktest.Streaming {
			all = append(all, "the stream "+m.TS+" in "+m.Channel)
		}
		for name, by := range m.Reactions {
			all = append(all, fmt.Sprintf("%s on %q (%s) by %v", name, m.Text, m.TS, by))
		}
	}
	return all
}

func (d *discord) DisturbAll(_ testing.TB, how Fault, n int) {
	for method, route := range map[string]string{
		http.MethodPost: "/channels/{channel}/messages", http.MethodPatch: "/channels/{channel}/messages/{message}", http.MethodDelete: "/channels/{channel}/messages/{message}",
	} {
		d.disturb(method, route, how, n)
	}
}

// Discord repeats what a connection missed only to its session. A session that it has forgotten is begun anew.
func (d *discord) Lose(_ testing.TB, meanwhile func()) {
	d.ForgetSessions()
	d.DropConnections()
	meanwhile()
}

func (d *discord) Calm(testing.TB) { d.Mend() }

func (d *discord) Strict(testing.TB) { d.EnforceRates() }

func (d *discord) Left(testing.TB) []string {
	var all []string
	for _, channel := range d.rooms {
		for _, m := range d.Messages(channel) {
			for _, sign := range m.Reactions {
				all = append(all, fmt.Sprintf("%s on %q (%s)", sign, m.Content, m.ID))
			}
		}
	}
	return all
}

func (g *telegram) DisturbAll(_ testing.TB, how Fault, n int) {
	for _, method := range []string{"sendMessage", "editMessageText", "deleteMessage"} {
		g.disturb(method, how, n)
	}
}

// Telegram loses nothing for a day: it cannot be asked for a while, or says that somebody else asks.
func (g *telegram) Lose(_ testing.TB, meanwhile func()) {
	g.Fail(telegramtest.Fault{Method: "getUpdates", Kind: telegramtest.ServerError, Times: 2})
	g.Fail(telegramtest.Fault{Method: "getUpdates", Kind: telegramtest.Refuse, Code: http.StatusConflict,
		Description: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"})
	meanwhile()
}

func (g *telegram) Calm(testing.TB) { g.Mend() }

func (g *telegram) Strict(testing.TB) {} // what is beyond a rate fails the test

func (g *telegram) Left(testing.TB) []string { return nil } // "typing" ends by itself after seconds

func (g *github) DisturbAll(_ testing.TB, how Fault, n int) {
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodDelete} {
		g.disturb(method, "/comments", how, n)
	}
}

// GitHub sends a webhook once.
func (g *github) Lose(_ testing.TB, meanwhile func()) {
	g.LoseDeliveries(1)
	meanwhile()
}

func (g *github) Calm(testing.TB) { g.Mend() }

func (g *github) Strict(testing.TB) {} // the documented rates are always in force

func (g *github) Left(testing.TB) []string { return nil } // the eyes on a message tell that it was seen, and stay

func (s *slack) disturb(t testing.TB, method string, how Fault, n int) {
	t.Helper()
	f := slacktest.Fault{Method: method, Times: n}
	switch how {
	case LostReply:
		f.Kind = slacktest.DropReply
	case RateLimited:
		f.Kind, f.RetryAfter = slacktest.TooMany, time.Second
	case ServerError:
		f.Kind = slacktest.ErrorCode
	}
	if err := s.Inject(f); err != nil {
		t.Fatal(err)
	}
}

func (d *discord) disturb(method, route string, how Fault, n int) {
	f := discordtest.Fault{Method: method, Route: route, Times: n}
	switch how {
	case LostReply:
		f.Lost = discordtest.ReplyLost
	case RateLimited:
		f.Status, f.RetryAfter = http.StatusTooManyRequests, 1
	case ServerError:
		f.Status = http.StatusBadGateway
	}
	d.Fail(f)
}

func (g *telegram) disturb(method string, how Fault, n int) {
	f := telegramtest.Fault{Method: method, Times: n}
	switch how {
	case LostReply:
		f.Kind = telegramtest.LoseReply
	case RateLimited:
		f.Kind, f.RetryAfter = telegramtest.RateLimited, 1
	case ServerError:
		f.Kind = telegramtest.ServerError
	}
	g.Fail(f)
}

func (g *github) disturb(method, route string, how Fault, n int) {
	f := githubtest.Fault{Method: method, Route: route, Times: n}
	switch how {
	case LostReply:
		f.Kind = githubtest.LostReply
	case RateLimited:
		f.Kind, f.After = githubtest.Secondary, time.Second
	case ServerError:
		f.Kind, f.Status = githubtest.Failing, http.StatusBadGateway
	}
	g.Break(f)
}
