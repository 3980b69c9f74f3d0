package markdown

import (
	"fmt"
	"strings"
)

// angles is how a dialect writes "<" and ">" that are text.
type angles uint8

const (
	escapedAngles angles = iota // with a backslash, where they would be read as markup
	entityAngles                // as "&lt;", wherever they stand, and ">" where it would be read as markup
	entityBoth                  // as "&lt;" and "&gt;"
)

// escape writes text as Markdown that is read as that text. It escapes no more than it must: a backslash too many is
// seen by whoever reads the text where it is not rendered.
func (d *dialect) escape(s string, p place) string {
	return d.escapeAlso(s, p, -1)
}

// escapeAlso is escape, and escapes what stands at one place in any case.
func (d *dialect) escapeAlso(s string, p place, at int) string {
	if d.text != nil {
		return d.text(s)
	}
	if at < 0 && !strings.ContainsAny(s, "\\`*_~[]<>&!|") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	for i := range len(s) {
		c := s[i]
		prev, next := byte(0), byte(0) // unknown at the ends of a run
		if i > 0 {
			prev = s[i-1]
		}
		if i+1 < len(s) {
			next = s[i+1]
		}
		if i == at {
			b.WriteByte('\\')
		}
		switch c {
		case '\\':
			if next == 0 || next == ' ' || isPunct(next) {
				b.WriteByte('\\')
			}
		case '`':
			b.WriteByte('\\')
		case '*':
			if prev != ' ' || next != ' ' {
				b.WriteByte('\\')
			}
		case '_':
			if (prev != ' ' || next != ' ') && (!inWord(prev) || !inWord(next)) {
				b.WriteByte('\\')
			}
		case '~':
			if prev != ' ' || next == '~' || next == 0 {
				b.WriteByte('\\')
			}
		case '[':
			b.WriteByte('\\')
		case ']':
			if p == inLabel || p == inCell {
				b.WriteByte('\\')
			}
		case '!':
			if next == 0 {
				b.WriteByte('\\')
			}
		case '|':
			if p == inCell {
				b.WriteByte('\\')
			}
		case '&':
			if reference(s[i:]) > 0 {
				b.WriteString("&amp;")
				continue
			}
		case '<':
			if d.angles != escapedAngles {
				b.WriteString("&lt;")
				continue
			}
			if next == 0 || next|0x20 >= 'a' && next|0x20 <= 'z' || next == '/' || next == '!' || next == '?' {
				b.WriteByte('\\')
			}
		case '>':
			if d.angles == entityBoth {
				b.WriteString("&gt;")
				continue
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// lastAddress finds the ":" or "." of an address that reaches the end of s and was not read as a link; -1: there is none.
func lastAddress(s string) int {
	word := s[strings.LastIndexAny(s, " \t<>")+1:]
	for _, start := range []string{"http://", "https://", "ftp://", "www."} {
		if at := strings.LastIndex(word, start); at >= 0 {
			return len(s) - len(word) + at + strings.IndexAny(start, ":.")
		}
	}
	return -1
}

// inWord tells whether a byte is of a letter or a digit, so that an underscore between two of them is no mark.
func inWord(b byte) bool { return isAlnum(b) || b >= 0x80 }

// lineStart escapes what would begin a block at the beginning of a line.
func (d *dialect) lineStart(line string) string {
	if line == "" {
		return line
	}
	body := strings.TrimRight(line, "\n")
	switch c := line[0]; {
	case c == '#':
		n := len(body) - len(strings.TrimLeft(body, "#"))
		if n <= 6 && (n == len(body) || body[n] == ' ' || body[n] == '\t') {
			return `\` + line
		}
	case c == '>':
		return `\` + line
	case c == '-' || c == '+':
		if len(body) == 1 || body[1] == '#' && d.flavour == loose || body[1] == ' ' || body[1] == '\t' || strings.Trim(body, "-:| \t") == "" {
			return `\` + line
		}
	case c == ':' || c == '|' || c == '=':
		if strings.Trim(body, "-:| \t") == "" || strings.Trim(body, "= \t") == "" {
			return `\` + line
		}
	case c >= '0' && c <= '9':
		n := 0
		for n < len(body) && body[n] >= '0' && body[n] <= '9' {
			n++
		}
		if n <= 9 && n < len(body) && (body[n] == '.' || body[n] == ')') &&
			(n+1 == len(body) || body[n+1] == ' ' || body[n+1] == '\t') {
			return line[:n] + `\` + line[n:]
		}
	}
	return line
}

// destination writes an address between the parentheses of a link.
func (d *dialect) destination(dest string) string {
	var b strings.Builder
	b.Grow(len(dest) + 8)
	for i := range len(dest) {
		switch c := dest[i]; {
		case c <= ' ' || c == 0x7f || strings.IndexByte("<>()\\\"`|", c) >= 0:
			fmt.Fprintf(&b, "%%%02X", c)
		case c == '@' && everybody(dest[i+1:]):
			b.WriteString("%40")
		case c == '&' && d.decodes && reference(dest[i:]) > 0:
			b.WriteString("&amp;")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// absolute tells whether an address has a scheme of the web.
func absolute(dest string) bool {
	lower := strings.ToLower(dest[:min(len(dest), 8)])
	for _, scheme := range []string{"http://", "https://"} {
		if rest, ok := strings.CutPrefix(lower, scheme); ok {
			return rest != "" || len(dest) > len(scheme)
		}
	}
	return false
}

// scheme is an address's scheme in lower case; empty: it has none and leads to a place relative to where it stands.
func scheme(dest string) string {
	for i := range len(dest) {
		switch c := dest[i]; {
		case c == ':' && i > 0:
			return strings.ToLower(dest[:i])
		case !isAlnum(c) && c != '+' && c != '-' && c != '.':
			return ""
		}
	}
	return ""
}
