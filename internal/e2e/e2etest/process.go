package e2etest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/testenv"
)

// programs is where the binaries under test are, built once for all tests of this process.
var programs = struct {
	dir  string
	once sync.Map // output name → func() error
}{}

// Main is what TestMain of a package with real processes calls.
func Main(m *testing.M) {
	dir, err := os.MkdirTemp("", "mikan-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs.dir = dir
	testenv.Abreast("12")
	code := m.Run()
	if os.Getenv("MIKAN_KEEP") == "" {
		_ = os.RemoveAll(dir)
	} else {
		fmt.Println("kept", dir)
	}
	os.Exit(code)
}

// Program builds a main package of the module and returns its path. flags distinguish variants of one package by name.
func Program(t testing.TB, name, pkg string, flags ...string) string {
	t.Helper()
	path, root := filepath.Join(programs.dir, name), ModuleRoot(t)
	build, _ := programs.once.LoadOrStore(name, sync.OnceValue(func() error {
		args := append([]string{"build", "-o", path}, flags...)
		cmd := exec.Command("go", append(args, pkg)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
		return nil
	}))
	if err := build.(func() error)(); err != nil {
		t.Fatal(err)
	}
	return path
}

// ModuleRoot is where the module's sources are: tests run in their package's directory.
func ModuleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test's directory")
		}
	}
}

// MikanPath builds the CLI and returns its path.
func MikanPath(t testing.TB) string { return Program(t, "mikan", "./starter") }

// WorkerPath builds the worker and returns its path.
func WorkerPath(t testing.TB) string { return Program(t, "worker", "./worker") }

// Process is a started program. Its output is in a file, so that it survives whoever reads it.
type Process struct {
	Name  string
	Cmd   *exec.Cmd
	Ended chan struct{} // closed when it has ended
	log   string
}

var processes struct {
	sync.Mutex
	count int
}

// Start runs a program until it ends or the test does.
func Start(t testing.TB, name, path string, env []string, args ...string) *Process {
	t.Helper()
	processes.Lock()
	processes.count++
	log := filepath.Join(programs.dir, fmt.Sprintf("%03d-%s-%s.log", processes.count, strings.ReplaceAll(t.Name(), "/", "-"), name))
	processes.Unlock()
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := &Process{Name: name, log: log, Ended: make(chan struct{}), Cmd: exec.Command(path, args...)}
	p.Cmd.Env, p.Cmd.Stdout, p.Cmd.Stderr = env, out, out
	// A group of its own: a Ctrl-C ends the tests, whose clean-up ends the processes.
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Cmd.Wait() // how it ended is in ProcessState
		close(p.Ended)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the end of %s:\n%s", p.Name, Tail(p.Output(), 3000))
		}
	})
	return p
}

func (p *Process) Signal(s syscall.Signal) { _ = p.Cmd.Process.Signal(s) }

// Kill ends the process as a power cut would, and waits for its end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Ended
}

// End asks the process to end in order, and waits for it.
func (p *Process) End(t testing.TB) {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Ended:
	case <-time.After(Patience):
		t.Errorf("%s does not end", p.Name)
	}
}

func (p *Process) Alive() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// Killed tells whether the process ended by SIGKILL.
func (p *Process) Killed() bool {
	if p.Alive() {
		return false
	}
	status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func (p *Process) Output() string {
	out, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// Says waits until the process has printed a text.
func (p *Process) Says(t testing.TB, text string) {
	t.Helper()
	Eventually(t, p.Name+" says "+text, func(context.Context) error {
		out := p.Output()
		switch {
		case strings.Contains(out, text):
			return nil
		case !p.Alive():
			t.Fatalf("%s ended (%s) before it said %q:\n%s", p.Name, p.Cmd.ProcessState, text, Tail(out, 3000))
		}
		return errors.New("not yet")
	})
}

// Patience bounds every wait: far beyond what is expected, for a machine that is busy with other things.
const Patience = 3 * time.Minute

// Eventually waits until check returns nil.
func Eventually(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("in vain: %s: %v", what, err)
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// Tail is the end of a text.
func Tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// Exited is what a command that ended by itself left.
type Exited struct {
	Code   int // -1: by a signal
	Stdout string
	Stderr string
}

// Command runs a program to its end.
func Command(t testing.TB, path string, env []string, args ...string) Exited {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	return CommandIn(ctx, t, path, env, args...)
}

// CommandIn is Command with a deadline of the caller's.
func CommandIn(ctx context.Context, t testing.TB, path string, env []string, args ...string) Exited {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Errorf("%s: %v", path, err)
		return Exited{Code: -1}
	}
	return Exited{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Frozen waits until a process has stopped itself.
func (p *Process) Frozen(t testing.TB) {
	t.Helper()
	Eventually(t, p.Name+" stands still", func(context.Context) error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		// The state follows the program's name, which is in parentheses.
		if _, after, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(after, "T") {
			return errors.New("it runs")
		}
		return nil
	})
}

// AwaitEnd waits for a process to end and tells how.
func (p *Process) AwaitEnd(t testing.TB) syscall.WaitStatus {
	t.Helper()
	select {
	case <-p.Ended:
	case <-time.After(Patience):
		t.Fatalf("%s does not end", p.Name)
	}
	status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		t.Fatalf("%s ended in an unknown way", p.Name)
	}
	return status
}

// Peak is the most memory that a process has held so far, in bytes.
func (p *Process) Peak(t testing.TB) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if kb, found := strings.CutPrefix(line, "VmHWM:"); found {
			n, err := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("the process has no peak")
	return 0
}
