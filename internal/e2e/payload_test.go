package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/adapters/terminal"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// number is what an environment variable sets, for runs that would take the usual suite too long.
func number(t testing.TB, name string, usual int) int {
	t.Helper()
	said := os.Getenv(name)
	if said == "" {
		return usual
	}
	n, err := strconv.Atoi(said)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q; it must be a number above 0", name, said)
	}
	return n
}

// TestALongQueueIsAnsweredInOrder has MIKAN_QUEUED messages wait in one session (default 40; 1000 for a release) behind
// one that the model does not answer yet.
func TestALongQueueIsAnsweredInOrder(t *testing.T) {
	t.Parallel()
	queued := number(t, "MIKAN_QUEUED", 40)
	release := make(chan struct{})
	w := newWorld(t, func(r llmtest.Request) llmtest.Reply {
		reply := llmtest.Say("an answer")
		if r.Number == 1 {
			reply.Hold = release
		}
		return reply
	})
	p := w.Worker()
	intake := w.intake()
	for i := range queued {
		w.say(intake, "a", fmt.Sprintf("message %d", i))
	}
	e2etest.WantAnswer(t, w.Ask("hello", "--conversation", "b"), "answered", "an answer", 0) // a long queue starves nobody
	began := time.Now()
	close(release)
	w.allSettle(queued + 1)
	e2etest.Took(t, fmt.Sprintf("%d queued messages", queued), began)
	order, err := e2etest.Rows(t.Context(), w.DB(), `
		SELECT e.body -> 'blocks' -> 0 ->> 'text' FROM entries e
		WHERE e.slot = 'prompt' AND e.body::text LIKE '%message %' ORDER BY e.session_id, e.seq`)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range queued {
		want = append(want, fmt.Sprintf("message %d", i))
	}
	if got := sentences(order); !slices.Equal(got, want) {
		t.Errorf("they were answered in the order %q", got)
	}
	w.Settled()
	w.WellFormed()
	longest := w.longestHistory()
	t.Logf("the longest history has %d events; the worker held %d MB at most", longest, p.Peak(t)>>20)
	if longest > temporalsEvents/10 {
		t.Errorf("a history has %d events", longest)
	}
}

// temporalsEvents is how many events of one execution Temporal allows.
const temporalsEvents = 51_200

// TestARunOfManyStepsStaysWithinTemporalsLimits makes a run of MIKAN_STEPS steps (default 30, which one execution holds;
// 10000 for a release, in as many executions as it takes), with a model whose window is a usual one, so that it is
// compacted on the way.
func TestARunOfManyStepsStaysWithinTemporalsLimits(t *testing.T) {
	t.Parallel()
	steps := number(t, "MIKAN_STEPS", 30)
	w := newWorld(t, stepping(steps))
	w.Model.Remember = 10
	p := w.Worker()
	began := time.Now()
	w.say(w.intake(), "a", "go on for long")
	w.allSettle(1)
	e2etest.Took(t, fmt.Sprintf("%d steps", steps), began)
	var workflowID, outcome string
	var taken int
	err := w.DB().QueryRow(t.Context(), `SELECT workflow_id, outcome, steps FROM runs`).Scan(&workflowID, &outcome, &taken)
	if err != nil {
		t.Fatal(err)
	}
	if outcome != "answered" || taken != steps+1 || len(w.Ran("ran")) != steps {
		t.Errorf("outcome %s after %d steps and %d calls, want %d", outcome, taken, len(w.Ran("ran")), steps)
	}
	w.Settled()
	w.WellFormed()
	longest := w.longestHistory()
	t.Logf("the longest history has %d events; the worker held %d MB at most; the model was asked %d times", longest, p.Peak(t)>>20, len(w.Model.Requests()))
	if longest > temporalsEvents/5 {
		t.Errorf("a history has %d events", longest)
	}
}

// stepping is a model that calls a tool so many times, however often it is asked for a summary in between.
func stepping(steps int) llmtest.Script {
	var called atomic.Int64
	return func(r llmtest.Request) llmtest.Reply {
		if len(r.Tools) == 0 {
			return llmtest.Say("I was told to go on for long, and did.")
		}
		n := called.Add(1)
		if n > int64(steps) {
			return llmtest.Say("done")
		}
		return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall(fmt.Sprintf("c%d", n), "bash", `{"command":"echo x >> ran"}`)}}
	}
}

// sentences are what people said, without what mikan adds to their messages.
func sentences(prompts []string) []string {
	var said []string
	for _, p := range prompts {
		said = append(said, llmtest.Sentence(p))
	}
	return said
}

// intake is a gateway's way in, in this process.
func (w *world) intake() *adapters.Intake {
	w.T.Helper()
	cfg, err := config.Load(func(name string) string { return w.Env[name] }, w.DataDir)
	if err != nil {
		w.T.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	metrics, err := telemetry.NewMetrics(log)
	if err != nil {
		w.T.Fatal(err)
	}
	connected, err := backend.Open(w.T.Context(), cfg, log, backend.Instruments{TemporalLog: telemetry.TemporalLogger(log)})
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(connected.Close)
	all, err := platforms.New(connected, metrics)
	if err != nil {
		w.T.Fatal(err)
	}
	return all.Intake
}

// listen is a connection that hears of settled runs.
func (w *world) listen() *pgx.Conn {
	w.T.Helper()
	conn, err := pgx.Connect(w.T.Context(), w.Env["MIKAN_DATABASE_URL"])
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = conn.Close(context.WithoutCancel(w.T.Context())) })
	if _, err := conn.Exec(w.T.Context(), `LISTEN mikan_run`); err != nil {
		w.T.Fatal(err)
	}
	return conn
}

// say puts a message on the terminal and returns the id of the run that answers it.
func (w *world) say(intake *adapters.Intake, conversation, text string) string {
	w.T.Helper()
	m, err := terminal.Message(terminal.Input{Conversation: conversation, User: "ann", Text: text})
	if err != nil {
		w.T.Fatal(err)
	}
	receipt, err := intake.Receive(w.T.Context(), m)
	if err != nil {
		w.T.Fatal(err)
	}
	return receipt.RunID
}

// allSettle waits until so many runs have settled, as long as runs or their steps go on.
func (w *world) allSettle(runs int) {
	w.T.Helper()
	var settled, steps int
	for last, since := -1, time.Now(); settled < runs; time.Sleep(50 * time.Millisecond) {
		err := w.DB().QueryRow(w.T.Context(), `SELECT count(*) FILTER (WHERE state = 'settled'), coalesce(sum(steps), 0) FROM runs`).Scan(&settled, &steps)
		if err != nil {
			w.T.Fatal(err)
		}
		if steps+settled != last {
			last, since = steps+settled, time.Now()
		}
		if time.Since(since) > e2etest.Patience {
			w.T.Fatalf("%d of %d runs have settled, and nothing goes on", settled, runs)
		}
	}
}

// longestHistory counts the events of the longest execution.
func (w *world) longestHistory() int64 {
	w.T.Helper()
	c := w.Temporal()
	var longest int64
	var page []byte
	for {
		list, err := c.ListWorkflow(w.T.Context(), &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1000, NextPageToken: page})
		if err != nil {
			w.T.Fatal(err)
		}
		for _, e := range list.GetExecutions() {
			longest = max(longest, e.GetHistoryLength())
		}
		if page = list.GetNextPageToken(); len(page) == 0 {
			return longest
		}
	}
}
