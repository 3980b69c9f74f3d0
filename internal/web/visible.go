package web

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// visible makes characters seen that would hide, reorder or blank what stands around them: control characters, those
// that turn the direction of writing, invisible ones and tags. Line breaks and tabs stay; the joiners that scripts and
// emoji need stay, too.
func visible(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if strings.IndexFunc(s, hides) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for _, r := range s {
		switch {
		case !hides(r):
			b.WriteRune(r) // an invalid byte becomes U+FFFD
		case r < ' ':
			b.WriteRune(0x2400 + r) // the pictures of control characters
		case r == 0x7f:
			b.WriteRune(0x2421)
		default:
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		}
	}
	return b.String()
}

func hides(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == 0x200c || r == 0x200d: // zero width non-joiner and joiner
		return false
	case r < ' ' || r == 0x7f || (r >= 0x80 && r <= 0x9f):
		return true
	case r == 0x00ad || r == 0x034f || r == 0x115f || r == 0x1160 || r == 0x2028 || r == 0x2029 || r == 0x3164 || r == 0xffa0:
		return true // soft hyphen, joiner of graphemes, fillers and separators that show nothing
	case r >= 0xe0100 && r <= 0xe01ef: // selectors of variants: they can carry a text of their own
		return true
	}
	// Formatting: bidirectional controls, zero width characters, tags; but not the few of that class that show.
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// oneLine is visible for headings and lists: line breaks are spaces there.
func oneLine(s string) string { return visible(strings.Join(strings.Fields(s), " ")) }

// number writes n in full, with separators.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// dollars writes millionths of a dollar exactly.
func dollars(micros int64) string { return fmt.Sprintf("$%d.%06d", micros/1e6, micros%1e6) }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

func machine(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
