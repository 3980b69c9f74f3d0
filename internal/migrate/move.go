package migrate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/text"
)

// rename gives a conversation's directory the name of its office.
func (p *planner) rename(c *conversation) error {
	if c.directory == "" || c.directory == string(c.key) {
		return nil
	}
	from, to := filepath.Join(p.Workspace, c.directory), filepath.Join(p.Workspace, string(c.key))
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s exists", to)
	}
	failpoint.Hit("import_rename.before")
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := syncDir(p.Workspace); err != nil {
		return err
	}
	failpoint.Hit("import_rename.after")
	moved := func(path string) string {
		if rest, ok := strings.CutPrefix(path, from+string(filepath.Separator)); ok {
			return filepath.Join(to, rest)
		}
		return path
	}
	c.directory = string(c.key)
	c.sessions = moved(c.sessions)
	for _, f := range c.files {
		f.path = moved(f.path)
	}
	if c.log != nil {
		c.log.path = moved(c.log.path)
	}
	if c.settings != nil {
		c.settings.path = moved(c.settings.path)
	}
	return nil
}

// setAside moves the original sessions out of the workspace, whole and unchanged, and keeps the log as it was: the one in
// the workspace is rewritten from the database from now on.
func (p *planner) setAside(c *conversation) error {
	if c.sessions == "" && c.log == nil {
		return nil
	}
	home := filepath.Join(p.StateDir, conversationsDir, string(c.key))
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	if c.log != nil {
		if err := keepFile(c.log.path, filepath.Join(home, keptLog)); err != nil {
			return err
		}
	}
	if c.sessions == "" {
		return nil
	}
	to := filepath.Join(home, keptSessions)
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s exists; move it away, and run the command again", to)
	}
	failpoint.Hit("import_move.before")
	err := os.Rename(c.sessions, to)
	if errors.Is(err, syscall.EXDEV) {
		err = moveAcross(c.sessions, to)
	}
	if err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(c.sessions), home} {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	failpoint.Hit("import_move.after")
	return nil
}

// keepFile keeps a file's content under another name. A file that is there already is left alone: it is an earlier run's.
func keepFile(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	// The copy in the workspace is only ever replaced as a whole, so that a second name for it is enough.
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	temporary := to + ".partial"
	if err := copyFile(from, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, to)
}

// moveAcross moves a directory to another file system: copied under another name first, so that a crash leaves the
// original or the whole copy in its place.
func moveAcross(from, to string) error {
	partial := to + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(partial, relative)
		if e.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		return copyFile(path, target)
	})
	if err != nil {
		return err
	}
	if err := os.Rename(partial, to); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(to)); err != nil {
		return err
	}
	failpoint.Hit("import_copy.after")
	return os.RemoveAll(from)
}

func copyFile(from, to string) error {
	in, info, err := openRegular(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := out.Sync(); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// oneLine is a name as lists show it.
func oneLine(name string) string {
	return strings.TrimSpace(text.Storable(strings.Join(strings.Fields(name), " ")))
}
