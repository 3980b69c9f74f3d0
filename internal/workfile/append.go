package workfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/geminixiang/mikan/internal/failpoint"
)

// ErrChanged is the error of Append when the file is not as the caller left it.
var ErrChanged = errors.New("the file is not as it was left")

// ErrNotRegular is the error of a name that a folder, pipe, socket or device has.
var ErrNotRegular = errors.New("not a regular file")

// Append adds content to a file of exactly size bytes and makes it durable, or leaves it as it was. A file of another size, or none at all, is
// ErrChanged and stays as it is; a link in the file's place is refused and left alone, as is anything but a regular file.
func (d *Dir) Append(name string, size int64, content []byte) error {
	listed, err := d.regular(name)
	if err != nil {
		return err
	}
	if listed == nil || listed.Size() != size {
		return ErrChanged
	}
	file, err := d.root.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return d.explain(name, err)
	}
	defer file.Close()
	// What was put in the file's place since it was listed, a link to another file of the office perhaps, is not it.
	if opened, err := file.Stat(); err != nil || !os.SameFile(listed, opened) {
		return errors.Join(fmt.Errorf("%s changed while it was opened", name), err)
	}
	if len(content) == 0 {
		return nil
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err != nil { // a full disk has taken a part of it
		return errors.Join(err, file.Truncate(size))
	}
	return nil
}

// Rewrite writes a file as a whole like Replace, for content that is made while it is written, and returns its size.
func (d *Dir) Rewrite(name string, write func(io.Writer) error) (size int64, err error) {
	mode := fs.FileMode(0o644)
	listed, err := d.regular(name)
	if err != nil {
		return 0, err
	}
	if listed != nil {
		mode = listed.Mode().Perm()
	}
	file, temporary, err := d.Create(".", ".write-", ".tmp")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.root.Remove(temporary))
		}
	}()
	buffered := bufio.NewWriterSize(file, 256<<10)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		size, err = file.Seek(0, io.SeekCurrent)
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return 0, err
	}
	failpoint.Hit("file.replace.before")
	if err := d.root.Rename(temporary, name); err != nil {
		return 0, err
	}
	failpoint.Hit("file.replace.after")
	return size, d.syncFolder(".")
}

// regular looks at a file in the office's top folder; nil when there is none.
func (d *Dir) regular(name string) (fs.FileInfo, error) {
	info, err := d.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, d.explain(name, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, d.linkError(name)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is %w but a %s", name, ErrNotRegular, kind(info.Mode()))
	}
	return info, nil
}
