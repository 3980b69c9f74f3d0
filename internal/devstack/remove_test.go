package devstack_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/geminixiang/mikan/internal/devstack"
)

func TestRemoveEndsWhatAKilledOwnerLeft(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"="+dir)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the owner said %q, %v", line, err)
	}
	if err := devstack.Remove(dir); !errors.As(err, new(*devstack.InUseError)) {
		t.Errorf("a directory in use was removed: %v", err)
	}
	cluster, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	left := []int{pid(t, dir, "postgres"), pid(t, dir, "temporal")}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()

	if err := devstack.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, cluster} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	for _, number := range left {
		eventually(t, "a leftover runs on", func() error {
			if text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(number), "cmdline")); err == nil && len(text) > 0 {
				return errors.New(string(text))
			}
			return nil
		})
	}
	if err := devstack.Remove(dir); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
}

func TestRemoveLeavesOtherDirectoriesAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	letter := filepath.Join(dir, "letter")
	if err := os.WriteFile(letter, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := devstack.Remove(dir); err == nil {
		t.Error("accepted")
	}
	if _, err := os.Stat(letter); err != nil {
		t.Error(err)
	}
}
