//go:build !linux

package tool_test

import "testing"

func fullScratch(t *testing.T, _ *bench) {
	t.Helper()
	t.Skip("a small file system is mounted on Linux only")
}
