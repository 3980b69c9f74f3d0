package e2e

import (
	"net/http"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

func execution(workflowID, runID string) *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{WorkflowId: workflowID, RunId: runID}
}

func TestAModelThatMisbehavesGetsAnHonestAnswer(t *testing.T) {
	t.Parallel()
	call := func(name, arguments string) llmtest.Reply {
		return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall("c1", name, arguments)}}
	}
	limited := llmtest.Fail(429, "rate_limit_error", "This request would exceed your rate limit.")
	limited.Header = http.Header{"Retry-After": {"2"}}
	cut := llmtest.Say("half of it")
	cut.Stop = llmtest.StopLength
	half := llmtest.Say("half a stream that breaks")
	half.Ending = llmtest.EndCut
	halfCall := llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall("c1", "bash", `{"command":"echo cut >> cut`)}, Stop: llmtest.StopLength}
	twice := llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall("c1", "bash", `{"command":"echo a"}`), llmtest.ToolCall("c1", "bash", `{"command":"echo b"}`)}}
	for name, test := range map[string]struct {
		replies []llmtest.Reply // the last one for ever
		outcome string
		answer  string
		code    int
		calls   int // model calls = activity attempts
	}{
		"broken arguments": {[]llmtest.Reply{call("bash", `{"command": "uname`), llmtest.Say("sorry")}, "answered", "sorry", 0, 2},
		"an unknown tool":  {[]llmtest.Reply{call("teleport", `{}`), llmtest.Say("sorry")}, "answered", "sorry", 0, 2},
		"one id twice":     {[]llmtest.Reply{twice, llmtest.Say("both")}, "answered", "both", 0, 2},
		"nothing at all":   {[]llmtest.Reply{{}}, "failed", "empty answer", 1, 1},
		"a cut answer":     {[]llmtest.Reply{cut}, "answered", "cut off", 0, 1},
		"a cut call":       {[]llmtest.Reply{halfCall}, "answered", "cut off", 0, 1},
		"rate limited":     {[]llmtest.Reply{limited, llmtest.Say("at last")}, "answered", "at last", 0, 2},
		"overloaded":       {[]llmtest.Reply{llmtest.Fail(529, "overloaded_error", "Overloaded"), llmtest.Say("at last")}, "answered", "at last", 0, 2},
		"half a stream":    {[]llmtest.Reply{half, llmtest.Say("the whole")}, "answered", "the whole", 0, 2},
		"a bad key":        {[]llmtest.Reply{llmtest.Fail(401, "authentication_error", "invalid x-api-key")}, "failed", "refused our credentials", 1, 1},
		"a bad request":    {[]llmtest.Reply{llmtest.Fail(400, "invalid_request_error", "no")}, "failed", "refused this request", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, misbehaving(test.replies))
			w.Worker()
			e2etest.WantAnswer(t, w.Ask("misbehave"), test.outcome, test.answer, test.code)
			if got := len(w.Model.Requests()); got != test.calls {
				t.Errorf("%d model calls; want %d", got, test.calls)
			}
			e2etest.WantAnswer(t, w.Ask("hello"), "answered", "echo: hello", 0)
			for _, r := range w.Model.Requests() {
				if r.Refused != "" {
					t.Errorf("request %d is one that the provider refuses: %s", r.Number, r.Refused)
				}
			}
			w.Settled()
			w.WellFormed()
			if lines := w.Ran("cut"); len(lines) > 0 {
				t.Errorf("a call that was cut off was carried out: %v", lines)
			}
		})
	}
}

// misbehaving gives the replies in order until somebody says hello.
func misbehaving(replies []llmtest.Reply) llmtest.Script {
	inOrder := llmtest.InOrder(replies...)
	return func(r llmtest.Request) llmtest.Reply {
		if text := llmtest.Sentence(r.LastUserText()); strings.HasPrefix(text, "hello") {
			return llmtest.Say("echo: %s", text)
		}
		return inOrder(r)
	}
}
