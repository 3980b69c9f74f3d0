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
	w.t.Helper()
	db := w.db()
	eventually(w.t, "a run with "+condition, func(ctx context.Context) error {
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
		wantAnswer(w.t, w.ask("stop", "--conversation", conversation), "answered", "Stopped.", 0)
	},
	"the CLI": func(w *world, _, runID, _ string) {
		if out := w.mikan("run", "stop", runID); out.code != 0 {
			w.t.Errorf("run stop: %+v", out)
		}
	},
	"Temporal": func(w *world, _, _, workflowID string) {
		if err := w.temporal().CancelWorkflow(w.t.Context(), workflowID, ""); err != nil {
			w.t.Error(err)
		}
	},
}

func TestAStopEndsAModelCallAndKeepsTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, stalling())
	w.worker()
	for how, stop := range stops {
		t.Run(how, func(t *testing.T) {
			conversation := "m-" + strings.ReplaceAll(how, " ", "")
			stopped := w.asked("hang", "--conversation", conversation)
			runID, workflowID := w.openRun(conversation, drafted)
			queued := w.asked("next", "--conversation", conversation)
			eventually(t, "the next message waits", func(ctx context.Context) error {
				waits, err := rows(ctx, w.db(), `SELECT message_id FROM inbox WHERE session_key = $1 AND kind = 'trigger'`, conversation)
				if err == nil && len(waits) != 1 {
					err = errors.New("not yet")
				}
				return err
			})
			open := w.openStreams()
			began := time.Now()
			stop(w, conversation, runID, workflowID)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := w.model.Wait(ctx, func(requests []llmtest.Request) bool { return streams(requests) < open }); err != nil {
				t.Error(err)
			}
			took(t, "the model's stream is closed", began)
			if a := <-stopped; a.Outcome != "stopped" || a.exited.code != 0 {
				t.Errorf("the stopped ask: outcome %q, exit code %d %s", a.Outcome, a.exited.code, a.exited.stderr)
			}
			took(t, "settled", began)
			wantAnswer(t, <-queued, "answered", "echo: next", 0)
		})
	}
	w.settled()
	w.wellFormed()
}

// openStreams counts the model calls that nobody has ended.
func (w *world) openStreams() int { return streams(w.model.Requests()) }

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
	w.worker()
	for how, stop := range stops {
		t.Run(how, func(t *testing.T) {
			conversation := "k-" + strings.ReplaceAll(how, " ", "")
			marker := fmt.Sprintf("86%d", time.Now().UnixNano()%1e8)
			stopped := w.asked("run: sleep "+marker+" & sleep "+marker, "--conversation", conversation)
			runID, workflowID := w.openRun(conversation, calling)
			eventually(t, "both sleep", func(context.Context) error {
				if n := sleepers(t, marker); n != 2 {
					return fmt.Errorf("%d processes", n)
				}
				return nil
			})
			began := time.Now()
			stop(w, conversation, runID, workflowID)
			eventually(t, "both are gone", func(context.Context) error {
				if n := sleepers(t, marker); n != 0 {
					return fmt.Errorf("%d processes", n)
				}
				return nil
			})
			took(t, "the process group is dead", began)
			if a := <-stopped; a.Outcome != "stopped" {
				t.Errorf("outcome %q", a.Outcome)
			}
			wantAnswer(t, w.ask("go on", "--conversation", conversation), "answered", "echo: go on", 0)
		})
	}
	w.settled()
	w.wellFormed()
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
	asked := w.asked("too early")
	c := w.temporal()
	var workflowID string
	eventually(t, "the workflow is open", func(ctx context.Context) error {
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
	w.worker()
	if a := <-asked; a.Outcome != "stopped" && a.exited.code != 4 {
		t.Errorf("outcome %q, exit code %d", a.Outcome, a.exited.code)
	}
	w.settled()
	w.wellFormed()
	outcomes, err := rows(t.Context(), w.db(), `SELECT outcome FROM runs`)
	if err != nil || strings.Join(outcomes, " ") != "stopped" || len(w.model.Requests()) != 0 {
		t.Errorf("outcomes %v (%v), %d model calls", outcomes, err, len(w.model.Requests()))
	}
	wantAnswer(t, w.ask("now"), "answered", "echo: now", 0)
}

func TestAStopEndsTheRunItFoundAndNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.worker()
	first := w.asked("run: sleep 600")
	w.openRun("cli", calling)
	second := w.asked("run: sleep 6; echo second") // longer than a left-over word waits for the sweeper
	eventually(t, "the second message waits", func(ctx context.Context) error {
		waits, err := rows(ctx, w.db(), `SELECT message_id FROM inbox WHERE kind = 'trigger'`)
		if err == nil && len(waits) != 1 {
			err = errors.New("not yet")
		}
		return err
	})
	// The gateway dies when the run is cancelled, and leaves its word in the inbox.
	out := w.askWith(t.Context(), []string{"MIKAN_FAILPOINT=cancel.after"}, "stop")
	if out.exited.code != -1 {
		t.Errorf("the gateway survives: %+v", out)
	}
	if a := <-first; a.Outcome != "stopped" {
		t.Errorf("outcome %q", a.Outcome)
	}
	wantAnswer(t, <-second, "answered", "second", 0)
	wantAnswer(t, w.ask("stop"), "answered", "Nothing is running here.", 0)
	w.settled()
	w.wellFormed()
}

func TestARunEndedBehindOurBackIsSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, stalling())
	w.worker()
	c := w.temporal()
	t.Run("terminated", func(t *testing.T) {
		asked := w.asked("hang", "--conversation", "terminated")
		_, workflowID := w.openRun("terminated", drafted)
		queued := w.asked("next", "--conversation", "terminated")
		began := time.Now()
		if err := c.TerminateWorkflow(t.Context(), workflowID, "", "by the test"); err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, <-asked, "failed", "interrupted", 1)
		took(t, "settled", began)
		wantAnswer(t, <-queued, "answered", "echo: next", 0)
	})
	t.Run("reset while it is open", func(t *testing.T) {
		asked := w.asked(mark("reset", 4)+"; echo reset", "--conversation", "reset")
		_, workflowID := w.openRun("reset", calling)
		w.reset(workflowID, "")
		if a := <-asked; a.Outcome != "answered" {
			t.Errorf("outcome %q: %s %s", a.Outcome, a.Answer, a.exited.stderr)
		}
	})
	t.Run("reset after its end", func(t *testing.T) {
		a := w.ask("hello", "--conversation", "late")
		wantAnswer(t, a, "answered", "echo: hello", 0)
		calls := len(w.model.Requests())
		w.reset(a.WorkflowID, a.TemporalRunID)
		w.settled()
		wantAnswer(t, w.ask("again", "--conversation", "late"), "answered", "echo: again", 0)
		if got := len(w.model.Requests()); got != calls+1 {
			t.Errorf("the reset run called the model again: %d calls more", got-calls)
		}
	})
	w.settled()
	w.wellFormed()
	for _, line := range w.ran("marks") {
		t.Log("ran", line)
	}
	if n := len(w.ran("marks")); n > 1 {
		t.Errorf("the command of the reset run ran %d times", n)
	}
}

// reset resets an execution to its first workflow task, as the Temporal UI does.
func (w *world) reset(workflowID, runID string) {
	w.t.Helper()
	c := w.temporal()
	var event int64
	for _, e := range historyOf(w.t, c, workflowID, runID).events {
		if e.GetWorkflowTaskCompletedEventAttributes() != nil {
			event = e.GetEventId()
			break
		}
	}
	if runID == "" {
		description, err := c.DescribeWorkflowExecution(w.t.Context(), workflowID, "")
		if err != nil {
			w.t.Fatal(err)
		}
		runID = description.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	}
	_, err := c.ResetWorkflowExecution(w.t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: w.env["TEMPORAL_NAMESPACE"], WorkflowExecution: execution(workflowID, runID),
		Reason: "by the test", WorkflowTaskFinishEventId: event, RequestId: fmt.Sprint(time.Now().UnixNano()),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestAnEmptiedTemporalBesideAFullDatabaseRecovers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, stalling())
	old := w.worker()
	open := w.asked("hang", "--conversation", "open")
	w.openRun("open", drafted)
	queued := w.asked("behind it", "--conversation", "open")
	old.kill()
	waiting := w.asked("never started", "--conversation", "waiting")
	eventually(t, "both wait", func(ctx context.Context) error {
		waits, err := rows(ctx, w.db(), `SELECT message_id FROM inbox`)
		if err == nil && len(waits) != 2 {
			err = fmt.Errorf("%v", waits)
		}
		return err
	})
	began := time.Now()
	w.env["TEMPORAL_ADDRESS"], w.env["TEMPORAL_NAMESPACE"] = testenv.Temporal(t)
	w.worker()
	for _, done := range []<-chan answer{open, queued, waiting} {
		<-done // these look at the old Temporal: what they see of the database is checked below
	}
	w.settled()
	took(t, "all settled", began)
	w.wellFormed()
	said, err := rows(t.Context(), w.db(), `SELECT r.session_key || ' ' || r.outcome || ' ' || d.text FROM runs r JOIN deliveries d ON d.run_id = r.id ORDER BY r.session_key, r.started_at`)
	if err != nil || len(said) != 3 || !strings.HasPrefix(said[0], "open failed I was interrupted") ||
		said[1] != "open answered echo: behind it" || said[2] != "waiting answered echo: never started" {
		t.Errorf("%q %v", said, err)
	}
}
