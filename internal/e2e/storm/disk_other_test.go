//go:build !linux

package storm

import "testing"

// disk would be a file system of the test's own.
type disk struct{}

func newDisk(t testing.TB, _ string) disk {
	t.Helper()
	t.Log("the disk will not be full: the test knows how to make a small one on Linux only")
	return disk{}
}

func (disk) small() bool { return false }

func (disk) fill(testing.TB) func() { return func() {} }
