package e2etest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/devstack"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// StackPID finds a server of a data directory.
func StackPID(dir, service string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "run", service+".pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// KillServer kills a server of a data directory, or nothing while it is being started again.
func KillServer(t testing.TB, dir, service string) {
	t.Helper()
	pid, err := StackPID(dir, service)
	if errors.Is(err, fs.ErrNotExist) {
		return // it is being started again
	}
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Errorf("kill %s: %v", service, err)
	}
}

// OwnStack starts servers that the test may kill.
func (w *World) OwnStack() string {
	w.T.Helper()
	return w.StackWith(devstack.Disposable)
}

// StackWith starts servers of this world's own.
func (w *World) StackWith(durability devstack.Durability) string {
	w.T.Helper()
	dir := w.T.TempDir()
	stack, err := devstack.Start(w.T.Context(), devstack.Options{
		DataDir: dir, Durability: durability, Log: Discard, Getenv: func(name string) string {
			if strings.HasPrefix(name, "MIKAN_") || strings.HasPrefix(name, "TEMPORAL_") {
				return ""
			}
			return os.Getenv(name)
		},
	})
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() {
		if err := errors.Join(stack.Close(), devstack.Remove(dir)); err != nil {
			w.T.Errorf("the test's servers: %v", err)
		}
	})
	for name, value := range stack.Env() {
		w.Env[name] = value
	}
	return dir
}

// Dev runs everything in one process on the world's data directory.
func (w *World) Dev(settings ...string) *Process {
	w.T.Helper()
	p := Start(w.T, "dev", MikanPath(w.T), w.Environ(settings...), "dev", "--no-prompt", "--data-dir", w.DataDir)
	p.Says(w.T, "ready\n")
	return p
}

// Dev is a world that a dev serves.
func Dev(t testing.TB, script llmtest.Script) *World {
	t.Helper()
	w := Bare(t, script)
	t.Cleanup(func() {
		if err := devstack.Remove(w.DataDir); err != nil {
			t.Errorf("the dev's data: %v", err)
		}
	})
	return w
}

// Adopt reads where a dev has its servers.
func (w *World) Adopt() {
	w.T.Helper()
	text, err := os.ReadFile(filepath.Join(w.DataDir, config.DevEnvFile))
	if err != nil {
		w.T.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && (name == "MIKAN_DATABASE_URL" || strings.HasPrefix(name, "TEMPORAL_")) {
			w.Env[name] = strings.Trim(value, `"'`)
		}
	}
}
