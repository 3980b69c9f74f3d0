package slack_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// slowly is an answer whose pieces come one by one, so that it is drawn while it grows.
func slowly(text string) llmtest.Script {
	return llmtest.Always(llmtest.Reply{Parts: []llmtest.Part{llmtest.Text("%s", text)}, Between: 500 * time.Millisecond})
}

var poem = strings.TrimSpace(strings.Repeat("roses are red and violets are blue ", 6))

func TestCallsThatFailLoseNoAnswer(t *testing.T) {
	t.Parallel()
	played := 0
	for name, faults := range map[string][]slacktest.Fault{
		"internal_error six times on every call that carries the answer": {
			{Method: "chat.postMessage", Kind: slacktest.ErrorCode, Code: "internal_error", Times: 6},
			{Method: "chat.update", Kind: slacktest.ErrorCode, Code: "internal_error", Times: 6},
		},
		"a post whose reply was lost":          {{Method: "chat.postMessage", Kind: slacktest.DropReply, Times: 1}},
		"a post that was served and refused":   {{Method: "chat.postMessage", Kind: slacktest.ErrorAfter, Code: "internal_error", Times: 1}},
		"429 with a Retry-After":               {{Method: "chat.postMessage", Kind: slacktest.TooMany, RetryAfter: 3 * time.Second, Times: 1}},
		"ratelimited inside a 200":             {{Method: "chat.postMessage", Kind: slacktest.TooManyInBody, Times: 2}},
		"edits limited while the answer grows": {{Method: "chat.update", Kind: slacktest.TooMany, RetryAfter: 3 * time.Second, Times: 1}},
	} {
		if played++; played > 2 && testing.Short() {
			break
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := install(t, slacktest.Options{}, slowly(poem))
			for _, f := range faults {
				in.inject(f)
			}
			in.Worker()
			in.gateway()
			in.mention(in.general.ID, "", "hello")
			in.answered(in.general.ID, poem)
		})
	}
}

func TestAStreamedAnswerSurvives(t *testing.T) {
	t.Parallel()
	played := 0
	for name, faults := range map[string][]slacktest.Fault{
		"nothing":                        nil,
		"internal_error on every call":   {{Method: "chat.startStream", Kind: slacktest.ErrorCode, Times: 2}, {Method: "chat.appendStream", Kind: slacktest.ErrorCode, Times: 2}, {Method: "chat.stopStream", Kind: slacktest.ErrorCode, Times: 2}, {Method: "chat.update", Kind: slacktest.ErrorCode, Times: 2}},
		"a start whose reply was lost":   {{Method: "chat.startStream", Kind: slacktest.DropReply, Times: 1}},
		"an append whose reply was lost": {{Method: "chat.appendStream", Kind: slacktest.DropReply, Times: 1}},
		"a workspace without streams":    {{Method: "chat.startStream", Kind: slacktest.ErrorCode, Code: "channel_type_not_supported"}},
		"a stream that Slack has closed": {{Method: "chat.appendStream", Kind: slacktest.ErrorCode, Code: "message_not_in_streaming_state", Times: 1}},
	} {
		if played++; played > 2 && testing.Short() {
			break
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := install(t, slacktest.Options{}, slowly(poem))
			root := in.say(slacktest.Saying{Channel: in.general.ID, User: in.ann.ID, Text: "root"})
			for _, f := range faults {
				in.inject(f)
			}
			in.Worker()
			in.gateway()
			in.mention(in.general.ID, root.TS, "hello")
			in.answered(in.general.ID, poem)
			v := in.shown(in.general.ID)[0]
			if v.Stream != nil && v.Stream.State == slacktest.Streaming {
				t.Error("the stream is still open")
			}
			if v.ThreadTS != root.TS {
				t.Errorf("the answer went to %q", v.ThreadTS)
			}
			in.eventually("the status is cleared", func() bool { return len(in.slack.Statuses()) == 0 })
		})
	}
}

func TestTheModelIsAskedWhileSlackAnswersNothing(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	var once sync.Once
	in := install(t, slacktest.Options{}, func(llmtest.Request) llmtest.Reply {
		once.Do(func() { close(asked) })
		return llmtest.Say("an answer")
	})
	in.Worker()
	in.gateway()
	in.eventually("the people are known", func() bool {
		_, known, err := in.store.Person(t.Context(), "slack", in.slack.Team().ID, in.ann.ID)
		return err == nil && known
	})
	in.inject(slacktest.Fault{Method: "*", Kind: slacktest.Slow, Latency: 5 * time.Minute})
	in.mention(in.general.ID, "", "hello")
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Fatal("a call to Slack stands between a message and the model")
	}
	in.slack.ClearFaults()
	in.answered(in.general.ID, "an answer")
}

func TestThirtyBusyRunsStayBelowSlacksRates(t *testing.T) {
	t.Parallel()
	in := install(t, slacktest.Options{}, slowly(poem)) // more than a rate is a violation
	in.Worker()
	in.Worker()
	in.gateway()
	var channels []slacktest.Channel
	for i := range 30 {
		c := in.channel(slacktest.NewChannel{Name: fmt.Sprintf("busy%d", i), Members: []string{in.ann.ID}, WithBot: true})
		channels = append(channels, c)
		thread := ""
		if i%2 == 1 {
			thread = in.say(slacktest.Saying{Channel: c.ID, User: in.ann.ID, Text: "root"}).TS
		}
		in.mention(c.ID, thread, "hello")
	}
	for _, c := range channels {
		in.answered(c.ID, poem)
	}
	for _, method := range []string{"chat.postMessage", "chat.update", "chat.startStream", "chat.appendStream", "chat.stopStream"} {
		t.Logf("%s: %d calls", method, len(in.slack.Calls(method)))
	}
}
