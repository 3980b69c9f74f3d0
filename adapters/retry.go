package adapters

import (
	"context"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
)

// Retried tells what became of a run that is to be run again.
type Retried struct {
	RunID      string `json:"run_id"` // of the new attempt
	Attempt    int    `json:"attempt"`
	Retries    string `json:"retries"` // the run that was in vain
	WorkflowID string `json:"workflow_id"`
	OfficeKey  string `json:"office_key"`
	SessionKey string `json:"session_key"`
	TriggerID  string `json:"trigger_id"`
	Woken      bool   `json:"woken"` // false: a sweeper will start it
}

// Retry runs the trigger of a failed or stopped run again, as a new attempt behind whatever waits in its session. Its
// errors are those of the store's Retry; when it returns without one, the attempt is committed.
func (in *Intake) Retry(ctx context.Context, runID string) (Retried, error) {
	row, err := in.Store.Retry(ctx, runID)
	if err != nil {
		return Retried{}, err
	}
	r := Retried{
		RunID: run.ID(row.OfficeKey, row.SessionKey, row.MessageID, row.Attempt), Attempt: row.Attempt, Retries: runID,
		WorkflowID: run.WorkflowID(row.OfficeKey, row.SessionKey), OfficeKey: row.OfficeKey, SessionKey: row.SessionKey,
		TriggerID: row.MessageID,
	}
	if err := in.Waker.Wake(ctx, row.OfficeKey, row.SessionKey); err != nil {
		in.Log.Warn("a run waits for the sweeper", "office", row.OfficeKey, "code", fault.CodeOf(err), "error", err)
		return r, nil
	}
	r.Woken = true
	return r, nil
}
