package memory

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/workfile"
)

// errBlocked is the cause of errors about a file that capture leaves alone.
var errBlocked = errors.New("capture leaves it alone")

// Blocked tells whether capture must leave the file alone: a link or anything else that is no file of its own, a file
// that nobody may write, one that is too large.
func Blocked(err error) bool {
	return errors.Is(err, errBlocked) || errors.Is(err, workfile.ErrLink) || errors.Is(err, workfile.ErrNotRegular)
}

// Read reads MEMORY.md of an office to change it; nil when there is none. See Blocked for what may not be changed.
func Read(dir *workfile.Dir) ([]byte, error) {
	file, info, err := dir.OpenPlain(File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case Blocked(err):
		return nil, fault.Wrap(fault.Forbidden, err, "%s is not a file of its own", File)
	case err != nil:
		return nil, fault.Wrap(fault.Unavailable, err, "%s cannot be read", File)
	}
	defer file.Close()
	switch {
	case info.Mode().Perm()&0o222 == 0:
		return nil, fault.Wrap(fault.Forbidden, errBlocked, "%s is read-only", File)
	case info.Size() > MaxFile:
		return nil, fault.Wrap(fault.TooLarge, errBlocked, "%s has %d bytes; the limit is %d", File, info.Size(), MaxFile)
	}
	content, err := io.ReadAll(io.LimitReader(file, MaxFile))
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "%s cannot be read", File)
	}
	if content == nil {
		content = []byte{}
	}
	return content, nil
}

const (
	// LockTimeout bounds the wait for another writer of the office's files.
	LockTimeout = 20 * time.Second
	// mostChanges is how often the file may change under a writer before it gives up.
	mostChanges = 10
)

// Change reads MEMORY.md of the office at dir, has change make a new content of it, and puts that in its place, under
// the lock that mikan's own tools take. When somebody without the lock changes the file in between, it reads and changes
// again. A change that returns its content as it was, nil for a missing file, writes nothing. Errors are those of Read
// and of change, and unavailable.
func Change(ctx context.Context, dir string, change func(content []byte) ([]byte, error)) error {
	d, err := workfile.Open(dir)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the office's directory cannot be opened")
	}
	defer d.Close()
	waiting, cancel := context.WithTimeout(ctx, LockTimeout)
	defer cancel()
	release, err := d.Lock(waiting)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the office's directory is in use")
	}
	defer release()
	for range mostChanges {
		content, err := Read(d)
		if err != nil {
			return err
		}
		after, err := change(content)
		if err != nil || string(after) == string(content) {
			return err
		}
		err = d.Swap(File, content, after)
		if err == nil {
			return nil
		}
		if !errors.Is(err, workfile.ErrChanged) {
			return fault.Wrap(fault.Unavailable, err, "%s cannot be written", File)
		}
	}
	return fault.New(fault.Unavailable, "%s keeps changing", File)
}
