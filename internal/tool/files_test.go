package tool_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/tool"
)

func TestReadReturnsTextAndHowToGoOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	b.write("small", "one\ntwo\nthree")
	b.write("empty", "")
	b.write("windows", "a\r\nb\r\n")
	b.write("controls", "bell\a and \x1b[31mcolour\n")
	b.write("latin1", "caf\xE9\n")
	for _, test := range []struct {
		arguments args
		want      string
		isError   bool
	}{
		{args{"path": "small"}, "one\ntwo\nthree", false},
		{args{"path": filepath.Join(b.dir, "small")}, "one\ntwo\nthree", false},
		{args{"path": "small", "limit": 2}, "one\ntwo\n[Lines 1 to 2 of small. More follow; go on with offset 3.]", false},
		{args{"path": "small", "offset": 2, "limit": 1}, "two\n[Lines 2 to 2 of small. More follow; go on with offset 3.]", false},
		{args{"path": "small", "offset": 3, "limit": 5}, "three", false},
		{args{"path": "small", "offset": 4}, "small has 3 lines; offset 4 is beyond its end.", true},
		{args{"path": "empty"}, "empty is empty.", false},
		{args{"path": "windows"}, "a\r\nb\r\n", false},
		{args{"path": "controls"}, "bell\a and \x1b[31mcolour\n", false},
		{args{"path": "latin1"}, "caf\uFFFD\n", false},
		{args{"path": "none"}, "none does not exist.", true},
		{args{"path": "."}, ". cannot be used: . is not a regular file but a directory.", true},
	} {
		if got := b.call("read", test.arguments); got.Text != test.want || got.IsError != test.isError {
			t.Errorf("%v: %+v, want %q", test.arguments, got, test.want)
		}
	}
}

func TestReadingOnYieldsTheWholeFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	var whole strings.Builder
	for i := range 7000 {
		fmt.Fprintf(&whole, "%d %s\n", i, strings.Repeat("漢", i%40))
	}
	b.write("long", whole.String())
	var read strings.Builder
	for offset, pages := 1, 0; offset > 0; pages++ {
		text := b.call("read", args{"path": "long", "offset": offset}).Text
		at := strings.LastIndex(text, "[Lines ")
		if offset = 0; at >= 0 {
			if _, err := fmt.Sscanf(text[strings.LastIndex(text, "offset "):], "offset %d.", &offset); err != nil {
				t.Fatal(err)
			}
			text = text[:at]
		}
		read.WriteString(text)
		if pages > 100 {
			t.Fatal("reading never ends")
		}
	}
	if read.String() != whole.String() {
		t.Errorf("read %d of %d bytes", read.Len(), whole.Len())
	}
}

func TestReadCutsAnEndlessLineBetweenGraphemes(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	family := "👨‍👩‍👧‍👦"
	for offset := range len(family) + 1 {
		b.write("line", strings.Repeat("x", offset)+strings.Repeat(family, 200_000)+"\nsecond\n")
		text := b.call("read", args{"path": "line"}).Text
		shown, note, _ := strings.Cut(text, "\n")
		if !strings.HasSuffix(shown, family) || !strings.Contains(note, "line 2 comes next") {
			t.Errorf("offset %d: ends in %q, note %q", offset, shown[len(shown)-10:], note)
		}
	}
	if got := b.call("read", args{"path": "line", "offset": 2}); got.Text != "second\n" {
		t.Errorf("%+v", got)
	}
}

func pngOf(width, height int) string {
	var out bytes.Buffer
	if err := png.Encode(&out, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		panic(err)
	}
	return out.String()
}

func TestPicturesAreToldByContent(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	b.write("picture.txt", pngOf(3, 2))
	b.write("page.png", "<html><body>not found</body></html>")
	b.write("doc.png", "%PDF-1.7\n%\xE2\xE3\xCF\xD3\n1 0 obj")
	b.write("archive", "PK\x03\x04\x00\x00\x00")
	b.write("broken.png", pngOf(3, 2)[:20])
	b.write("wide.png", pngOf(9000, 1))
	b.write("huge.png", pngOf(3, 2)+strings.Repeat("\x00", 6<<20))
	b.write("utf16", "\xFF\xFEh\x00i\x00")
	for _, test := range []struct {
		path, want string
		images     int
	}{
		{"picture.txt", "picture.txt is shown (image/png", 1},
		{"page.png", "<html><body>not found</body></html>", 0},
		{"doc.png", "doc.png is not text (application/pdf", 0},
		{"archive", "archive is not text (application/zip", 0},
		{"broken.png", "broken.png (image/png, 20 bytes) cannot be shown: ", 0},
		{"wide.png", "wide.png (image/png", 0},
		{"huge.png", "huge.png (image/png, 6.0 MB) cannot be shown: it is over 5.0 MB", 0},
		{"utf16", "utf16 is not text (UTF-16", 0},
	} {
		got := b.call("read", args{"path": test.path})
		if got.IsError || !strings.HasPrefix(got.Text, test.want) || len(got.Images) != test.images {
			t.Errorf("%s: %d pictures, %.100q", test.path, len(got.Images), got.Text)
		}
		for _, block := range got.Images {
			if block.Kind != llm.BlockImage || block.MediaType != "image/png" || string(block.Data) != b.content(test.path) {
				t.Errorf("%s: block %s %s of %d bytes", test.path, block.Kind, block.MediaType, len(block.Data))
			}
		}
	}
}

func TestTheSharedMemoryCanBeReadButNotWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	b.write("../MEMORY.md", "shared\n")
	b.write("../other/MEMORY.md", "private\n")
	for _, path := range []string{"../MEMORY.md", filepath.Join(filepath.Dir(b.dir), "MEMORY.md")} {
		if got := b.call("read", args{"path": path}); got.IsError || got.Text != "shared\n" {
			t.Errorf("%s: %+v", path, got)
		}
		for name, arguments := range map[string]args{
			"write": {"path": path, "content": "x"}, "edit": {"path": path, "edits": []args{{"old": "shared", "new": "x"}}},
		} {
			if got := b.call(name, arguments); !got.IsError {
				t.Errorf("%s %s: %+v", name, path, got)
			}
		}
	}
	for _, path := range []string{"../other/MEMORY.md", "../x", "/etc/passwd", "..", "../../etc/passwd"} {
		if got := b.call("read", args{"path": path}); !got.IsError || strings.Contains(got.Text, "private") {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if b.content("../MEMORY.md") != "shared\n" {
		t.Error("the shared memory was changed")
	}
}

func TestALinkOutOfTheOfficeIsNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	b.write("../other/notes", "private")
	b.write("own", "x")
	if err := os.Symlink("../other", filepath.Join(b.dir, "door")); err != nil {
		t.Fatal(err)
	}
	for name, arguments := range map[string]args{
		"read": {"path": "door/notes"}, "write": {"path": "door/notes", "content": "x"},
		"edit": {"path": "door/notes", "edits": []args{{"old": "private", "new": "x"}}},
	} {
		got := b.call(name, arguments)
		if !got.IsError || !strings.Contains(got.Text, "door points to ../other") || strings.Contains(got.Text, "private") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if b.content("../other/notes") != "private" {
		t.Error("another office's file was changed")
	}
}

func TestWriteReplacesAWholeFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	if got := b.call("write", args{"path": "a/b.txt", "content": "é\x00\n"}); got.IsError || got.Text != "a/b.txt is new (4 bytes)." {
		t.Errorf("%+v", got)
	}
	if got := b.call("write", args{"path": "a/b.txt", "content": ""}); got.IsError || got.Text != "a/b.txt was replaced (0 bytes)." {
		t.Errorf("%+v", got)
	}
	if b.content("a/b.txt") != "" {
		t.Error("the file is not empty")
	}
	for _, path := range []string{"a", "a/b.txt/c", ""} {
		if got := b.call("write", args{"path": path, "content": "x"}); !got.IsError {
			t.Errorf("%q: %+v", path, got)
		}
	}
}

func TestEditReplacesExactPieces(t *testing.T) {
	t.Parallel()
	type edit = args
	for _, test := range []struct {
		name, before string
		edits        []edit
		after, text  string
	}{
		{"one", "a b c\n", []edit{{"old": "b", "new": "B"}}, "a B c\n", "f: 1 piece replaced, the first at line 1."},
		{"several, in any order", "1\n2\n3\n", []edit{{"old": "3", "new": "c"}, {"old": "1", "new": "a"}}, "a\n2\nc\n", "2 pieces"},
		{"all are looked up in the old text", "a b", []edit{{"old": "a", "new": "b"}, {"old": "b", "new": "a"}}, "b a", "2 pieces"},
		{"deletion", "keep drop", []edit{{"old": " drop", "new": ""}}, "keep", "1 piece"},
		{"Windows lines", "a\r\nb\r\nc\r\n", []edit{{"old": "a\nb\n", "new": "x\ny\nz\n"}}, "x\r\ny\r\nz\r\nc\r\n", "1 piece"},
		{"Windows lines, as read", "a\r\nb\r\n", []edit{{"old": "a\r\nb", "new": "x\r\ny"}}, "x\r\ny\r\n", "1 piece"},
		{"mixed lines are taken as they are", "a\r\nb\n", []edit{{"old": "b\n", "new": "c\n"}}, "a\r\nc\n", "1 piece"},
		{"byte order mark", "\uFEFFa\n", []edit{{"old": "\uFEFFa", "new": "b"}}, "\uFEFFb\n", "1 piece"},
		{"other bytes stay", "\xFFa\x00", []edit{{"old": "a", "new": "b"}}, "\xFFb\x00", "1 piece"},
		{"not there", "a\n", []edit{{"old": "b", "new": "c"}}, "a\n", "edit 1 is not there"},
		{"twice", "x\nx\n", []edit{{"old": "x", "new": "y"}}, "x\nx\n", "occurs 2 times (lines 1, 2)"},
		{"overlapping itself", "aaa", []edit{{"old": "aa", "new": "b"}}, "aaa", "occurs 2 times"},
		{"very often", strings.Repeat("a", 1000), []edit{{"old": "a", "new": "b"}}, strings.Repeat("a", 1000), "at least 100 times"},
		{"overlapping each other", "abc", []edit{{"old": "ab", "new": "x"}, {"old": "bc", "new": "y"}}, "abc", "edits 1 and 2 overlap"},
		{"all or none", "a b", []edit{{"old": "a", "new": "x"}, {"old": "z", "new": "y"}}, "a b", "edit 2 is not there"},
		{"nothing but a mark", "\uFEFFa", []edit{{"old": "\uFEFF", "new": "x"}}, "\uFEFFa", "edit 1 is not there"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "host", nil)
			b.write("f", test.before)
			got := b.call("edit", args{"path": "f", "edits": test.edits})
			if !strings.Contains(got.Text, test.text) || got.IsError != (test.before == test.after) {
				t.Errorf("%+v, want %q", got, test.text)
			}
			if after := b.content("f"); after != test.after {
				t.Errorf("the file holds %q, want %q", after, test.after)
			}
		})
	}
}

func TestEditTakesASinglePairToo(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	b.write("f", "a")
	if got := b.call("edit", args{"path": "f", "old_string": "a", "new_string": "b"}); got.IsError || b.content("f") != "b" {
		t.Errorf("%+v", got)
	}
	if got := b.call("edit", args{"path": "none", "old_string": "a", "new_string": "b"}); !got.IsError || !strings.Contains(got.Text, "does not exist") {
		t.Errorf("%+v", got)
	}
}

func TestParallelEditsAreAllKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	var content strings.Builder
	const edits = 12
	for i := range edits {
		fmt.Fprintf(&content, "<%d>\n", i)
	}
	b.write("MEMORY.md", content.String())
	found, _ := b.registry.Get("edit")
	var wait sync.WaitGroup
	for i := range edits {
		wait.Go(func() {
			arguments := fmt.Sprintf(`{"path":"MEMORY.md","edits":[{"old":"<%d>","new":"done"}]}`, i)
			got, err := found.Run(t.Context(), tool.Call{Arguments: []byte(arguments), Place: tool.Place{Dir: b.dir}})
			if err != nil || got.IsError {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
	wait.Wait()
	if got := strings.Count(b.content("MEMORY.md"), "done"); got != edits {
		t.Errorf("%d of %d edits are kept", got, edits)
	}
}
