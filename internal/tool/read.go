package tool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/secret"
	"github.com/geminixiang/mikan/internal/text"
	"github.com/geminixiang/mikan/internal/workfile"
)

const (
	// sharedMemory may be read although it lies beside the office, in the workspace root.
	sharedMemory = "MEMORY.md"
	// imageLimit is the largest picture that is read, in bytes. Providers take less (llm.ImageType).
	imageLimit = 5 << 20
	// sniffed is how much of a file tells its kind; http.DetectContentType looks at 512 bytes, the search for NUL at all.
	sniffed = 8 << 10
)

// Read reads text files and pictures.
type Read struct {
	Redactor *secret.Redactor // nil: nothing is secret
}

// Spec implements Tool.
func (*Read) Spec() llm.ToolSpec {
	return llm.ToolSpec{
		Name: "read",
		Description: fmt.Sprintf("Read a file of the conversation's directory, or ../%s, the memory that all conversations "+
			"share. Returns at most %d lines or %d KB of text; go on with offset. PNG, JPEG, GIF and WebP pictures up to %d MB "+
			"are shown.", sharedMemory, MaxLines, MaxBytes>>10, imageLimit>>20),
		Schema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{`+
			`"path":{"type":"string","description":"The file: relative to the conversation's directory, or absolute inside it."},`+
			`"offset":{"type":"integer","minimum":1,"description":"The first line to read (default 1)."},`+
			`"limit":{"type":"integer","minimum":1,"maximum":%d,"description":"How many lines to read (default %d)."}`+
			`},"required":["path"]}`, MaxLines, MaxLines)),
	}
}

// Replay implements Tool.
func (*Read) Replay() Replay { return Safe }

const maxLine = 1 << 53 // what JSON numbers hold exactly everywhere

// Run implements Tool.
func (r *Read) Run(_ context.Context, call Call) (Result, error) {
	var args struct {
		Path   *string `json:"path"`
		Offset *int64  `json:"offset"`
		Limit  *int64  `json:"limit"`
	}
	err := Arguments(call.Arguments, &args)
	if err == nil {
		err = missing(field{"path", args.Path})
	}
	var offset, limit int64
	if err == nil {
		offset, err = within("offset", args.Offset, 1, maxLine, 1)
	}
	if err == nil {
		limit, err = within("limit", args.Limit, 1, MaxLines, MaxLines)
	}
	if err != nil {
		return failed("Nothing was read: %s.", err), nil
	}
	dir, err := workfile.Open(call.Place.Dir)
	if err != nil {
		return Result{}, fault.Wrap(fault.Unavailable, err, "the office's directory cannot be opened")
	}
	defer dir.Close()
	file, info, err := open(dir, *args.Path)
	if err != nil {
		return failed("%s", fileError(*args.Path, err)), nil
	}
	defer file.Close()

	content := bufio.NewReaderSize(file, 64<<10)
	start, err := content.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return failed("%s", fileError(*args.Path, err)), nil
	}
	switch kind := mediaType(start); {
	case strings.HasPrefix(kind, "image/"):
		return picture(*args.Path, kind, content, info.Size()), nil
	case kind != "":
		return Result{Text: fmt.Sprintf("%s is not text (%s, %s). Use bash to look into it.", *args.Path, kind, size(info.Size()))}, nil
	}
	return r.page(*args.Path, content, offset, limit), nil
}

func open(dir *workfile.Dir, called string) (*os.File, fs.FileInfo, error) {
	if isSharedMemory(dir, called) {
		return dir.ReadShared(sharedMemory)
	}
	name, err := dir.Name(called)
	if err != nil {
		return nil, nil, err
	}
	return dir.OpenRegular(name)
}

func isSharedMemory(dir *workfile.Dir, called string) bool {
	if !filepath.IsAbs(called) {
		called = filepath.Join(dir.Path(), called)
	}
	return filepath.Clean(called) == filepath.Join(filepath.Dir(dir.Path()), sharedMemory)
}

// mediaType tells what a file that is not text holds, by its content and never by its name; "" for text.
func mediaType(start []byte) string {
	kind, _, _ := strings.Cut(http.DetectContentType(start), ";")
	switch {
	case bytes.IndexByte(start, 0) >= 0 && strings.HasPrefix(kind, "text/"):
		return "UTF-16 text or other data with NUL bytes"
	case strings.HasPrefix(kind, "text/"):
		return ""
	case kind == "application/octet-stream" && bytes.IndexByte(start, 0) < 0:
		return "" // text with control characters, or in an encoding of its own
	}
	return kind
}

func picture(called, kind string, content io.Reader, length int64) Result {
	note := func(reason string) Result {
		return Result{Text: fmt.Sprintf("%s (%s, %s) cannot be shown: %s.", called, kind, size(length), reason)}
	}
	if length > imageLimit {
		return note(fmt.Sprintf("it is over %s; make it smaller with bash", size(imageLimit)))
	}
	data, err := io.ReadAll(io.LimitReader(content, imageLimit))
	if err != nil {
		return note("it could not be read: " + reason(err))
	}
	media, err := llm.ImageType(data)
	if err != nil {
		return note(err.Error())
	}
	return Result{
		Text:   fmt.Sprintf("%s is shown (%s, %s).", called, media, size(length)),
		Images: []llm.Block{{Kind: llm.BlockImage, MediaType: media, Data: data}},
	}
}

// page returns lines offset to offset+limit-1, as far as the bounds allow, and says how to go on. Its memory does not
// grow with the file.
func (r *Read) page(called string, content *bufio.Reader, offset, limit int64) Result {
	limit = min(limit, MaxLines-noteLines)
	const budget = MaxBytes - noteBytes
	var page strings.Builder
	number := int64(0) // of the last line looked at
	for {
		line, length, err := nextLine(content, number+1 >= offset)
		if length == 0 && err != nil {
			if !errors.Is(err, io.EOF) {
				return failed("%s", fileError(called, err))
			}
			break
		}
		number++
		switch {
		case number < offset:
			continue
		case number >= offset+limit:
			return more(page.String(), called, offset, number)
		}
		shown := r.Redactor.String(text.Storable(line))
		if page.Len()+len(shown) > budget {
			if page.Len() > 0 {
				return more(page.String(), called, offset, number)
			}
			return Result{Text: fmt.Sprintf("%s\n[Line %d of %s is cut: it has %s. Use bash to see the rest; line %d comes next.]",
				text.Head(shown, budget), number, called, size(length), number+1)}
		}
		page.WriteString(shown)
	}
	switch {
	case number == 0:
		return Result{Text: called + " is empty."}
	case number < offset:
		return failed("%s has %d lines; offset %d is beyond its end.", called, number, offset)
	}
	return Result{Text: page.String()}
}

func more(page, called string, offset, next int64) Result {
	return Result{Text: fmt.Sprintf("%s[Lines %d to %d of %s. More follow; go on with offset %d.]", page, offset, next-1, called, next)}
}

// keep tells nextLine how much of a line to return: a secret that begins within the budget must be seen whole.
const keep = MaxBytes + 8<<10

// nextLine reads a line of any length in flat memory. It returns its beginning when wanted, with its line feed when
// that belongs to it, and its full length.
func nextLine(from *bufio.Reader, wanted bool) (line string, length int64, err error) {
	var kept []byte
	for {
		part, err := from.ReadSlice('\n')
		length += int64(len(part))
		if wanted && len(kept) < keep {
			kept = append(kept, part[:min(len(part), keep-len(kept))]...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return string(kept), length, err
		}
	}
}

// fileError is what the model reads when a file could not be used.
func fileError(called string, err error) string {
	called = text.Clip(text.Storable(called), 300)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return called + " does not exist."
	case errors.Is(err, fs.ErrPermission):
		return called + " cannot be opened: permission denied."
	}
	return fmt.Sprintf("%s cannot be used: %s.", called, reason(err))
}
