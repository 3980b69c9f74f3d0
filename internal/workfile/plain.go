package workfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/geminixiang/mikan/internal/failpoint"
)

// OpenPlain opens a file of the office's top folder for reading, and never anything but a regular file in its own
// place: a link, also one that stays inside the office, is refused with ErrLink.
func (d *Dir) OpenPlain(name string) (*os.File, fs.FileInfo, error) {
	listed, err := d.regular(name)
	switch {
	case err != nil:
		return nil, nil, err
	case listed == nil:
		return nil, nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	file, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, d.explain(name, err)
	}
	opened, err := file.Stat()
	if err == nil && !os.SameFile(listed, opened) {
		err = fmt.Errorf("%s changed while it was opened", name)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, opened, nil
}

// Swap replaces the content of a file of the office's top folder as a whole if it is still was, and is ErrChanged if it
// is not. A nil was stands for a file that does not exist. The file's permissions are kept.
//
// Writers that hold Lock cannot come between. Others, a command for example, are noticed up to the moment of the rename.
func (d *Dir) Swap(name string, was, content []byte) (err error) {
	listed, err := d.regular(name)
	if err != nil {
		return err
	}
	if (listed == nil) != (was == nil) {
		return ErrChanged
	}
	mode := fs.FileMode(0o644)
	if listed != nil {
		mode = listed.Mode().Perm()
	}
	file, temporary, err := d.Create(".", ".write-", ".tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.root.Remove(temporary))
		}
	}()
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
		err = d.holds(name, was)
	}
	if err != nil {
		return err
	}
	failpoint.Hit("file.replace.before")
	if err := d.root.Rename(temporary, name); err != nil {
		return err
	}
	failpoint.Hit("file.replace.after")
	return d.syncFolder(".")
}

// holds is ErrChanged when a file has another content, or is there although was is nil.
func (d *Dir) holds(name string, was []byte) error {
	file, info, err := d.OpenPlain(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && was == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return ErrChanged
	case err != nil:
		return err
	}
	defer file.Close()
	if was == nil || info.Size() != int64(len(was)) {
		return ErrChanged
	}
	now, err := io.ReadAll(io.LimitReader(file, int64(len(was))+1))
	if err == nil && !bytes.Equal(now, was) {
		err = ErrChanged
	}
	return err
}
