package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/tool"
)

// Tool lets the model look into the past of the office that it works in, and of no other: the office comes from the
// run, never from the call.
type Tool struct {
	Reader *Reader
}

// Spec implements tool.Tool.
func (*Tool) Spec() llm.ToolSpec {
	return llm.ToolSpec{
		Name: store.HistoryTool,
		Description: fmt.Sprintf("Look into the past of this conversation: every session of it (threads, earlier contexts, what was "+
			"reset or summarised away; tool calls and their output included) and its chat log. action \"sessions\" lists the "+
			"sessions; \"search\" finds entries of sessions that hold every word of query (any case, also parts of words); \"read\" "+
			"pages through one session; \"chat\" pages through the chat log, or finds messages by query. Pages begin at the newest "+
			"and are shown oldest first; entries are clipped at %d characters.", EntryCharacters),
		Schema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{`+
			`"action":{"type":"string","enum":["sessions","search","read","chat"],"description":"What to do."},`+
			`"query":{"type":"string","description":"Words to find; required for search, optional for chat."},`+
			`"session":{"type":"string","description":"A session's id, at least its first 8 characters, or \"current\". Required for read; limits search to one session."},`+
			`"limit":{"type":"integer","minimum":1,"maximum":%d,"description":"How many to return (default %d; sessions: %d)."},`+
			`"skip":{"type":"integer","minimum":0,"description":"How many of the newest to leave out (default 0)."}`+
			`},"required":["action"]}`, MaxLimit, defaultLimit, MaxLimit)),
	}
}

// Replay implements tool.Tool.
func (*Tool) Replay() tool.Replay { return tool.Safe }

// Run implements tool.Tool.
func (t *Tool) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args struct {
		Action  *Action `json:"action"`
		Query   string  `json:"query"`
		Session string  `json:"session"`
		Limit   *int64  `json:"limit"`
		Skip    int64   `json:"skip"`
	}
	raw := bytes.TrimSpace(call.Arguments)
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return refused(argumentError(err)), nil
	}
	if args.Action == nil {
		return refused(errors.New(`the required argument "action" is missing`)), nil
	}
	in := Request{
		Office: call.Place.OfficeKey, Action: *args.Action, Query: args.Query, Session: args.Session, Limit: args.Limit, Skip: args.Skip,
	}
	run, err := t.Reader.Store.Run(ctx, call.Place.RunID)
	if err != nil {
		return tool.Result{}, err
	}
	in.Here = run.SessionID
	answer, err := t.Reader.Look(ctx, in)
	switch fault.CodeOf(err) {
	case fault.Invalid, fault.NotFound:
		return refused(err), nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Text: answer.Text()}, nil
}

func argumentError(err error) error {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) && mismatch.Field != "" {
		return fmt.Errorf("%q cannot be a %s", mismatch.Field, mismatch.Value)
	}
	return errors.New("the arguments must be a JSON object")
}

func refused(err error) tool.Result {
	return tool.Result{Text: "Nothing was looked up: " + err.Error() + ".", IsError: true}
}
