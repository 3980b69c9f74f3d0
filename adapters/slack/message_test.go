package slack_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/store"
)

// place is where something is said.
type place string

const (
	inChannel  place = "channel"
	inDM       place = "dm"
	inGroupDM  place = "group dm"
	inShared   place = "channel shared with another workspace"
	inThread   place = "thread"
	inDMThread place = "thread in a dm"
)

func TestWhatAMessageIsToMikan(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	team, me := r.slack.Team(), r.slack.Team().BotUser
	partner, err := r.slack.CreateTeam(slacktest.NewTeam{Name: "Partner"})
	r.must(err)
	bob := r.user(slacktest.NewUser{Name: "bob", DisplayName: "Bobby"})
	guest := r.user(slacktest.NewUser{Name: "guest", Kind: slacktest.Guest})
	stranger := r.user(slacktest.NewUser{Name: "stranger", Team: partner.ID})
	robot := r.user(slacktest.NewUser{Name: "deploybot", Kind: slacktest.Bot})
	everyone := []string{r.ann.ID, bob.ID, guest.ID, robot.ID}
	group := r.channel(slacktest.NewChannel{Name: "mpdm", Kind: slacktest.GroupDM, Members: []string{r.ann.ID, bob.ID}, WithBot: true})
	shared := r.channel(slacktest.NewChannel{Name: "partners", Members: []string{r.ann.ID, stranger.ID}, WithBot: true, SharedWith: []string{partner.ID}})
	town := r.channel(slacktest.NewChannel{Name: "town", Members: everyone, WithBot: true})
	dm, err := r.slack.OpenDM(r.ann.ID)
	r.must(err)
	dmRoot := r.say(slacktest.Saying{Channel: dm.ID, User: r.ann.ID, Text: "root"})
	root := r.say(slacktest.Saying{Channel: town.ID, User: bob.ID, Text: "root"})
	r.listen(bySocket)
	r.eventually("the people are known", func() bool {
		p, known, err := r.store.Person(t.Context(), "slack", team.ID, bob.ID)
		return err == nil && known && p.Name == "Bobby"
	})

	at := map[place]string{inChannel: town.ID, inThread: town.ID, inDM: dm.ID, inDMThread: dm.ID, inGroupDM: group.ID, inShared: shared.ID}
	mention := "<@" + me + ">"
	for _, c := range []struct {
		what     string
		at       place
		who      slacktest.User
		said     slacktest.Saying
		reason   adapters.Reason
		kind     store.AuthorKind
		standing adapters.Standing
		text     string
	}{
		{"a direct message", inDM, r.ann, slacktest.Saying{Text: "hello"}, adapters.DirectMessage, store.AuthorHuman, adapters.Member, "hello"},
		{"a reply in a thread of a direct message", inDMThread, r.ann, slacktest.Saying{Text: "and?"}, adapters.DirectMessage, store.AuthorHuman, adapters.Member, "and?"},
		{"a mention", inChannel, r.ann, slacktest.Saying{Text: mention + " hello"}, adapters.Mention, store.AuthorHuman, adapters.Member, "hello"},
		{"a mention in the middle", inChannel, r.ann, slacktest.Saying{Text: "hey " + mention + ", you"}, adapters.Mention, store.AuthorHuman, adapters.Member, "hey , you"},
		{"a mention in a thread", inThread, r.ann, slacktest.Saying{Text: mention + " hello"}, adapters.Mention, store.AuthorHuman, adapters.Member, "hello"},
		{"a reply in a thread without one", inThread, r.ann, slacktest.Saying{Text: "I agree"}, adapters.Ambient, store.AuthorHuman, adapters.Member, "I agree"},
		{"a mention of nothing else", inChannel, r.ann, slacktest.Saying{Text: mention}, adapters.Mention, store.AuthorHuman, adapters.Member, "recent conversation"},
		{"talk", inChannel, r.ann, slacktest.Saying{Text: "lunch?"}, adapters.Ambient, store.AuthorHuman, adapters.Member, "lunch?"},
		{"talk in a group DM", inGroupDM, r.ann, slacktest.Saying{Text: "lunch?"}, adapters.Ambient, store.AuthorHuman, adapters.Member, "lunch?"},
		{"a mention in a group DM", inGroupDM, r.ann, slacktest.Saying{Text: mention + " lunch?"}, adapters.Mention, store.AuthorHuman, adapters.Member, "lunch?"},
		{"a mention of somebody else", inChannel, r.ann, slacktest.Saying{Text: "ask <@" + bob.ID + ">"}, adapters.Ambient, store.AuthorHuman, adapters.Member, "ask @Bobby"},
		{"only our own mention is taken out", inChannel, r.ann, slacktest.Saying{Text: mention + " ask <@" + bob.ID + ">"}, adapters.Mention, store.AuthorHuman, adapters.Member, "ask @Bobby"},
		{"entities", inChannel, r.ann, slacktest.Saying{Text: mention + " a&lt;b &amp;&amp; c&gt;d &amp;lt;"}, adapters.Mention, store.AuthorHuman, adapters.Member, "a<b && c>d &lt;"},
		{"links", inChannel, r.ann, slacktest.Saying{Text: mention + " <https://a.example/x?a=1&amp;b=2> <https://b.example|here> <http://c.example|c.example> <mailto:a@b.example|a@b.example>"}, adapters.Mention, store.AuthorHuman, adapters.Member, "https://a.example/x?a=1&b=2 here (https://b.example) c.example a@b.example"},
		{"channels, groups, everybody and dates", inChannel, r.ann, slacktest.Saying{Text: "<#C0123456789|random> <!subteam^S0123456789|@ops> <!here> <!date^1392734382^{date}|Feb 18>"}, adapters.Ambient, store.AuthorHuman, adapters.Member, "#random @ops @here Feb 18"},
		{"a post by an app in a person's name", inChannel, bob, slacktest.Saying{Text: mention + " hello", Via: slacktest.ViaUserToken}, adapters.Mention, store.AuthorHuman, adapters.Member, "hello"},
		{"a bot's mention", inChannel, robot, slacktest.Saying{Text: mention + " hello"}, adapters.NotAddressed, store.AuthorBot, adapters.Stranger, "hello"},
		{"a bot's talk in a thread", inThread, robot, slacktest.Saying{Text: "deployed"}, adapters.NotAddressed, store.AuthorBot, adapters.Stranger, "deployed"},
		{"a webhook", inChannel, robot, slacktest.Saying{Text: mention + " down", Via: slacktest.ViaClassic}, adapters.NotAddressed, store.AuthorBot, adapters.Stranger, "down"},
		{"a bot that speaks in blocks and attachments", inChannel, robot, slacktest.Saying{
			Text:        "Alert",
			Blocks:      json.RawMessage(`[{"type":"header","text":{"type":"plain_text","text":"CPU <90%>"}},{"type":"section","text":{"type":"mrkdwn","text":"host &lt;db1&gt;"},"fields":[{"type":"mrkdwn","text":"load 9"}]},{"type":"divider"}]`),
			Attachments: json.RawMessage(`[{"title":"Runbook","text":"<https://run.example|open>","fields":[{"title":"Since","value":"10:00"}]}]`),
		}, adapters.NotAddressed, store.AuthorBot, adapters.Stranger, "Alert\nCPU <90%>\nhost <db1>\nload 9\nRunbook\nopen (https://run.example)\nSince: 10:00"},
		{"a guest", inChannel, guest, slacktest.Saying{Text: mention + " hello"}, adapters.Mention, store.AuthorHuman, adapters.Stranger, "hello"},
		{"somebody of another workspace", inShared, stranger, slacktest.Saying{Text: mention + " hello"}, adapters.Mention, store.AuthorHuman, adapters.Stranger, "hello"},
		{"a member in a channel shared with another workspace", inShared, r.ann, slacktest.Saying{Text: mention + " hello"}, adapters.Mention, store.AuthorHuman, adapters.Member, "hello"},
		{"a reply shown in the channel too", inThread, r.ann, slacktest.Saying{Text: mention + " everybody", Broadcast: true}, adapters.Mention, store.AuthorHuman, adapters.Member, "everybody"},
		{"/me", inChannel, r.ann, slacktest.Saying{Text: "waves at " + mention, Subtype: "me_message"}, adapters.NotAddressed, store.AuthorHuman, adapters.Member, "waves at"},
		{"an event that names no workspace inside", inChannel, r.ann, slacktest.Saying{Text: mention + " hello", WithoutTeam: true}, adapters.Mention, store.AuthorHuman, adapters.Member, "hello"},
	} {
		c.said.Channel, c.said.User = at[c.at], c.who.ID
		wantKey := at[c.at]
		switch c.at {
		case inThread:
			c.said.Thread = root.TS
			wantKey += ":" + root.TS
		case inDMThread:
			c.said.Thread = dmRoot.TS
			wantKey += ":" + dmRoot.TS
		}
		said := r.say(c.said)
		m := r.got(said.TS)
		if m.Addressed != c.reason || m.Author.Kind != c.kind || m.Standing != c.standing {
			t.Errorf("%s: addressed %q by a %s who is a %s; want %q, %s, %s", c.what, m.Addressed, m.Author.Kind, m.Standing, c.reason, c.kind, c.standing)
		}
		if m.Text != c.text && !(c.text == "recent conversation" && strings.Contains(m.Text, c.text)) {
			t.Errorf("%s: it reads %q, want %q", c.what, m.Text, c.text)
		}
		if m.SessionKey != wantKey || m.Address.ConversationID != at[c.at] || m.Change != adapters.Created {
			t.Errorf("%s: session %s of %s, %s; want %s", c.what, m.SessionKey, m.Address.ConversationID, m.Change, wantKey)
		}
		if want := map[bool]store.Audience{true: store.Private, false: store.Shared}[c.at == inDM || c.at == inDMThread]; m.Audience != want {
			t.Errorf("%s: read by a %s audience", c.what, m.Audience)
		}
	}
}

func TestWhatIsNoTalkIsNotTakenIn(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	r.listen(bySocket)
	for _, subtype := range []string{"channel_join", "channel_leave", "channel_topic", "channel_purpose", "channel_name", "pinned_item"} {
		r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Subtype: subtype, Text: "<@" + r.slack.Team().BotUser + "> was here"})
	}
	last := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "talk"})
	r.got(last.TS)
	if n := r.count(func(m adapters.Message) bool { return m.ID != last.TS }); n != 0 {
		t.Errorf("%d messages that are no talk came in", n)
	}
	r.eventually("all of it is acknowledged", func() bool {
		for _, d := range r.slack.Deliveries() {
			if !d.Acked {
				return false
			}
		}
		return true
	})
}

func TestEditsAndDeletionsKeepTheMessagesID(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	r.listen(bySocket)
	said := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "helo"})
	r.got(said.TS)
	_, err := r.slack.Edit(slacktest.Editing{Channel: r.general.ID, TS: said.TS, Text: "<@" + r.slack.Team().BotUser + "> hello"})
	r.must(err)
	r.eventually("the edit comes in", func() bool {
		return r.count(func(m adapters.Message) bool {
			return m.ID == said.TS && m.Change == adapters.Edited && m.Text == "hello" && m.Addressed == adapters.Mention && m.Author.ID == r.ann.ID
		}) > 0
	})
	r.must(r.slack.Delete(r.general.ID, said.TS))
	r.eventually("the deletion comes in", func() bool {
		return r.count(func(m adapters.Message) bool {
			return m.ID == said.TS && m.Change == adapters.Deleted && m.Addressed == adapters.NotAddressed
		}) > 0
	})
	// A root that has replies leaves a mark in its place.
	root := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "root"})
	r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "reply", Thread: root.TS})
	r.must(r.slack.Delete(r.general.ID, root.TS))
	r.eventually("the deletion of the root comes in", func() bool {
		return r.count(func(m adapters.Message) bool { return m.ID == root.TS && m.Change == adapters.Deleted }) > 0
	})
}

func TestAMessageAndItsMentionAreOneMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	r.listen(bySocket)
	said := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "<@" + r.slack.Team().BotUser + "> hello"})
	r.eventually("both events come in", func() bool {
		return r.count(func(m adapters.Message) bool { return m.ID == said.TS }) >= 2
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.received[0]
	for _, b := range r.received {
		if a.ID != b.ID || a.SessionKey != b.SessionKey || a.Text != b.Text || b.Addressed != adapters.Mention || string(a.Reply) != string(b.Reply) {
			t.Errorf("the events of one mention differ: %+v and %+v", a, b)
		}
	}
}

func TestWhereAnAnswerGoes(t *testing.T) {
	t.Parallel()
	for mode, wantRoot := range map[config.ReplyMode]bool{"": false, config.ReplyTopLevel: false, config.ReplyInThread: true} {
		r := newRig(t, slacktest.Options{}, config.SlackSettings{ReplyMode: mode})
		r.listen(bySocket)
		root := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "root"})
		reply := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "reply", Thread: root.TS})
		for _, said := range []slacktest.Message{root, reply} {
			m := r.got(said.TS)
			id, err := r.adapter.Post(t.Context(), adapters.Outgoing{Address: m.Address, Reply: m.Reply, Key: "k" + said.TS, Markdown: "an answer"})
			r.must(err)
			want := root.TS
			if said.TS == root.TS && !wantRoot {
				want = ""
			}
			for _, v := range r.slack.Messages(slacktest.Which{Channel: r.general.ID, ByApp: true}) {
				if v.TS == id && v.ThreadTS != want {
					t.Errorf("reply mode %q: the answer to %q went to thread %q, want %q", mode, said.Text, v.ThreadTS, want)
				}
			}
		}
	}
}

func TestAnotherWorkspacesEventsAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	second, err := r.slack.CreateTeam(slacktest.NewTeam{Name: "Second", Installed: true})
	r.must(err)
	eve := r.user(slacktest.NewUser{Name: "eve", Team: second.ID})
	theirs := r.channel(slacktest.NewChannel{Name: "theirs", Team: second.ID, Members: []string{eve.ID}, WithBot: true})
	r.listen(bySocket)
	foreign := r.say(slacktest.Saying{Channel: theirs.ID, User: eve.ID, Text: "<@" + second.BotUser + "> hello"})
	ours := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "hello"})
	r.got(ours.TS)
	r.eventually("the other workspace's event is acknowledged, so that it does not come again", func() bool {
		for _, d := range r.slack.Deliveries() {
			if d.Team == second.ID && !d.Acked {
				return false
			}
		}
		return true
	})
	if n := r.count(func(m adapters.Message) bool { return m.ID == foreign.TS }); n != 0 {
		t.Errorf("a second workspace's message came in %d times", n)
	}
}
