package workfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/geminixiang/mikan/internal/workfile"
)

func TestSwapReplacesOnlyWhatItWasTold(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	path := filepath.Join(d.Path(), "m")
	if err := d.Swap("m", []byte("x"), []byte("y")); !errors.Is(err, workfile.ErrChanged) {
		t.Errorf("a missing file gives %v", err)
	}
	if err := d.Swap("m", nil, []byte("one")); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "one")
	if err := d.Swap("m", nil, []byte("two")); !errors.Is(err, workfile.ErrChanged) {
		t.Errorf("a file that is there gives %v", err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := d.Swap("m", []byte("one"), []byte("two")); err != nil {
		t.Fatal(err)
	}
	if err := d.Swap("m", []byte("0ne"), []byte("three")); !errors.Is(err, workfile.ErrChanged) {
		t.Errorf("another content gives %v", err)
	}
	holds(t, path, "two")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(d.Path()); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestPlainFilesAreNoLinks(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	inside := put(t, d, "inside", "mine")
	if err := os.Symlink("inside", filepath.Join(d.Path(), "link")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.OpenPlain("link"); !errors.Is(err, workfile.ErrLink) {
		t.Errorf("reading a link gives %v", err)
	}
	if err := d.Swap("link", []byte("mine"), []byte("yours")); !errors.Is(err, workfile.ErrLink) {
		t.Errorf("replacing a link gives %v", err)
	}
	holds(t, inside, "mine")
	if _, _, err := d.OpenPlain("nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
}
