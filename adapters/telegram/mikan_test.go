package telegram_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/worker/service/servicetest"
)

// installation is mikan before a local Telegram: a worker and two gateways.
type installation struct {
	*rig
	*servicetest.Installation
}

// install runs it until the test ends. The people and chats of every rig may talk to it, but for bob.
func install(t testing.TB, script llmtest.Script) *installation {
	t.Helper()
	server := telegramtest.Start(t, telegramtest.Options{Pause: 20 * time.Millisecond})
	populate(server)
	mikan := servicetest.New(t, servicetest.Options{Script: script, Env: map[string]string{
		"TELEGRAM_BOT_TOKEN": server.Token, "TELEGRAM_API_URL": server.URL,
	}})
	in := &installation{rig: &rig{TB: t, telegram: server, store: mikan.Store}, Installation: mikan}
	for kind, ids := range map[store.PrincipalKind][]int64{store.PrincipalUser: {ann}, store.PrincipalChat: {group, forum}} {
		for _, id := range ids {
			in.must(in.store.SetAccess(t.Context(), store.AccessRule{Platform: "telegram", Kind: kind, Principal: itoa(id), Effect: store.Allow}))
		}
	}
	in.Gateway()
	in.Gateway()
	in.metrics = in.Worker().Metrics
	return in
}

// answered waits until a chat shows just these messages of mikan's, and nothing is left open.
func (in *installation) answered(chat int64, want ...string) {
	in.Helper()
	in.Shows(in, func() []string { return in.shown(chat) }, want...)
}

func TestMikanOnTelegram(t *testing.T) {
	t.Parallel()
	waiting, goOn := make(chan struct{}, 10), make(chan struct{})
	in := install(t, func(r llmtest.Request) llmtest.Reply {
		_, said, _ := strings.Cut(llmtest.Sentence(r.LastUserText())+"\n", "]: ") // behind "[time] [name] [in-thread:…]: "
		if said = strings.TrimSpace(said); said == "" {
			said = llmtest.Sentence(r.LastUserText())
		}
		if strings.HasPrefix(said, "wait") {
			waiting <- struct{}{}
			<-goOn
		}
		if strings.HasPrefix(said, "what did") {
			if strings.Contains(string(r.Body), "the secret is 42") {
				return llmtest.Say("you said 42")
			}
			return llmtest.Say("I do not know")
		}
		return llmtest.Say("**re:** %s", said)
	})
	me := "@" + in.telegram.Username

	// The placeholder is there before the model has said anything, and becomes the answer.
	in.say("wait in private")
	<-waiting
	in.eventually("the placeholder is shown", func() bool { return len(in.shown(ann)) == 1 })
	if got := in.shown(ann)[0]; !strings.Contains(got, "hinking") {
		t.Errorf("the placeholder says %q", got)
	}
	goOn <- struct{}{}
	in.answered(ann, "re: wait in private")
	if m := in.telegram.FromBot(ann)[0]; m.Versions == 0 || !slices.Equal(m.Bold, []string{"re:"}) {
		t.Errorf("the answer is %+v", m)
	}

	// Events that come again change nothing; a stranger in private is told once.
	in.telegram.Redeliver(5)
	in.telegram.Say(telegramtest.Said{Chat: bob, From: bob, Text: "let me in"})
	in.eventually("bob is told", func() bool { return len(in.shown(bob)) == 1 })
	in.answered(ann, "re: wait in private")

	// While a run goes on in a group, the group becomes a supergroup. The answer stands there, once, and whoever replies
	// to it is understood.
	in.telegram.Say(telegramtest.Said{Chat: group, From: bob, Text: me + " wait, the secret is 42"})
	<-waiting
	in.eventually("the placeholder is shown", func() bool { return len(in.shown(group)) == 1 })
	in.telegram.Migrate(group, became)
	goOn <- struct{}{}
	in.answered(became, "re: wait, the secret is 42")
	answer := in.telegram.FromBot(became)[0]
	in.telegram.Say(telegramtest.Said{Chat: became, From: bob, ReplyTo: answer.ID, Text: "what did I say?"})
	in.answered(became, "re: wait, the secret is 42", "you said 42")
	var offices int
	in.must(in.store.Pool().QueryRow(t.Context(), `SELECT count(*) FROM offices WHERE conversation_id IN ($1, $2)`, itoa(group), itoa(became)).Scan(&offices))
	if offices != 1 {
		t.Errorf("the group has %d offices", offices)
	}

	// A lost reply to the placeholder leaves a second one, and one answer.
	const resent = `mikan_deliveries_resent_total{part="first",platform="telegram"}`
	before := in.counted(resent)
	in.telegram.Fail(telegramtest.Fault{Method: "sendMessage", Chat: forum, Kind: telegramtest.LoseReply})
	topic := in.telegram.AddTopic(forum, bob, "deploys")
	in.telegram.Say(telegramtest.Said{Chat: forum, From: bob, Topic: topic, Text: me + " hello"})
	in.answered(forum, "Thinking…", "re: hello")
	if n := in.counted(resent) - before; n != 1 {
		t.Errorf("%v messages are counted as sent again", n)
	}
	for _, m := range in.telegram.FromBot(forum) {
		if m.Topic != topic {
			t.Errorf("%+v is not in the topic", m)
		}
	}
}
