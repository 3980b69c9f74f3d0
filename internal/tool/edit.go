package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/llm"
)

const (
	// editLimit is the largest file that is edited, in bytes.
	editLimit = 10 << 20
	// lockTimeout bounds the wait for another writer of the office.
	lockTimeout = 10 * time.Second
	// listedMatches is how many places an ambiguous edit names.
	listedMatches = 5
	// manyMatches is where counting them ends.
	manyMatches = 100
)

// Edit replaces exact pieces of a text file.
type Edit struct{}

// Spec implements Tool.
func (*Edit) Spec() llm.ToolSpec {
	return llm.ToolSpec{
		Name: "edit",
		Description: "Replace pieces of a text file of the conversation's directory. Each old text must be exactly what the " +
			"file holds, whitespace included, and occur once; all are looked up in the file as it is now. Either all edits " +
			"are made or none.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"path":{"type":"string","description":"The file: relative to the conversation's directory, or absolute inside it."},` +
			`"edits":{"type":"array","minItems":1,"items":{"type":"object","properties":{` +
			`"old":{"type":"string","description":"The text to replace, with enough around it to occur only once."},` +
			`"new":{"type":"string","description":"The text to put in its place."}` +
			`},"required":["old","new"]}}},"required":["path","edits"]}`),
	}
}

// Replay implements Tool.
func (*Edit) Replay() Replay { return Unsafe }

type replacement struct {
	Old *string `json:"old"`
	New *string `json:"new"`
}

// Run implements Tool.
func (*Edit) Run(ctx context.Context, call Call) (Result, error) {
	var args struct {
		Path  *string       `json:"path"`
		Edits []replacement `json:"edits"`
		// What other harnesses call the two texts of a single edit; models know these names.
		OldString *string `json:"old_string"`
		NewString *string `json:"new_string"`
	}
	err := Arguments(call.Arguments, &args)
	if err == nil {
		err = missing(field{"path", args.Path})
	}
	if err == nil && args.OldString != nil && len(args.Edits) == 0 {
		args.Edits = []replacement{{args.OldString, args.NewString}}
	}
	if err == nil {
		err = complete(args.Edits)
	}
	if err != nil {
		return failed("Nothing was changed: %s.", err), nil
	}
	dir, release, err := locked(ctx, call.Place)
	if err != nil {
		return Result{}, err
	}
	defer release()
	name, err := dir.Name(*args.Path)
	var content []byte
	if err == nil {
		content, err = dir.ReadAll(name, editLimit)
	}
	if err != nil {
		return failed("Nothing was changed: %s", fileError(*args.Path, err)), nil
	}
	changed, line, err := apply(content, args.Edits)
	if err != nil {
		return failed("Nothing was changed in %s: %s.", name, err), nil
	}
	if _, err := dir.Replace(name, changed); err != nil {
		return failed("Nothing was changed: %s", fileError(*args.Path, err)), nil
	}
	return Result{Text: fmt.Sprintf("%s: %s replaced, the first at line %d.", name, count(len(args.Edits), "piece"), line)}, nil
}

func complete(edits []replacement) error {
	if len(edits) == 0 {
		return errors.New(`the required argument "edits" is missing or empty`)
	}
	for i, e := range edits {
		switch {
		case e.Old == nil || e.New == nil:
			return fmt.Errorf(`edit %d lacks "old" or "new"`, i+1)
		case *e.Old == "":
			return fmt.Errorf("the old text of edit %d is empty; use write to make a file", i+1)
		case *e.Old == *e.New:
			return fmt.Errorf("the old and the new text of edit %d are the same", i+1)
		}
	}
	return nil
}

var byteOrderMark = []byte("\uFEFF")

// span is a place of the content and what comes there.
type span struct {
	from, to int
	with     []byte
	edit     int
}

// apply makes all edits or none, and tells at which line the first is. A byte order mark stays, and in a file whose
// lines all end in CR LF the new text's do too.
func apply(content []byte, edits []replacement) (changed []byte, line int, err error) {
	mark := []byte(nil)
	if bytes.HasPrefix(content, byteOrderMark) {
		mark, content = byteOrderMark, content[len(byteOrderMark):]
	}
	feeds := bytes.Count(content, []byte{'\n'})
	windows := feeds > 0 && feeds == bytes.Count(content, []byte("\r\n"))
	spans := make([]span, 0, len(edits))
	for i, e := range edits {
		before, with := []byte(strings.TrimPrefix(*e.Old, string(byteOrderMark))), []byte(*e.New)
		if windows {
			before, with = windowsLines(before), windowsLines(with)
		}
		found := places(content, before)
		switch {
		case len(found) == 0:
			return nil, 0, fmt.Errorf("the old text of edit %d is not there; read the file and copy the text exactly", i+1)
		case len(found) > 1:
			return nil, 0, fmt.Errorf("the old text of edit %d occurs %s times (lines %s); add lines around it until it occurs once",
				i+1, times(len(found)), lineNumbers(content, found))
		}
		spans = append(spans, span{found[0], found[0] + len(before), with, i + 1})
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	out, done := slices.Clone(mark), 0
	for i, s := range spans {
		if s.from < done {
			return nil, 0, fmt.Errorf("edits %d and %d overlap; make them one", spans[i-1].edit, s.edit)
		}
		out = append(append(out, content[done:s.from]...), s.with...)
		done = s.to
	}
	return append(out, content[done:]...), lineOf(content, spans[0].from), nil
}

func windowsLines(b []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
}

// places finds the occurrences, up to manyMatches, overlapping ones included: each could be meant.
func places(content, piece []byte) []int {
	var found []int
	if len(piece) == 0 {
		return nil
	}
	for from := 0; ; {
		i := bytes.Index(content[from:], piece)
		if i < 0 || len(found) == manyMatches {
			return found
		}
		found = append(found, from+i)
		from += i + 1
	}
}

func lineOf(content []byte, at int) int { return 1 + bytes.Count(content[:at], []byte{'\n'}) }

func lineNumbers(content []byte, places []int) string {
	var numbers []string
	for _, at := range places[:min(len(places), listedMatches)] {
		numbers = append(numbers, strconv.Itoa(lineOf(content, at)))
	}
	if len(places) > listedMatches {
		numbers = append(numbers, "…")
	}
	return strings.Join(numbers, ", ")
}

func times(n int) string {
	if n == manyMatches {
		return fmt.Sprintf("at least %d", n)
	}
	return strconv.Itoa(n)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
