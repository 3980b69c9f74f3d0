package discord_test

import (
	"slices"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/discord"
	"github.com/geminixiang/mikan/adapters/discord/discordtest"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
)

func TestWhereAMessageStandsDecidesOfficeAndSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	forum := r.discord.AddForum(r.guild, "help")
	r.listen()
	root := r.say(discordtest.Utterance{Text: "root"})
	thread := r.discord.OpenThread(r.general, root, "a thread")
	post := r.discord.OpenThread(forum, "", "a post")
	dm := r.discord.DM(r.ann)
	inThread := r.say(discordtest.Utterance{Channel: thread, Text: "first"})
	for name, c := range map[string]struct {
		say               discordtest.Utterance
		conversation, key string
		audience          store.Audience
	}{
		"top level":               {discordtest.Utterance{Text: "hi"}, r.general, r.general, store.Shared},
		"a reply":                 {discordtest.Utterance{Text: "hi", ReplyTo: root}, r.general, r.general + ":" + root, store.Shared},
		"a forwarded message":     {discordtest.Utterance{Text: "hi", ReplyTo: root, Forward: true}, r.general, r.general, store.Shared},
		"a thread":                {discordtest.Utterance{Channel: thread, Text: "hi"}, r.general, r.general + ":" + thread, store.Shared},
		"a reply inside a thread": {discordtest.Utterance{Channel: thread, Text: "hi", ReplyTo: inThread}, r.general, r.general + ":" + thread, store.Shared},
		"a forum's post":          {discordtest.Utterance{Channel: post, Text: "hi"}, forum, forum + ":" + post, store.Shared},
		"a direct message":        {discordtest.Utterance{Channel: dm, Text: "hi"}, dm, dm, store.Private},
	} {
		m := r.taken(r.say(c.say))
		if m.Address.ConversationID != c.conversation || m.SessionKey != c.key || m.Audience != c.audience {
			t.Errorf("%s: office %s, key %s, %s; want %s, %s, %s", name, m.Address.ConversationID, m.SessionKey, m.Audience, c.conversation, c.key, c.audience)
		}
	}
	if thread != root {
		t.Errorf("a thread of a message has the id %s, the message %s: the session would not fork", thread, root)
	}
	reply := r.say(discordtest.Utterance{Channel: dm, Text: "again", ReplyTo: r.say(discordtest.Utterance{Channel: dm, Text: "hi"})})
	if m := r.taken(reply); m.SessionKey != dm {
		t.Errorf("a reply in a direct conversation has the key %s", m.SessionKey)
	}
}

// No list that Discord gives has a direct conversation, and what comes while a session begins is left for later: a process
// that ends before must leave word of it.
func TestAFirstDirectMessageIsNotLostWithTheProcessThatLeftItForLater(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.discord.GuildsDown(true) // which a session waits for
	first := r.listen()
	dm := r.discord.DM(r.ann)
	said := r.say(discordtest.Utterance{Channel: dm, Text: "hello"})
	after := r.say(discordtest.Utterance{Channel: dm, Text: "oops"})
	r.discord.Remove(dm, after)
	r.eventually("all of it has come in", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.ContainsFunc(r.received, func(m adapters.Message) bool { return m.ID == after && m.Change == adapters.Deleted })
	})
	first.quit()
	r.discord.GuildsDown(false)
	r.wire("another process")
	r.listen()
	if m := r.taken(said); m.Text != "hello" || m.Address.ConversationID != dm {
		t.Errorf("taken in: %+v", m)
	}
}

func TestAnUnknownThreadIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	thread := r.discord.OpenThread(r.general, "", "archived")
	r.discord.Restrict(thread, "archived") // a connection is not told of it when it begins
	r.listen()
	r.discord.SendRaw("CHANNEL_DELETE", map[string]any{"id": thread})
	r.discord.Restrict(thread, "")
	for range 3 {
		if m := r.taken(r.say(discordtest.Utterance{Channel: thread, Text: "hi"})); m.SessionKey != r.general+":"+thread {
			t.Errorf("the key is %s", m.SessionKey)
		}
	}
	if n := len(r.discord.Calls("GET", "/channels/{channel}")); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestWhatAMessageIsAddressedBy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		clues discord.Clues
		want  adapters.Reason
	}{
		{"talk in a channel", discord.Clues{}, adapters.Ambient},
		{"a direct message", discord.Clues{Direct: true}, adapters.DirectMessage},
		{"a mention", discord.Clues{Mentioned: true}, adapters.Mention},
		{"a mention in a thread", discord.Clues{Mentioned: true, InThread: true}, adapters.Mention},
		{"a mention in a reply to mikan", discord.Clues{Mentioned: true, RepliesTo: true, Scoped: true}, adapters.Mention},
		{"a reply to mikan", discord.Clues{RepliesTo: true, Scoped: true}, adapters.Reply},
		{"a reply to mikan in a thread", discord.Clues{RepliesTo: true, Scoped: true, InThread: true}, adapters.Reply},
		{"talk in a thread", discord.Clues{InThread: true}, adapters.FollowUp},
		{"a reply to somebody else in a thread", discord.Clues{InThread: true, Scoped: true}, adapters.FollowUp},
		{"a reply to somebody else", discord.Clues{Scoped: true}, adapters.NotAddressed},
	} {
		if got := c.clues.Reason(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWhoAndWhatTriggers(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	other := r.discord.AddBot("other")
	r.discord.Join(r.guild, other)
	thread := r.discord.OpenThread(r.general, "", "quiet")
	own, err := r.adapter.Post(t.Context(), r.outgoing(r.general, "", "an answer"))
	r.must(err)
	at := r.mention()
	for _, c := range []struct {
		name string
		say  discordtest.Utterance
		want adapters.Decision
	}{
		{"a mention", discordtest.Utterance{Text: at + " hello"}, adapters.Queued},
		{"the older form of a mention", discordtest.Utterance{Text: "<@!" + r.discord.Bot().ID + "> hello"}, adapters.Queued},
		{"the bot's own role", discordtest.Utterance{Text: "<@&" + r.discord.BotRole(r.guild) + "> hello"}, adapters.Queued},
		{"a reply to mikan", discordtest.Utterance{Text: "and then?", ReplyTo: own}, adapters.Queued},
		{"talk", discordtest.Utterance{Text: "hello all"}, adapters.Logged},
		{"@everyone", discordtest.Utterance{Text: "@everyone hello"}, adapters.Logged},
		{"a reply to somebody else", discordtest.Utterance{Text: "yes", ReplyTo: r.say(discordtest.Utterance{Text: "a"}), Ping: true}, adapters.Logged},
		{"a thread without mikan", discordtest.Utterance{Channel: thread, Text: "hello"}, adapters.Logged},
		{"a mention in a thread", discordtest.Utterance{Channel: thread, Text: "hey " + at}, adapters.Queued},
		{"another bot's mention", discordtest.Utterance{User: other, Text: at + " hello"}, adapters.Logged},
		{"a webhook's mention", discordtest.Utterance{Webhook: "4242", Text: at + " hello"}, adapters.Logged},
		{"another bot's reply", discordtest.Utterance{User: other, Text: "thanks", ReplyTo: own}, adapters.Logged},
		{"stop", discordtest.Utterance{Text: "stop"}, adapters.Commanded},
		{"stop, said to mikan", discordtest.Utterance{Text: at + " stop"}, adapters.Commanded},
		{"help, said to mikan", discordtest.Utterance{Text: at + " /help"}, adapters.Commanded},
	} {
		if got := r.decision(r.say(c.say)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	direct := r.say(discordtest.Utterance{Channel: r.discord.DM(r.ann), Text: "hello"})
	if got := r.decision(direct); got != adapters.Undecided {
		t.Errorf("a direct message: %s", got)
	}
	r.eventually("the direct message is accepted", func() bool { return slices.Contains(r.triggers(), direct) })
}

func TestWhatMikanSaysIsTakenInAsItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	id, err := r.adapter.Post(t.Context(), r.outgoing(r.general, "", r.mention()+" hello"))
	r.must(err)
	if m := r.taken(id); m.Author.Kind != store.AuthorMikan || r.decision(id) != adapters.Own || len(r.triggers()) != 0 {
		t.Errorf("the echo was taken for %+v", m.Author)
	}
}

func TestOnlyMikansOwnMentionIsTakenOutOfTheText(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	bob := r.discord.AddUser("Bob")
	r.listen()
	for said, want := range map[string]string{
		r.mention() + " ask " + discordtest.Mention(bob): "ask @bob",
		"hey " + r.mention() + " do":                     "hey do",
		r.mention():                                      "",
		"see <#" + r.general + ">, a < b, <https://x.example> <:smile:123> <@999999>": "see #general, a < b, <https://x.example> <:smile:123> <@999999>",
		"&lt; stays": "&lt; stays",
	} {
		if m := r.taken(r.say(discordtest.Utterance{Text: said})); m.Text != want {
			t.Errorf("%q reads %q, want %q", said, m.Text, want)
		}
	}
}

func TestWhatDiscordSaysItselfIsNoMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	r.discord.OpenThread(r.general, "", "a thread") // announced in the channel
	said := r.say(discordtest.Utterance{Text: "after it"})
	r.decision(said)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.received { // a message may be taken in twice: as it comes, and by reading what was missed
		if m.ID != said {
			t.Errorf("taken in: %+v", m)
		}
	}
}

func TestABotsEmbedsAreReadAsText(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	r.decision(r.say(discordtest.Utterance{Text: "before"})) // what a session begins with is read from the history
	r.discord.SendRaw("MESSAGE_CREATE", map[string]any{
		"id": "77", "channel_id": r.general, "guild_id": r.guild, "content": "", "webhook_id": "5", "type": 0, "timestamp": time.Now().Format(time.RFC3339),
		"author":     map[string]any{"id": "5", "username": "alerts", "bot": true},
		"embeds":     []any{map[string]any{"title": "Disk full", "description": "db1", "fields": []any{map[string]any{"name": "use", "value": "99%"}}}},
		"components": []any{map[string]any{"type": 99, "unheard": "of"}},
	})
	m := r.taken("77")
	if m.Text != "Disk full\ndb1\nuse: 99%" || m.Author.Kind != store.AuthorBot {
		t.Errorf("read as %+v", m)
	}
}

func TestEditsAndDeletionsChangeTheLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	id := r.say(discordtest.Utterance{Text: "one"})
	r.awaitText(r.general, id, "one")
	r.discord.EditText(r.general, id, "two")
	r.awaitText(r.general, id, "two")

	r.discord.Unfurl(r.general, id) // names no content
	r.decision(r.say(discordtest.Utterance{Text: "after the preview"}))
	if m, err := r.logged(r.general, id); err != nil || m.Text != "two" || m.Revision != 1 {
		t.Errorf("a preview changed the log to %+v, %v", m, err)
	}

	r.discord.Remove(r.general, id)
	r.eventually("the message is deleted", func() bool {
		m, err := r.logged(r.general, id)
		return err == nil && m.Deleted
	})
	if len(r.triggers()) != 0 {
		t.Errorf("runs: %v", r.triggers())
	}
}

func TestAnEditThatAddsTheMentionStartsOneRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	id := r.say(discordtest.Utterance{Text: "what is this"})
	r.decision(id)
	r.discord.EditText(r.general, id, r.mention()+" what is that")
	r.eventually("it waits for its run", func() bool { return slices.Equal(r.triggers(), []string{id}) })
	r.discord.EditText(r.general, id, r.mention()+" what is that, please")
	r.awaitText(r.general, id, "what is that, please")
	if got := r.triggers(); !slices.Equal(got, []string{id}) {
		t.Errorf("runs: %v", got)
	}
}

func TestMembersOfListedGuildsMayTalk(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	elsewhere := r.discord.AddGuild("elsewhere")
	hall := r.discord.AddChannel(elsewhere, "hall")
	eve := r.discord.AddUser("Eve")
	r.discord.Join(elsewhere, eve)
	r.discord.Join(elsewhere, r.ann)
	r.listen()
	first := r.say(discordtest.Utterance{Channel: hall, User: eve, Text: r.mention() + " hello"})
	if got := r.decision(first); got != adapters.Stranged {
		t.Errorf("in a guild that is not listed: %s", got)
	}
	r.eventually("she alone is told", func() bool { return len(r.own(r.discord.DM(eve))) == 1 })
	r.decision(r.say(discordtest.Utterance{Channel: hall, User: eve, Text: r.mention() + " hello?"}))
	if n, shown := len(r.own(r.discord.DM(eve))), len(r.own(hall)); n != 1 || shown != 0 {
		t.Errorf("told %d times, and %d times in the channel", n, shown)
	}

	fromAnn := r.say(discordtest.Utterance{Channel: r.discord.DM(r.ann), Text: "hello"})
	fromEve := r.say(discordtest.Utterance{Channel: r.discord.DM(eve), User: eve, Text: "hello"})
	r.eventually("Ann is answered", func() bool { return slices.Contains(r.triggers(), fromAnn) })
	r.eventually("Eve is not", func() bool {
		var open int
		r.must(r.store.Pool().QueryRow(t.Context(), `SELECT count(*) FROM inbox WHERE message_id = $1`, fromEve).Scan(&open))
		return open == 0
	})
}

func TestARoleCanBeAllowedAndDenied(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.must(r.store.UnsetAccess(t.Context(), "discord", store.PrincipalGuild, r.guild))
	for _, rule := range []store.AccessRule{
		{Platform: "discord", Kind: store.PrincipalRole, Principal: "71", Effect: store.Allow},
		{Platform: "discord", Kind: store.PrincipalRole, Principal: "72", Effect: store.Deny},
	} {
		r.must(r.store.SetAccess(t.Context(), rule))
	}
	for name, c := range map[string]struct {
		roles []string
		want  adapters.Standing
	}{
		"none":       {nil, adapters.Stranger},
		"allowed":    {[]string{"71"}, adapters.Member},
		"deny first": {[]string{"71", "72"}, adapters.Stranger},
	} {
		u := r.discord.AddUser(name)
		r.discord.Join(r.guild, u, c.roles...)
		got, err := r.adapter.Standing(t.Context(), adapters.Applicant{AuthorID: u})
		if err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
	r.discord.Fail(discordtest.Fault{Method: "GET", Route: "/guilds/{guild}/members/{user}", Status: 503})
	if got, err := r.adapter.Standing(t.Context(), adapters.Applicant{AuthorID: r.ann}); fault.CodeOf(err) != fault.Unavailable || got == adapters.Member {
		t.Errorf("a failed look-up: %s, %v", got, err)
	}
}
