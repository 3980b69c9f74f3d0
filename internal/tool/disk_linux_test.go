package tool_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func fullScratch(t *testing.T, b *bench) {
	t.Helper()
	scratch := filepath.Join(b.dir, "scratch")
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", scratch, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(scratch, 0) })
}
