// Package fault is mikan's one error vocabulary.
//
// Every error that crosses a boundary (Temporal, HTTP, the CLI's exit code, the chat user) is an *Error or is
// treated as Internal. Only the code and a reference cross into Temporal; the text stays in Postgres.
package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Code classifies an error for every boundary at once.
type Code string

// The whole vocabulary.
const (
	Invalid     Code = "invalid"      // the input can never succeed as it is
	NotFound    Code = "not_found"    // what was named does not exist
	Conflict    Code = "conflict"     // somebody else's write came first, or the session moved on
	Forbidden   Code = "forbidden"    // not allowed, or a key was refused
	Unavailable Code = "unavailable"  // try again
	RateLimited Code = "rate_limited" // try again after RetryAfter
	TooLarge    Code = "too_large"    // over a limit that retrying does not move
	Interrupted Code = "interrupted"  // stopped part-way; effects may have happened
	Internal    Code = "internal"     // a bug, or something nobody foresaw
)

// Error is an error with a code. Message is a sentence fit for an operator; it must hold no secret.
type Error struct {
	Code       Code
	Message    string
	RetryAfter time.Duration // how long to wait before the next attempt; 0 = not said
	cause      error
}

func (e *Error) Error() string {
	if e.cause != nil {
		return e.Message + ": " + e.cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.cause }

// Is matches by code, so that an error read back from the database matches the one that was stored.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Message == "" && t.Code == e.Code
}

// New makes an error of the given code.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap adds a code and a sentence to a cause. The cause's text is appended when printed.
func Wrap(code Code, cause error, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), cause: cause}
}

// After sets how long to wait before the next attempt.
func (e *Error) After(d time.Duration) *Error {
	e.RetryAfter = d
	return e
}

// CodeOf tells the code of err: the outermost *Error's, Interrupted for a cancelled context, Unavailable for a
// passed deadline, Internal for everything else. CodeOf(nil) is "".
func CodeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, context.DeadlineExceeded):
		return Unavailable
	default:
		return Internal
	}
}

// Retryable tells whether the same call may succeed later without anybody changing anything.
func Retryable(code Code) bool {
	return code == Unavailable || code == RateLimited || code == Internal
}

// RetryAfter tells how long err asks to wait; 0 when it does not say.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// ExitCode maps a code to the CLI's exit code: 1 failed, 2 usage or refused id, 4 nothing serves it, 5 not found.
func ExitCode(code Code) int {
	switch code {
	case "":
		return 0
	case Invalid:
		return 2
	case NotFound:
		return 5
	default:
		return 1
	}
}
