package telegram_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/telegram"
	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
	"github.com/geminixiang/mikan/internal/fault"
)

// became is the supergroup that the group becomes; its messages count from 1.
const became int64 = -1009990001112

func TestASupergroupKeepsTheOfficeOfTheGroupThatItWas(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Privacy: telegramtest.PrivacyOff})
	r.listen()
	var old int
	for range 5 {
		old = r.telegram.Say(telegramtest.Said{Chat: group, From: ann, Text: "before"})
	}
	before := r.got(group, itoa(old))
	r.telegram.Migrate(group, became)
	// The new chat counts anew: its second message must not be taken for any of the group's.
	number := r.telegram.Say(telegramtest.Said{Chat: became, From: ann, Text: "after"})
	id := itoa(became) + "." + itoa(number)
	after := r.got(became, id)
	if after.Address != before.Address || after.Address.ConversationID != itoa(group) {
		t.Errorf("its office is that of %v, the group's was that of %v", after.Address, before.Address)
	}
	if want := itoa(group) + ":" + id; after.SessionKey != want {
		t.Errorf("its session key is %s, want %s", after.SessionKey, want)
	}
	if !slices.Contains(after.Groups, adapters.Group{Kind: "chat", ID: itoa(became)}) {
		t.Errorf("rules about the new id find %v", after.Groups)
	}

	m := after
	out := adapters.Outgoing{Address: m.Address, Reply: m.Reply, Key: "k", Markdown: "answer"}
	answer, err := r.adapter.Post(t.Context(), out)
	r.must(err)
	seen := r.telegram.FromBot(became)
	if len(seen) != 1 || seen[0].ReplyTo != number || answer != itoa(became)+"."+itoa(seen[0].ID) {
		t.Fatalf("the answer %s is shown as %+v", answer, seen)
	}
	out.Markdown = "a better answer"
	r.must(r.adapter.Edit(t.Context(), answer, out))
	if got := r.shown(became); !slices.Equal(got, []string{"a better answer"}) {
		t.Errorf("shown %q", got)
	}
	reply := r.telegram.Say(telegramtest.Said{Chat: became, From: ann, Text: "and?", ReplyTo: seen[0].ID})
	followUp := r.got(became, itoa(became)+"."+itoa(reply))
	if followUp.ReplyTo != answer || followUp.SessionKey != itoa(group)+":"+answer || followUp.Addressed != adapters.Reply {
		t.Errorf("a reply to the answer: %+v", followUp)
	}
	r.must(r.adapter.Delete(t.Context(), answer, out))
}

func TestAPostToAGroupThatHasBecomeASupergroupGoesThere(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Privacy: telegramtest.PrivacyOff})
	asked := r.telegram.Say(telegramtest.Said{Chat: group, From: ann, Text: "question"})
	draft := itoa(r.send(to(group, "Thinking…", telegram.Reply{Message: asked})))
	r.telegram.MigrateUnseen(group, became) // only the refusal tells
	for r.telegram.Say(telegramtest.Said{Chat: became, From: bob, Text: "chatter"}) < asked {
		continue // so that a message of the question's number stands in the new chat
	}

	if err := r.adapter.Edit(t.Context(), draft, to(group, "answer", telegram.Reply{Message: asked})); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("editing what stayed behind: %v", err)
	}
	id, err := r.adapter.Post(t.Context(), to(group, "answer", telegram.Reply{Message: asked}))
	r.must(err)
	seen := r.telegram.FromBot(became)
	if len(seen) != 1 || seen[0].Text != "answer" || !strings.HasPrefix(id, itoa(became)+".") {
		t.Fatalf("%s is shown as %+v", id, seen)
	}
	if seen[0].ReplyTo != 0 {
		t.Errorf("it replies to message %d, which is another one than in the group", seen[0].ReplyTo)
	}
	calls := len(r.telegram.Calls("sendMessage"))
	r.send(to(group, "more", telegram.Reply{Message: asked}))
	if n := len(r.telegram.Calls("sendMessage")) - calls; n != 1 {
		t.Errorf("the next message took %d calls: the new id was not kept", n)
	}
	if err := r.adapter.Delete(t.Context(), draft, to(group, "", telegram.Reply{})); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("deleting what stayed behind: %v", err)
	}
	if _, err := r.adapter.Upload(t.Context(), to(group, "", telegram.Reply{}), adapters.Upload{Name: "a.txt", Size: 1, Content: strings.NewReader("a")}); err != nil {
		t.Errorf("a file: %v", err)
	}
}
