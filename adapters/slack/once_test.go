package slack_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// echo answers with what was said.
func echo(r llmtest.Request) llmtest.Reply { return llmtest.Say("re: %s", lastWord(r)) }

// lastWord is the last word of the newest user turn.
func lastWord(r llmtest.Request) string {
	fields := strings.Fields(r.LastUserText())
	if len(fields) == 0 {
		return ""
	}
	return fields[len(fields)-1]
}

func TestAMentionHasOneAnswer(t *testing.T) {
	t.Parallel()
	in := install(t, slacktest.Options{}, llmtest.Always(llmtest.Say("an answer")))
	in.Worker()
	in.gateway()
	m := in.mention(in.general.ID, "", "hello")
	in.answered(in.general.ID, "an answer")
	// The first event again after its acknowledgement was lost, both events again, and one that is marked as a retry.
	in.must(in.slack.Redeliver(slacktest.Redelivery{Count: 2, Times: 3}))
	in.must(in.slack.Redeliver(slacktest.Redelivery{Count: 2, Reverse: true}))
	in.slack.Advance(25 * time.Hour)
	in.must(in.slack.Redeliver(slacktest.Redelivery{Count: 2}))
	in.mention(in.general.ID, "", "again")
	in.answered(in.general.ID, "an answer", "an answer")
	if got := in.Runs(); len(got) != 2 {
		t.Errorf("%d runs for two messages", len(got))
	}
	answer := in.slack.Messages(slacktest.Which{Channel: in.general.ID, ByApp: true})[0]
	if answer.ThreadTS != "" || answer.TS <= m.TS {
		t.Errorf("the answer went to thread %q", answer.ThreadTS)
	}
	if calls := in.slack.Calls("chat.postMessage"); len(calls) != 2 {
		t.Errorf("two short answers took %d posts", len(calls))
	}
	if calls := in.slack.Calls("chat.update"); len(calls) != 0 {
		t.Errorf("two short answers took %d edits", len(calls))
	}
}

func TestARetryThatIsTheFirstToArriveIsAnswered(t *testing.T) {
	t.Parallel()
	in := install(t, slacktest.Options{}, llmtest.Always(llmtest.Say("an answer")))
	in.Worker()
	in.gateway()
	in.slack.Hold()
	in.mention(in.general.ID, "", "hello")
	in.slack.Release(slacktest.Release{AsRetry: true, Reverse: true, Times: 2})
	in.answered(in.general.ID, "an answer")
}

func TestTwoGatewaysAnswerOnce(t *testing.T) {
	t.Parallel()
	in := install(t, slacktest.Options{}, llmtest.Always(llmtest.Say("an answer")))
	in.Worker()
	in.gateway()
	in.gateway()
	in.slack.Hold()
	in.mention(in.general.ID, "", "hello")
	in.slack.Release(slacktest.Release{Times: 4}) // over the four sockets of both, in turn
	in.answered(in.general.ID, "an answer")
}

func TestFiveMessagesAtOnceAreAllAnsweredInOrder(t *testing.T) {
	t.Parallel()
	in := install(t, slacktest.Options{}, echo)
	in.Worker()
	in.gateway()
	var want []string
	for i := range 5 {
		in.mention(in.general.ID, "", fmt.Sprintf("m%d", i))
		want = append(want, fmt.Sprintf("re: m%d", i))
	}
	in.answered(in.general.ID, want...)
	for i, got := range in.said(in.general.ID) {
		if got != want[i] {
			t.Errorf("answer %d is %q", i, got)
		}
	}
	in.eventually("no message carries an hourglass any more", func() bool {
		for _, v := range in.slack.Messages(slacktest.Which{Channel: in.general.ID}) {
			if len(v.Reactions["hourglass_flowing_sand"]) > 0 {
				return false
			}
		}
		return true
	})
	if len(in.slack.Calls("reactions.add")) == 0 {
		t.Error("no message that waited was marked")
	}
}
