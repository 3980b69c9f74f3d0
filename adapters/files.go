package adapters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/tool"
	"github.com/geminixiang/mikan/internal/workfile"
)

// Fetch opens a file of a message where the message was said. Errors are the platform's; not_found where the platform
// has no files.
func (d *Delivery) Fetch(ctx context.Context, r store.Run, a store.Attachment) (io.ReadCloser, error) {
	p, err := d.place(ctx, r.OfficeKey)
	if err != nil {
		return nil, err
	}
	fetcher, ok := p.outbound.(Fetcher)
	if !ok {
		return nil, fault.New(fault.NotFound, "%s has no files", p.address.Platform)
	}
	return fetcher.Fetch(ctx, p.address, a)
}

// Upload posts a file where a run answers, once: a failed attempt leaves its intent, and is not repeated by itself.
// Errors are the platform's; invalid where it takes no files.
func (d *Delivery) Upload(ctx context.Context, runID, key string, u Upload) error {
	r, err := d.Store.Run(ctx, runID)
	if err != nil {
		return err
	}
	p, err := d.place(ctx, r.OfficeKey)
	if err != nil {
		return err
	}
	uploader, ok := p.outbound.(Uploader)
	if !ok {
		return fault.New(fault.Invalid, "%s takes no files from me", p.address.Platform)
	}
	p.cause = r.TriggerMessageID
	m := answerDelivery(r, store.NoticeDelivery, 0, "(file: "+u.Name+")")
	m.Key = run.DeliveryKey(r.ID, "file/"+key)
	intent, err := d.Store.Intend(ctx, m, uploadWithin, store.PostOnce)
	if err != nil {
		return err
	}
	if intent.Ambiguous || intent.State != store.Intended {
		return fault.New(fault.Interrupted, "the file may have been posted already")
	}
	c := store.Confirmation{Key: m.Key, Token: intent.Token, State: store.Final, Text: m.Text}
	at := attempt{Intent: intent, until: time.Now().Add(uploadWithin)}
	err = d.call(ctx, at, "upload", func(ctx context.Context) error {
		c.MessageID, err = uploader.Upload(ctx, outgoing(p, m), u)
		return err
	})
	if err != nil {
		c.State, c.ErrorCode, c.ErrorText = store.Refused, fault.CodeOf(err), err.Error()
	} else if c.Log = logOf(r, c, store.NoticeDelivery); c.Log != nil {
		c.Log.Kind = store.ChatUpload
	}
	confirmed, done := begun(ctx)
	defer done()
	return errors.Join(err, d.Store.Confirm(confirmed, c))
}

// giveUpFiles ends what a run's end finds of files whose posting was cut short: it is not repeated, and nobody would come
// back to it. An attempt that is still going on tells later how it went.
func (d *Delivery) giveUpFiles(ctx context.Context, said []store.Delivery) error {
	for _, s := range said {
		if isAnswer(s) || s.CauseID != "" || s.State != store.Intended {
			continue
		}
		err := d.Store.Confirm(ctx, store.Confirmation{
			Key: s.Key, Token: s.Token, State: store.Refused, Text: s.Text,
			ErrorCode: fault.Interrupted, ErrorText: "whether the file was posted is not known",
		})
		if err != nil && !store.Overtaken(err) {
			return err
		}
	}
	return nil
}

// uploadWithin is the hard deadline of posting one file.
const uploadWithin = 5 * time.Minute

// maxUpload is the largest file that is posted, in bytes.
const maxUpload = 100 << 20

// AttachTool posts a file of the workspace into the conversation. Where it goes is the run's affair: the model only names
// the file.
type AttachTool struct {
	Delivery *Delivery
}

var _ tool.Tool = (*AttachTool)(nil)

// Spec describes the tool to the model.
func (t *AttachTool) Spec() llm.ToolSpec {
	return llm.ToolSpec{
		Name:        "attach",
		Description: "Posts a file of your workspace into this conversation, so that people can open it.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"path":{"type":"string","description":"The file, relative to your working directory or absolute."},` +
			`"name":{"type":"string","description":"What people see as its name; the file's own if left out."}},` +
			`"required":["path"],"additionalProperties":false}`),
	}
}

// Replay is unsafe: a second call would post the file again.
func (t *AttachTool) Replay() tool.Replay { return tool.Unsafe }

// Run posts the file.
func (t *AttachTool) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	var in struct {
		Path string `json:"path"`
		Name string `json:"name"`
	}
	if err := json.Unmarshal(call.Arguments, &in); err != nil || in.Path == "" {
		return refusal("path must be the name of a file")
	}
	dir, err := workfile.Open(call.Place.Dir)
	if err != nil {
		return tool.Result{}, err
	}
	defer dir.Close()
	name, err := dir.Name(in.Path)
	if err != nil {
		return refusal("%v", err)
	}
	file, info, err := dir.OpenRegular(name)
	if err != nil {
		return refusal("%v", err)
	}
	defer file.Close()
	switch {
	case info.Size() == 0:
		return refusal("%s is empty", name)
	case info.Size() > maxUpload:
		return refusal("%s is over the limit of %d MB", name, maxUpload>>20)
	}
	if in.Name == "" {
		in.Name = path.Base(name)
	}
	err = t.Delivery.Upload(ctx, call.Place.RunID, call.Key, Upload{Name: path.Base(in.Name), Size: info.Size(), Content: file})
	switch {
	case ctx.Err() != nil:
		return tool.Result{}, ctx.Err()
	case err != nil:
		return refusal("The file was not posted: %v", err)
	}
	return tool.Result{Text: fmt.Sprintf("Posted %s.", in.Name)}, nil
}

func refusal(format string, args ...any) (tool.Result, error) {
	return tool.Result{Text: fmt.Sprintf(format, args...), IsError: true}, nil
}
