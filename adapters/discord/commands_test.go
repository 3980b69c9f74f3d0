package discord_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/discord"
	"github.com/geminixiang/mikan/adapters/discord/discordtest"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
)

var words = []string{"stop", "new", "compact", "model", "auto-reply", "session", "memory", "events", "help"}

func TestTheCommandsAreRegistered(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	r.eventually("the commands are registered", func() bool { return slices.Equal(r.discord.Commands(), words) })
}

// A description that is too long, or a name that is none, does not keep the others from being registered.
func TestOneBadCommandDoesNotBreakTheOthers(t *testing.T) {
	t.Parallel()
	fit, left := discord.Fitting(map[string]string{
		"help": "What mikan understands", "long": strings.Repeat("Länge ", 40), "Bad Name": "x", strings.Repeat("n", 33): "x", "bare": "",
	})
	if !slices.Equal(fit, []string{"bare", "help", "long"}) || len(left) != 2 {
		t.Errorf("registered: %q, left out: %q", fit, left)
	}
	r := newRig(t, discordtest.Options{})
	r.must(discord.Overwrite(t.Context(), r.adapter, fit, strings.Repeat("Länge ", 40)))
	if got := r.discord.Commands(); !slices.Equal(got, fit) {
		t.Errorf("registered: %q", got)
	}
	// Discord may know limits that mikan does not: then each is registered alone.
	s := newRig(t, discordtest.Options{})
	s.discord.Fail(discordtest.Fault{Method: "PUT", Route: "/applications/{application}/commands", Status: 400, Code: 50035})
	s.discord.Fail(discordtest.Fault{Method: "POST", Route: "/applications/{application}/commands", After: 1, Status: 400, Code: 50035})
	s.must(discord.Overwrite(t.Context(), s.adapter, fit, "short"))
	if got := s.discord.Commands(); !slices.Equal(got, []string{"bare", "long"}) {
		t.Errorf("registered one by one: %q", got)
	}
}

func TestACommandIsAnsweredToItsUserAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	r.known(r.general)
	thread := r.discord.OpenThread(r.general, "", "a thread")
	for name, c := range map[string]struct {
		channel, command string
		args             map[string]string
		text, key        string
	}{
		"help":                  {r.general, "help", nil, "/help", r.general},
		"stop":                  {r.general, "stop", nil, "/stop", r.general},
		"stop all, in a thread": {thread, "stop", map[string]string{"what": "all"}, "/stop all", r.general + ":" + thread},
	} {
		id := r.discord.Invoke(c.channel, r.ann, c.command, c.args)
		if got := r.decision(id); got != adapters.Commanded {
			t.Errorf("%s: %s", name, got)
		}
		m := r.taken(id)
		if m.Text != c.text || m.SessionKey != c.key || m.Author.ID != r.ann || m.Addressed != adapters.Pressed {
			t.Errorf("%s: taken in as %q in %s by %s (%s)", name, m.Text, m.SessionKey, m.Author.ID, m.Addressed)
		}
		r.eventually(name+" is answered", func() bool {
			w := r.discord.Whispers(id)
			return len(w) == 1 && w[0].Content != ""
		})
		if w := r.discord.Whispers(id); w[0].Flags&(1<<6) == 0 || len(w[0].Pinged) != 0 {
			t.Errorf("%s: %+v", name, w)
		}
	}
	if shown := append(r.own(r.general), r.own(thread)...); len(shown) != 0 {
		t.Errorf("everybody reads %q", shown)
	}
}

// A command is acknowledged when it is committed, not before.
func TestACommandIsAcknowledgedAfterTheCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{AnswerWithin: time.Minute})
	r.listen()
	r.known(r.general)
	r.refusing(r.unavailable())
	id := r.discord.Invoke(r.general, r.ann, "compact", nil)
	r.eventually("it was tried twice", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.refused > 1
	})
	if r.discord.Acknowledged(id) {
		t.Error("it was acknowledged before it was stored")
	}
	r.refusing(nil)
	r.eventually("it is acknowledged", func() bool { return r.discord.Acknowledged(id) })
	if got := r.triggers(); !slices.Equal(got, []string{id}) {
		t.Errorf("runs for %v", got)
	}
}

func TestALinkToTheSessionIsShownToOnePersonAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	r.known(r.general)
	question := r.say(discordtest.Utterance{Text: r.mention() + " hello"})
	r.decision(question)
	r.claim(r.general, r.general) // a session is there

	id := r.discord.Invoke(r.general, r.ann, "session", nil)
	r.eventually("the command is answered", func() bool { return len(r.discord.Whispers(id)) == 1 })
	if w := r.discord.Whispers(id)[0]; !strings.Contains(w.Content, "https://mikan.example/session/") {
		t.Errorf("the command shows %q", w.Content)
	}
	r.decision(r.say(discordtest.Utterance{Text: r.mention() + " /session"}))
	dm := r.discord.DM(r.ann)
	r.eventually("the message is answered", func() bool { return len(r.own(dm)) == 1 })
	if got := r.own(dm)[0]; !strings.Contains(got, "https://mikan.example/session/") {
		t.Errorf("the direct message shows %q", got)
	}
	if got := r.own(r.general); len(got) != 0 {
		t.Errorf("everybody reads %q", got)
	}
	var stored int
	r.must(r.store.Pool().QueryRow(t.Context(), `SELECT count(*) FROM chat_log WHERE text LIKE '%/session/%'`).Scan(&stored))
	if stored != 0 {
		t.Errorf("the link is in the log %d times", stored)
	}
}

func TestTheAnswerToACommandIsEditedAndFoundAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	r.known(r.general)
	id := r.discord.Invoke(r.general, r.ann, "compact", nil)
	if got := r.decision(id); got != adapters.Queued {
		t.Fatalf("decided %s", got)
	}
	r.eventually("it is acknowledged", func() bool { return r.discord.Acknowledged(id) })
	m := r.outgoing(r.general, "", "working")
	m.Reply = r.taken(id).Reply
	if _, found, err := r.adapter.FindDelivery(t.Context(), m, time.Now()); found || err != nil {
		t.Errorf("found before it was posted, %v", err)
	}
	r.discord.Fail(discordtest.Fault{Method: "PATCH", Route: "/webhooks/{application}/{token}/messages/{message}", Lost: discordtest.ReplyLost})
	if _, err := r.adapter.Post(t.Context(), m); fault.CodeOf(err) != fault.Unavailable || strings.Contains(err.Error(), "webhooks") {
		t.Errorf("a lost reply: %v", err)
	}
	answer, found, err := r.adapter.FindDelivery(t.Context(), m, time.Now())
	if err != nil || !found {
		t.Fatalf("not found, %v", err)
	}
	m.Markdown = "done"
	r.must(r.adapter.Edit(t.Context(), answer, m))
	r.must(r.adapter.Working(t.Context(), m, "thinking"))
	r.must(r.adapter.Mark(t.Context(), m, adapters.MarkQueued))
	if w := r.discord.Whispers(id); len(w) != 1 || w[0].Content != "done" {
		t.Errorf("shown: %+v", w)
	}
	m.Part, m.Markdown = 1, "and more"
	if first, found, err := r.adapter.FindDelivery(t.Context(), m, time.Now()); found || err != nil {
		t.Errorf("what is to follow is taken for the answer %s, %v", first, err)
	}
	r.post(m)
	if w := r.discord.Whispers(id); len(w) != 2 || w[1].Content != "and more" || w[1].Flags&(1<<6) == 0 {
		t.Errorf("shown: %+v", w)
	}
}

// When a command can no longer be answered, what was for one person alone goes to their direct conversation.
func TestALateAnswerToACommandStaysPrivate(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{AnswerWithin: time.Nanosecond})
	r.listen()
	r.known(r.general)
	id := r.discord.Invoke(r.general, r.ann, "help", nil)
	r.decision(id)
	m := r.outgoing(r.general, "", "for Ann")
	m.Reply, m.OnlyFor = r.taken(id).Reply, r.ann
	answer := r.post(m)
	dm := r.discord.DM(r.ann)
	m.Markdown = "for Ann, edited"
	r.must(r.adapter.Edit(t.Context(), answer, m))
	if got := r.own(dm); !slices.Contains(got, "for Ann, edited") {
		t.Errorf("the direct conversation shows %q", got)
	}
	if got := r.own(r.general); slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "Ann") }) {
		t.Errorf("everybody reads %q", got)
	}
	r.discord.RefuseDMs(r.ann)
	m.Key = strings.Repeat("1", 24)
	if _, err := r.adapter.Post(t.Context(), m); fault.CodeOf(err) != fault.Forbidden {
		t.Errorf("to somebody who takes no direct messages: %v", err)
	}
}

func TestDoctorNamesWhatToMend(t *testing.T) {
	t.Parallel()
	broken := func(r *rig) (all []string) {
		for _, f := range r.adapter.Check(t.Context()) {
			if f.Err != nil {
				all = append(all, f.What+": "+f.Err.Error())
			}
		}
		return all
	}
	for name, c := range map[string]struct {
		change func(*rig)
		says   string
	}{
		"nothing":         {func(*rig) {}, ""},
		"the token":       {func(r *rig) { r.discord.Revoke() }, "DISCORD_BOT_TOKEN"},
		"message content": {func(r *rig) { r.discord.WithoutMessageContent() }, "Privileged Gateway Intents"},
		"access": {func(r *rig) {
			r.must(r.store.UnsetAccess(t.Context(), "discord", store.PrincipalGuild, r.guild))
		}, r0},
		"another guild": {func(r *rig) {
			r.must(r.store.UnsetAccess(t.Context(), "discord", store.PrincipalGuild, r.guild))
			r.must(r.store.SetAccess(t.Context(), store.AccessRule{Platform: "discord", Kind: store.PrincipalGuild, Principal: "1", Effect: store.Allow}))
		}, "not in guild 1"},
	} {
		r := newRig(t, discordtest.Options{})
		c.change(r)
		got := broken(r)
		if (c.says == "") != (len(got) == 0) || len(got) > 1 || c.says != "" && !strings.Contains(got[0], c.says) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// r0 is how an operator lets a guild in.
const r0 = "mikan access allow discord guild"

func TestTheGuideInvitesWithTheSamePermissionsAsDoctor(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../deployments/discord/README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("permissions=%d", discord.Permissions); !strings.Contains(string(guide), want) {
		t.Errorf("deployments/discord/README.md does not say %s", want)
	}
}
