package discord_test

import (
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/discord/discordtest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/worker/service/servicetest"
)

// installation is mikan before a local Discord. Nothing runs until Worker and gateway are called.
type installation struct {
	*rig
	*servicetest.Installation
}

func install(t testing.TB, o discordtest.Options, script llmtest.Script) *installation {
	t.Helper()
	server := discordtest.New(t, o)
	mikan := servicetest.New(t, servicetest.Options{Script: script, Env: map[string]string{
		"DISCORD_BOT_TOKEN": server.Token(), "DISCORD_API_URL": server.URL(),
	}})
	return &installation{rig: populate(t, server, mikan.Store), Installation: mikan}
}

// gateway starts a gateway and waits until one is connected.
func (in *installation) gateway() *servicetest.Process {
	in.Helper()
	p := in.Gateway()
	if !in.discord.AwaitConnected(in.soon(), 1) {
		in.Fatal("the gateway is not connected")
	}
	return p
}

// settle waits until nothing waits or runs.
func (in *installation) settle() {
	in.Helper()
	in.eventually("everything is settled", in.Settled)
}

// answered waits until mikan's messages in a channel are just these, in this order.
func (in *installation) answered(channel string, want ...string) {
	in.Helper()
	in.Shows(in, func() []string { return in.own(channel) }, want...)
}

// recalls answers with how many of the words it was shown.
func recalls(words ...string) llmtest.Script {
	return func(r llmtest.Request) llmtest.Reply {
		var text string
		for _, m := range r.Messages {
			if m.Role == "user" {
				text += m.Text
			}
		}
		var seen []string
		for _, w := range words {
			if strings.Contains(text, w) {
				seen = append(seen, w)
			}
		}
		return llmtest.Say("seen: %s", strings.Join(seen, " "))
	}
}

func TestAMentionHasOneAnswer(t *testing.T) {
	t.Parallel()
	slow := llmtest.Say("an **answer**")
	slow.Delay = 300 * time.Millisecond // long enough to be seen typing
	in := install(t, discordtest.Options{}, llmtest.Always(slow))
	in.Worker()
	in.gateway()
	id := in.say(discordtest.Utterance{Text: in.mention() + " hello"})
	in.answered(in.general, "an **answer**")
	in.discord.Redeliver()
	in.discord.Rewind(10)
	in.discord.ForgetSessions()
	in.discord.DropConnections()
	in.discord.AwaitConnected(in.soon(), 1)
	in.say(discordtest.Utterance{Channel: in.discord.DM(in.ann), Text: "hello"})
	in.answered(in.discord.DM(in.ann), "an **answer**")
	in.answered(in.general, "an **answer**")
	own := in.discord.Own(in.general)[0]
	if own.Reference == nil || own.Reference.MessageID != id || in.discord.Typed(in.general) == 0 {
		t.Errorf("shown: %+v, typed %d times", own, in.discord.Typed(in.general))
	}
	if n := len(in.Runs()); n != 2 {
		t.Errorf("%d runs", n)
	}
}

// A reply to an answer, and a thread opened under it, continue the run that gave it and know nothing that came later.
func TestAReplyAndAThreadForkTheAnswersRun(t *testing.T) {
	t.Parallel()
	in := install(t, discordtest.Options{}, recalls("apple", "pear", "plum", "fig"))
	in.Worker()
	in.gateway()
	first := in.say(discordtest.Utterance{Text: in.mention() + " apple"})
	in.answered(in.general, "seen: apple")
	answer := in.discord.Own(in.general)[0].ID
	in.say(discordtest.Utterance{Text: in.mention() + " pear"})
	in.answered(in.general, "seen: apple", "seen: apple pear")

	in.say(discordtest.Utterance{Text: "plum", ReplyTo: answer, Ping: true})
	in.answered(in.general, "seen: apple", "seen: apple pear", "seen: apple plum")

	thread := in.discord.OpenThread(in.general, answer, "under the answer")
	in.say(discordtest.Utterance{Channel: thread, Text: in.mention() + " fig"})
	in.eventually("the thread is answered", func() bool { return len(in.own(thread)) == 1 })
	in.settle()
	if got := in.own(thread)[0]; !strings.HasPrefix(got, "seen: apple") || !strings.HasSuffix(got, "fig") || strings.Contains(got, "pear") {
		t.Errorf("the thread shows %q", got)
	}
	in.say(discordtest.Utterance{Channel: thread, Text: "plum"}) // mikan takes part now
	in.eventually("what follows is answered", func() bool { return len(in.own(thread)) == 2 })
	in.settle()
	keys := map[string]int{}
	for _, r := range in.Runs() {
		keys[r.SessionKey]++
	}
	if keys[in.general] != 2 || keys[in.general+":"+answer] < 1 || len(keys) != 2 {
		t.Errorf("runs by session: %v (first message %s)", keys, first)
	}
}

func TestALostReplyAndStormsAreOneAnswer(t *testing.T) {
	t.Parallel()
	in := install(t, discordtest.Options{Rates: discordtest.RatesEnforced}, llmtest.Always(llmtest.Say("an answer")))
	in.discord.Fail(discordtest.Fault{Method: "POST", Route: create, Lost: discordtest.ReplyLost})
	in.Worker()
	in.gateway()
	in.say(discordtest.Utterance{Text: in.mention() + " one"})
	in.answered(in.general, "an answer")
	in.discord.Fail(discordtest.Fault{Method: "POST", Route: create, Times: 2, Status: 429, RetryAfter: 0.3})
	in.discord.Fail(discordtest.Fault{Method: "POST", Route: create, Times: 1, Status: 503})
	in.discord.Fail(discordtest.Fault{Method: "PATCH", Route: change, Times: 2, Status: 500})
	in.say(discordtest.Utterance{Text: in.mention() + " two"})
	in.answered(in.general, "an answer", "an answer")
}

func TestTwoGatewaysAnswerOnceAndOneTakesOver(t *testing.T) {
	t.Parallel()
	in := install(t, discordtest.Options{}, llmtest.Always(llmtest.Say("an answer")))
	in.Worker()
	first := in.gateway()
	in.gateway()
	in.say(discordtest.Utterance{Text: in.mention() + " one"})
	in.answered(in.general, "an answer")
	first.Quit()
	in.say(discordtest.Utterance{Text: in.mention() + " two"})
	in.answered(in.general, "an answer", "an answer")
}

// What another bot says never starts a run, so that two bots cannot keep each other busy.
func TestAnotherBotIsNeverAnswered(t *testing.T) {
	t.Parallel()
	in := install(t, discordtest.Options{}, llmtest.Always(llmtest.Say("an answer")))
	in.Worker()
	in.gateway()
	bot := in.discord.AddBot("other")
	in.discord.Join(in.guild, bot)
	in.say(discordtest.Utterance{Text: in.mention() + " hello"})
	in.answered(in.general, "an answer")
	answer := in.discord.Own(in.general)[0].ID
	for range 10 {
		in.say(discordtest.Utterance{User: bot, Text: in.mention() + " thanks", ReplyTo: answer, Ping: true})
	}
	in.say(discordtest.Utterance{Text: in.mention() + " bye"})
	in.answered(in.general, "an answer", "an answer")
}
