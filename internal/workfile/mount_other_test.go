//go:build !linux

package workfile_test

import "testing"

func mountSmall(t *testing.T, _ string) {
	t.Helper()
	t.Skip("a small file system is mounted on Linux only")
}
