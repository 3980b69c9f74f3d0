package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programs is where the binaries under test are, built once for all tests of this process.
var programs = struct {
	dir  string
	once sync.Map // output name → func() error
}{}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "mikan-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs.dir = dir
	// These tests mostly wait for time-outs: more of them than cores can run at once. A number on the command line wins.
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set("12") // it is a number
	}
	code := m.Run()
	if os.Getenv("MIKAN_KEEP") == "" {
		_ = os.RemoveAll(dir)
	} else {
		fmt.Println("kept", dir)
	}
	os.Exit(code)
}

// program builds a main package of the module and returns its path. flags distinguish variants of one package by name.
func program(t testing.TB, name, pkg string, flags ...string) string {
	t.Helper()
	path := filepath.Join(programs.dir, name)
	build, _ := programs.once.LoadOrStore(name, sync.OnceValue(func() error {
		args := append([]string{"build", "-o", path}, flags...)
		cmd := exec.Command("go", append(args, pkg)...)
		cmd.Dir = moduleRoot
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

// moduleRoot is where the module's sources are: tests run in their package's directory.
const moduleRoot = "../.."

func mikan(t testing.TB) string  { return program(t, "mikan", "./starter") }
func worker(t testing.TB) string { return program(t, "worker", "./worker") }

// process is a started program. Its output is in a file, so that it survives whoever reads it.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

var processes struct {
	sync.Mutex
	count int
}

// start runs a program until it ends or the test does.
func start(t testing.TB, name, path string, env []string, args ...string) *process {
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
	p := &process{name: name, log: log, ended: make(chan struct{}), cmd: exec.Command(path, args...)}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, out, out
	// A group of its own: a Ctrl-C ends the tests, whose clean-up ends the processes.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the end of %s:\n%s", p.name, tail(p.output(), 3000))
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill ends the process as a power cut would, and waits for its end.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// end asks the process to end in order, and waits for it.
func (p *process) end(t testing.TB) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Errorf("%s does not end", p.name)
	}
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// killed tells whether the process ended by SIGKILL.
func (p *process) killed() bool {
	if p.alive() {
		return false
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func (p *process) output() string {
	out, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// says waits until the process has printed a text.
func (p *process) says(t testing.TB, text string) {
	t.Helper()
	eventually(t, p.name+" says "+text, func(context.Context) error {
		out := p.output()
		switch {
		case strings.Contains(out, text):
			return nil
		case !p.alive():
			t.Fatalf("%s ended (%s) before it said %q:\n%s", p.name, p.cmd.ProcessState, text, tail(out, 3000))
		}
		return errors.New("not yet")
	})
}

// patience bounds every wait: far beyond what is expected, for a machine that is busy with other things.
const patience = 3 * time.Minute

// eventually waits until check returns nil.
func eventually(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
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

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// exited is what a command that ended by itself left.
type exited struct {
	code   int // -1: by a signal
	stdout string
	stderr string
}

// command runs a program to its end.
func command(t testing.TB, path string, env []string, args ...string) exited {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return commandIn(ctx, t, path, env, args...)
}

func commandIn(ctx context.Context, t testing.TB, path string, env []string, args ...string) exited {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Errorf("%s: %v", path, err)
		return exited{code: -1}
	}
	return exited{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
