package adaptertest

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
	people map[Who]string
	rooms  []string
}

// NewDiscord starts a local Discord with one guild.
func NewDiscord(t testing.TB) Platform {
	t.Helper()
	server := discordtest.New(t, discordtest.Options{})
	d := &discord{Server: server, guild: server.AddGuild("acme"), people: map[Who]string{}}
	d.people[Ann], d.people[Stranger], d.people[OtherBot] = server.AddUser("ann"), server.AddUser("stranger"), server.AddBot("robot")
	for _, id := range d.people {
		server.Join(d.guild, id)
	}
	return d
}

func (d *discord) Name() office.Platform { return office.Discord }

func (d *discord) Env() map[string]string {
	return map[string]string{"DISCORD_BOT_TOKEN": d.Token(), "DISCORD_API_URL": d.URL()}
}

func (d *discord) Lines() []string {
	return []string{"access: {discord: {users: ['" + d.people[Ann] + "']}}"}
}

func (d *discord) Mention() string { return discordtest.Mention(d.Bot().ID) }

func (d *discord) Person(who Who) string { return d.people[who] }

func (d *discord) Serve(http.Handler) {}

// Guild is where the rooms are.
func (d *discord) Guild() string { return d.guild }

// One process holds the gateway connection; the other waits for its lease.
func (d *discord) Connected(int) bool { return d.Server.Connected() == 1 }

// Strangers are told in private, outside of the room.
func (d *discord) Features() Features { return Features{Long: 9_000} }

func (d *discord) Again(testing.TB) { d.Redeliver() }

func (d *discord) Disturb(_ testing.TB, how Fault, n int) {
	d.disturb(http.MethodPost, "/channels/{channel}/messages", how, n)
}

func (d *discord) Violations() []string { return d.Server.Violations() }

func (d *discord) Room(testing.TB) Room {
	r := &discordRoom{discord: d, id: d.AddChannel(d.guild, Word())}
	d.rooms = append(d.rooms, r.id)
	return r
}

type discordRoom struct {
	discord *discord
	id      string
}

func (r *discordRoom) ID() string { return r.id }

func (r *discordRoom) Say(_ testing.TB, what Saying) string {
	if what.Mention {
		what.Text = r.discord.Mention() + " " + what.Text
	}
	said := discordtest.Utterance{Channel: r.id, User: r.discord.people[what.By], Text: what.Text, ReplyTo: what.Under}
	if len(what.File) > 0 {
		said.Files = map[string][]byte{pictureName: what.File}
	}
	return r.discord.Say(said)
}

func (r *discordRoom) Edit(_ testing.TB, id, text string) { r.discord.EditText(r.id, id, text) }

func (r *discordRoom) Seen(testing.TB) []Shown {
	var all []Shown
	for _, m := range r.discord.Own(r.id) {
		// Whoever asked is notified of the answer, as by any reply.
		pings := slices.DeleteFunc(slices.Clone(m.Pinged), func(id string) bool { return id == r.discord.people[Ann] })
		all = append(all, Shown{ID: m.ID, Text: m.Content, Pings: pings})
	}
	return all
}
