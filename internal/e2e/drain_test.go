package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// begunMark waits until a command has written its line.
func (w *world) begunMark() {
	w.t.Helper()
	eventually(w.t, "the command has begun", func(context.Context) error {
		if len(w.ran("marks")) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
}

// awaitEnd waits for a process to end and tells how.
func (p *process) awaitEnd(t testing.TB) syscall.WaitStatus {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("%s does not end", p.name)
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		t.Fatalf("%s ended in an unknown way", p.name)
	}
	return status
}

func TestAnEndingWorkerFinishesWhatItHasBegunAndTakesNothingNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.worker()
	asked := w.asked(mark("drained", 5), "--conversation", "a")
	w.begunMark()
	first.signal(syscall.SIGTERM)
	eventually(t, "it says that it is unready", func(context.Context) error {
		response, err := http.Get(address.FindString(first.output()[strings.Index(first.output(), `"health"`):]) + "/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusServiceUnavailable {
			return fmt.Errorf("readyz says %s", response.Status)
		}
		return nil
	})
	w.worker() // the second
	wantAnswer(t, w.ask("meanwhile", "--conversation", "b"), "answered", "echo: meanwhile", 0)
	wantAnswer(t, <-asked, "answered", "done drained", 0)
	if status := first.awaitEnd(t); status.ExitStatus() != 0 {
		t.Errorf("it ends with %v", first.cmd.ProcessState)
	}
	w.settled()
	w.wellFormed()
	w.ranOnce("marks")
}

func TestASecondSignalEndsAWorkerAtOnceAndLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.worker()
	asked := w.asked(mark("cut", 120))
	w.begunMark()
	first.signal(syscall.SIGTERM)
	first.says(t, "ending")
	began := time.Now()
	first.signal(syscall.SIGTERM)
	if status := first.awaitEnd(t); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ends with %v", first.cmd.ProcessState)
	}
	took(t, "it ended", began)
	w.worker()
	wantAnswer(t, <-asked, "answered", "interrupted", 0)
	w.settled()
	w.wellFormed()
	w.ranOnce("marks")
}

func TestWhatDoesNotEndInTimeGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.env["MIKAN_CONFIG"] = filepath.Join(t.TempDir(), "mikan.yaml")
	if err := os.WriteFile(w.env["MIKAN_CONFIG"], []byte("drain_seconds: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := w.worker()
	asked := w.asked(mark("late", 120))
	w.begunMark()
	began := time.Now()
	first.end(t)
	took(t, "it ended", began)
	w.worker()
	wantAnswer(t, <-asked, "answered", "interrupted", 0)
	w.settled()
	w.wellFormed()
	w.ranOnce("marks")
}

func TestAnEndingGatewayLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.worker()
	first := w.gateway()
	first.says(t, "the gateway is ready")
	// Somebody in the middle of a request holds the gateway back.
	conn, err := net.Dial("tcp", strings.TrimPrefix(address.FindString(first.output()), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET /healthz HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	// A message whose gateway dies before Temporal hears of it: whoever sweeps next starts its run.
	if a := w.askWith(t.Context(), []string{"MIKAN_FAILPOINT=wake.before"}, "unheard"); a.exited.code != -1 {
		t.Errorf("the gateway survives: %+v", a.exited)
	}
	first.signal(syscall.SIGTERM)
	first.says(t, "ending")
	first.signal(syscall.SIGTERM)
	// On a machine that is busy enough, whoever held it back may have been given up before the second signal came.
	if status := first.awaitEnd(t); status.ExitStatus() != 0 && (!status.Signaled() || status.Signal() != syscall.SIGTERM) {
		t.Errorf("it ends with %v", first.cmd.ProcessState)
	}
	second := w.gateway()
	wantAnswer(t, w.ask("next"), "answered", "echo: next", 0)
	w.settled()
	w.wellFormed()
	second.end(t)
	if second.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("the other ends with %v", second.cmd.ProcessState)
	}
}
