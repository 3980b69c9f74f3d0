package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/sandbox"
)

// workerVariable makes the test binary play a worker that runs one command and is killed by the test.
const workerVariable = "SANDBOX_TEST_WORKER"

func TestMain(m *testing.M) {
	if spec := os.Getenv(workerVariable); spec != "" {
		beWorker(spec, os.Getenv("SANDBOX_TEST_DIR"), os.Getenv("SANDBOX_TEST_SCRIPT"))
		return
	}
	os.Exit(m.Run())
}

// beWorker prints the group as a line of JSON and then runs the command.
func beWorker(spec, dir, script string) {
	s, err := sandbox.Parse(sandbox.Config{Spec: spec})
	if err == nil {
		_, err = s.Run(context.Background(), sandbox.Command{
			Script:  script,
			Dir:     dir,
			Output:  os.Stdout,
			Started: func(g sandbox.Group) { _ = json.NewEncoder(os.Stdout).Encode(g) },
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// patience bounds waits for things that must happen; reaching it fails the test.
const patience = 30 * time.Second

// real returns the sandboxes that work here, so that every promise is tested on each.
func real(t *testing.T) map[string]sandbox.Sandbox {
	t.Helper()
	found := map[string]sandbox.Sandbox{}
	for _, spec := range []string{"host", "bwrap"} {
		if s := usable(t, spec); s != nil {
			found[spec] = s
		}
	}
	return found
}

func usable(t *testing.T, spec string, hide ...string) sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.Parse(sandbox.Config{Spec: spec, Hide: hide})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Probe(t.Context()); err != nil {
		if spec == "host" {
			t.Fatal(err)
		}
		t.Logf("%s is not tested: %v", spec, err)
		return nil
	}
	return s
}

func bwrapOrSkip(t *testing.T, spec string, hide ...string) sandbox.Sandbox {
	t.Helper()
	s := usable(t, spec, hide...)
	if s == nil {
		t.Skip("bwrap does not work on this machine")
	}
	return s
}

func office(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "workspace", "v1-slack-c1-0000000000000000")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func runScript(t *testing.T, s sandbox.Sandbox, dir, script string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	exit, err := s.Run(t.Context(), sandbox.Command{Script: script, Dir: dir, Output: &out})
	if err != nil {
		t.Fatalf("run %q: %v", script, err)
	}
	return out.String(), exit.Code
}

func TestCommandsRunInTheirOffice(t *testing.T) {
	t.Parallel()
	for name, s := range real(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := office(t)
			for _, test := range []struct {
				script, want string
				code         int
			}{
				{`pwd; echo "$HOME"`, dir + "\n" + dir + "\n", 0},
				{"echo out; echo err >&2; echo out", "out\nerr\nout\n", 0},
				{"exit 7", "", 7},
				{"kill -TERM $$", "", 128 + 15},
				{"cat; echo end", "end\n", 0}, // standard input is empty, not the worker's
				{"echo kept > file && cat file", "kept\n", 0},
				{"no-such-program-anywhere 2>/dev/null", "", 127},
			} {
				out, code := runScript(t, s, dir, test.script)
				if out != test.want || code != test.code {
					t.Errorf("%q printed %q and exited %d, want %q and %d", test.script, out, code, test.want, test.code)
				}
			}
			if kept, err := os.ReadFile(filepath.Join(dir, "file")); string(kept) != "kept\n" {
				t.Errorf("the command's file holds %q (%v)", kept, err)
			}
		})
	}
}

func TestTheWorkersEnvironmentStaysOutside(t *testing.T) {
	const canary = "canary-4f1d2c7b9e"
	for _, name := range []string{"MIKAN_SECRET_KEY", "ANTHROPIC_API_KEY", "SLACK_BOT_TOKEN", "MY_OWN_TOKEN", "BASH_ENV"} {
		t.Setenv(name, canary)
	}
	for name, s := range real(t) {
		t.Run(name, func(t *testing.T) {
			script := "env; set; cat /proc/self/environ"
			if name == "bwrap" {
				script += "; cat /proc/[0-9]*/environ; cat /proc/[0-9]*/cmdline"
			}
			if out, _ := runScript(t, s, office(t), script); strings.Contains(out, canary) {
				t.Errorf("a variable of the worker reached the command:\n%s", out)
			}
		})
	}
}

func TestNothingOfACommandOutlivesIt(t *testing.T) {
	t.Parallel()
	for name, s := range real(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := office(t)
			// A grandchild whose parent is gone, without any of the command's descriptors.
			out, _ := runScript(t, s, dir, "(sleep 1000 >/dev/null 2>&1 & ) ; (exec 2>&1; sleep 1000 &) ; echo done")
			if out != "done\n" {
				t.Errorf("printed %q", out)
			}
			expectNobody(t, dir)
		})
	}
}

func TestACancelledCommandAndItsGrandchildrenEnd(t *testing.T) {
	t.Parallel()
	for name, s := range real(t) {
		for _, test := range []struct{ name, script string }{
			{"obedient", "(sleep 1000 & ) ; echo ready; sleep 1000"},
			{"stubborn", `trap '' TERM; (sleep 1000 & ) ; echo ready; while :; do sleep 1000; done`},
		} {
			t.Run(name+" "+test.name, func(t *testing.T) {
				t.Parallel()
				dir := office(t)
				cause := errors.New("stopped by the user")
				ctx, cancel := context.WithCancelCause(t.Context())
				_, err := s.Run(ctx, sandbox.Command{Script: test.script, Dir: dir, Output: onWrite(func() { cancel(cause) })})
				if !errors.Is(err, cause) {
					t.Errorf("the error is %v, want the context's cause", err)
				}
				expectNobody(t, dir)
			})
		}
	}
}

func TestACancelledCommandMayCleanUp(t *testing.T) {
	t.Parallel()
	for name, s := range real(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := office(t)
			ctx, cancel := context.WithCancel(t.Context())
			script := `trap 'echo tidy > tidy; exit 3' TERM; echo ready; while :; do sleep 0.05; done`
			_, err := s.Run(ctx, sandbox.Command{Script: script, Dir: dir, Output: onWrite(cancel)})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "tidy")); err != nil {
				t.Errorf("the command's trap did not run: %v", err)
			}
		})
	}
}

func TestNothingOfACommandOutlivesAKilledWorker(t *testing.T) {
	t.Parallel()
	for name := range real(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := office(t)
			worker, group, _ := startWorker(t, name, dir, `trap '' TERM HUP; (sleep 1000 & ); echo ready; sleep 1000; echo on`)
			if !group.Here() || !group.Alive() {
				t.Errorf("the running group %+v is not recognised", group)
			}
			if running := processesIn(t, dir); len(running) < 2 {
				t.Fatalf("only the processes %v can be seen running", running)
			}
			if err := worker.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = worker.Wait()
			eventually(t, "the command is gone", func() bool { return len(processesIn(t, dir)) == 0 })
			eventually(t, "its group is gone", func() bool { return !group.Alive() })
			if err := group.Kill(); err != nil {
				t.Errorf("killing what is gone: %v", err)
			}
		})
	}
}

func TestAWorkerThatDiesAtTheBeginningLeavesNothing(t *testing.T) {
	t.Parallel()
	for name := range real(t) {
		for point, mayHaveBegun := range map[string]bool{"command.begin.before": false, "command.begin.after": true} {
			t.Run(name+" "+point, func(t *testing.T) {
				t.Parallel()
				dir := office(t)
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), workerVariable+"="+name, "SANDBOX_TEST_DIR="+dir, "MIKAN_FAILPOINT="+point,
					"SANDBOX_TEST_SCRIPT=touch begun; (sleep 1000 >/dev/null 2>&1 &); sleep 1000")
				err := cmd.Run()
				var ended *exec.ExitError
				if !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("the worker was not killed at %s: %v", point, err)
				}
				eventually(t, "the command is gone", func() bool { return len(processesIn(t, dir)) == 0 })
				if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil && !mayHaveBegun {
					t.Error("the command ran without anybody watching it")
				}
			})
		}
	}
}

func TestTheNextWorkerKillsWhatWasLeft(t *testing.T) {
	t.Parallel()
	for name := range real(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := office(t)
			worker, group, _ := startWorker(t, name, dir, "sleep 1000 & echo ready; sleep 1000")
			stored, err := json.Marshal(group)
			if err != nil {
				t.Fatal(err)
			}
			var read sandbox.Group
			if err := json.Unmarshal(stored, &read); err != nil || read != group {
				t.Fatalf("%s reads as %+v (%v)", stored, read, err)
			}
			if err := read.Kill(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the command is gone", func() bool { return len(processesIn(t, dir)) == 0 })
			_ = worker.Wait() // its command was killed: it returns by itself
		})
	}
}

func TestAnotherProcessWithTheSameNumberIsSpared(t *testing.T) {
	t.Parallel()
	dir := office(t)
	_, group, _ := startWorker(t, "host", dir, "echo ready; sleep 1000")
	for name, change := range map[string]func(*sandbox.Group){
		"another start time":           func(g *sandbox.Group) { g.StartTime += "1" },
		"another machine":              func(g *sandbox.Group) { g.Host = "elsewhere" },
		"another start of the machine": func(g *sandbox.Group) { g.BootID = "earlier" },
		"no number":                    func(g *sandbox.Group) { g.PGID = 0 },
		"everybody":                    func(g *sandbox.Group) { g.PGID = 1 },
	} {
		other := group
		change(&other)
		if other.Alive() {
			t.Errorf("%s: counts as alive", name)
		}
		if err := other.Kill(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !group.Alive() {
			t.Fatalf("%s: the wrong process was killed", name)
		}
	}
}

func TestAGroupWithoutItsLeaderIsKnownByItsMark(t *testing.T) {
	t.Parallel()
	dir := office(t)
	_, group, _ := startWorker(t, "host", dir, "sleep 1000 & echo ready; sleep 1000")
	// The worker must not see its command end, or it would clean up itself.
	worker := parentOf(t, group.PGID)
	if err := syscall.Kill(worker, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(worker, syscall.SIGCONT) })
	if err := syscall.Kill(group.PGID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !group.Alive() {
		t.Error("the group's other member is overlooked")
	}
	if err := group.Kill(); err != nil {
		t.Error(err)
	}
	eventually(t, "all are gone", func() bool { return len(processesIn(t, dir)) == 0 })
}

func TestStartedComesBeforeTheCommandsFirstEffect(t *testing.T) {
	t.Parallel()
	for name, s := range real(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := office(t)
			called := false
			_, err := s.Run(t.Context(), sandbox.Command{Script: "touch effect", Dir: dir, Started: func(g sandbox.Group) {
				called = true
				if _, err := os.Stat(filepath.Join(dir, "effect")); err == nil {
					t.Error("the command ran before its group was announced")
				}
				if !g.Alive() {
					t.Errorf("announced %+v, which is not alive", g)
				}
			}})
			if err != nil || !called {
				t.Errorf("err %v, announced: %v", err, called)
			}
			if _, err := os.Stat(filepath.Join(dir, "effect")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAProcessThatLeftTheGroupDoesNotHoldUpTheRun(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("needs setsid to leave a process group")
	}
	for name, s := range real(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := office(t)
			t.Cleanup(func() {
				for _, pid := range processesIn(t, dir) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			})
			if out, code := runScript(t, s, dir, "setsid sleep 1000 & echo done"); out != "done\n" || code != 0 {
				t.Errorf("printed %q, exit %d", out, code)
			}
			if name == "bwrap" {
				expectNobody(t, dir)
			}
		})
	}
}

func TestUnusableCommandsAreRefused(t *testing.T) {
	t.Parallel()
	for name, s := range real(t) {
		for _, script := range []string{"echo \x00", strings.Repeat("x", sandbox.MaxScript+1)} {
			_, err := s.Run(t.Context(), sandbox.Command{Script: script, Dir: office(t)})
			if fault.CodeOf(err) != fault.Invalid {
				t.Errorf("%s: %d bytes: %v", name, len(script), err)
			}
		}
		if out, code := runScript(t, s, office(t), "printf '' "+strings.Repeat("x", sandbox.MaxScript-10)); code != 0 {
			t.Errorf("%s: the longest script failed: %s", name, out)
		}
	}
}

func TestAMissingOfficeIsTheSandboxesFailure(t *testing.T) {
	t.Parallel()
	for name, s := range real(t) {
		_, err := s.Run(t.Context(), sandbox.Command{Script: "true", Dir: "/no/such/office"})
		if fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// startWorker starts a worker process and returns when its command has printed "ready".
func startWorker(t *testing.T, spec, dir, script string) (*exec.Cmd, sandbox.Group, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVariable+"="+spec, "SANDBOX_TEST_DIR="+dir, "SANDBOX_TEST_SCRIPT="+script)
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	decoder := json.NewDecoder(out)
	var group sandbox.Group
	if err := decoder.Decode(&group); err != nil {
		t.Fatalf("the worker announced nothing: %v", err)
	}
	rest := make([]byte, 64)
	seen := make([]byte, 0, 64)
	buffered := make([]byte, 64)
	n, _ := decoder.Buffered().Read(buffered)
	for seen = append(seen, buffered[:n]...); !bytes.Contains(seen, []byte("ready")); {
		n, err := out.Read(rest)
		if err != nil {
			t.Fatalf("the worker's command did not start: %v", err)
		}
		seen = append(seen, rest[:n]...)
	}
	return cmd, group, stderr
}

// processesIn lists the live processes whose working directory is dir, from outside of every sandbox.
func processesIn(t *testing.T, dir string) []int {
	t.Helper()
	if _, err := os.Stat("/proc/self/cwd"); err != nil {
		t.Skip("needs /proc to see processes")
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if cwd, err := os.Readlink("/proc/" + entry.Name() + "/cwd"); err == nil && strings.HasSuffix(cwd, dir) {
			found = append(found, pid)
		}
	}
	return found
}

func expectNobody(t *testing.T, dir string) {
	t.Helper()
	if left := processesIn(t, dir); len(left) > 0 {
		t.Errorf("processes %v are left when Run has returned", left)
	}
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("needs /proc to see processes")
	}
	_, rest, _ := strings.Cut(string(status), "PPid:")
	parent, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
