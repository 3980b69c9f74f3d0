// Package text makes text fit to be stored, sent and shortened: no bytes that Postgres refuses, no half characters.
package text

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

const replacement = "\uFFFD"

// Storable returns s as valid UTF-8 without NUL, which is what Postgres takes as text: every NUL, every invalid byte
// and every encoded surrogate (three bytes) becomes one U+FFFD, everything else is kept. A valid s is returned as is.
func Storable(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	out, _ := decode(make([]byte, 0, len(s)+16), []byte(s), atEnd)
	return string(out)
}

// input tells decode and strip whether more bytes may follow.
type input int

const (
	atEnd input = iota
	moreFollows
)

// decode appends the storable form of src to dst. With moreFollows it leaves an incomplete character at the end
// alone. It returns how many bytes of src it consumed.
func decode(dst, src []byte, rest input) ([]byte, int) {
	i := 0
	for i < len(src) {
		if b := src[i]; b < utf8.RuneSelf {
			if b == 0 {
				dst = append(dst, replacement...)
			} else {
				dst = append(dst, b)
			}
			i++
			continue
		}
		n, form := character(src[i:], rest)
		switch form {
		case incomplete:
			return dst, i
		case valid:
			dst = append(dst, src[i:i+n]...)
		case invalid:
			dst = append(dst, replacement...)
		}
		i += n
	}
	return dst, i
}

type form int

const (
	valid form = iota
	invalid
	incomplete
)

// character looks at the non-ASCII character at the start of src.
func character(src []byte, rest input) (int, form) {
	// An encoded surrogate, ED A0..BF 80..BF, is one character to whoever wrote it, so it becomes one replacement.
	if src[0] == 0xED && (len(src) == 1 || src[1] >= 0xA0 && src[1] <= 0xBF) {
		switch {
		case len(src) >= 3 && src[2] >= 0x80 && src[2] <= 0xBF:
			return 3, invalid
		case len(src) < 3 && rest == moreFollows:
			return 0, incomplete
		}
		return 1, invalid
	}
	if rest == moreFollows && !utf8.FullRune(src) {
		return 0, incomplete
	}
	r, n := utf8.DecodeRune(src)
	if r == utf8.RuneError && n == 1 {
		return 1, invalid
	}
	return n, valid
}

// Clip shortens s to at most max characters (runes), the ellipsis that then ends it included. It cuts between
// graphemes: never inside a joined emoji, a flag or a letter with its accents. A max below 1 gives "".
func Clip(s string, max int) string {
	if max < 1 {
		return ""
	}
	if len(s) <= max || utf8.RuneCountInString(s) <= max {
		return s
	}
	end, runes := 0, 0
	for rest, state := s, -1; rest != ""; {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		runes += utf8.RuneCountInString(cluster)
		if runes > max-1 {
			break
		}
		end += len(cluster)
	}
	return s[:end] + "…"
}

// Head returns the longest beginning of s of at most max bytes that ends between graphemes.
func Head(s string, max int) string {
	if len(s) <= max {
		return s
	}
	if max <= 0 {
		return ""
	}
	return s[:boundary(s, max, before)]
}

// Tail returns the longest end of s of at most max bytes that begins between graphemes.
func Tail(s string, max int) string {
	if len(s) <= max {
		return s
	}
	if max <= 0 {
		return ""
	}
	return s[boundary(s, len(s)-max, after):]
}

type side int

const (
	before side = iota
	after
)

// lookBack is how far boundary goes back for a place that is certainly between graphemes. The longest emoji in use
// takes 35 bytes; a text that piles more combining marks than this on one letter is cut between its runes.
const lookBack = 1024

// boundary returns the grapheme boundary of s that is nearest to at, on the given side of it or at itself.
func boundary(s string, at int, where side) int {
	from := max(at-lookBack, 0)
	if i := strings.LastIndexByte(s[from:at], '\n'); i >= 0 {
		from += i + 1
	}
	for from > 0 && from < at && !utf8.RuneStart(s[from]) {
		from++
	}
	for pos, state := from, -1; pos < len(s); {
		cluster, _, _, next := uniseg.FirstGraphemeClusterInString(s[pos:min(len(s), pos+2*lookBack)], state)
		end := pos + len(cluster)
		switch {
		case pos == at || end == at:
			return at
		case end > at && len(cluster) > lookBack:
			return runeBoundary(s, at, where)
		case end > at && where == before:
			return pos
		case end > at:
			return end
		}
		pos, state = end, next
	}
	return at
}

func runeBoundary(s string, at int, where side) int {
	step := 1
	if where == before {
		step = -1
	}
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at += step
	}
	return at
}
