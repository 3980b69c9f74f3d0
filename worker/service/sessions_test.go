package service_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

// everything joins what a request holds of texts, calls and results.
func everything(r llmtest.Request) string {
	var b strings.Builder
	for _, m := range r.Messages {
		b.WriteString(m.Role + ": " + m.Text + "\n")
		for _, c := range m.Calls {
			b.WriteString("call " + c.Name + " " + c.Arguments + "\n")
		}
		for _, result := range m.Results {
			b.WriteString("result " + result.Text + "\n")
		}
	}
	return b.String()
}

func TestAThreadCarriesOnTheRunItGrewFrom(t *testing.T) {
	t.Parallel()
	m := start(t, llmtest.Echo(llmtest.EchoOptions{}))
	trigger, receipt := m.send("room", "", "run: echo forty-$((40+2)); echo x >> ran")
	first := m.settled(receipt.RunID)
	m.wantOutcome(first, run.Answered)
	m.ask("room", "", "something later")
	for _, root := range []string{first.messageID, trigger.ID} {
		before := len(m.Model.Requests())
		m.wantOutcome(m.ask("room", root, "what did it print?"), run.Answered)
		requests := m.Model.Requests()
		if len(requests) != before+1 {
			t.Fatalf("the thread took %d model calls, want 1", len(requests)-before)
		}
		read := everything(requests[before])
		for _, want := range []string{"call bash", "forty-42", "what did it print?"} {
			if !strings.Contains(read, want) {
				t.Errorf("the thread under %s does not know %q:\n%s", root, want, read)
			}
		}
		if strings.Contains(read, "something later") {
			t.Errorf("the thread under %s knows what came later", root)
		}
	}
	ran := m.ask("room", "", "run: wc -l < ran")
	if !strings.Contains(ran.text, "1") {
		t.Errorf("the command ran again: %q", ran.text)
	}
}

func TestAThreadOpenedDuringARunWaitsForIt(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		reply := llmtest.Say("answer %d", len(r.Messages))
		if r.Number == 1 {
			reply.Hold = release
		}
		return reply
	})
	trigger, first := m.send("room", "", "slow one")
	m.eventually("the model is called", func() bool { return len(m.Model.Requests()) == 1 })
	_, thread := m.send("room", trigger.ID, "in the thread")
	m.eventually("the thread waits for the run", func() bool {
		var waits int
		m.must(m.Store.Pool().QueryRow(t.Context(), `SELECT count(*) FROM run_waits`).Scan(&waits))
		return waits == 1
	})
	close(release)
	m.wantOutcome(m.settled(first.RunID), run.Answered)
	m.wantOutcome(m.settled(thread.RunID), run.Answered)
	last := m.Model.Requests()[1]
	if read := everything(last); !strings.Contains(read, "slow one") || !strings.Contains(read, "answer 1") {
		t.Errorf("the thread did not inherit the run that it waited for:\n%s", read)
	}
}

func TestQueuedMessagesRunInOrderAndSeeEarlierAnswers(t *testing.T) {
	t.Parallel()
	m := start(t, llmtest.Echo(llmtest.EchoOptions{}))
	var runs []string
	for i := range 5 {
		_, receipt := m.send("room", "", fmt.Sprintf("message %d", i))
		runs = append(runs, receipt.RunID)
	}
	for _, id := range runs {
		m.wantOutcome(m.settled(id), run.Answered)
	}
	requests := m.Model.Requests()
	if len(requests) != 5 {
		t.Fatalf("%d model calls for 5 messages", len(requests))
	}
	for i, r := range requests {
		read := everything(r)
		for j := range 5 {
			if n := strings.Count(read, fmt.Sprintf("[ann]: message %d", j)); (j <= i) != (n == 1) {
				t.Errorf("call %d holds message %d %d times", i, j, n)
			}
		}
	}
}

func TestNewEmptiesTheContextAtOnceAlsoDuringARun(t *testing.T) {
	t.Parallel()
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		if strings.Contains(r.Messages[len(r.Messages)-1].Text, "never ends") {
			return llmtest.Reply{Ending: llmtest.EndStall}
		}
		return llmtest.Say("fine")
	})
	m.ask("room", "", "a secret plan")
	_, stuck := m.send("room", "", "this never ends")
	m.eventually("the model is called", func() bool { return len(m.Model.Requests()) == 2 })
	_, behind := m.send("room", "", "said before the reset")
	m.send("room", "", "/new")
	_, after := m.send("room", "", "said after the reset")
	m.wantOutcome(m.settled(stuck.RunID), run.Stopped)
	m.wantOutcome(m.settled(behind.RunID), run.Answered)
	m.wantOutcome(m.settled(after.RunID), run.Answered)
	requests := m.Model.Requests()
	for _, r := range requests[2:] {
		if read := everything(r); strings.Contains(read, "secret plan") || strings.Contains(read, "never ends") {
			t.Errorf("what was said before the reset came back:\n%s", read)
		}
	}
	session, _, err := m.Store.CurrentSession(t.Context(), after.OfficeKey, "room")
	m.must(err)
	if session.Epoch != 1 {
		t.Errorf("epoch %d", session.Epoch)
	}
}

// window is how many tokens the small model of the tests takes, by the server's own count: four bytes a token.
const window = 8000

// smallModel refuses what does not fit its window, as providers do, and counts what does.
func smallModel(seen func(tokens int, r llmtest.Request), then llmtest.Script) llmtest.Script {
	return func(r llmtest.Request) llmtest.Reply {
		tokens := len(r.Body) / 4
		if tokens > window {
			return llmtest.Fail(400, "invalid_request_error", fmt.Sprintf("prompt is too long: %d tokens > %d maximum", tokens, window))
		}
		seen(tokens, r)
		if strings.Contains(r.System, "summary") && len(r.Tools) == 0 {
			return llmtest.Say("Summary: they counted up in messages and all was well.")
		}
		reply := then(r)
		reply.Usage = llmtest.Usage{Input: int64(tokens), Output: 20}
		return reply
	}
}

var smallWindow = []string{"models:", "  anthropic/test-model:", "    context_window: 8000", "    max_output: 1000"}

// setting is how long a test goes on; the long version is for releases.
func setting(t *testing.T, name string, usual int) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return usual
}

func TestALongSessionStaysWithinASmallWindow(t *testing.T) {
	t.Parallel()
	turns := setting(t, "MIKAN_TURNS", 60)
	m := start(t, smallModel(func(int, llmtest.Request) {}, func(r llmtest.Request) llmtest.Reply {
		return llmtest.Say("%s", strings.Repeat("word ", 100))
	}), smallWindow...)
	for i := range turns {
		m.wantOutcome(m.ask("room", "", fmt.Sprintf("message %d %s", i, strings.Repeat("filler ", 50))), run.Answered)
	}
	var compactions int
	for n, r := range m.Model.Requests() {
		if r.Refused != "" {
			t.Errorf("request %d was refused: %s", n, r.Refused)
		}
		if strings.Contains(r.System, "summary") && len(r.Tools) == 0 {
			compactions++
		}
	}
	if compactions == 0 {
		t.Error("nothing was compacted")
	}
	t.Logf("%d turns, %d summary calls", turns, compactions)
}

func TestARunOfManyStepsNeverLosesItsMessage(t *testing.T) {
	t.Parallel()
	steps := setting(t, "MIKAN_TURNS", 60)
	step := 0
	m := start(t, smallModel(func(_ int, r llmtest.Request) {
		if len(r.Tools) > 0 && !strings.Contains(everything(r), "the marker is 7741") {
			t.Errorf("a request of the run has lost the message that it answers:\n%.2000s", everything(r))
		}
	}, func(r llmtest.Request) llmtest.Reply {
		step++
		if step > steps {
			return llmtest.Say("done")
		}
		return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall(fmt.Sprintf("c%d", step), "bash", `{"command":"yes abcdefgh | head -c 1500"}`)}}
	}), smallWindow...)
	a := m.ask("room", "", "the marker is 7741; go on for long")
	m.wantOutcome(a, run.Answered)
	if a.text != "done" || a.run.Steps != steps+1 {
		t.Errorf("it said %q after %d steps, want %d", a.text, a.run.Steps, steps+1)
	}
}

func TestAFailedSummaryLeavesTheSessionAndStillAnswers(t *testing.T) {
	t.Parallel()
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		if len(r.Body)/4 > window {
			return llmtest.Fail(400, "invalid_request_error", "prompt is too long: 9000 tokens > 8000 maximum")
		}
		if len(r.Tools) == 0 {
			return llmtest.Fail(400, "invalid_request_error", "no summaries today")
		}
		return llmtest.Say("%s", strings.Repeat("word ", 300))
	}, smallWindow...)
	var last answer
	for i := range 25 {
		last = m.ask("room", "", fmt.Sprintf("message %d %s", i, strings.Repeat("filler ", 100)))
		m.wantOutcome(last, run.Answered)
	}
	session, err := m.Store.FindSession(t.Context(), last.run.SessionID)
	m.must(err)
	if session.SummaryEntry != 0 || session.WindowSeq != 1 {
		t.Errorf("the session was changed: %+v", session)
	}
}

func TestAPromptThatCannotFitEndsWithAnHonestError(t *testing.T) {
	t.Parallel()
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		return llmtest.Fail(400, "invalid_request_error", "prompt is too long: 9000 tokens > 8000 maximum")
	}, smallWindow...)
	a := m.ask("room", "", "hello")
	m.wantOutcome(a, run.Failed)
	if !strings.Contains(a.text, "/new") {
		t.Errorf("the error does not say what to do: %q", a.text)
	}
	if n := len(m.Model.Requests()); n > 4 {
		t.Errorf("%d model calls for a request that cannot fit", n)
	}
}

func TestAStopInAThreadLeavesOtherSessionsAlone(t *testing.T) {
	t.Parallel()
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		if said := r.Messages[len(r.Messages)-1].Text; strings.HasSuffix(said, "hang here") || strings.HasSuffix(said, "hang there") {
			return llmtest.Reply{Ending: llmtest.EndStall}
		}
		return llmtest.Say("fine")
	})
	root, _ := m.send("room", "", "hello")
	_, top := m.send("room", "", "hang here")
	m.eventually("the top level hangs", func() bool { return len(m.Model.Requests()) == 2 })
	_, thread := m.send("room", root.ID, "hang there")
	m.eventually("both hang", func() bool { return len(m.Model.Requests()) == 3 })
	_, queued := m.send("room", root.ID, "queued")
	m.send("room", root.ID, "stop")
	stopped := m.settled(thread.RunID)
	m.wantOutcome(stopped, run.Stopped)
	m.wantOutcome(m.settled(queued.RunID), run.Answered)
	open, err := m.Store.Runs(t.Context(), store.RunFilter{OfficeKey: top.OfficeKey, State: store.Running, Limit: 10})
	m.must(err)
	if len(open) != 1 || open[0].ID != top.RunID {
		t.Errorf("open runs %+v, want only the top level's", open)
	}
	said, err := m.Store.RunDeliveries(t.Context(), thread.RunID)
	m.must(err)
	if len(said) != 1 || said[0].Text != "Stopped." || said[0].State != store.Final {
		t.Errorf("the stopped run said %+v, want the notice edited to Stopped.", said)
	}
	m.send("room", "", "/stop")
	m.wantOutcome(m.settled(top.RunID), run.Stopped)
}

func TestCompactIsARunOfItsOwn(t *testing.T) {
	t.Parallel()
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		if len(r.Tools) == 0 {
			return llmtest.Say("They talked about plums.")
		}
		return llmtest.Say("%s", strings.Repeat("plums ", 200))
	})
	nothing := m.ask("room", "", "/compact")
	m.wantOutcome(nothing, run.Answered)
	if nothing.text != "There is nothing to compact here yet." || len(m.Model.Requests()) != 0 {
		t.Errorf("it said %q after %d model calls", nothing.text, len(m.Model.Requests()))
	}
	for range 5 {
		m.ask("room", "", "tell me about plums")
	}
	done := m.ask("room", "", "/compact")
	m.wantOutcome(done, run.Answered)
	if done.run.Trigger != run.Command || !strings.Contains(done.text, "summary") {
		t.Errorf("a %s run said %q", done.run.Trigger, done.text)
	}
	m.ask("room", "", "and now?")
	requests := m.Model.Requests()
	read := everything(requests[len(requests)-1])
	if !strings.Contains(read, "They talked about plums.") || strings.Count(read, "tell me about plums") > 2 || strings.Contains(read, "/compact") {
		t.Errorf("after the compaction the model read:\n%.3000s", read)
	}
}
