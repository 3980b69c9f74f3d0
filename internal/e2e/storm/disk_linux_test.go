package storm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// disk is a file system of the test's own.
type disk struct{ path string }

// newDisk puts a small one where the workspace will be, if it may.
func newDisk(t testing.TB, path string) disk {
	t.Helper()
	must(t, os.MkdirAll(path, 0o700))
	err := syscall.Mount("mikan-storm", path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", 16<<20))
	if err != nil {
		t.Logf("the disk will not be full: a file system of its own takes root: %v", err)
		return disk{}
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
			t.Errorf("the test's disk: %v", err)
		}
	})
	return disk{path}
}

func (d disk) small() bool { return d.path != "" }

// fill leaves no room. The function that it returns makes room again.
func (d disk) fill(t testing.TB) (free func()) {
	path := filepath.Join(d.path, ".full")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
		return func() {}
	}
	chunk := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(chunk)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the disk is not full: %v", err)
	}
	if f != nil {
		_ = f.Close()
	}
	return func() {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
}
