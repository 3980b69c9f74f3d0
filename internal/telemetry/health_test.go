package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/telemetry"
)

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func readiness(t *testing.T, h http.Handler) (int, telemetry.Readiness, string) {
	t.Helper()
	code, body := get(t, h, "/readyz")
	var r telemetry.Readiness
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return code, r, body
}

func TestReadinessNamesWhatFailsAndNothingElse(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	var logged bytes.Buffer
	database := telemetry.Check{Name: "database", Probe: func(context.Context) error {
		if down.Load() {
			return fault.Wrap(fault.Unavailable, errors.New("dial db.internal: "+hidden), "cannot connect as admin")
		}
		return nil
	}}
	temporal := telemetry.Check{Name: "temporal", Probe: func(context.Context) error { return nil }}
	logger := telemetry.NewLogger(&logged, telemetry.LogText, slog.LevelInfo, redactor())
	health := telemetry.NewHealth(newMetrics(t), logger, database, temporal).Handler()

	if code, r, _ := readiness(t, health); code != http.StatusOK || !r.Ready || !r.Checks["database"].OK || !r.Checks["temporal"].OK {
		t.Errorf("at first: %d, %+v", code, r)
	}
	down.Store(true)
	for range 3 {
		code, r, body := readiness(t, health)
		if code != http.StatusServiceUnavailable || r.Ready || r.Checks["database"] != (telemetry.CheckResult{Code: fault.Unavailable}) || !r.Checks["temporal"].OK {
			t.Errorf("when down: %d, %s", code, body)
		}
		if strings.Contains(body, "very") || strings.Contains(body, "db.internal") || strings.Contains(body, "admin") {
			t.Errorf("the answer tells more than the check: %s", body)
		}
	}
	if code, body := get(t, health, "/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("a process whose database is down is not alive: %d %q", code, body)
	}
	down.Store(false)
	if code, r, _ := readiness(t, health); code != http.StatusOK || !r.Ready {
		t.Errorf("when up again: %d, %+v", code, r)
	}
	if got := strings.Count(logged.String(), "a check fails"); got != 1 {
		t.Errorf("the failure was logged %d times:\n%s", got, logged.String())
	}
	if !strings.Contains(logged.String(), "db.internal") || strings.Contains(logged.String(), "very") {
		t.Errorf("the log says:\n%s", logged.String())
	}
}

func TestAnAdvisoryCheckDegradesOnly(t *testing.T) {
	t.Parallel()
	health := telemetry.NewHealth(newMetrics(t), quiet(), telemetry.Check{
		Name: "telegram", Weight: telemetry.Advisory,
		Probe: func(context.Context) error { return fault.New(fault.Conflict, "another poller") },
	}).Handler()
	if code, r, _ := readiness(t, health); code != http.StatusOK || !r.Ready || !r.Degraded || r.Checks["telegram"].Code != fault.Conflict {
		t.Errorf("%d, %+v", code, r)
	}
}

func TestADrainingProcessIsNotReady(t *testing.T) {
	t.Parallel()
	health := telemetry.NewHealth(newMetrics(t), quiet())
	health.Drain()
	if code, r, _ := readiness(t, health.Handler()); code != http.StatusServiceUnavailable || !r.Draining {
		t.Errorf("%d, %+v", code, r)
	}
}

func TestACheckThatHangsFailsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		health := telemetry.NewHealth(newMetrics(t), quiet(),
			telemetry.Check{Name: "deaf", Timeout: time.Minute, Probe: func(context.Context) error { <-release; return nil }},
			telemetry.Check{Name: "polite", Probe: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
			telemetry.Check{Name: "well", Probe: func(context.Context) error { return nil }},
		)
		began := time.Now()
		r := health.Ready(t.Context())
		if got := time.Since(began); got != time.Minute {
			t.Errorf("the answer took %s of the bubble's clock", got)
		}
		if r.Ready || r.Checks["deaf"].Code != fault.Unavailable || r.Checks["polite"].Code != fault.Unavailable || !r.Checks["well"].OK {
			t.Errorf("%+v", r)
		}
		close(release)
	})
}

func TestManyCallersPutNoLoadOnWhatIsChecked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var probes atomic.Int32
		health := telemetry.NewHealth(newMetrics(t), quiet(), telemetry.Check{Name: "database", Probe: func(context.Context) error {
			probes.Add(1)
			time.Sleep(time.Second)
			return nil
		}})
		impatient, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { health.Ready(impatient) })
		synctest.Wait()
		for range 50 {
			all.Go(func() {
				if r := health.Ready(t.Context()); !r.Ready {
					t.Errorf("a caller that went away made another one's answer red: %+v", r)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		if probes.Load() != 1 {
			t.Errorf("%d probes", probes.Load())
		}
	})
}

func TestATakenPortIsRefusedOrReplaced(t *testing.T) {
	t.Parallel()
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close() }()
	address := holder.Addr().String()

	_, err = telemetry.Listen(t.Context(), "MIKAN_LISTEN", address, telemetry.ExactPort)
	if fault.CodeOf(err) != fault.Conflict || !strings.Contains(err.Error(), "MIKAN_LISTEN") || !strings.Contains(err.Error(), address) {
		t.Errorf("the refusal is %v", err)
	}
	free, err := telemetry.Listen(t.Context(), "MIKAN_LISTEN", address, telemetry.OrFreePort)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = free.Close() }()
	if free.Addr().String() == address || !strings.HasPrefix(free.Addr().String(), "127.0.0.1:") {
		t.Errorf("replaced by %s", free.Addr())
	}
	_, err = telemetry.Listen(t.Context(), "MIKAN_LISTEN", "127.0.0.1:nonsense", telemetry.OrFreePort)
	if fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "MIKAN_LISTEN") {
		t.Errorf("an impossible address gives %v", err)
	}
}

func TestAStoppingServerFinishesWhatItHasBegun(t *testing.T) {
	t.Parallel()
	ln, err := telemetry.Listen(t.Context(), "MIKAN_LISTEN", "127.0.0.1:0", telemetry.ExactPort)
	if err != nil {
		t.Fatal(err)
	}
	began, finish := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-finish
		_, _ = io.WriteString(w, "whole answer")
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- telemetry.Serve(ctx, ln, handler, time.Minute, quiet()) }()

	answer := make(chan string, 1)
	go func() {
		response, err := http.Get("http://" + ln.Addr().String())
		if err != nil {
			answer <- err.Error()
			return
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- string(body)
	}()
	<-began
	stop()
	close(finish)
	if got := <-answer; got != "whole answer" {
		t.Errorf("the client got %q", got)
	}
	if err := <-served; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
