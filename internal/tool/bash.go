package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/secret"
	"github.com/geminixiang/mikan/internal/workfile"
)

// Timeouts of a command, in seconds.
const (
	bashTimeout    = 120
	bashTimeoutMax = 600
)

// Bash runs shell commands in a sandbox.
type Bash struct {
	Sandbox    sandbox.Sandbox
	Redactor   *secret.Redactor // nil: nothing is secret
	SpillLimit int64            // how much of one output is kept in a file, in bytes; 0 = DefaultSpillLimit
}

// Spec implements Tool.
func (b *Bash) Spec() llm.ToolSpec {
	return llm.ToolSpec{
		Name: "bash",
		Description: fmt.Sprintf("Run a shell command (bash) in the conversation's directory. Returns what it prints, "+
			"standard output and error together, and the exit code if it is not 0. Of a long output the last %d lines or "+
			"%d KB are returned, and the whole is kept in a file under scratch/. There is no terminal and no input. "+
			"Everything the command started ends with it. %s", MaxLines, MaxBytes>>10, b.Sandbox.Describe()),
		Schema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{`+
			`"command":{"type":"string","description":"The command or script to run."},`+
			`"timeout":{"type":"integer","minimum":1,"maximum":%d,"description":"Seconds after which the command is killed (default %d)."}`+
			`},"required":["command"]}`, bashTimeoutMax, bashTimeout)),
	}
}

// Replay implements Tool.
func (*Bash) Replay() Replay { return Unsafe }

// errTimeout is the cause of a command's end by its own timeout.
var errTimeout = errors.New("the command took too long")

// Run implements Tool. When ctx is cancelled, what was printed until then is returned beside the error.
func (b *Bash) Run(ctx context.Context, call Call) (Result, error) {
	var args struct {
		Command *string `json:"command"`
		Timeout *int64  `json:"timeout"`
	}
	err := Arguments(call.Arguments, &args)
	if err == nil {
		err = missing(field{"command", args.Command})
	}
	if err != nil {
		return failed("The command was not run: %s.", err), nil
	}
	seconds, err := within("timeout", args.Timeout, 1, bashTimeoutMax, bashTimeout)
	switch {
	case err != nil:
		return failed("The command was not run: %s.", err), nil
	case strings.ContainsRune(*args.Command, 0):
		return failed("The command was not run: it holds a NUL character."), nil
	case len(*args.Command) > sandbox.MaxScript:
		return failed("The command was not run: it has %s, the limit is %s. Write long text to a file with the write tool.",
			size(int64(len(*args.Command))), size(sandbox.MaxScript)), nil
	}
	dir, err := workfile.Open(call.Place.Dir)
	if err != nil {
		return Result{}, fault.Wrap(fault.Unavailable, err, "the office's directory cannot be opened")
	}
	defer dir.Close()

	limit := b.SpillLimit
	if limit == 0 {
		limit = DefaultSpillLimit
	}
	out := newOutput(dir, b.Redactor, limit)
	limited, cancel := context.WithTimeoutCause(ctx, time.Duration(seconds)*time.Second, errTimeout)
	defer cancel()
	exit, err := b.Sandbox.Run(limited, sandbox.Command{
		Script: *args.Command, Dir: dir.Path(), Output: out, Started: call.Started,
	})
	printed := out.text()
	switch {
	case errors.Is(err, errTimeout):
		return ended(printed, fmt.Sprintf("[The command was killed after %d s, its timeout. It may have had effects.]", seconds)), nil
	case err != nil && ctx.Err() != nil:
		return ended(printed, "[The command was interrupted. It may have had effects.]"),
			fault.Wrap(fault.Interrupted, err, "the command was interrupted")
	case err != nil:
		return Result{}, err
	case exit.Code != 0:
		return ended(printed, fmt.Sprintf("[Exit code %d]", exit.Code)), nil
	case printed == "":
		printed = "(no output)"
	}
	return Result{Text: printed}, nil
}

// ended is the result of a command that did not end well; how is its last line.
func ended(printed, how string) Result {
	if printed != "" && !strings.HasSuffix(printed, "\n") {
		printed += "\n"
	}
	return Result{Text: printed + how, IsError: true}
}
