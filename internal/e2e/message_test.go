package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

func TestAPlainAnswerIsCheap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.Worker()
	w.Ask("warm up") // the first run of a worker fills its caches
	a := w.Ask("hello")
	e2etest.WantAnswer(t, a, "answered", "echo: hello", 0)
	w.Settled()
	w.WellFormed()
	h := w.history(a.WorkflowID, a.TemporalRunID)
	t.Logf("%d events, %d bytes, activities %v", len(h.events), h.bytes, h.activities)
	if len(h.activities) > 3 || len(h.events) >= 30 || h.bytes >= 12<<10 {
		t.Errorf("%d regular activities, %d events, %d bytes; want at most 3, under 30, under 12 KB:\n%v", len(h.activities), len(h.events), h.bytes, h.types)
	}
}

func TestAToolRunIsVisible(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.Worker()
	a := w.Ask("run: uname")
	e2etest.WantAnswer(t, a, "answered", "ran: Linux", 0)
	kinds, err := e2etest.Rows(t.Context(), w.DB(), `SELECT kind FROM entries WHERE run_id = $1 ORDER BY seq`, a.RunID)
	if err != nil || strings.Join(kinds, " ") != "prompt assistant tool_result assistant" {
		t.Errorf("the session holds %v (%v); want prompt, call, result, answer", kinds, err)
	}
	h := w.history(a.WorkflowID, a.TemporalRunID)
	if got := strings.Join(h.activities, " "); got != "Think Tool Think Answer" {
		t.Errorf("the run's steps are %s", got)
	}
	if got := strings.Join(h.summaries, ", "); got != "model anthropic/claude-test, tool bash, model anthropic/claude-test, answer" {
		t.Errorf("their summaries are %s", got)
	}
	c := w.Temporal()
	e2etest.Eventually(t, "a search by office finds the run", func(ctx context.Context) error {
		list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf(
			"WorkflowType = 'Run' AND MikanOffice = '%s' AND MikanSession = '%s' AND MikanPlatform = 'terminal' AND MikanTrigger = 'human' AND MikanOutcome = 'answered'",
			a.OfficeKey, a.SessionKey)})
		if err == nil && len(list.GetExecutions()) != 1 {
			err = fmt.Errorf("it finds %d", len(list.GetExecutions()))
		}
		return err
	})
	w.Settled()
	w.WellFormed()
}

func TestALargeOutputIsNoProblem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.Worker()
	a := w.Ask("run: head -c 100000000 /dev/zero | tr '\\0' 'x' | fold -w 100")
	e2etest.WantAnswer(t, a, "answered", "xxxxxxxxxx", 0)
	if h := w.history(a.WorkflowID, a.TemporalRunID); h.bytes > 20<<10 {
		t.Errorf("the history has %d bytes", h.bytes)
	}
	e2etest.WantAnswer(t, w.Ask("still there?"), "answered", "echo: still there?", 0)
	w.Settled()
	w.WellFormed()
	t.Logf("100 MB of output; the worker held %d MB at most", p.Peak(t)>>20)
}

// history is what Temporal holds of one execution.
type history struct {
	events     []*historypb.HistoryEvent
	bytes      int
	types      []string
	activities []string // in order of scheduling
	summaries  []string
}

func (w *world) history(workflowID, runID string) history {
	w.T.Helper()
	return historyOf(w.T, w.Temporal(), workflowID, runID)
}

func historyOf(t testing.TB, c client.Client, workflowID, runID string) history {
	t.Helper()
	var h history
	events := c.GetWorkflowHistory(t.Context(), workflowID, runID, true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		h.events = append(h.events, event)
		h.bytes += proto.Size(event)
		h.types = append(h.types, event.GetEventType().String())
		if scheduled := event.GetActivityTaskScheduledEventAttributes(); scheduled != nil {
			h.activities = append(h.activities, scheduled.GetActivityType().GetName())
			var summary string
			if err := json.Unmarshal(event.GetUserMetadata().GetSummary().GetData(), &summary); err != nil {
				t.Errorf("summary of %s: %v", scheduled.GetActivityType().GetName(), err)
			}
			h.summaries = append(h.summaries, summary)
		}
	}
	return h
}

func TestContentStaysOutOfTemporalLogsAndMetrics(t *testing.T) {
	t.Parallel()
	const marker = "Zebrastreifen4711"
	w := newWorld(t, func(r llmtest.Request) llmtest.Reply {
		text := llmtest.Sentence(r.LastUserText())
		switch {
		case strings.Contains(text, "fail"):
			return llmtest.Fail(400, "invalid_request_error", "cannot take "+marker)
		case strings.Contains(text, "unknown"):
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall("c1", "tool-"+marker, `{"x":"`+marker+`"}`)}}
		case strings.Contains(text, "broken"):
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall("c1", "bash", `{"command": "`+marker)}}
		case strings.Contains(text, "slow"):
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.Text("%s for ever", marker)}, Ending: llmtest.EndStall}
		case strings.Contains(text, "file"):
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall("c1", "read", `{"path":"/nowhere/`+marker+`"}`), llmtest.ToolCall("c2", "write", `{"path":"`+marker+`","content":"`+marker+`"}`)}}
		case text == "":
			return llmtest.Say("the %s answer", marker)
		}
		return llmtest.Reply{Parts: []llmtest.Part{llmtest.Thinking("think " + marker), llmtest.ToolCall("c1", "bash", `{"command":"echo out-`+marker+`; exit 3"}`)}}
	})
	w.Env["MIKAN_LOG_LEVEL"] = "debug"
	p := w.Worker()
	g := w.Gateway()
	for _, text := range []string{"call", "fail", "unknown", "broken", "file"} {
		w.Ask(text+" "+marker, "--user", "user")
	}
	slow := w.Asked("slow " + marker)
	c := w.Temporal()
	var open string
	e2etest.Eventually(t, "the slow run is under way", func(ctx context.Context) error {
		found, err := e2etest.Rows(ctx, w.DB(), `SELECT r.workflow_id FROM runs r JOIN deliveries d ON d.run_id = r.id WHERE r.state = 'running' AND d.state = 'posted'`)
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("%d drafts", len(found))
		} else if err == nil {
			open = found[0]
		}
		return err
	})
	details, err := c.QueryWorkflow(t.Context(), open, "", "__temporal_workflow_metadata")
	if err != nil {
		t.Fatal(err)
	}
	var metadata json.RawMessage
	_ = details.Get(&metadata) // a protobuf message as JSON; its text is all that matters
	w.Ask("stop")
	<-slow
	w.Settled()

	for _, h := range w.everything(c) {
		if strings.Contains(h, marker) {
			t.Errorf("Temporal holds the marker: …%s…", around(h, marker))
		}
	}
	for what, text := range map[string]string{
		"current details": string(metadata),
		"worker's log":    p.Output(), "gateway's log": g.Output(),
		"worker's metrics": metricsOf(t, p), "gateway's metrics": metricsOf(t, g),
	} {
		if strings.Contains(text, marker) {
			t.Errorf("the %s hold the marker: …%s…", what, around(text, marker))
		}
	}
	if !strings.Contains(metricsOf(t, p), "mikan_runs_total") {
		t.Error("the worker's metrics lack mikan_runs_total")
	}
	w.WellFormed()
}

// everything is all that Temporal holds of a namespace, as text.
func (w *world) everything(c client.Client) []string {
	w.T.Helper()
	var all []string
	var token []byte
	for {
		list, err := c.ListWorkflow(w.T.Context(), &workflowservice.ListWorkflowExecutionsRequest{NextPageToken: token})
		if err != nil {
			w.T.Fatal(err)
		}
		for _, info := range list.GetExecutions() {
			description, err := c.DescribeWorkflowExecution(w.T.Context(), info.GetExecution().GetWorkflowId(), info.GetExecution().GetRunId())
			if err != nil {
				w.T.Fatal(err)
			}
			all = append(all, readable(w.T, info), readable(w.T, description))
			for _, event := range historyOf(w.T, c, info.GetExecution().GetWorkflowId(), info.GetExecution().GetRunId()).events {
				all = append(all, readable(w.T, event))
			}
		}
		if token = list.GetNextPageToken(); len(token) == 0 {
			return all
		}
	}
}

// readable shows a message with its payloads both as they are and as JSON shows them.
func readable(t testing.TB, m proto.Message) string {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw) + protojson.Format(m)
}

func around(text, marker string) string {
	at := strings.Index(text, marker)
	return text[max(0, at-200):min(len(text), at+len(marker)+50)]
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

func metricsOf(t testing.TB, p *e2etest.Process) string {
	t.Helper()
	base := address.FindAllString(p.Output(), -1)
	if len(base) == 0 {
		t.Fatalf("%s does not say where it listens", p.Name)
	}
	response, err := http.Get(base[len(base)-1] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %s %v", response.Status, err)
	}
	return string(text)
}

func TestTenMessagesAtOnceAreTenRunsInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.Worker()
	w.Worker()
	began := time.Now()
	var waiting []<-chan e2etest.Answer
	for i := range 10 {
		waiting = append(waiting, w.Asked(fmt.Sprintf("message %d", i)))
	}
	for i, done := range waiting {
		e2etest.WantAnswer(t, <-done, "answered", fmt.Sprintf("echo: message %d", i), 0)
	}
	e2etest.Took(t, "ten runs", began)
	w.Settled()
	w.WellFormed()
	for i, r := range w.Model.Requests() {
		answers := 0
		for _, m := range r.Messages {
			if m.Role == "assistant" {
				answers++
			}
		}
		if answers != i {
			t.Errorf("run %d sees %d earlier answers", i+1, answers)
		}
	}
}
