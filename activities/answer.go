package activities

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// Answers shows what a run has to say and settles it.
type Answers struct {
	Store    *store.Store
	Delivery *adapters.Delivery
	Waker    adapters.Waker
	Capture  CaptureMode
	Metrics  *telemetry.Metrics
	Log      *slog.Logger
}

// CaptureMode tells whether a memory capture follows a run.
type CaptureMode string

// The modes.
const (
	CaptureOff CaptureMode = "off"
	CaptureOn  CaptureMode = "on"
)

// AnswerInput names the step that holds a run's answer.
type AnswerInput struct {
	RunID string `json:"run"`
	Step  int    `json:"step"`
}

// SettleInput ends a run that has no answer.
type SettleInput struct {
	RunID   string      `json:"run"`
	Outcome run.Outcome `json:"outcome"`
	Code    fault.Code  `json:"code,omitempty"`
	Said    Said        `json:"said,omitempty"`
}

// Said is what a run has to say in place of a model's answer.
type Said string

// What is said.
const (
	SaidCompacted        Said = "compacted"
	SaidNothingToCompact Said = "nothing to compact"
	SaidSpent            Said = "spent"
	SaidMemory           Said = "memory"   // what the run has recalled
	SaidUnposted         Said = "unposted" // there is an answer, and it cannot be shown
)

var saidTexts = map[Said]string{
	SaidCompacted:        "The older part of this session is now a summary for me; nothing is deleted, and history finds all of it.",
	SaidNothingToCompact: "There is nothing to compact here yet.",
	SaidUnposted:         "I have an answer, but could not post it here, however often I tried. Please ask me again later.",
	SaidSpent:            "This conversation has used up what it may spend on models today. Whoever runs this installation can raise the limit.",
}

// Settled is what the workflow learns of a settled run.
type Settled struct {
	Outcome run.Outcome `json:"outcome"`
	Waiting bool        `json:"waiting,omitempty"` // another trigger of the session waits
	Capture bool        `json:"capture,omitempty"` // start the memory capture
}

// silence is the whole answer of a model that wants to say nothing.
const silence = "[SILENT]"

// Answer delivers the model's final turn and settles the run.
func (a *Answers) Answer(ctx context.Context, in AnswerInput) (Settled, error) {
	pulse := startPulse(ctx, in.Step, "answer")
	defer pulse.stop()
	turn, err := a.Store.StepEntry(ctx, in.RunID, store.ThinkSlot(in.Step))
	if err != nil {
		return Settled{}, toTemporal(err, in.RunID)
	}
	settled, err := a.finish(ctx, in.RunID, endingOf(turn.Body))
	explain(ctx, a.Store, in.RunID, err)
	return settled, toTemporal(patient(ctx, err), in.RunID)
}

// endingOf makes the final turn what people read. A model that says nothing, declines or is cut off is reported as such.
func endingOf(turn store.Body) adapters.Ending {
	text := strings.TrimSpace(turn.Text())
	answered := store.Settlement{Outcome: run.Answered}
	switch {
	case text == silence:
		return adapters.Ending{Settlement: store.Settlement{Outcome: run.Silent}}
	case turn.Stop == llm.StopLength:
		return adapters.Ending{Kind: store.AnswerDelivery, Settlement: answered,
			Text: strings.TrimSpace(text + "\n\n_The answer was cut off here, at the model's output limit._")}
	case text == "" && turn.Stop == llm.StopRefused:
		return adapters.Ending{Kind: store.NoticeDelivery, Text: "The model declined to answer this.", Settlement: answered}
	case text == "":
		return adapters.Ending{Kind: store.NoticeDelivery, Text: "The model returned an empty answer. Please ask again.",
			Settlement: store.Settlement{Outcome: run.Failed, ErrorCode: fault.Unavailable, ErrorText: "the model returned nothing"}}
	}
	return adapters.Ending{Kind: store.AnswerDelivery, Text: text, Settlement: answered}
}

// Settle ends a run without an answer and says so, once, where the answer would have been.
func (a *Answers) Settle(ctx context.Context, in SettleInput) (Settled, error) {
	pulse := startPulse(ctx, 0, "settle")
	defer pulse.stop()
	end := adapters.Ending{Kind: store.NoticeDelivery, Text: forPeople(in.Code), Settlement: store.Settlement{Outcome: in.Outcome, ErrorCode: in.Code}}
	switch {
	case in.Outcome == run.Stopped:
		end.Text = adapters.StoppedText
	case in.Said == SaidMemory:
		recalled, _, err := a.Store.RunMemory(ctx, in.RunID)
		if err != nil {
			return Settled{}, toTemporal(err, in.RunID)
		}
		end.Text = memoryText(recalled.Office)
	case saidTexts[in.Said] != "": // a newer workflow may know more of them
		end.Text = saidTexts[in.Said]
	}
	settled, err := a.finish(ctx, in.RunID, end)
	return settled, toTemporal(patient(ctx, err), in.RunID)
}

// patient has what a platform's rate puts off wait longer with each attempt: attempts are counted, and what only takes
// its time must not use them up.
func patient(ctx context.Context, err error) error {
	wait := min(time.Duration(activity.GetInfo(ctx).Attempt)*time.Second, time.Minute)
	if fault.CodeOf(err) != fault.RateLimited || fault.RetryAfter(err) >= wait {
		return err
	}
	return fault.Wrap(fault.RateLimited, err, "the platform's rate is used up").After(wait)
}

// Abandon records the outcome of a run whose last word could not be shown.
func (a *Answers) Abandon(ctx context.Context, in SettleInput) (Settled, error) {
	after, err := a.Store.Finish(ctx, in.RunID, nil, store.Settlement{Outcome: in.Outcome, ErrorCode: in.Code, ErrorText: "its last word could not be shown"})
	if err != nil {
		return Settled{}, toTemporal(err, in.RunID)
	}
	return a.settled(ctx, after), nil
}

func (a *Answers) finish(ctx context.Context, runID string, end adapters.Ending) (Settled, error) {
	after, err := a.Delivery.Finish(ctx, runID, end)
	if err != nil {
		return Settled{}, err
	}
	settled := a.settled(ctx, after)
	return settled, a.Delivery.CloseNotices(ctx, after.Run)
}

func (a *Answers) settled(ctx context.Context, after store.After) Settled {
	r := after.Run
	if after.Changed {
		a.Metrics.RunEnded(telemetry.Run{
			Platform: office.Platform(run.PlatformOf(r.OfficeKey)), Trigger: r.Trigger, Outcome: r.Outcome,
			Duration: time.Since(r.StartedAt), ModelTime: time.Duration(r.ModelMS) * time.Millisecond, ToolTime: time.Duration(r.ToolMS) * time.Millisecond,
		})
	}
	for _, workflowID := range after.Woken {
		officeKey, sessionKey, ok := run.ParseWorkflowID(workflowID)
		if !ok {
			continue
		}
		if err := a.Waker.Wake(ctx, officeKey, sessionKey); err != nil {
			a.Log.Warn("a thread that waited for this run finds out by itself", "run", r.ID, "code", fault.CodeOf(err))
		}
	}
	return Settled{Outcome: r.Outcome, Waiting: after.Waiting, Capture: a.captures(ctx, r)}
}

// captures tells whether a memory capture follows a run: by the run's recorded origin and end, never by what its text
// says. That there is text at all is looked up last.
func (a *Answers) captures(ctx context.Context, r store.Run) bool {
	if a.Capture != CaptureOn || r.Trigger != run.Human || r.Outcome != run.Answered && r.Outcome != run.Silent {
		return false
	}
	_, says, err := a.Store.Exchange(ctx, r.ID)
	return says || err != nil // the capture looks again
}
