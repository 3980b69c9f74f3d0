package tool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/geminixiang/mikan/internal/secret"
	"github.com/geminixiang/mikan/internal/text"
	"github.com/geminixiang/mikan/internal/workfile"
)

const (
	// DefaultSpillLimit is how much of one command's output is kept in a file, in bytes.
	DefaultSpillLimit = 256 << 20
	// noteBytes and noteLines are what of a result's bounds are left for the lines that say what was cut and how the command ended.
	noteBytes = 1 << 10
	noteLines = 4
	// slack is kept in front of the tail so that it can be cut between graphemes.
	slack = 2 << 10
	// scratch is where full outputs go, under the office.
	scratch = "scratch"
)

// output takes a command's output of any size in flat memory: the newest lines for the model, storable and without
// escape sequences, and once that is not all, everything as it was printed in a file of the office.
//
//	raw ─► secrets out ─┬─► spill (file)
//	                    └─► escapes out, storable ─► secrets out ─► tail
//
// The second search finds what escape sequences had split, as grep does when it colours a match.
type output struct {
	entry *secret.Writer
	clean *text.Cleaner
	exit  *secret.Writer
	spill spill
	tail  tail
}

func newOutput(dir *workfile.Dir, redactor *secret.Redactor, limit int64) *output {
	o := &output{spill: spill{dir: dir, limit: limit}}
	o.exit = redactor.Writer(&o.tail)
	o.clean = text.NewCleaner(o.exit)
	o.entry = redactor.Writer(io.MultiWriter(&o.spill, o.clean))
	return o
}

// Write takes output. It never fails: a full disk is no reason to end a command.
func (o *output) Write(p []byte) (int, error) { return o.entry.Write(p) }

// text ends the output and returns what the model reads of it, within the bounds less the notes.
func (o *output) text() string {
	for _, flush := range []func() error{o.entry.Flush, o.clean.Flush, o.exit.Flush} {
		_ = flush() // none of the writers behind them fails
	}
	shown := text.Tail(o.tail.kept(), MaxBytes-noteBytes)
	shown = tailLines(shown, MaxLines-noteLines)
	if int64(len(shown)) == o.tail.total {
		o.spill.discard()
		return shown
	}
	return fmt.Sprintf("[Output cut: these are the last %d of %d lines, %s of %s. %s]\n%s",
		lines(shown), o.tail.lines(), size(int64(len(shown))), size(o.tail.total), o.spill.finish(), shown)
}

// tail keeps the newest bytes.
type tail struct {
	buffer []byte
	total  int64
	feeds  int64
	last   byte
}

const tailBytes = MaxBytes + slack

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if n == 0 {
		return 0, nil
	}
	t.total += int64(n)
	t.feeds += int64(bytes.Count(p, []byte{'\n'}))
	t.last = p[n-1]
	if t.buffer == nil {
		t.buffer = make([]byte, 0, 2*tailBytes)
	}
	if len(p) > tailBytes {
		p = p[len(p)-tailBytes:]
	}
	if len(t.buffer)+len(p) > cap(t.buffer) {
		t.buffer = t.buffer[:copy(t.buffer, t.buffer[len(t.buffer)-min(len(t.buffer), tailBytes):])]
	}
	t.buffer = append(t.buffer, p...)
	return n, nil
}

func (t *tail) kept() string { return string(t.buffer) }

func (t *tail) lines() int64 {
	if t.total > 0 && t.last != '\n' {
		return t.feeds + 1
	}
	return t.feeds
}

func tailLines(s string, n int) string {
	end := len(strings.TrimSuffix(s, "\n"))
	for ; n > 0; n-- {
		i := strings.LastIndexByte(s[:end], '\n')
		if i < 0 {
			return s
		}
		end = i
	}
	return s[end+1:]
}

// spill keeps output in memory while it is small, and in a file from then on.
type spill struct {
	dir     *workfile.Dir
	limit   int64
	head    []byte
	file    *os.File
	name    string
	written int64
	dropped bool  // the limit was hit
	err     error // why there is no file
}

func (s *spill) Write(p []byte) (int, error) {
	if s.file == nil && s.err == nil && len(s.head)+len(p) <= MaxBytes {
		s.head = append(s.head, p...)
		return len(p), nil
	}
	s.open()
	s.put(p)
	return len(p), nil
}

func (s *spill) open() {
	if s.file != nil || s.err != nil {
		return
	}
	if s.file, s.name, s.err = s.dir.Create(scratch, "output-", ".txt"); s.err == nil {
		s.put(s.head)
	}
	s.head = nil
}

func (s *spill) put(p []byte) {
	if s.err != nil || s.dropped {
		return
	}
	if room := s.limit - s.written; int64(len(p)) > room {
		p, s.dropped = p[:room], true
	}
	n, err := s.file.Write(p)
	s.written += int64(n)
	if err != nil {
		s.err = err
		s.remove()
	}
}

// finish closes the file and tells where the full output is.
func (s *spill) finish() string {
	s.open()
	if s.err == nil {
		if s.err = s.file.Close(); s.err != nil {
			s.remove()
		}
	}
	switch {
	case s.err != nil:
		return "The full output could not be kept: " + reason(s.err) + "."
	case s.dropped:
		return fmt.Sprintf("The first %s of the output are in %s; a file for output takes no more.", size(s.written), s.name)
	}
	return "The full output is in " + s.name + "."
}

// discard removes a file that holds no more than the model sees.
func (s *spill) discard() {
	if s.file != nil && s.err == nil {
		s.remove()
	}
}

func (s *spill) remove() {
	_ = s.file.Close()
	_ = s.dir.Remove(s.name)
}

// reason is the last part of an error, without the paths of the machine.
func reason(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error()
	}
	return err.Error()
}

// size writes a number of bytes as people do.
func size(n int64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}
