package text

import (
	"bytes"
	"io"
	"strings"
)

// Longest sequences that are believed. A title or link (OSC) that is longer or that a line ends before its
// terminator was never one: its text is kept, so that one stray escape cannot swallow what follows it.
const (
	maxControlSequence = 128
	maxStringSequence  = 4096
)

const esc = 0x1B

// StripANSI removes terminal escape sequences (colours, cursor moves, titles, links) from s and keeps all else.
func StripANSI(s string) string {
	if strings.IndexByte(s, esc) < 0 {
		return s
	}
	out, _ := strip(make([]byte, 0, len(s)), []byte(s), atEnd)
	return string(out)
}

// strip appends src without escape sequences to dst and returns how much of src it consumed; with moreFollows it
// stops at a sequence whose end has not come yet.
func strip(dst, src []byte, rest input) ([]byte, int) {
	i := 0
	for {
		next := bytes.IndexByte(src[i:], esc)
		if next < 0 {
			return append(dst, src[i:]...), len(src)
		}
		dst = append(dst, src[i:i+next]...)
		i += next
		n, form := sequence(src[i:])
		switch {
		case form == incomplete && rest == moreFollows:
			return dst, i
		case form == valid:
			i += n
		default:
			i++ // a lone escape character goes, what follows it stays
		}
	}
}

// sequence measures the escape sequence at the start of src (ECMA-48, ISO 2022), src[0] being ESC.
func sequence(src []byte) (int, form) {
	if len(src) < 2 {
		return 0, incomplete
	}
	switch b := src[1]; {
	case b == '[':
		return finalByte(src, 2, 0x20, 0x3F, 0x40, 0x7E)
	case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
		return stringSequence(src)
	case b >= 0x20 && b <= 0x2F:
		return finalByte(src, 2, 0x20, 0x2F, 0x30, 0x7E)
	case b >= 0x30 && b <= 0x7E:
		return 2, valid
	}
	return 0, invalid
}

// finalByte skips bytes within [low, high] and ends at one within [finalLow, finalHigh].
func finalByte(src []byte, from int, low, high, finalLow, finalHigh byte) (int, form) {
	for i := from; i < len(src); i++ {
		switch b := src[i]; {
		case b >= finalLow && b <= finalHigh:
			return i + 1, valid
		case b < low || b > high || i >= maxControlSequence:
			return 0, invalid
		}
	}
	return 0, incomplete
}

// stringSequence ends at BEL or ST (ESC \).
func stringSequence(src []byte) (int, form) {
	for i := 2; i < len(src); i++ {
		switch {
		case src[i] == 0x07:
			return i + 1, valid
		case src[i] == esc && i+1 == len(src):
			return 0, incomplete
		case src[i] == esc && src[i+1] == '\\':
			return i + 2, valid
		case src[i] == esc || src[i] == '\n' || i >= maxStringSequence:
			return 0, invalid
		}
	}
	return 0, incomplete
}

// Cleaner is a writer that passes what is written to it on as storable text without terminal escapes, in flat memory
// and with the same result however the input is cut into writes. Flush passes on what is left at the end.
type Cleaner struct {
	to       io.Writer
	sequence []byte // an escape sequence whose end has not come
	half     []byte // a character whose end has not come
	plain    []byte
	clean    []byte
}

// NewCleaner makes a Cleaner that writes to w.
func NewCleaner(w io.Writer) *Cleaner { return &Cleaner{to: w} }

// Write cleans p. The error is the underlying writer's.
func (c *Cleaner) Write(p []byte) (int, error) {
	return len(p), c.pass(p, moreFollows)
}

// Flush ends the input: a half character becomes U+FFFD, an unfinished escape sequence loses its escape only.
func (c *Cleaner) Flush() error { return c.pass(nil, atEnd) }

func (c *Cleaner) pass(p []byte, rest input) error {
	src := p
	if len(c.sequence) > 0 {
		c.sequence = append(c.sequence, p...)
		src = c.sequence
	}
	plain, used := strip(append(c.plain[:0], c.half...), src, rest)
	c.sequence = append(c.sequence[:0], src[used:]...)
	clean, used := decode(c.clean[:0], plain, rest)
	c.half = append(c.half[:0], plain[used:]...)
	c.plain, c.clean = plain, clean
	if len(clean) == 0 {
		return nil
	}
	_, err := c.to.Write(clean)
	return err
}
