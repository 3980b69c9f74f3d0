package adaptertest

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

var telegramPeople = map[Who]int64{Ann: 9_007_199_254_740_993, Stranger: 202, OtherBot: 303}

// NewTelegram starts a local Bot API server, from which mikan polls.
func NewTelegram(t testing.TB) Platform {
	t.Helper()
	server := telegramtest.Start(t, telegramtest.Options{})
	for name, id := range telegramPeople {
		p := telegramtest.Person{ID: id, FirstName: string(name), Username: "the_" + string(name)}
		if name == OtherBot {
			p.Bot = telegramtest.IsBot
		}
		server.AddPerson(p)
	}
	return &telegram{Server: server}
}

func (g *telegram) Name() office.Platform { return office.Telegram }

func (g *telegram) Env() map[string]string {
	return map[string]string{"TELEGRAM_BOT_TOKEN": g.Token, "TELEGRAM_API_URL": g.URL}
}

func (g *telegram) Lines() []string {
	return []string{"access: {telegram: {users: ['" + strconv.FormatInt(telegramPeople[Ann], 10) + "']}}"}
}

func (g *telegram) Mention() string { return "@" + g.Username }

func (g *telegram) Person(who Who) string { return strconv.FormatInt(telegramPeople[who], 10) }

func (g *telegram) Serve(http.Handler) {}

// HostLocally makes it a server of one's own, which takes webhooks at any address.
func (g *telegram) HostLocally() { g.Hosting = telegramtest.LocalMode }

func (g *telegram) Connected(int) bool { return len(g.Calls("getUpdates")) > 0 }

func (g *telegram) Features() Features {
	return Features{TellsStrangers: true, Parallel: true, Long: 14_000}
}

func (g *telegram) Again(testing.TB) { g.Redeliver(2) }

// An answer is an edit of its placeholder: what cannot be listed can be edited twice.
func (g *telegram) Disturb(_ testing.TB, how Fault, n int) { g.disturb("editMessageText", how, n) }

func (g *telegram) Violations() []string { return nil } // the server fails the test by itself

func (g *telegram) Room(testing.TB) Room {
	id := -1000 - g.rooms.Add(1)
	g.AddChat(telegramtest.Chat{ID: id, Type: telegramtest.GroupChat, Title: Word(), FirstMessage: 10})
	return &telegramRoom{telegram: g, id: id}
}

type telegramRoom struct {
	telegram *telegram
	id       int64
}

func (r *telegramRoom) ID() string { return strconv.FormatInt(r.id, 10) }

func (r *telegramRoom) Say(t testing.TB, what Saying) string {
	t.Helper()
	if what.Mention {
		what.Text = r.telegram.Mention() + " " + what.Text
	}
	said := telegramtest.Said{Chat: r.id, From: telegramPeople[what.By], Text: what.Text}
	if what.Under != "" {
		said.ReplyTo = number(t, what.Under)
	}
	if len(what.File) > 0 {
		said.Media = &telegramtest.Media{Kind: "document", Name: pictureName, Type: "image/png", Content: what.File}
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

func (r *telegramRoom) Edit(t testing.TB, id, text string) {
	t.Helper()
	r.telegram.Change(r.id, number(t, id), text)
}

func (r *telegramRoom) Seen(testing.TB) []Shown {
	var all []Shown
	for _, m := range r.telegram.FromBot(r.id) {
		all = append(all, Shown{ID: strconv.Itoa(m.ID), Text: m.Text, Pings: m.Notified})
	}
	return all
}
