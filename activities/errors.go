package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
)

// toTemporal is the one place where a domain error becomes Temporal's: its code and a reference cross, its text stays
// in Postgres.
func toTemporal(err error, reference string) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err // Temporal knows a cancelled activity by its context's error
	}
	code := fault.CodeOf(err)
	return temporal.NewApplicationErrorWithOptions(string(code)+" (run "+reference+")", string(code), temporal.ApplicationErrorOptions{
		NonRetryable:   !fault.Retryable(code),
		NextRetryDelay: fault.RetryAfter(err),
	})
}

// forPeople is the one place where a domain error becomes what the chat user reads.
func forPeople(code fault.Code) string {
	switch code {
	case fault.RateLimited:
		return "The model's provider is limiting requests right now. Please try again in a few minutes."
	case fault.Unavailable:
		return "The model's provider did not answer, several times in a row. Please try again later."
	case fault.TooLarge:
		return "This conversation no longer fits into the model's context. `/new` starts an empty session."
	case fault.Forbidden:
		return "The model's provider refused our credentials. Please tell whoever runs this installation."
	case fault.Invalid:
		return "The model's provider refused this request. Please tell whoever runs this installation."
	case fault.Interrupted:
		return "I was interrupted before I could finish, and could not pick it up again. Please ask again."
	default:
		return "Something went wrong inside mikan, and the run was ended. Please tell whoever runs this installation."
	}
}

// explain keeps what an operator needs to know about a failure where the run is, before the error leaves for Temporal.
func explain(ctx context.Context, s *store.Store, runID string, err error) {
	if err == nil || errors.Is(err, context.Canceled) || fault.CodeOf(err) == fault.Conflict {
		return
	}
	// The activity's context may be over by now; the note is worth a moment all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	_ = s.NoteError(ctx, runID, fault.CodeOf(err), err.Error())
}
