package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible makes characters seen that would hide, reorder or blank what stands around them, or steer a terminal: control
// characters, those that turn the direction of writing, invisible ones and tags. Line breaks and tabs stay; the joiners
// that scripts and emoji need stay, too. Invalid bytes become U+FFFD.
func Visible(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if strings.IndexFunc(s, hides) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for _, r := range s {
		switch {
		case !hides(r):
			b.WriteRune(r)
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

// VisibleLine is Visible for headings and tables: every run of space is one blank.
func VisibleLine(s string) string { return Visible(strings.Join(strings.Fields(s), " ")) }

func hides(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == 0x200c || r == 0x200d: // zero width non-joiner and joiner
		return false
	case r < ' ' || r == 0x7f || (r >= 0x80 && r <= 0x9f):
		return true
	case r == 0x034f || r == 0x115f || r == 0x1160 || r == 0x2028 || r == 0x2029 || r == 0x3164 || r == 0xffa0:
		return true // a joiner, fillers and separators that show nothing
	case r >= 0xe0100 && r <= 0xe01ef: // selectors of variants: they can carry a text of their own
		return true
	}
	// Formatting: bidirectional controls, zero width characters, tags; but not the few of that class that show.
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}
