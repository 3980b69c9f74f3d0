package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/testenv"
)

// stalling answers "hang" with the beginning of an answer and silence.
func stalling() llmtest.Script {
	echo := llmtest.Echo(llmtest.EchoOptions{})
	return func(r llmtest.Request) llmtest.Reply {
		if strings.HasPrefix(llmtest.Sentence(r.LastUserText()), "hang") {
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.Text("I begin to answer and then")}, Ending: llmtest.EndStall}
		}
		return echo(r)
	}
}

// openRun waits until a conversation has a run that got as far as a condition on its row, and returns its id.
func (w *world) openRun(conversation, condition string) (runID, workflowID string) {
	w.T.Helper()
	db := w.DB()
	e2etest.Eventually(w.T, "a run with "+condition, func(ctx context.Context) error {
		err := db.QueryRow(ctx, `SELECT id, workflow_id FROM runs r WHERE session_key = $1 AND state = 'running' AND `+condition, conversation).
			Scan(&runID, &workflowID)
		return err
	})
	return runID, workflowID
}

const (
	drafted = `EXISTS (SELECT 1 FROM deliveries d WHERE d.run_id = r.id AND d.state = 'posted')`
	calling = `EXISTS (SELECT 1 FROM run_steps s WHERE s.run_id = r.id AND s.process -> 'group' IS NOT NULL)`
)

// The ways to stop a run: each ends the open run of a conversation.
var stops = map[string]func(w *world, conversation, runID, workflowID string){
	"a word": func(w *world, conversation, _, _ string) {
		e2etest.WantAnswer(w.T, w.Ask("stop", "--conversation", conversation), "answered", "Stopped.", 0)
	},
	"the CLI": func(w *world, _, runID, _ string) {
		if out := w.Mikan("run", "stop", runID); out.Code != 0 {
			w.T.Errorf("run stop: %+v", out)
		}
	},
	"Temporal": func(w *world, _, _, workflowID string) {
		if err := w.Temporal().CancelWorkflow(w.T.Context(), workflowID, ""); err != nil {
			w.T.Error(err)
		}
	},
}

func TestAStopEndsAModelCallAndKeepsTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, stalling())
	w.Worker()
	for how, stop := range stops {
		t.Run(how, func(t *testing.T) {
			conversation := "m-" + strings.ReplaceAll(how, " ", "")
			stopped := w.Asked("hang", "--conversation", conversation)
			runID, workflowID := w.openRun(conversation, drafted)
			queued := w.Asked("next", "--conversation", conversation)
			e2etest.Eventually(t, "the next message waits", func(ctx context.Context) error {
				waits, err := e2etest.Rows(ctx, w.DB(), `SELECT message_id FROM inbox WHERE session_key = $1 AND kind = 'trigger'`, conversation)
				if err == nil && len(waits) != 1 {
					err = errors.New("not yet")
				}
				return err
			})
			open := w.openStreams()
			began := time.Now()
			stop(w, conversation, runID, workflowID)
			ctx, cancel := context.WithTimeout(t.Context(), e2etest.Patience)
			defer cancel()
			if _, err := w.Model.Wait(ctx, func(requests []llmtest.Request) bool { return streams(requests) < open }); err != nil {
				t.Error(err)
			}
			e2etest.Took(t, "the model's stream is closed", began)
			if a := <-stopped; a.Outcome != "stopped" || a.Exited.Code != 0 {
				t.Errorf("the stopped ask: outcome %q, exit code %d %s", a.Outcome, a.Exited.Code, a.Exited.Stderr)
			}
			e2etest.Took(t, "settled", began)
			e2etest.WantAnswer(t, <-queued, "answered", "echo: next", 0)
		})
	}
	w.Settled()
	w.WellFormed()
}

// openStreams counts the model calls that nobody has ended.
func (w *world) openStreams() int { return streams(w.Model.Requests()) }

func streams(requests []llmtest.Request) int {
	open := 0
	for _, r := range requests {
		if strings.HasPrefix(llmtest.Sentence(r.LastUserText()), "hang") && !r.Canceled {
			open++
		}
	}
	return open
}

func TestAStopKillsACommandWithAllItStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.Worker()
	for how, stop := range stops {
		t.Run(how, func(t *testing.T) {
			conversation := "k-" + strings.ReplaceAll(how, " ", "")
			marker := fmt.Sprintf("86%d", time.Now().UnixNano()%1e8)
			stopped := w.Asked("run: sleep "+marker+" & sleep "+marker, "--conversation", conversation)
			runID, workflowID := w.openRun(conversation, calling)
			e2etest.Eventually(t, "both sleep", func(context.Context) error {
				if n := sleepers(t, marker); n != 2 {
					return fmt.Errorf("%d processes", n)
				}
				return nil
			})
			began := time.Now()
			stop(w, conversation, runID, workflowID)
			e2etest.Eventually(t, "both are gone", func(context.Context) error {
				if n := sleepers(t, marker); n != 0 {
					return fmt.Errorf("%d processes", n)
				}
				return nil
			})
			e2etest.Took(t, "the process group is dead", began)
			if a := <-stopped; a.Outcome != "stopped" {
				t.Errorf("outcome %q", a.Outcome)
			}
			e2etest.WantAnswer(t, w.Ask("go on", "--conversation", conversation), "answered", "echo: go on", 0)
		})
	}
	w.Settled()
	w.WellFormed()
}

// sleepers counts the processes on this machine that sleep for a marked time.
func sleepers(t testing.TB, marker string) int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range found {
		// A process that ends meanwhile cannot be read, and does not count.
		if line, err := os.ReadFile(path); err == nil && string(line) == "sleep\x00"+marker+"\x00" {
			n++
		}
	}
	return n
}

func TestAStopBeforeTheFirstStepStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	// No worker yet: the run's workflow is open, but nothing has claimed its message.
	asked := w.Asked("too early")
	c := w.Temporal()
	var workflowID string
	e2etest.Eventually(t, "the workflow is open", func(ctx context.Context) error {
		list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowType = 'Run'"})
		if err == nil && len(list.GetExecutions()) != 1 {
			return errors.New("not yet")
		}
		workflowID = list.GetExecutions()[0].GetExecution().GetWorkflowId()
		return err
	})
	if err := c.CancelWorkflow(t.Context(), workflowID, ""); err != nil {
		t.Fatal(err)
	}
	w.Worker()
	if a := <-asked; a.Outcome != "stopped" && a.Exited.Code != 4 {
		t.Errorf("outcome %q, exit code %d", a.Outcome, a.Exited.Code)
	}
	w.Settled()
	w.WellFormed()
	outcomes, err := e2etest.Rows(t.Context(), w.DB(), `SELECT outcome FROM runs`)
	if err != nil || strings.Join(outcomes, " ") != "stopped" || len(w.Model.Requests()) != 0 {
		t.Errorf("outcomes %v (%v), %d model calls", outcomes, err, len(w.Model.Requests()))
	}
	e2etest.WantAnswer(t, w.Ask("now"), "answered", "echo: now", 0)
}

func TestAStopEndsTheRunItFoundAndNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.Worker()
	first := w.Asked("run: sleep 600")
	w.openRun("cli", calling)
	second := w.Asked("run: sleep 6; echo second") // longer than a left-over word waits for the sweeper
	e2etest.Eventually(t, "the second message waits", func(ctx context.Context) error {
		waits, err := e2etest.Rows(ctx, w.DB(), `SELECT message_id FROM inbox WHERE kind = 'trigger'`)
		if err == nil && len(waits) != 1 {
			err = errors.New("not yet")
		}
		return err
	})
	// The gateway dies when the run is cancelled, and leaves its word in the inbox.
	out := w.AskWith(t.Context(), []string{"MIKAN_FAILPOINT=cancel.after"}, "stop")
	if out.Exited.Code != -1 {
		t.Errorf("the gateway survives: %+v", out)
	}
	if a := <-first; a.Outcome != "stopped" {
		t.Errorf("outcome %q", a.Outcome)
	}
	e2etest.WantAnswer(t, <-second, "answered", "second", 0)
	e2etest.WantAnswer(t, w.Ask("stop"), "answered", "Nothing is running here.", 0)
	w.Settled()
	w.WellFormed()
}

func TestARunEndedBehindOurBackIsSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, stalling())
	w.Worker()
	c := w.Temporal()
	t.Run("terminated", func(t *testing.T) {
		asked := w.Asked("hang", "--conversation", "terminated")
		_, workflowID := w.openRun("terminated", drafted)
		queued := w.Asked("next", "--conversation", "terminated")
		began := time.Now()
		if err := c.TerminateWorkflow(t.Context(), workflowID, "", "by the test"); err != nil {
			t.Fatal(err)
		}
		e2etest.WantAnswer(t, <-asked, "failed", "interrupted", 1)
		e2etest.Took(t, "settled", began)
		e2etest.WantAnswer(t, <-queued, "answered", "echo: next", 0)
	})
	t.Run("reset while it is open", func(t *testing.T) {
		asked := w.Asked(e2etest.Mark("reset", 4)+"; echo reset", "--conversation", "reset")
		_, workflowID := w.openRun("reset", calling)
		w.reset(workflowID, "")
		if a := <-asked; a.Outcome != "answered" {
			t.Errorf("outcome %q: %s %s", a.Outcome, a.Answer, a.Exited.Stderr)
		}
	})
	t.Run("reset after its end", func(t *testing.T) {
		a := w.Ask("hello", "--conversation", "late")
		e2etest.WantAnswer(t, a, "answered", "echo: hello", 0)
		calls := len(w.Model.Requests())
		w.reset(a.WorkflowID, a.TemporalRunID)
		w.Settled()
		e2etest.WantAnswer(t, w.Ask("again", "--conversation", "late"), "answered", "echo: again", 0)
		if got := len(w.Model.Requests()); got != calls+1 {
			t.Errorf("the reset run called the model again: %d calls more", got-calls)
		}
	})
	w.Settled()
	w.WellFormed()
	for _, line := range w.Ran("marks") {
		t.Log("ran", line)
	}
	if n := len(w.Ran("marks")); n > 1 {
		t.Errorf("the command of the reset run ran %d times", n)
	}
}

// reset resets an execution to its first workflow task, as the Temporal UI does.
func (w *world) reset(workflowID, runID string) {
	w.T.Helper()
	c := w.Temporal()
	var event int64
	for _, e := range historyOf(w.T, c, workflowID, runID).events {
		if e.GetWorkflowTaskCompletedEventAttributes() != nil {
			event = e.GetEventId()
			break
		}
	}
	if runID == "" {
		description, err := c.DescribeWorkflowExecution(w.T.Context(), workflowID, "")
		if err != nil {
			w.T.Fatal(err)
		}
		runID = description.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	}
	_, err := c.ResetWorkflowExecution(w.T.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: w.Env["TEMPORAL_NAMESPACE"], WorkflowExecution: execution(workflowID, runID),
		Reason: "by the test", WorkflowTaskFinishEventId: event, RequestId: fmt.Sprint(time.Now().UnixNano()),
	})
	if err != nil {
		w.T.Fatal(err)
	}
}

func TestAnEmptiedTemporalBesideAFullDatabaseRecovers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, stalling())
	old := w.Worker()
	open := w.Asked("hang", "--conversation", "open")
	w.openRun("open", drafted)
	queued := w.Asked("behind it", "--conversation", "open")
	old.Kill()
	waiting := w.Asked("never started", "--conversation", "waiting")
	e2etest.Eventually(t, "both wait", func(ctx context.Context) error {
		waits, err := e2etest.Rows(ctx, w.DB(), `SELECT message_id FROM inbox`)
		if err == nil && len(waits) != 2 {
			err = fmt.Errorf("%v", waits)
		}
		return err
	})
	began := time.Now()
	w.Env["TEMPORAL_ADDRESS"], w.Env["TEMPORAL_NAMESPACE"] = testenv.Temporal(t)
	w.Worker()
	for _, done := range []<-chan e2etest.Answer{open, queued, waiting} {
		<-done // these look at the old Temporal: what they see of the database is checked below
	}
	w.Settled()
	e2etest.Took(t, "all settled", began)
	w.WellFormed()
	said, err := e2etest.Rows(t.Context(), w.DB(), `SELECT r.session_key || ' ' || r.outcome || ' ' || d.text FROM runs r JOIN deliveries d ON d.run_id = r.id ORDER BY r.session_key, r.started_at`)
	if err != nil || len(said) != 3 || !strings.HasPrefix(said[0], "open failed I was interrupted") ||
		said[1] != "open answered echo: behind it" || said[2] != "waiting answered echo: never started" {
		t.Errorf("%q %v", said, err)
	}
}
