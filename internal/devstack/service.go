package devstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// readyTimeout bounds one start of a service whose program is at hand; both take about 1 s on two cores.
	readyTimeout = 60 * time.Second
	// readyPoll is how often a starting service is asked whether it serves.
	readyPoll = 10 * time.Millisecond
	// restartFirst and restartMost bound the wait before a service that died is started again. It doubles with each
	// death in a row, and begins anew once a service ran for steadyAfter.
	restartFirst = 50 * time.Millisecond
	restartMost  = 5 * time.Second
	steadyAfter  = 10 * time.Second
	// stopTimeout is how long a service may take to end in order before it is killed.
	stopTimeout = 10 * time.Second
	// leftoverTimeout is how long a leftover may take to end in order, and then to end when killed.
	leftoverTimeout = 3 * time.Second
	// logLimit is the size in bytes from which a log is moved aside at the next start of its service.
	logLimit = 20 << 20
	// logTail is how much of a log, in bytes, an error quotes.
	logTail = 1500
)

// service is one program that is kept running.
type service struct {
	name string
	// command makes the command of one start. It must set neither output nor process attributes but a credential.
	command func() *exec.Cmd
	// announces is what the program prints once it has its ports; before that, whatever answers there is a stranger.
	// Empty when ready cannot be fooled by one.
	announces string
	// ready returns nil once the service answers.
	ready func(context.Context) error
	// leftovers finds processes of an earlier start that would be in the way.
	leftovers func() ([]process, error)
	// interrupt is the signal that ends the service in order without waiting for its clients.
	interrupt syscall.Signal
	dir       *dataDir
	log       *slog.Logger

	mu       sync.Mutex
	running  *exec.Cmd
	stopping bool
	stopped  chan struct{} // closed by stop
	ended    chan struct{} // closed when nothing runs and nothing will be started
}

// start ends leftovers, launches the service, waits until it answers, and keeps it running from then on.
func (s *service) start(ctx context.Context) error {
	s.stopped, s.ended = make(chan struct{}), make(chan struct{})
	if err := s.endLeftovers(); err != nil {
		return err
	}
	began := time.Now()
	exited, logged, err := s.launch()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := s.awaitReady(ctx, exited, logged); err != nil {
		s.kill()
		<-exited
		s.forget()
		// As Go and Postgres report EADDRINUSE.
		if bytes.Contains(bytes.ToLower(s.logSince(logged)), []byte("address already in use")) {
			err = fmt.Errorf("%w: %w", errPortTaken, err)
		}
		if tail := s.tail(logged); tail != "" && !errors.Is(err, context.Canceled) {
			err = fmt.Errorf("%w; the end of %s says:\n%s", err, s.logFile(), tail)
		}
		return err
	}
	s.log.Info("started", "service", s.name, "took", time.Since(began).Round(time.Millisecond).String())
	go s.keep(exited)
	return nil
}

func (s *service) awaitReady(ctx context.Context, exited <-chan error, logged int64) error {
	for {
		err := errNotAnnounced
		if s.announces == "" || bytes.Contains(s.logSince(logged), []byte(s.announces)) {
			err = s.ready(ctx)
		}
		if _, permanent := errors.AsType[*permanentError](err); err == nil || permanent {
			return err
		}
		select {
		case exit := <-exited:
			return fmt.Errorf("%s ended while it started (%s)", s.name, describeExit(exit))
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%s did not answer: %w", s.name, err)
			}
			return ctx.Err()
		case <-time.After(readyPoll):
		}
	}
}

// launch starts the program once. The channel is closed after it sent how the program ended; logged is the size of the
// log before it.
func (s *service) launch() (exited <-chan error, logged int64, err error) {
	logFile, logged, err := s.openLog()
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = logFile.Close() }()
	cmd := s.command()
	// A file and not a pipe: when the owner is killed, the service can go on writing.
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// A group of its own, so that a Ctrl-C at the terminal reaches the owner alone, who then stops it in order.
	cmd.SysProcAttr.Setpgid = true

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil, 0, context.Canceled
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", s.name, err)
	}
	s.running = cmd
	// For people; the next start recognises leftovers by their arguments.
	if err := os.WriteFile(s.pidFile(), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o600); err != nil {
		s.log.Warn("no pid file", "service", s.name, "error", err)
	}
	done := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		s.mu.Lock()
		s.running = nil // its number may soon be another process's
		s.mu.Unlock()
		done <- err
		close(done)
	}()
	return done, logged, nil
}

// keep starts the service again whenever it ends, until stop.
func (s *service) keep(exited <-chan error) {
	defer close(s.ended)
	defer s.forget()
	wait, began := restartFirst, time.Now()
	for {
		exit := <-exited
		if s.isStopping() {
			return
		}
		if time.Since(began) >= steadyAfter {
			wait = restartFirst
		}
		s.log.Warn("ended by itself; starting it again", "service", s.name, "how", describeExit(exit), "after", wait.String())
		select {
		case <-s.stopped:
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, restartMost)
		began = time.Now()
		var err error
		if err = s.endLeftovers(); err == nil {
			exited, _, err = s.launch()
		}
		if err != nil {
			failed := make(chan error, 1)
			failed <- err
			exited = failed
		}
	}
}

// stop ends the service in order and waits for its end. The error says that it had to be killed.
func (s *service) stop() error {
	s.mu.Lock()
	first := !s.stopping
	s.stopping = true
	cmd := s.running
	s.mu.Unlock()
	if first {
		close(s.stopped)
	}
	if cmd != nil {
		// An error means that it has ended.
		_ = cmd.Process.Signal(s.interrupt)
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(stopTimeout):
	}
	s.kill()
	<-s.ended
	return fmt.Errorf("%s did not end within %v and was killed", s.name, stopTimeout)
}

// kill ends the whole process group at once.
func (s *service) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		_ = syscall.Kill(-s.running.Process.Pid, syscall.SIGKILL)
	}
}

func (s *service) forget() {
	if err := os.Remove(s.pidFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("stale pid file", "service", s.name, "error", err)
	}
}

func (s *service) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// endLeftovers ends what an owner that was killed left running, in order if it can.
func (s *service) endLeftovers() error {
	for _, signal := range []syscall.Signal{s.interrupt, syscall.SIGKILL} {
		left, err := s.leftovers()
		if err != nil {
			return fmt.Errorf("%s: looking for leftovers: %w", s.name, err)
		}
		if len(left) == 0 {
			return nil
		}
		s.log.Info("ending a leftover of an earlier start", "service", s.name, "processes", len(left), "signal", signal.String())
		for _, p := range left {
			p.signal(signal)
		}
		for deadline := time.Now().Add(leftoverTimeout); time.Now().Before(deadline); time.Sleep(readyPoll) {
			if left, err = s.leftovers(); err == nil && len(left) == 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("%s: processes of an earlier start cannot be ended", s.name)
}

func (s *service) logFile() string { return filepath.Join(s.dir.logs(), s.name+".log") }
func (s *service) pidFile() string { return filepath.Join(s.dir.run(), s.name+".pid") }

func (s *service) openLog() (*os.File, int64, error) {
	path := s.logFile()
	if info, err := os.Stat(path); err == nil && info.Size() > logLimit {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, fmt.Errorf("log file: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("log file: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("log file: %w", err), f.Close())
	}
	return f, info.Size(), nil
}

// logSince returns what was logged from offset on.
func (s *service) logSince(offset int64) []byte {
	f, err := os.Open(s.logFile())
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.NewSectionReader(f, offset, logLimit))
	if err != nil {
		return nil
	}
	return text
}

// tail returns the end of what was logged from offset on, for an error.
func (s *service) tail(offset int64) string {
	text := bytes.TrimSpace(s.logSince(offset))
	if len(text) > logTail {
		text = text[len(text)-logTail:]
	}
	return strings.ToValidUTF8(string(text), "")
}

// errNotAnnounced is the state of a program that has not said yet that it serves.
var errNotAnnounced = errors.New("it has not said that it serves")

// permanentError is an answer of a starting service that waiting will not change.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

func describeExit(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}
