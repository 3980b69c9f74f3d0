package migrate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/migrate"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// child is what a process of its own imports.
type child struct {
	Workspace, StateDir, URL string
}

const childVariable = "MIKAN_TEST_MIGRATE"

// TestMain imports instead of testing where a test started this program for that: only a process can be killed.
func TestMain(m *testing.M) {
	said := os.Getenv(childVariable)
	if said == "" {
		os.Exit(m.Run())
	}
	var c child
	err := json.Unmarshal([]byte(said), &c)
	if err == nil {
		err = c.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (c child) run() error {
	background := context.Background()
	s, err := store.Open(background, c.URL)
	if err != nil {
		return err
	}
	defer s.Close()
	result, err := migrate.Run(background, migrate.Options{
		Workspace: c.Workspace, StateDir: c.StateDir, Platforms: []office.Platform{office.Slack, office.Telegram}, Command: "mikan migrate", Store: s,
		Now: func() time.Time { return time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC) },
	})
	fmt.Printf("sessions %d\n", result.Totals.Sessions)
	return err
}

func (c *site) child(extra ...string) *exec.Cmd {
	c.t.Helper()
	said, err := json.Marshal(child{Workspace: c.work, StateDir: c.home, URL: c.url})
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childVariable+"="+string(said)), extra...)
	return cmd
}

// settled compares what an import ended in: the database without the paths that differ from site to site, and the files.
func (c *site) settled() string {
	c.t.Helper()
	var files []string
	for line := range strings.Lines(c.files()) {
		files = append(files, line)
	}
	return strings.ReplaceAll(c.dump(), c.root, "") + strings.Join(files, "")
}

// kills is how many times an import is killed: few in the suite, more with MIKAN_KILLS.
func kills(t *testing.T, few int) int {
	said := os.Getenv("MIKAN_KILLS")
	if said == "" {
		return few
	}
	n, err := strconv.Atoi(said)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestKilledAnywhereARerunEndsInTheSameState(t *testing.T) {
	t.Parallel()
	calm := genuine(t)
	began := time.Now()
	if out, err := calm.child().CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	whole := time.Since(began)
	want := calm.settled()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d; an undisturbed import takes %s", seed, whole)
	random := rand.New(rand.NewPCG(seed, 0))
	total, killed := kills(t, 6), 0
	for site := 0; killed < total; site++ {
		c := genuine(t)
		// Several deaths on one installation, then an undisturbed run.
		for range 1 + random.IntN(3) {
			cmd := c.child()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(random.Int64N(int64(whole))))
			_ = cmd.Process.Kill()
			if err := cmd.Wait(); err != nil {
				killed++
			}
		}
		if out, err := c.child().CombinedOutput(); err != nil {
			t.Fatalf("seed %d, site %d: %v: %s", seed, site, err, out)
		}
		if got := c.settled(); got != want {
			t.Fatalf("seed %d, site %d ended in another state:\n%s", seed, site, diff(want, got))
		}
	}
	t.Logf("%d imports were killed", killed)
}

func TestKilledAtEachNamedPlaceARerunEndsInTheSameState(t *testing.T) {
	t.Parallel()
	calm := genuine(t)
	if out, err := calm.child().CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := calm.settled()
	for _, point := range []string{
		"import_begin.commit.before", "import_begin.commit.after", "import_office.commit.after:2", "import_rename.before:2", "import_rename.after:2",
		"import_session.before:3", "import_session.commit.before:3", "import_session.commit.after:5", "import_log.before:2", "import_log.commit.before:2",
		"import_log.commit.after:2", "import_verified.commit.before:2", "import_verified.commit.after:2", "import_move.before:2", "import_move.after:2",
		"import_office_done.commit.before:2", "import_office_done.commit.after:4", "import_schedule.before", "import_schedule.commit.before",
		"import_schedule.commit.after", "import_finish.commit.before", "import_finish.commit.after",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := genuine(t)
			out, err := c.child("MIKAN_FAILPOINT=" + point).CombinedOutput()
			var died *exec.ExitError
			if !errors.As(err, &died) || died.ExitCode() != -1 {
				t.Fatalf("it did not die there: %v: %s", err, out)
			}
			if out, err := c.child().CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := c.settled(); got != want {
				t.Errorf("another state:\n%s", diff(want, got))
			}
		})
	}
}

func TestTwoImportsAtOnceDoTheWorkOnce(t *testing.T) {
	t.Parallel()
	calm := genuine(t)
	calm.mustChild()
	c := genuine(t)
	var wait sync.WaitGroup
	out := make([]string, 2)
	for i := range out {
		wait.Go(func() {
			said, err := c.child().CombinedOutput()
			out[i] = string(said)
			if err != nil {
				t.Errorf("%v: %s", err, said)
			}
		})
	}
	wait.Wait()
	if joined := out[0] + out[1]; !strings.Contains(joined, "sessions 10") || !strings.Contains(joined, "sessions 0") {
		t.Errorf("%q", out)
	}
	if want, got := calm.settled(), c.settled(); got != want {
		t.Errorf("another state:\n%s", diff(want, got))
	}
}

func (c *site) mustChild() {
	c.t.Helper()
	if out, err := c.child().CombinedOutput(); err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
}

func TestAnImportThatFailedGoesOnWhenTheCauseIsMended(t *testing.T) {
	t.Parallel()
	c := genuine(t)
	calm := genuine(t)
	calm.mustRun()
	// Something stands where the originals belong.
	blocked := filepath.Join(c.home, "conversations", general, "sessions-v3")
	c.write("state/conversations/"+general+"/sessions-v3/x", "")
	if _, err := c.run(); err == nil || !strings.Contains(err.Error(), blocked) {
		t.Fatalf("%v", err)
	}
	if err := c.s.CheckSchema(t.Context()); err == nil || !strings.Contains(err.Error(), "mikan migrate --here") {
		t.Errorf("gateway and worker would start: %v", err)
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	c.mustRun()
	if want, got := calm.settled(), c.settled(); got != want {
		t.Errorf("another state:\n%s", diff(want, got))
	}
}
