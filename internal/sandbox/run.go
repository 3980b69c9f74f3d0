package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
)

const (
	// grace is what a command has between SIGTERM and SIGKILL. With what the kernel then needs, the end comes within
	// the two seconds that a stopped run may take.
	grace = time.Second
	// drain is how long output is still read after the end, in case a process outside of the group holds the pipe.
	drain = 500 * time.Millisecond
	// diagnostics is how much of a failed sandbox's own output an error quotes, in bytes.
	diagnostics = 2000
)

// gated is the first thing to run in a sandbox: it waits for the word on standard input, reports on descriptor 3 that
// the sandbox stands, and becomes the command. So the command has no effect before its group is known and watched,
// and if the worker dies before that, the end of standard input ends it.
const gated = `read -r go || exit 125
exec </dev/null
echo ready >&3
exec 3>&- 4>&-
shell=$(command -v bash) || shell=/bin/sh
exec "$shell" -c "$1" "$shell"`

// job is a process for run: argv must end up in a shell that does what gated does.
type job struct {
	argv      []string
	dir       string // where argv starts
	env       []string
	call      string
	container string
	watch     func(pgid int) (*watcher, error) // nil: the sandbox dies with the worker by itself
	terminate func(p *process)                 // asks the command to end
	cleanUp   func()                           // after a cancelled command, nil if there is nothing to do
	failed    func(p *process) bool            // tells whether the sandbox, not the command, failed
}

// process is a running job.
type process struct {
	cmd    *exec.Cmd
	gate   *os.File     // the write end of its standard input
	output *os.File     // the read end of its output
	head   bytes.Buffer // the beginning of its output, to be read when all of it is

	stood chan struct{} // closed when it is decided whether the sandbox stood
	ready bool          // it did; to be read once stood is closed

	told  chan struct{} // closed when bwrap has told, or ended without
	inner atomic.Int64  // the number that bwrap's child has out here, 0 = none (yet)
}

func newCall() string { return strings.ToLower(rand.Text()) }

func run(ctx context.Context, j job, command Command) (Exit, error) {
	if len(command.Script) > MaxScript || strings.ContainsRune(command.Script, 0) {
		return Exit{}, fault.New(fault.Invalid, "a command must have at most %d bytes and no NUL", MaxScript)
	}
	if ctx.Err() != nil {
		return Exit{}, context.Cause(ctx)
	}
	// The death signal follows the thread that started the process; keep it until the end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	p, err := start(j)
	if err != nil {
		return Exit{}, fault.Wrap(fault.Unavailable, err, "%s could not be started", j.argv[0])
	}
	defer p.output.Close()
	defer p.gate.Close()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		copyOutput(command.Output, &p.head, p.output)
	}()

	var watching *watcher
	if err = p.announce(j, command.Started); err == nil && j.watch != nil {
		watching, err = j.watch(p.cmd.Process.Pid)
	}
	if err == nil {
		failpoint.Hit("command.begin.before")
		// A process that is gone already is told about below.
		_, _ = io.WriteString(p.gate, "go\n")
		failpoint.Hit("command.begin.after")
	} else {
		p.killGroup()
	}

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		awaitEnd(p.cmd)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		if err == nil {
			err = context.Cause(ctx)
		}
		p.end(j, ended)
	}
	p.killGroup() // what the command left in the background
	watching.release()
	_ = p.cmd.Wait()
	p.awaitNobody()
	_ = p.output.SetReadDeadline(time.Now().Add(drain))
	<-drained

	exit := Exit{Code: exitCode(p.cmd.ProcessState)}
	if err == nil && j.failed(p) {
		err = fault.New(fault.Unavailable, "the sandbox for commands failed: %s",
			strings.ToValidUTF8(strings.TrimSpace(p.head.String()), "\uFFFD"))
	}
	return exit, err
}

func start(j job) (*process, error) {
	pipes := [4][2]*os.File{}
	defer func() {
		for _, pipe := range pipes {
			for _, end := range pipe {
				if end != nil {
					_ = end.Close()
				}
			}
		}
	}()
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		pipes[i] = [2]*os.File{r, w}
	}
	gate, output, ready, info := &pipes[0], &pipes[1], &pipes[2], &pipes[3]
	cmd := exec.Command(j.argv[0], j.argv[1:]...)
	cmd.Env = j.env
	cmd.Dir = j.dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = gate[0], output[1], output[1]
	cmd.ExtraFiles = []*os.File{ready[1], info[1]} // descriptors 3 and 4
	cmd.SysProcAttr = processAttributes()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, gate: gate[1], output: output[0], stood: make(chan struct{}), told: make(chan struct{})}
	go p.awaitReady(ready[0])
	go p.awaitInner(info[0])
	gate[1], output[0], ready[0], info[0] = nil, nil, nil, nil // theirs now; the deferred loop closes the rest
	return p, nil
}

// announce tells who the process is before it may do anything.
func (p *process) announce(j job, started func(Group)) error {
	group, err := identify(p.cmd.Process.Pid, j.call, j.container)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "%s ended at once", j.argv[0])
	}
	if started != nil {
		started(group)
	}
	return nil
}

func (p *process) awaitReady(r *os.File) {
	defer close(p.stood)
	defer r.Close()
	n, _ := r.Read(make([]byte, 1))
	p.ready = n == 1
}

func (p *process) awaitInner(r *os.File) {
	defer close(p.told)
	defer r.Close()
	var info struct {
		ChildPID int64 `json:"child-pid"`
	}
	if json.NewDecoder(r).Decode(&info) == nil && info.ChildPID > 1 {
		p.inner.Store(info.ChildPID)
	}
}

// end asks the command to end and, after the grace, ends it.
func (p *process) end(j job, ended <-chan struct{}) {
	j.terminate(p)
	select {
	case <-ended:
	case <-time.After(grace):
		p.killGroup()
	}
	if j.cleanUp != nil {
		j.cleanUp()
	}
	<-ended
}

// killGroup needs the leader not to be reaped yet: its number is then still its own.
func (p *process) killGroup() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// awaitNobody waits until the killed processes are really gone.
func (p *process) awaitNobody() {
	<-p.told
	if inner := p.inner.Load(); inner != 0 {
		awaitGone(int(inner), killWait)
	}
	for deadline := time.Now().Add(drain); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if syscall.Kill(-p.cmd.Process.Pid, 0) != nil || !running(p.cmd.Process.Pid) {
			return
		}
	}
}

// copyOutput passes on all output and keeps its beginning. A sink that fails is not written to any more, but the pipe is
// still emptied: the command must not hang on it.
func copyOutput(sink io.Writer, head *bytes.Buffer, from io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if room := diagnostics - head.Len(); room > 0 {
			head.Write(buffer[:min(n, room)])
		}
		if n > 0 && sink != nil {
			if _, failed := sink.Write(buffer[:n]); failed != nil {
				sink = nil
			}
		}
		if err != nil {
			return
		}
	}
}

func exitCode(state *os.ProcessState) int {
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// neverReady tells that the sandbox ended before it stood.
func neverReady(p *process) bool {
	<-p.stood
	return !p.ready
}

// watcher is a process outside of the command's group that kills the group when this process dies, however it dies:
// the kernel then closes the pipe between them.
type watcher struct {
	cmd  *exec.Cmd
	pipe *os.File
}

const watch = `while read -r word; do [ "$word" = done ] && exit 0; done
kill -KILL "-$1"`

func startWatcher(pgid int) (*watcher, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", watch, "sandbox-watch", strconv.Itoa(pgid))
	cmd.Env = []string{"PATH=" + defaultPath}
	cmd.Dir = "/"
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, fault.Wrap(fault.Unavailable, err, "the watcher of a command could not be started")
	}
	return &watcher{cmd, w}, nil
}

// release ends the watcher without harm. It must come before the group's leader is reaped.
func (w *watcher) release() {
	if w == nil {
		return
	}
	_, _ = io.WriteString(w.pipe, "done\n")
	_ = w.pipe.Close()
	_ = w.cmd.Wait()
}
