// Package workfile opens files of an office's directory: never through a symbolic link that leads out of it, never
// blocking on a pipe or device that a shell left there, and replaced as a whole or not at all.
package workfile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/geminixiang/mikan/internal/failpoint"
)

// Dir is an open office directory. Close it after use.
type Dir struct {
	root *os.Root
	path string
}

// ErrLink is the error of a path that a symbolic link stands in the way of.
var ErrLink = errors.New("refused a symbolic link")

// Open opens the office directory at an absolute path, making it (mode 0700) when it does not exist. A symbolic link
// in its place is refused: it would make one office write into another.
func Open(dir string) (*Dir, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("%s is not an absolute path", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory but a %s", dir, kind(info.Mode()))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(fmt.Errorf("%s changed while it was opened", dir), err, root.Close())
	}
	return &Dir{root: root, path: filepath.Clean(dir)}, nil
}

// Close releases the directory.
func (d *Dir) Close() error { return d.root.Close() }

// Path is the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// Name turns what a person or model calls a file (relative to the office, absolute, or with ~ for the office, which
// is a command's home) into its name inside the office. What lies outside is refused.
func (d *Dir) Name(called string) (string, error) {
	switch {
	case called == "":
		return "", errors.New("the path is empty")
	case strings.ContainsRune(called, 0):
		return "", errors.New("the path holds a NUL character")
	case called == "~" || strings.HasPrefix(called, "~/"):
		called = "." + called[1:]
	case filepath.IsAbs(called):
		relative, err := filepath.Rel(d.path, called)
		if err != nil {
			return "", err
		}
		called = relative
	}
	name := filepath.Clean(called)
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("%s is outside of this conversation's directory %s", called, d.path)
	}
	return name, nil
}

// OpenRegular opens a regular file for reading. Links that stay inside the office are followed; one that leads out,
// a directory, pipe, socket or device is refused by name.
func (d *Dir) OpenRegular(name string) (*os.File, fs.FileInfo, error) {
	// Without O_NONBLOCK opening a named pipe would wait for a writer, perhaps for ever.
	file, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, d.explain(name, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file but a %s", name, kind(info.Mode()))
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// ReadAll reads a regular file of at most limit bytes.
func (d *Dir) ReadAll(name string, limit int64) ([]byte, error) {
	file, info, err := d.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes; the limit is %d", name, info.Size(), limit)
	}
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("%s is over the limit of %d bytes", name, limit)
	}
	return content, err
}

// Create makes a new file in folder (made when missing) whose name is prefix, a random part and suffix, and returns
// it with its name inside the office.
func (d *Dir) Create(folder, prefix, suffix string) (*os.File, string, error) {
	if err := d.makeFolder(folder); err != nil {
		return nil, "", err
	}
	name := path.Join(folder, prefix+strings.ToLower(rand.Text()[:10])+suffix)
	file, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, "", d.explain(name, err)
	}
	return file, name, nil
}

// Remove removes a file.
func (d *Dir) Remove(name string) error { return d.root.Remove(name) }

// Replacement tells what Replace found.
type Replacement int

// Outcomes of Replace.
const (
	Created Replacement = iota
	Replaced
)

// Replace writes a file as a whole: readers and a crash see the old content or the new, never a part. Missing
// folders are made, an existing file's permissions are kept. A link in the file's place is refused and left alone.
func (d *Dir) Replace(name string, content []byte) (Replacement, error) {
	folder := filepath.Dir(name)
	if err := d.makeFolder(folder); err != nil {
		return Created, err
	}
	outcome, mode := Created, fs.FileMode(0o644)
	switch info, err := d.root.Lstat(name); {
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		return Created, d.linkError(name)
	case err == nil && !info.Mode().IsRegular():
		return Created, fmt.Errorf("%s is not a regular file but a %s", name, kind(info.Mode()))
	case err == nil:
		outcome, mode = Replaced, info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return Created, d.explain(name, err)
	}
	file, temporary, err := d.Create(folder, ".write-", ".tmp")
	if err != nil {
		return outcome, err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		failpoint.Hit("file.replace.before")
		err = d.root.Rename(temporary, name)
		failpoint.Hit("file.replace.after")
	}
	if err != nil {
		_ = d.root.Remove(temporary)
		return outcome, err
	}
	return outcome, d.syncFolder(folder)
}

func (d *Dir) makeFolder(name string) error {
	err := d.root.MkdirAll(name, 0o755)
	if err == nil {
		return nil
	}
	if info, failed := d.root.Stat(name); failed == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a directory but a %s", name, kind(info.Mode()))
	}
	return d.explain(name, err)
}

// syncFolder makes a rename durable.
func (d *Dir) syncFolder(folder string) error {
	dir, err := d.root.Open(folder)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

const (
	// lockPoll is how often a taken lock is tried again; holders keep it for one read and one write.
	lockPoll = 10 * time.Millisecond
	// lockName is locked on file systems that cannot lock a directory, such as NFS.
	lockName = ".lock"
)

// Lock keeps other processes that call Lock out of the office until release is called, so that reading a file and
// replacing it is one step. It locks the directory itself (flock), leaves no file behind where the file system allows
// that, and ends with the process. The context bounds the wait: a command in the office could hold the same lock.
func (d *Dir) Lock(ctx context.Context) (release func(), err error) {
	held, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = held.Close() }, nil
		case errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR):
		case filepath.Base(held.Name()) != lockName:
			_ = held.Close()
			if held, err = d.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
				return nil, d.explain(lockName, err)
			}
			continue
		default:
			_ = held.Close()
			return nil, fmt.Errorf("lock %s: %w", d.path, err)
		}
		select {
		case <-ctx.Done():
			_ = held.Close()
			return nil, fmt.Errorf("the directory %s is locked by another process: %w", d.path, ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}

// ReadShared opens the file name that lies beside the office, in the workspace root, for reading: only a regular
// file, never a link.
func (d *Dir) ReadShared(name string) (*os.File, fs.FileInfo, error) {
	root, err := os.OpenRoot(filepath.Dir(d.path))
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	shared := &Dir{root: root, path: filepath.Dir(d.path)}
	listed, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if listed.Mode()&fs.ModeSymlink != 0 {
		return nil, nil, shared.linkError(name)
	}
	file, info, err := shared.OpenRegular(name)
	if err != nil {
		return nil, nil, err
	}
	if !os.SameFile(listed, info) {
		return nil, nil, errors.Join(fmt.Errorf("%s changed while it was opened", name), file.Close())
	}
	return file, info, nil
}

// explain names the symbolic link that made os.Root refuse a path.
func (d *Dir) explain(name string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	if link := d.firstLink(name); link != "" {
		return d.linkError(link)
	}
	return err
}

func (d *Dir) firstLink(name string) string {
	so := ""
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		so = path.Join(so, part)
		info, err := d.root.Lstat(so)
		if err != nil {
			return ""
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return so
		}
	}
	return ""
}

func (d *Dir) linkError(name string) error {
	target, err := d.root.Readlink(name)
	if err != nil {
		target = "an unreadable place"
	}
	return fmt.Errorf("%w: %s points to %s", ErrLink, name, target)
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
