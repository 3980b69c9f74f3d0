package workfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/geminixiang/mikan/internal/workfile"
)

// fill takes what room a file system of a megabyte has left, but for the given bytes.
func fill(t *testing.T, dir string, but int) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	page, taken := make([]byte, 4096), 0
	for {
		n, err := file.Write(page)
		taken += n
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Truncate(int64(taken - but)); err != nil {
		t.Fatal(err)
	}
}

func TestAppendToAFullDiskLeavesTheFileAsItWas(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	mountSmall(t, folder)
	d, err := workfile.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	path := put(t, d, "log", "one\n")
	fill(t, d.Path(), 8192)
	more := strings.Repeat("two\n", 5000)
	if err := d.Append("log", 4, []byte(more)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk gives %v", err)
	}
	holds(t, path, "one\n")
	if err := os.Remove(filepath.Join(d.Path(), "filler")); err != nil {
		t.Fatal(err)
	}
	if err := d.Append("log", 4, []byte(more)); err != nil {
		t.Errorf("with room again: %v", err)
	}
	holds(t, path, "one\n"+more)
}
