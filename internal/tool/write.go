package tool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/workfile"
)

// Write writes whole files.
type Write struct{}

// Spec implements Tool.
func (*Write) Spec() llm.ToolSpec {
	return llm.ToolSpec{
		Name: "write",
		Description: "Write a file of the conversation's directory as a whole, replacing what it held. Folders are made as " +
			"needed. To change a part of a file use edit.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"path":{"type":"string","description":"The file: relative to the conversation's directory, or absolute inside it."},` +
			`"content":{"type":"string","description":"All that the file shall hold."}` +
			`},"required":["path","content"]}`),
	}
}

// Replay implements Tool.
func (*Write) Replay() Replay { return Unsafe }

// Run implements Tool.
func (*Write) Run(ctx context.Context, call Call) (Result, error) {
	var args struct {
		Path    *string `json:"path"`
		Content *string `json:"content"`
	}
	err := Arguments(call.Arguments, &args)
	if err == nil {
		err = missing(field{"path", args.Path}, field{"content", args.Content})
	}
	if err != nil {
		return failed("Nothing was written: %s.", err), nil
	}
	dir, release, err := locked(ctx, call.Place)
	if err != nil {
		return Result{}, err
	}
	defer release()
	name, err := dir.Name(*args.Path)
	var outcome workfile.Replacement
	if err == nil {
		outcome, err = dir.Replace(name, []byte(*args.Content))
	}
	if err != nil {
		return failed("Nothing was written: %s", fileError(*args.Path, err)), nil
	}
	what := "is new"
	if outcome == workfile.Replaced {
		what = "was replaced"
	}
	return Result{Text: fmt.Sprintf("%s %s (%s).", name, what, size(int64(len(*args.Content))))}, nil
}

// locked opens the office for changing files: no other writer of mikan, in whatever process, comes between.
func locked(ctx context.Context, place Place) (*workfile.Dir, func(), error) {
	dir, err := workfile.Open(place.Dir)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Unavailable, err, "the office's directory cannot be opened")
	}
	waiting, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	unlock, err := dir.Lock(waiting)
	if err != nil {
		_ = dir.Close()
		if ctx.Err() != nil {
			return nil, nil, fault.Wrap(fault.Interrupted, context.Cause(ctx), "the call was cancelled before it began")
		}
		return nil, nil, fault.Wrap(fault.Unavailable, err, "the office's directory is in use")
	}
	return dir, func() {
		unlock()
		_ = dir.Close()
	}, nil
}
