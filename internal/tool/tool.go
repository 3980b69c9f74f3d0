// Package tool is what the model can do besides talking: the contract of a tool, the registry, and the built-in ones.
package tool

import (
	"context"
	"encoding/json"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/sandbox"
)

// Replay tells what may happen when a worker died in the middle of a call.
type Replay int

// Unsafe calls run at most once; Safe ones have no effects and are repeated.
const (
	Unsafe Replay = iota
	Safe
)

// Tool is one tool. Implementations are safe for concurrent use.
type Tool interface {
	// Spec is stable for the life of the process: it is part of the cached prompt prefix.
	Spec() llm.ToolSpec
	Replay() Replay
	// Run executes one call. What the model should read, failures included, is in Result; an error is returned only
	// when the call could not be carried out at all for reasons that are not the model's (workspace unreachable, ctx
	// cancelled). Effects of a cancelled ctx are gone within 2 s.
	Run(ctx context.Context, call Call) (Result, error)
}

// Placed is a tool that is of use in the conversations of one platform only, and offered nowhere else.
type Placed interface {
	Platform() office.Platform
}

// Call is one call by the model.
type Call struct {
	// Key is unique to the call and equal over attempts: an idempotency key for whatever the tool talks to.
	Key       string
	Arguments json.RawMessage // valid JSON, but not yet validated against the schema
	Place     Place
	// Started, when set, is called with a child's process group before the child's first effect, so that the next
	// worker on this host can kill what a dead one left behind. It must not block for long.
	Started func(sandbox.Group)
}

// Place is where a call happens: an office's part of the workspace.
type Place struct {
	OfficeKey  string
	SessionKey string
	RunID      string
	Dir        string // absolute: <workspace>/<officeKey>
}

// Result is what the model reads.
type Result struct {
	Text    string // valid UTF-8 without NUL, bounded (MaxLines, MaxBytes)
	IsError bool
	Images  []llm.Block // BlockImage only
}

// Bounds of a Result's text; what is beyond is spilled to a file of the office's scratch/ and named in the text.
const (
	MaxLines = 2000
	MaxBytes = 50 << 10
)
