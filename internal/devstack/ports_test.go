package devstack

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// A service may open ports that its owner did not choose, as Temporal does for its own parts.
func TestAServiceThatFoundItsOwnPortTakenIsStartedAgain(t *testing.T) {
	t.Parallel()
	dir := &dataDir{path: t.TempDir()}
	for _, sub := range []string{dir.logs(), dir.run()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tried := filepath.Join(dir.path, "tried")
	script := `if [ -e "$0" ]; then echo serving; exec sleep 600; fi
		touch "$0"; echo "listen tcp 127.0.0.1:41234: bind: address already in use" >&2; exit 1`
	svc := &service{
		name: "busy", dir: dir, log: slog.New(slog.DiscardHandler), interrupt: syscall.SIGTERM, announces: "serving",
		command:   func() *exec.Cmd { return exec.Command("sh", "-c", script, tried) },
		ready:     func(context.Context) error { return nil },
		leftovers: func() ([]process, error) { return nil, nil },
	}
	starts := 0
	err := onFreePorts(func() ([]int, error) {
		starts++
		return nil, svc.start(t.Context())
	})
	if err != nil || starts != 2 {
		t.Fatalf("%d starts, then %v; want the second to serve", starts, err)
	}
	if err := svc.stop(); err != nil {
		t.Error(err)
	}
}
