package llm

import (
	"context"

	"github.com/geminixiang/mikan/internal/fault"
)

// Structured completes a request with a Schema. Where the provider refuses structured output as invalid, as older models
// and some compatible servers do, it asks once more without: the prompt must say the form, too, and the answer must be
// checked in any case.
func Structured(ctx context.Context, m Model, req Request) (Response, error) {
	ignore := func(Event) {}
	response, err := m.Complete(ctx, req, ignore)
	if fault.CodeOf(err) != fault.Invalid || len(req.Schema) == 0 {
		return response, err
	}
	req.Schema = nil
	return m.Complete(ctx, req, ignore)
}
