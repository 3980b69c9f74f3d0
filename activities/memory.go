package activities

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/jev"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/memory"
	"github.com/geminixiang/mikan/internal/secret"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// Captures judges exchanges and extracts knowledge from them.
type Captures struct {
	Store     *store.Store
	Judge     jev.Judge // nil: no decision model is configured
	Providers *llm.Providers
	Secrets   *secret.Redactor
	Info      func(llm.Ref) llm.ModelInfo
	Metrics   *telemetry.Metrics
	Log       *slog.Logger
}

// CaptureStep names a capture by its run, and the lease that it holds on the office's memory, once it has it.
type CaptureStep struct {
	RunID string `json:"run"`
	Token int64  `json:"token,omitempty"`
}

// CaptureNext tells the workflow what follows a step of a capture.
type CaptureNext string

// What follows.
const (
	CaptureGoesOn CaptureNext = "on"
	CaptureWaits  CaptureNext = "wait" // another capture has the office's memory: try again later
	CaptureIsOver CaptureNext = "over"
)

// CaptureProgress is what the workflow learns of a step. It holds no content.
type CaptureProgress struct {
	Next       CaptureNext    `json:"next"`
	Token      int64          `json:"token,omitempty"`
	Operations int            `json:"operations,omitempty"`
	Outcome    CaptureOutcome `json:"outcome,omitempty"` // when it is over
}

// CaptureOutcome is how a capture ended.
type CaptureOutcome = store.CaptureOutcome

// GateCapture asks the decision model whether the user established durable knowledge. A judgement that is recorded is
// not asked for again.
func (c *Captures) GateCapture(ctx context.Context, in CaptureStep) (CaptureProgress, error) {
	pulse := startPulse(ctx, 0, "gate")
	defer pulse.stop()
	next, err := c.gate(ctx, in.RunID)
	return next, c.captureError(ctx, in.RunID, err)
}

func (c *Captures) gate(ctx context.Context, runID string) (CaptureProgress, error) {
	capture, err := c.Store.BeginCapture(ctx, runID)
	if err != nil {
		return CaptureProgress{}, err
	}
	switch capture.State {
	case store.CaptureGate:
	case store.CaptureEnded:
		return CaptureProgress{Next: CaptureIsOver, Outcome: capture.Outcome}, nil
	default:
		return c.gated(ctx, runID, *capture.Probability)
	}
	exchange, says, err := c.Store.Exchange(ctx, runID)
	if err != nil {
		return CaptureProgress{}, err
	}
	if !says {
		return c.end(ctx, runID, store.CaptureEnding{Outcome: store.CaptureSkipped})
	}
	if c.Judge == nil {
		return CaptureProgress{}, fault.New(fault.Forbidden, "this worker has no decision model; configure all workers alike")
	}
	judged, err := c.Judge.Ask(ctx, memory.Question(exchange))
	if err != nil {
		return CaptureProgress{}, err
	}
	if err := c.Store.Judged(ctx, runID, store.JudgedCapture{
		Model: judged.Model, Probability: judged.Probability, Threshold: memory.Threshold, Usage: judged.Usage,
	}); err != nil {
		return CaptureProgress{}, err
	}
	c.Metrics.Gated(judged.Probability)
	return c.gated(ctx, runID, judged.Probability)
}

func (c *Captures) gated(ctx context.Context, runID string, probability float64) (CaptureProgress, error) {
	if probability < memory.Threshold {
		return c.end(ctx, runID, store.CaptureEnding{Outcome: store.CaptureBelow})
	}
	return CaptureProgress{Next: CaptureGoesOn}, nil
}

// extractTimeout is how long the model may take to extract.
const extractTimeout = time.Minute

// ExtractKnowledge asks the conversation's own model which lines to add or update. An answer that breaks the rules ends
// the capture: nothing of it is used.
func (c *Captures) ExtractKnowledge(ctx context.Context, in CaptureStep) (CaptureProgress, error) {
	pulse := startPulse(ctx, 0, "extract")
	defer pulse.stop()
	next, err := c.extract(ctx, in)
	return next, c.captureError(ctx, in.RunID, err)
}

func (c *Captures) extract(ctx context.Context, in CaptureStep) (CaptureProgress, error) {
	r, capture, err := runAndCapture(ctx, c.Store, in.RunID)
	if err != nil {
		return CaptureProgress{}, err
	}
	switch {
	case capture.State == store.CaptureEnded:
		return CaptureProgress{Next: CaptureIsOver, Outcome: capture.Outcome}, nil
	case capture.State == store.CaptureApply:
		return CaptureProgress{Next: CaptureGoesOn, Operations: len(capture.Operations)}, nil
	case capture.Memory == nil:
		return CaptureProgress{}, fault.New(fault.Internal, "the memory was not read before extraction")
	}
	exchange, says, err := c.Store.Exchange(ctx, in.RunID)
	if err != nil {
		return CaptureProgress{}, err
	}
	if !says { // deleted since
		return c.end(ctx, in.RunID, store.CaptureEnding{Outcome: store.CaptureSkipped})
	}
	response, err := c.ask(ctx, r, exchange, capture)
	if err != nil {
		return CaptureProgress{}, err
	}
	var operations []memory.Operation
	if response.Stop == llm.StopLength {
		err = fault.New(fault.Invalid, "the answer was cut off at the output limit")
	} else {
		operations, err = memory.Parse(store.Body{Blocks: response.Blocks}.Text())
	}
	if err != nil {
		return c.end(ctx, in.RunID, store.CaptureEnding{Outcome: store.CaptureRefused, Code: fault.Invalid, Text: err.Error(), Usage: response.Usage})
	}
	if len(operations) == 0 {
		return c.end(ctx, in.RunID, store.CaptureEnding{Outcome: store.CaptureNothing, Usage: response.Usage})
	}
	allowed, withheld := memory.Screen(operations, c.Secrets)
	lease := store.MemoryLease{OfficeKey: r.OfficeKey, RunID: r.ID, Token: in.Token}
	if err := c.Store.Extracted(ctx, lease, allowed, withheld, response.Usage); err != nil {
		return CaptureProgress{}, err
	}
	if len(allowed) == 0 {
		return c.end(ctx, in.RunID, store.CaptureEnding{Outcome: store.CaptureUnchanged})
	}
	return CaptureProgress{Next: CaptureGoesOn, Operations: len(allowed)}, nil
}

func (c *Captures) ask(ctx context.Context, r store.Run, exchange memory.Exchange, capture store.Capture) (llm.Response, error) {
	ref, err := llm.ParseRef(r.Model)
	if err != nil {
		return llm.Response{}, err
	}
	model, err := c.Providers.Model(ref)
	if err != nil {
		return llm.Response{}, err
	}
	limited, cancel := context.WithTimeout(ctx, extractTimeout)
	defer cancel()
	started := time.Now()
	failpoint.Hit("extract.before")
	response, err := llm.Structured(limited, model, memory.Extraction(ref, exchange, []byte(*capture.Memory), capture.Forgotten))
	failpoint.Hit("extract.after")
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fault.Wrap(fault.Unavailable, limited.Err(), "the model did not answer in time")
	}
	observed := telemetry.ModelCall{Model: ref, Usage: response.Usage, Duration: time.Since(started), Outcome: "ok"}
	if err != nil {
		observed.Outcome = string(fault.CodeOf(err))
	}
	if micros, ok := c.Info(ref).Cost(response.Usage); ok {
		observed.CostMicroUSD = micros
	}
	c.Metrics.ModelCalled(observed)
	return response, err
}

// CaptureFailure is why a capture is given up.
type CaptureFailure struct {
	RunID string     `json:"run"`
	Code  fault.Code `json:"code"`
}

// GiveUpCapture records that a capture failed, and gives the office's memory free. It is keyed SQL.
func (c *Captures) GiveUpCapture(ctx context.Context, in CaptureFailure) (CaptureProgress, error) {
	// The gate may have failed before there was a row.
	_, err := c.Store.BeginCapture(ctx, in.RunID)
	var next CaptureProgress
	if err == nil {
		next, err = c.end(ctx, in.RunID, store.CaptureEnding{Outcome: store.CaptureFailed, Code: in.Code})
	}
	return next, toTemporal(err, in.RunID)
}

func (c *Captures) end(ctx context.Context, runID string, end store.CaptureEnding) (CaptureProgress, error) {
	return endCapture(ctx, c.Store, c.Metrics, runID, end)
}

func endCapture(ctx context.Context, s *store.Store, metrics *telemetry.Metrics, runID string, end store.CaptureEnding) (CaptureProgress, error) {
	outcome, changed, err := s.EndCapture(ctx, runID, end)
	if changed {
		metrics.Captured(string(outcome))
	}
	return CaptureProgress{Next: CaptureIsOver, Outcome: outcome}, err
}

func (c *Captures) captureError(ctx context.Context, runID string, err error) error {
	return captureError(ctx, c.Store, c.Log, runID, err)
}

// captureError keeps what an operator should know about a failed attempt, before the error leaves for Temporal.
func captureError(ctx context.Context, s *store.Store, log *slog.Logger, runID string, err error) error {
	if err != nil && !errors.Is(err, context.Canceled) && fault.CodeOf(err) != fault.Conflict {
		noting, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
		defer cancel()
		if failed := s.NoteCapture(noting, runID, fault.CodeOf(err), err.Error()); failed != nil {
			log.Warn("why a capture's step failed is not recorded", "run", runID, "code", fault.CodeOf(err))
		}
	}
	return toTemporal(err, runID)
}

func runAndCapture(ctx context.Context, s *store.Store, runID string) (store.Run, store.Capture, error) {
	r, err := s.Run(ctx, runID)
	if err != nil {
		return store.Run{}, store.Capture{}, err
	}
	capture, err := s.Capture(ctx, runID)
	return r, capture, err
}

// without leaves statements out that captures have corrected themselves.
func without(gone, corrected []string) []string {
	kept := memory.Gone([]string{lines(gone)}, []byte(lines(corrected)))
	return slices.Clip(kept)
}

func lines(of []string) string {
	all := ""
	for _, line := range of {
		all += line + "\n"
	}
	return all
}
