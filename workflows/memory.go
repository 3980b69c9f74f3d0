package workflows

import "go.temporal.io/sdk/workflow"

// CaptureInput starts a memory capture.
type CaptureInput struct {
	OfficeKey string `json:"office"`
	RunID     string `json:"run"`
}

// CaptureMemory records durable knowledge of a run in the conversation's MEMORY.md. The settle step starts it only
// where a decision model is configured.
func CaptureMemory(ctx workflow.Context, in CaptureInput) (string, error) {
	return "disabled", nil
}
