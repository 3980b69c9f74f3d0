package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/workfile"
)

// FilesInput names the run whose files are fetched.
type FilesInput struct {
	RunID string `json:"run"`
}

// filesSlot is where the note about the files of a message is kept: of an attempt that dies, what it has told stays told.
func filesSlot(messageID string) string { return "files/" + messageID }

// Limits of a file that is fetched.
const (
	maxFile    = 100 << 20 // bytes
	maxPicture = 8 << 20   // bytes; a larger one is left to the model's tools
	fileWithin = 5 * time.Minute
)

// Files brings the files of a run's messages into the office's attachments folder, and tells the model where they are
// and which are missing. Pictures are shown to it.
func (t *Tools) Files(ctx context.Context, in FilesInput) error {
	pulse := startPulse(ctx, 0, "files")
	defer pulse.stop()
	err := t.files(ctx, in.RunID)
	explain(ctx, t.Store, in.RunID, err)
	return toTemporal(err, in.RunID)
}

func (t *Tools) files(ctx context.Context, runID string) error {
	r, err := t.Store.Run(ctx, runID)
	if err != nil {
		return err
	}
	messages, err := t.Store.PendingFiles(ctx, r)
	if err != nil || len(messages) == 0 {
		return err
	}
	dir, err := workfile.Open(t.Workspace.place(r).Dir)
	switch {
	case noRoom(err):
		// Nobody knows when there will be. The model is told, file by file.
	case err != nil:
		return fault.Wrap(fault.Unavailable, err, "the workspace cannot be opened")
	default:
		defer dir.Close()
	}
	for _, m := range messages {
		if err := t.filesOf(ctx, dir, runID, m); err != nil {
			return err
		}
	}
	return nil
}

// noRoom tells whether the workspace takes no more.
func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// filesOf brings in the files of one message and tells the model. dir is nil where there was no room for a folder.
func (t *Tools) filesOf(ctx context.Context, dir *workfile.Dir, runID string, m store.ChatMessage) error {
	step, err := t.Store.BeginStep(ctx, runID, filesSlot(m.MessageID))
	if err != nil || step.Done != nil {
		return err
	}
	var blocks []llm.Block
	var notes []string
	for i := range m.Attachments {
		if !m.Attachments[i].Pending() {
			continue
		}
		picture := t.fetch(ctx, dir, step.Run, &m.Attachments[i])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		notes = append(notes, fileNote(m.Attachments[i]))
		if picture != nil {
			blocks = append(blocks, *picture)
		}
	}
	blocks = append(blocks, llm.Block{Kind: llm.BlockText, Text: fmt.Sprintf("(files of the message by [%s]: %s)", store.LineName(m.AuthorName), strings.Join(notes, "; "))})
	return patiently(ctx, func() error {
		return t.Store.CommitFiles(ctx, step, m, store.Entry{Kind: store.EntryChat, Body: store.Body{Blocks: blocks}})
	})
}

func fileNote(a store.Attachment) string {
	name := store.LineName(a.Name)
	if a.Problem != "" {
		return name + " is not available: " + a.Problem
	}
	return name + " is at " + a.Path
}

// fetch brings one file in and notes in the attachment where it is, or why it is not there. It returns the file as a
// picture if it is one.
func (t *Tools) fetch(ctx context.Context, dir *workfile.Dir, r store.Run, a *store.Attachment) *llm.Block {
	ctx, cancel := context.WithTimeout(ctx, fileWithin)
	defer cancel()
	name, err := t.save(ctx, dir, r, a)
	if err != nil {
		a.Problem = problemOf(err)
		t.Log.Warn("a file of a message could not be fetched", "run", r.ID, "code", fault.CodeOf(err))
		return nil
	}
	a.Path = name
	return pictureAt(dir, name)
}

func (t *Tools) save(ctx context.Context, dir *workfile.Dir, r store.Run, a *store.Attachment) (name string, err error) {
	if a.Size > maxFile {
		return "", fault.New(fault.TooLarge, "%s has %d bytes", a.Name, a.Size)
	}
	if dir == nil {
		return "", fault.Wrap(fault.Unavailable, syscall.ENOSPC, "the office has no folder")
	}
	failpoint.Hit("fetch.before")
	content, err := t.Delivery.Fetch(ctx, r, *a)
	failpoint.Hit("fetch.after")
	if err != nil {
		return "", err
	}
	defer content.Close()
	file, name, err := dir.Create("attachments", safeStem(a.Name)+"-", safeExtension(a.Name))
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "the file cannot be written")
	}
	size, err := io.Copy(file, io.LimitReader(content, maxFile+1))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil && size > maxFile {
		err = fault.New(fault.TooLarge, "%s is over the limit", a.Name)
	}
	if err != nil {
		return "", errors.Join(err, dir.Remove(name))
	}
	a.Size = size
	return name, nil
}

// problemOf says in a few words why a file is missing. What a platform or disk said stays in the log.
func problemOf(err error) string {
	if noRoom(err) {
		return "the workspace has no room for it"
	}
	switch fault.CodeOf(err) {
	case fault.TooLarge:
		return fmt.Sprintf("it is over the limit of %d MB", maxFile>>20)
	case fault.NotFound:
		return "it is not there any more"
	case fault.Forbidden:
		return "I may not read it"
	}
	return "it could not be fetched"
}

// pictureAt reads a fetched file as a picture that providers take; nil when it is none.
func pictureAt(dir *workfile.Dir, name string) *llm.Block {
	data, err := dir.ReadAll(name, maxPicture)
	if err != nil {
		return nil
	}
	media, err := llm.ImageType(data)
	if err != nil {
		return nil
	}
	return &llm.Block{Kind: llm.BlockImage, MediaType: media, Data: data}
}

// safeStem and safeExtension make a name for the disk of whatever a platform calls a file.
func safeStem(called string) string {
	stem := safeName(strings.TrimSuffix(path.Base(called), path.Ext(called)))
	if stem == "" {
		return "file"
	}
	return stem
}

func safeExtension(called string) string {
	extension := safeName(strings.TrimPrefix(path.Ext(called), "."))
	if extension == "" {
		return ""
	}
	return "." + extension
}

const maxName = 60 // bytes of a name's part

func safeName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, s)
	s = strings.Trim(s, "-")
	return s[:min(len(s), maxName)]
}
