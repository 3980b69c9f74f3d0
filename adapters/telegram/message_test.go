package telegram_test

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/telegram"
	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
	"github.com/geminixiang/mikan/internal/store"
)

func itoa[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

func listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

// whole is any text.
const whole = "*"

func TestWhatAMessageIsToMikan(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Privacy: telegramtest.PrivacyOff})
	me := "@" + r.telegram.Username
	r.listen()
	inGroup := r.telegram.Say(telegramtest.Said{Chat: group, From: bob, Text: "root"})
	id, err := r.adapter.Post(t.Context(), to(group, "my answer", telegram.Reply{}))
	r.must(err)
	mine, _ := strconv.Atoi(id)

	for _, c := range []struct {
		what   string
		said   telegramtest.Said
		reason adapters.Reason
		kind   store.AuthorKind
		author string
		text   string
	}{
		{"a private message", telegramtest.Said{Chat: ann, From: ann, Text: "hello"}, adapters.DirectMessage, store.AuthorHuman, itoa(ann), "hello"},
		{"a mention", telegramtest.Said{Chat: group, From: ann, Text: me + " hello"}, adapters.Mention, store.AuthorHuman, itoa(ann), "hello"},
		{"a mention in another case", telegramtest.Said{Chat: group, From: ann, Text: strings.ToUpper(me) + " hello"}, adapters.Mention, store.AuthorHuman, itoa(ann), "hello"},
		{"a mention in the middle", telegramtest.Said{Chat: group, From: ann, Text: "say " + me + " hello"}, adapters.Mention, store.AuthorHuman, itoa(ann), "say hello"},
		{"a mention behind emoji", telegramtest.Said{Chat: group, From: ann, Text: "👍🏽 " + me + " ok 👍🏽"}, adapters.Mention, store.AuthorHuman, itoa(ann), "👍🏽 ok 👍🏽"},
		{"a mention of nothing else", telegramtest.Said{Chat: group, From: ann, Text: me}, adapters.Mention, store.AuthorHuman, itoa(ann), whole},
		{"a mention of somebody else", telegramtest.Said{Chat: group, From: ann, Text: "@ann_example look"}, adapters.Ambient, store.AuthorHuman, itoa(ann), "@ann_example look"},
		{"only our own mention is taken out", telegramtest.Said{Chat: group, From: ann, Text: me + " ask @ann_example"}, adapters.Mention, store.AuthorHuman, itoa(ann), "ask @ann_example"},
		{"a longer name", telegramtest.Said{Chat: group, From: ann, Text: me + "2 hello"}, adapters.Ambient, store.AuthorHuman, itoa(ann), me + "2 hello"},
		{"the bot picked from a list", telegramtest.Said{Chat: group, From: ann, Text: "mikan hello", Mentions: r.telegram.BotID}, adapters.Mention, store.AuthorHuman, itoa(ann), "hello"},
		{"a command for the bot", telegramtest.Said{Chat: group, From: ann, Text: "/new" + me}, adapters.Mention, store.AuthorHuman, itoa(ann), "/new"},
		{"a command for whoever hears it", telegramtest.Said{Chat: group, From: ann, Text: "/new"}, adapters.Ambient, store.AuthorHuman, itoa(ann), "/new"},
		{"a reply to the bot", telegramtest.Said{Chat: group, From: ann, Text: "and?", ReplyTo: mine}, adapters.Reply, store.AuthorHuman, itoa(ann), "and?"},
		{"a reply to somebody else", telegramtest.Said{Chat: group, From: ann, Text: "and?", ReplyTo: inGroup}, adapters.Ambient, store.AuthorHuman, itoa(ann), "and?"},
		{"talk", telegramtest.Said{Chat: group, From: bob, Text: "lunch?"}, adapters.Ambient, store.AuthorHuman, itoa(bob), "lunch?"},
		{"an anonymous administrator", telegramtest.Said{Chat: super, As: super, Text: me + " hello"}, adapters.Mention, store.AuthorHuman, itoa(super), "hello"},
		{"somebody who posts as a channel", telegramtest.Said{Chat: super, As: -100777, Text: me + " hello"}, adapters.Mention, store.AuthorHuman, "-100777", "hello"},
		{"a channel's post that Telegram copied", telegramtest.Said{Chat: super, As: -100777, Auto: telegramtest.Forwarded, Text: me + " news"}, adapters.Mention, store.AuthorBot, "-100777", "news"},
	} {
		m := r.got(c.said.Chat, itoa(r.telegram.Say(c.said)))
		if m.Addressed != c.reason || m.Author.Kind != c.kind || m.Author.ID != c.author || c.text != whole && m.Text != c.text || m.Text == "" {
			t.Errorf("%s: %s by %s %s, %q", c.what, m.Addressed, m.Author.Kind, m.Author.ID, m.Text)
		}
		if m.Standing != adapters.Stranger || m.Groups[0].Kind != store.PrincipalChat || m.Groups[0].ID != itoa(c.said.Chat) {
			t.Errorf("%s: %s, %v: nobody talks to mikan unless a rule admits the person or the chat", c.what, m.Standing, m.Groups)
		}
		if private := c.said.Chat > 0; (m.Audience == store.Private) != private || m.Address.ConversationID != itoa(c.said.Chat) {
			t.Errorf("%s: %s in %s", c.what, m.Audience, m.Address.ConversationID)
		}
	}
}

func TestACommandForAnotherBotIsOnlyLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Privacy: telegramtest.PrivacyOff})
	r.listen()
	m := r.got(group, itoa(r.telegram.Say(telegramtest.Said{Chat: group, From: ann, Text: "/stop@other_bot"})))
	if m.Purpose != adapters.ForContext || m.Addressed != adapters.NotAddressed {
		t.Errorf("it is for %q and addressed by %q", m.Purpose, m.Addressed)
	}
}

func TestSessionKeysAndPlaces(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Privacy: telegramtest.PrivacyOff})
	r.listen()
	topic := r.telegram.AddTopic(forum, bob, "deploys")
	inTopic := r.telegram.Say(telegramtest.Said{Chat: forum, From: bob, Text: "root", Topic: topic})
	general := r.telegram.Say(telegramtest.Said{Chat: forum, From: bob, Text: "root"})
	root := r.telegram.Say(telegramtest.Said{Chat: super, From: bob, Text: "root"})
	answer := r.telegram.Say(telegramtest.Said{Chat: super, From: bob, Text: "answer", ReplyTo: root})
	private := r.telegram.Say(telegramtest.Said{Chat: ann, From: ann, Text: "first"})
	for _, c := range []struct {
		what    string
		said    telegramtest.Said
		suffix  string // "own": the message's id
		replyTo string
		thread  string
	}{
		{"private", telegramtest.Said{Chat: ann, From: ann}, "", "", ""},
		{"a private reply", telegramtest.Said{Chat: ann, From: ann, ReplyTo: private}, "", itoa(private), ""},
		{"top level", telegramtest.Said{Chat: super, From: ann}, "own", "", ""},
		{"a reply", telegramtest.Said{Chat: super, From: ann, ReplyTo: root}, itoa(root), itoa(root), ""},
		{"a reply to a reply", telegramtest.Said{Chat: super, From: ann, ReplyTo: answer}, itoa(answer), itoa(answer), ""},
		{"in a topic", telegramtest.Said{Chat: forum, From: ann, Topic: topic}, itoa(topic), "", itoa(topic)},
		{"a reply in a topic", telegramtest.Said{Chat: forum, From: ann, Topic: topic, ReplyTo: inTopic}, itoa(topic), itoa(inTopic), itoa(topic)},
		{"in a forum's general topic", telegramtest.Said{Chat: forum, From: ann, Topic: telegramtest.GeneralID}, "own", "", ""},
		{"a reply in the general topic", telegramtest.Said{Chat: forum, From: ann, ReplyTo: general}, itoa(general), itoa(general), ""},
	} {
		c.said.Text = "hello"
		id := itoa(r.telegram.Say(c.said))
		m := r.got(c.said.Chat, id)
		want := itoa(c.said.Chat)
		switch c.suffix {
		case "":
		case "own":
			want += ":" + id
		default:
			want += ":" + c.suffix
		}
		if m.SessionKey != want || m.ReplyTo != c.replyTo || m.ThreadID != c.thread {
			t.Errorf("%s: key %s, reply to %q, thread %q; want %s, %q, %q", c.what, m.SessionKey, m.ReplyTo, m.ThreadID, want, c.replyTo, c.thread)
		}
	}
}

func TestATopicOfTheBotsOwnDoesNotAddressIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Privacy: telegramtest.PrivacyOff})
	r.listen()
	topic := r.telegram.AddTopic(forum, r.telegram.BotID, "mine") // every message in it replies to a message of the bot's
	m := r.got(forum, itoa(r.telegram.Say(telegramtest.Said{Chat: forum, From: ann, Topic: topic, Text: "lunch?"})))
	if m.Addressed != adapters.Ambient || m.ReplyTo != "" {
		t.Errorf("it is addressed by %q and replies to %q", m.Addressed, m.ReplyTo)
	}
}

func TestFilesAndWhatCannotBeSaidInWords(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	r.listen()
	for _, c := range []struct {
		media   telegramtest.Media
		caption string
		text    string
		name    string // of the file, with <id> for the message's; empty: none
		kind    string
		problem string
	}{
		{telegramtest.Media{Kind: "document", Name: "plan.pdf", Type: "application/pdf", Content: []byte("%PDF")}, "look", "look", "plan.pdf", "application/pdf", ""},
		{telegramtest.Media{Kind: "photo", Content: []byte("not really a photo")}, "", "", "photo-<id>.jpg", "image/jpeg", ""},
		{telegramtest.Media{Kind: "voice", Type: "audio/ogg", Content: []byte("ogg"), Duration: 72}, "", "[voice message, 1:12]", "voice-<id>.ogg", "audio/ogg", ""},
		{telegramtest.Media{Kind: "video_note", Content: []byte("mp4"), Duration: 5}, "", "[video note, 0:05]", "video-note-<id>.mp4", "video/mp4", ""},
		{telegramtest.Media{Kind: "animation", Name: "cat.mp4", Type: "video/mp4", Content: []byte("mp4")}, "", "", "cat.mp4", "video/mp4", ""},
		{telegramtest.Media{Kind: "audio", Name: "song.mp3", Type: "audio/mpeg", Content: []byte("mp3")}, "", "", "song.mp3", "audio/mpeg", ""},
		{telegramtest.Media{Kind: "document", Name: "big.iso", Size: 20<<20 + 1}, "", "", "big.iso", "", "20 MB"},
		{telegramtest.Media{Kind: "sticker", Fields: map[string]any{"emoji": "🍊"}}, "", "[sticker 🍊]", "", "", ""},
		{telegramtest.Media{Kind: "location", Fields: map[string]any{"latitude": 48.2, "longitude": 16.37}}, "", "[location: 48.200000, 16.370000]", "", "", ""},
		{telegramtest.Media{Kind: "contact", Fields: map[string]any{"phone_number": "+43", "first_name": "Eve"}}, "", "[contact: Eve, +43]", "", "", ""},
		{telegramtest.Media{Kind: "dice", Fields: map[string]any{"emoji": "🎲", "value": 4}}, "", "[🎲 4]", "", "", ""},
	} {
		id := itoa(r.telegram.Say(telegramtest.Said{Chat: ann, From: ann, Text: c.caption, Media: &c.media}))
		m := r.got(ann, id)
		if m.Text != c.text {
			t.Errorf("%s: said %q, want %q", c.media.Kind, m.Text, c.text)
		}
		if c.name == "" {
			if len(m.Attachments) != 0 {
				t.Errorf("%s: files %+v", c.media.Kind, m.Attachments)
			}
			continue
		}
		if len(m.Attachments) != 1 {
			t.Fatalf("%s: files %+v", c.media.Kind, m.Attachments)
		}
		a := m.Attachments[0]
		if a.Name != strings.ReplaceAll(c.name, "<id>", id) || a.MediaType != c.kind || !strings.Contains(a.Problem, c.problem) || (a.Problem == "") != (c.problem == "") || a.Source == "" {
			t.Errorf("%s: %+v", c.media.Kind, a)
		}
	}
}

func TestWhatNobodySaysIsNoMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	r.listen()
	joined := r.telegram.Join(group, bob)
	r.got(ann, itoa(r.telegram.Say(telegramtest.Said{Chat: ann, From: ann, Text: "behind it"})))
	for _, m := range r.all() {
		if m.ID == itoa(joined) && m.Address.ConversationID == itoa(group) {
			t.Errorf("somebody's joining came in as %+v", m)
		}
	}
}

func TestAnEditComesInAsOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	r.listen()
	id := r.telegram.Say(telegramtest.Said{Chat: ann, From: ann, Text: "helo"})
	r.telegram.Change(ann, id, "hello")
	r.eventually("the edit comes in", func() bool {
		all := r.all()
		return len(all) == 2 && all[1].Change == adapters.Edited && all[1].Text == "hello" && all[1].ID == all[0].ID
	})
}

func TestPrivacyModeHidesTalkFromTheBot(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	r.listen()
	r.telegram.Say(telegramtest.Said{Chat: group, From: ann, Text: "lunch?"})
	heard := r.telegram.Say(telegramtest.Said{Chat: group, From: ann, Text: "@" + r.telegram.Username + " lunch?"})
	r.got(group, itoa(heard))
	if n := len(r.all()); n != 1 {
		t.Errorf("%d messages came in", n)
	}
}

func TestAnAlbumIsOneMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	photo := func(chat int64, album, caption string) string {
		return itoa(r.telegram.Say(telegramtest.Said{Chat: chat, From: ann, Album: album, Text: caption, Media: &telegramtest.Media{Kind: "photo", Content: []byte("x")}}))
	}
	first := photo(ann, "a1", "")
	photo(ann, "a1", "compare them")
	photo(ann, "a1", "")
	other := photo(ann, "a2", "these, too")
	photo(ann, "a2", "")
	mute := photo(ann, "a3", "")
	photo(ann, "a3", "")
	r.listen()
	m := r.got(ann, first)
	if len(m.Attachments) != 3 || m.Text != "compare them" || m.Addressed != adapters.DirectMessage {
		t.Errorf("the album is %d files, %q, %s", len(m.Attachments), m.Text, m.Addressed)
	}
	if m := r.got(ann, other); len(m.Attachments) != 2 || m.Text != "these, too" {
		t.Errorf("the other is %d files, %q", len(m.Attachments), m.Text)
	}
	if m := r.got(ann, mute); len(m.Attachments) != 2 || m.Addressed != adapters.DirectMessage {
		t.Errorf("one without a word is %d files, %s", len(m.Attachments), m.Addressed)
	}
	late := r.got(ann, photo(ann, "a3", "")) // a file that comes by itself asks for nothing
	if late.Addressed != adapters.NotAddressed || len(late.Attachments) != 1 || len(r.all()) != 4 {
		t.Errorf("a late file: %s; %d messages in all", late.Addressed, len(r.all()))
	}
}
