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

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
)

// begunMark waits until a command has written its line.
func (w *world) begunMark() {
	w.T.Helper()
	e2etest.Eventually(w.T, "the command has begun", func(context.Context) error {
		if len(w.Ran("marks")) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
}

func TestAnEndingWorkerFinishesWhatItHasBegunAndTakesNothingNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.Worker()
	asked := w.Asked(e2etest.Mark("drained", 5), "--conversation", "a")
	w.begunMark()
	first.Signal(syscall.SIGTERM)
	e2etest.Eventually(t, "it says that it is unready", func(context.Context) error {
		response, err := http.Get(address.FindString(first.Output()[strings.Index(first.Output(), `"health"`):]) + "/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusServiceUnavailable {
			return fmt.Errorf("readyz says %s", response.Status)
		}
		return nil
	})
	w.Worker() // the second
	e2etest.WantAnswer(t, w.Ask("meanwhile", "--conversation", "b"), "answered", "echo: meanwhile", 0)
	e2etest.WantAnswer(t, <-asked, "answered", "done drained", 0)
	if status := first.AwaitEnd(t); status.ExitStatus() != 0 {
		t.Errorf("it ends with %v", first.Cmd.ProcessState)
	}
	w.Settled()
	w.WellFormed()
	w.RanOnce("marks")
}

func TestASecondSignalEndsAWorkerAtOnceAndLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.Worker()
	asked := w.Asked(e2etest.Mark("cut", 120))
	w.begunMark()
	first.Signal(syscall.SIGTERM)
	first.Says(t, "ending")
	began := time.Now()
	first.Signal(syscall.SIGTERM)
	if status := first.AwaitEnd(t); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ends with %v", first.Cmd.ProcessState)
	}
	e2etest.Took(t, "it ended", began)
	w.Worker()
	e2etest.WantAnswer(t, <-asked, "answered", "interrupted", 0)
	w.Settled()
	w.WellFormed()
	w.RanOnce("marks")
}

func TestWhatDoesNotEndInTimeGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.Env["MIKAN_CONFIG"] = filepath.Join(t.TempDir(), "mikan.yaml")
	if err := os.WriteFile(w.Env["MIKAN_CONFIG"], []byte("drain_seconds: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := w.Worker()
	asked := w.Asked(e2etest.Mark("late", 120))
	w.begunMark()
	w.Worker() // before the first ends: an ask waits a minute for another, and no longer
	began := time.Now()
	first.End(t)
	e2etest.Took(t, "it ended", began)
	e2etest.WantAnswer(t, <-asked, "answered", "interrupted", 0)
	w.Settled()
	w.WellFormed()
	w.RanOnce("marks")
}

func TestAnEndingGatewayLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.Worker()
	first := w.Gateway()
	first.Says(t, "the gateway is ready")
	// Somebody in the middle of a request holds the gateway back.
	conn, err := net.Dial("tcp", strings.TrimPrefix(address.FindString(first.Output()), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET /healthz HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	// A message whose gateway dies before Temporal hears of it: whoever sweeps next starts its run.
	if a := w.AskWith(t.Context(), []string{"MIKAN_FAILPOINT=wake.before"}, "unheard"); a.Exited.Code != -1 {
		t.Errorf("the gateway survives: %+v", a.Exited)
	}
	first.Signal(syscall.SIGTERM)
	first.Says(t, "ending")
	first.Signal(syscall.SIGTERM)
	// On a machine that is busy enough, whoever held it back may have been given up before the second signal came.
	if status := first.AwaitEnd(t); status.ExitStatus() != 0 && (!status.Signaled() || status.Signal() != syscall.SIGTERM) {
		t.Errorf("it ends with %v", first.Cmd.ProcessState)
	}
	second := w.Gateway()
	e2etest.WantAnswer(t, w.Ask("next"), "answered", "echo: next", 0)
	w.Settled()
	w.WellFormed()
	second.End(t)
	if second.Cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("the other ends with %v", second.Cmd.ProcessState)
	}
}
