package workfile_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/geminixiang/mikan/internal/workfile"
)

func openDir(t *testing.T) *workfile.Dir {
	t.Helper()
	d, err := workfile.Open(filepath.Join(t.TempDir(), "office"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func put(t *testing.T, d *workfile.Dir, name, content string) string {
	t.Helper()
	path := filepath.Join(d.Path(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", filepath.Base(path), got, err, want)
	}
}

func write(content string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	}
}

func TestAppendContinuesOnlyWhatIsAsItWasLeft(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	if err := d.Append("log", 0, []byte("x")); !errors.Is(err, workfile.ErrChanged) {
		t.Errorf("a missing file gives %v", err)
	}
	path := put(t, d, "log", "one\n")
	if err := d.Append("log", 4, []byte("two\n")); err != nil {
		t.Error(err)
	}
	holds(t, path, "one\ntwo\n")
	if err := d.Append("log", 4, []byte("three\n")); !errors.Is(err, workfile.ErrChanged) {
		t.Errorf("a longer file gives %v", err)
	}
	holds(t, path, "one\ntwo\n")
}

func TestRewriteReplacesAWholeFile(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	size, err := d.Rewrite("log", write("new"))
	if err != nil || size != 3 {
		t.Errorf("size %d, %v", size, err)
	}
	path := filepath.Join(d.Path(), "log")
	holds(t, path, "new")
	broken := errors.New("half way")
	if _, err := d.Rewrite("log", func(w io.Writer) error {
		_, _ = io.WriteString(w, "ha")
		return broken
	}); !errors.Is(err, broken) {
		t.Error(err)
	}
	holds(t, path, "new")
	left, err := os.ReadDir(d.Path())
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestLinksAndSpecialFilesAreLeftAlone(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	inside := put(t, d, "inside", "mine")
	for name, target := range map[string]string{"out": outside, "in": "inside", "dangling": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(d.Path(), name)); err != nil {
			t.Fatal(err)
		}
		if err := d.Append(name, 4, []byte("x")); !errors.Is(err, workfile.ErrLink) {
			t.Errorf("appending to the link %s gives %v", name, err)
		}
		if _, err := d.Rewrite(name, write("x")); !errors.Is(err, workfile.ErrLink) {
			t.Errorf("rewriting the link %s gives %v", name, err)
		}
		if got, err := os.Readlink(filepath.Join(d.Path(), name)); err != nil || got != target {
			t.Errorf("the link %s is now %q, %v", name, got, err)
		}
	}
	holds(t, outside, "mine")
	holds(t, inside, "mine")
	if err := os.Mkdir(filepath.Join(d.Path(), "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.Append("folder", 0, nil); err == nil || errors.Is(err, workfile.ErrChanged) {
		t.Errorf("a folder gives %v", err)
	}
	if _, err := d.Rewrite("folder", write("x")); err == nil {
		t.Error("a folder is replaced")
	}
}
