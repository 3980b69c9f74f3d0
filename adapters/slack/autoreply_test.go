package slack_test

import (
	"sync/atomic"
	"testing"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/jev/jevtest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// TestTalkIsJudgedWhereItIsAskedFor has people talk without a mention, with a decision model that knows what is meant.
func TestTalkIsJudgedWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	in := install(t, slacktest.Options{}, llmtest.Always(llmtest.Say("an answer")), "auto_reply: jev")
	var asked atomic.Int64
	judge := jevtest.NewServer(t, func(jevtest.Request) jevtest.Reply {
		switch asked.Add(1) {
		case 1:
			return jevtest.Reply{Probability: 0.49}
		case 2:
			return jevtest.Reply{Probability: 0.5}
		}
		return jevtest.Reply{} // whether the exchange is worth remembering
	})
	in.Env["OPENROUTER_API_KEY"], in.Env["OPENROUTER_BASE_URL"] = "test-key-of-the-judge", judge.OpenRouterURL()
	in.Worker()
	in.gateway()
	talk := func(text string) {
		in.say(slacktest.Saying{Channel: in.general.ID, User: in.ann.ID, Text: text})
	}
	talk("what a day")
	in.eventually("it is judged", func() bool { return len(judge.Requests()) == 1 })
	in.settle()
	talk("could somebody look at the build?")
	in.eventually("it is answered", func() bool { return len(in.said(in.general.ID)) == 1 })
	if got := in.Runs(); len(got) != 1 {
		t.Errorf("%d runs for one message that was meant", len(got))
	}
}
