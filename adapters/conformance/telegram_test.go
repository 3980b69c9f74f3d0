package conformance_test

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
	"github.com/geminixiang/mikan/internal/office"
)

type telegram struct {
	*telegramtest.Server
	rooms atomic.Int64
}

var telegramPeople = map[who]int64{ann: 9_007_199_254_740_993, stranger: 202, otherBot: 303}

func newTelegram(t testing.TB) platform {
	t.Helper()
	server := telegramtest.Start(t, telegramtest.Options{})
	for name, id := range telegramPeople {
		p := telegramtest.Person{ID: id, FirstName: string(name), Username: "the_" + string(name)}
		if name == otherBot {
			p.Bot = telegramtest.IsBot
		}
		server.AddPerson(p)
	}
	return &telegram{Server: server}
}

func (g *telegram) name() office.Platform { return office.Telegram }

func (g *telegram) env() map[string]string {
	return map[string]string{"TELEGRAM_BOT_TOKEN": g.Token, "TELEGRAM_API_URL": g.URL}
}

func (g *telegram) lines() []string {
	return []string{"access: {telegram: {users: ['" + strconv.FormatInt(telegramPeople[ann], 10) + "']}}"}
}

func (g *telegram) serve(http.Handler) {}

func (g *telegram) connected(int) bool { return len(g.Calls("getUpdates")) > 0 }

func (g *telegram) features() features {
	return features{tellsStrangers: true, parallel: true, long: 14_000}
}

func (g *telegram) again(testing.TB) { g.Redeliver(2) }

// An answer is an edit of its placeholder: what cannot be listed can be edited twice.
func (g *telegram) disturb(_ testing.TB, how fault, n int) {
	f := telegramtest.Fault{Method: "editMessageText", Times: n}
	switch how {
	case lostReply:
		f.Kind = telegramtest.LoseReply
	case rateLimited:
		f.Kind, f.RetryAfter = telegramtest.RateLimited, 1
	case serverError:
		f.Kind = telegramtest.ServerError
	}
	g.Fail(f)
}

func (g *telegram) violations() []string { return nil } // the server fails the test by itself

func (g *telegram) room(testing.TB) room {
	id := -1000 - g.rooms.Add(1)
	g.AddChat(telegramtest.Chat{ID: id, Type: telegramtest.GroupChat, Title: word(), FirstMessage: 10})
	return &telegramRoom{telegram: g, id: id}
}

type telegramRoom struct {
	telegram *telegram
	id       int64
}

func (r *telegramRoom) say(t testing.TB, what saying) string {
	t.Helper()
	if what.mention {
		what.text = "@" + r.telegram.Username + " " + what.text
	}
	said := telegramtest.Said{Chat: r.id, From: telegramPeople[what.by], Text: what.text}
	if what.under != "" {
		said.ReplyTo = number(t, what.under)
	}
	return strconv.Itoa(r.telegram.Say(said))
}

func number(t testing.TB, id string) int {
	t.Helper()
	n, err := strconv.Atoi(id)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (r *telegramRoom) edit(t testing.TB, id, text string) {
	t.Helper()
	r.telegram.Change(r.id, number(t, id), text)
}

func (r *telegramRoom) seen(testing.TB) []shown {
	var all []shown
	for _, m := range r.telegram.FromBot(r.id) {
		all = append(all, shown{id: strconv.Itoa(m.ID), text: m.Text, pings: m.Notified})
	}
	return all
}
