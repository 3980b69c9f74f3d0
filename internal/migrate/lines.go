package migrate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxLine bounds one record, in bytes. The largest that 0.5.3 writes is a prompt with pictures, of which providers take
// 5 MB each; more than this would not fit a database value comfortably and is refused with its line number.
const maxLine = 64 << 20

// errTooLong is the error of a line beyond maxLine. Reading may go on with the next one.
var errTooLong = fmt.Errorf("is longer than %d MiB", maxLine>>20)

// line is one line of a file. Its bytes are valid until the next one is read.
type line struct {
	bytes  []byte
	offset int64 // where it starts in the file
	number int   // from 1
	ended  bool  // a line feed follows: false for a last line that was torn, or merely lacks its end
}

// lineReader reads a file line by line in memory that is bounded by maxLine. Blank lines are passed over, and a carriage
// return before the line feed is no part of a line.
type lineReader struct {
	in     *bufio.Reader
	buffer []byte
	offset int64
	number int
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: borrow(in)}
}

// buffers are shared: an installation has thousands of small files, each read several times.
var buffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 256<<10) }}

func borrow(in io.Reader) *bufio.Reader {
	buffer := buffers.Get().(*bufio.Reader)
	buffer.Reset(in)
	return buffer
}

// done gives the buffer back.
func (r *lineReader) done() {
	if r.in != nil {
		r.in.Reset(nil)
		buffers.Put(r.in)
		r.in = nil
	}
}

// next returns the next line that is not blank; io.EOF at the end, errTooLong (with the line's number and offset) for
// one that is too long.
func (r *lineReader) next() (line, error) {
	for {
		l, err := r.read()
		if err != nil {
			return l, err
		}
		l.bytes = bytes.TrimSpace(l.bytes)
		if len(l.bytes) > 0 {
			return l, nil
		}
	}
}

func (r *lineReader) read() (line, error) {
	l := line{offset: r.offset, number: r.number + 1}
	if cap(r.buffer) > 4<<20 {
		r.buffer = nil // one huge line must not hold its memory for the rest of the file
	}
	r.buffer = r.buffer[:0]
	tooLong := false
	for {
		part, err := r.in.ReadSlice('\n')
		r.offset += int64(len(part))
		if tooLong = tooLong || len(r.buffer)+len(part) > maxLine; !tooLong {
			r.buffer = append(r.buffer, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return l, err
		case err != nil && r.offset == l.offset:
			return l, io.EOF
		}
		r.number++
		if tooLong {
			return l, errTooLong
		}
		l.bytes, l.ended = r.buffer, err == nil
		return l, nil
	}
}
