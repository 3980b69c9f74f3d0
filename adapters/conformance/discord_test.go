package conformance_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/geminixiang/mikan/adapters/discord/discordtest"
	"github.com/geminixiang/mikan/internal/office"
)

type discord struct {
	*discordtest.Server
	guild  string
	people map[who]string
}

func newDiscord(t testing.TB) platform {
	t.Helper()
	server := discordtest.New(t, discordtest.Options{})
	d := &discord{Server: server, guild: server.AddGuild("acme"), people: map[who]string{}}
	d.people[ann], d.people[stranger], d.people[otherBot] = server.AddUser("ann"), server.AddUser("stranger"), server.AddBot("robot")
	for _, id := range d.people {
		server.Join(d.guild, id)
	}
	return d
}

func (d *discord) name() office.Platform { return office.Discord }

func (d *discord) env() map[string]string {
	return map[string]string{"DISCORD_BOT_TOKEN": d.Token(), "DISCORD_API_URL": d.URL()}
}

func (d *discord) lines() []string {
	return []string{"access: {discord: {users: ['" + d.people[ann] + "']}}"}
}

func (d *discord) serve(http.Handler) {}

// One process holds the gateway connection; the other waits for its lease.
func (d *discord) connected(int) bool { return d.Connected() == 1 }

// Strangers are told in private, outside of the room.
func (d *discord) features() features { return features{long: 9_000} }

func (d *discord) again(testing.TB) { d.Redeliver() }

func (d *discord) disturb(_ testing.TB, how fault, n int) {
	f := discordtest.Fault{Method: http.MethodPost, Route: "/channels/{channel}/messages", Times: n}
	switch how {
	case lostReply:
		f.Lost = discordtest.ReplyLost
	case rateLimited:
		f.Status, f.RetryAfter = http.StatusTooManyRequests, 1
	case serverError:
		f.Status = http.StatusBadGateway
	}
	d.Fail(f)
}

func (d *discord) violations() []string { return d.Violations() }

func (d *discord) room(testing.TB) room {
	return &discordRoom{discord: d, id: d.AddChannel(d.guild, word())}
}

type discordRoom struct {
	discord *discord
	id      string
}

func (r *discordRoom) say(_ testing.TB, what saying) string {
	if what.mention {
		what.text = discordtest.Mention(r.discord.Bot().ID) + " " + what.text
	}
	return r.discord.Say(discordtest.Utterance{Channel: r.id, User: r.discord.people[what.by], Text: what.text, ReplyTo: what.under})
}

func (r *discordRoom) edit(_ testing.TB, id, text string) { r.discord.EditText(r.id, id, text) }

func (r *discordRoom) seen(testing.TB) []shown {
	var all []shown
	for _, m := range r.discord.Own(r.id) {
		// Whoever asked is notified of the answer, as by any reply.
		pings := slices.DeleteFunc(slices.Clone(m.Pinged), func(id string) bool { return id == r.discord.people[ann] })
		all = append(all, shown{id: m.ID, text: m.Content, pings: pings})
	}
	return all
}
