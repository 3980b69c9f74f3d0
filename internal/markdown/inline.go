package markdown

import (
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/util"
)

// place is where a leaf's text stands.
type place uint8

const (
	inParagraph place = iota
	inHeading
	inCell
	inLabel // of a link
)

// inline writes a leaf's runs as Markdown. What it writes is read again where it holds emphasis: if a reader would see
// anything else than the text itself, the emphasis goes, never the text.
func (d *dialect) inline(runs []run, p place) string {
	w := inlineWriter{dialect: d, place: p}
	s := w.lines(runs)
	if w.marked && d.flavour != loose && !d.reads(s, runs) {
		bare := make([]run, len(runs))
		for i, r := range runs {
			r.style &= inlineCode
			bare[i] = r
		}
		s = w.lines(bare)
	}
	return s
}

// reads tells whether a reader of s sees what runs show.
func (d *dialect) reads(s string, runs []run) bool {
	blocks := parse(d.lineStart(s), d.flavour) // as a paragraph, wherever it stands
	if len(blocks) != 1 || blocks[0].kind != paragraph {
		return false
	}
	return visible(blocks[0].runs) == visible(native(runs))
}

// native replaces what is shown of mentions by what is written for them.
func native(runs []run) []run {
	out := make([]run, len(runs))
	for i, r := range runs {
		if r.kind == mentionRun {
			r.text = r.native
		}
		out[i] = r
	}
	return out
}

type inlineWriter struct {
	*dialect
	place  place
	marked bool // there is emphasis
}

// lines writes runs and takes from the beginning of each line what would make it a block of its own.
func (w *inlineWriter) lines(runs []run) string {
	s := w.write(runs, 0, nil, ' ', ' ')
	if w.place != inParagraph {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	for line := range strings.Lines(s) {
		b.WriteString(w.lineStart(strings.TrimLeft(line, " \t")))
	}
	return b.String()
}

// piece is a part of a line: text, or text between marks, which stand between lead and trail.
type piece struct {
	mark, lead, body, trail string
}

// write writes runs whose styles in open and whose link are written already, between two characters.
func (w *inlineWriter) write(runs []run, open style, l *link, before, after rune) string {
	var pieces []piece
	for i := 0; i < len(runs); {
		s, group, n := longest(runs[i:], open, l)
		switch {
		case n == 0:
			pieces = append(pieces, piece{body: w.leaf(runs[i], runs[i+1:])})
			n = 1
		case group != nil:
			pieces = append(pieces, piece{body: w.link(runs[i:i+n], open, group)})
		default:
			body := w.write(runs[i:i+n], open|s, l, '*', '*')
			inner := strings.TrimLeft(body, " ")
			lead := body[:len(body)-len(inner)]
			body = strings.TrimRight(inner, " ")
			pieces = append(pieces, piece{mark: marksOf(s), lead: lead, body: body, trail: inner[len(body):]})
		}
		i += n
	}
	var b strings.Builder
	for i := range pieces {
		next := after
		if i+1 < len(pieces) {
			next = pieces[i+1].first()
		}
		w.join(&b, pieces[i], before, next)
	}
	return b.String()
}

// longest finds what to open at the beginning of runs: of the styles and the link that it has and that are not open,
// the one that lasts longest, so that whatever is opened later ends earlier.
func longest(runs []run, open style, l *link) (s style, group *link, n int) {
	first := runs[0]
	if first.kind == breakRun {
		return 0, nil, 0
	}
	if first.link != nil && first.link != l {
		group, n = first.link, extent(runs, func(r run) bool { return r.link == first.link })
	}
	for _, one := range []style{bold, italic, strike} {
		if first.style&one == 0 || open&one != 0 {
			continue
		}
		m := extent(runs, func(r run) bool { return r.style&one != 0 })
		if m > n || m == n && group != nil && group.auto { // no marks within an address
			s, group, n = one, nil, m
		}
	}
	return s, group, n
}

// extent counts the runs from the first on that have something. Line breaks have whatever stands around them.
func extent(runs []run, has func(run) bool) int {
	n := 0
	for i, r := range runs {
		if r.kind == breakRun {
			continue
		}
		if !has(r) {
			break
		}
		n = i + 1
	}
	return n
}

func marksOf(s style) string {
	switch s {
	case bold:
		return "**"
	case italic:
		return "*"
	default:
		return "~~"
	}
}

func (p piece) first() rune {
	for _, s := range []string{p.lead, p.mark, p.body, p.trail} {
		if s != "" {
			r, _ := utf8.DecodeRuneInString(s)
			return r
		}
	}
	return ' '
}

// join adds a piece. Marks that would not be read as such where they stand let go of the punctuation within them, and
// are left out when that is not enough.
func (w *inlineWriter) join(b *strings.Builder, p piece, before, next rune) {
	if b.Len() > 0 {
		before, _ = utf8.DecodeLastRuneInString(b.String())
	}
	if p.mark == "" || p.body == "" {
		b.WriteString(p.lead + p.body + p.trail)
		return
	}
	if p.lead != "" {
		before = ' '
	}
	if p.trail != "" {
		next = ' '
	}
	for {
		first, size := utf8.DecodeRuneInString(p.body)
		last, lastSize := utf8.DecodeLastRuneInString(p.body)
		opens, _ := flanking('*', before, first, w.flavour)
		_, closes := flanking('*', last, next, w.flavour)
		switch {
		case opens && closes:
			mark := p.mark
			if mark == "*" && !word(before) && !word(next) {
				mark = "_"
			}
			w.marked = true
			b.WriteString(p.lead + mark + p.body + mark + p.trail)
			return
		case !opens && size < len(p.body) && movable(first):
			p.lead, p.body, before = p.lead+p.body[:size], p.body[size:], first
		case !closes && lastSize < len(p.body) && movable(last):
			at := len(p.body) - lastSize
			p.body, p.trail, next = p.body[:at], p.body[at:]+p.trail, last
		default:
			b.WriteString(p.lead + p.body + p.trail)
			return
		}
	}
}

func word(r rune) bool { return !util.IsSpaceRune(r) && !util.IsPunctRune(r) }

// movable tells of a character at the edge of marked text whether it is punctuation that is no part of any markup.
func movable(r rune) bool {
	return util.IsPunctRune(r) && (r >= utf8.RuneSelf || strings.ContainsRune(`"'(,.:?-/{}`, r))
}

// leaf writes one run. An address that was not read as a link must not become one that goes on in the next run.
func (w *inlineWriter) leaf(r run, rest []run) string {
	switch {
	case r.kind == breakRun && w.place == inCell:
		return w.cellBreak
	case r.kind == breakRun:
		return "\n"
	case r.kind == mentionRun:
		return r.native
	case r.style&inlineCode != 0:
		return w.span(r.text)
	}
	if w.autoLinks && len(rest) > 0 && rest[0].kind == textRun && !strings.HasPrefix(rest[0].text, " ") {
		return w.escapeAlso(r.text, w.place, lastAddress(r.text))
	}
	return w.escape(r.text, w.place)
}

// link writes the runs of one link.
func (w *inlineWriter) link(runs []run, open style, l *link) string {
	if l.auto && w.autoLinks && len(runs) == 1 && runs[0].kind == textRun && runs[0].style&^open == 0 &&
		(runs[0].text == l.dest && absolute(l.dest) || "mailto:"+runs[0].text == l.dest) &&
		!strings.ContainsAny(l.dest, " <>\\&|`\t\n") && strings.IndexFunc(l.dest, notASCII) < 0 {
		return "<" + runs[0].text + ">"
	}
	inner := inlineWriter{dialect: w.dialect, place: w.place}
	if inner.place != inCell {
		inner.place = inLabel
	}
	label := inner.write(runs, open, l, '[', ']')
	w.marked = w.marked || inner.marked
	if strings.TrimSpace(visible(runs)) == "" { // would be shown as its address
		return label
	}
	return "[" + label + "](" + w.destination(l.dest) + ")"
}

func notASCII(r rune) bool { return r >= utf8.RuneSelf }

// span writes inline code, in marks longer than any within it.
func (w *inlineWriter) span(s string) string {
	s = strings.ReplaceAll(s, "\n", " ")
	if w.code != nil {
		s = w.code(s)
	}
	if strings.Trim(s, " ") == "" {
		return s
	}
	n := 1 + longestRun(s, '`')
	if n > backticksAtMost {
		return w.escape(s, w.place)
	}
	fence := strings.Repeat("`", shortestFence(s, n))
	if w.place == inCell {
		s = strings.ReplaceAll(s, "|", `\|`)
	}
	if s[0] == '`' || s[len(s)-1] == '`' || s[0] == ' ' && s[len(s)-1] == ' ' {
		s = " " + s + " "
	}
	return fence + s + fence
}

// shortestFence is the smallest number of backticks, at most n, that s has no run of.
func shortestFence(s string, n int) int {
	if n == 1 {
		return 1
	}
	has := make([]bool, n+1)
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j] == '`' {
			j++
		}
		if j > i {
			has[j-i] = true
		}
		i = j + 1
	}
	for m := 1; m < n; m++ {
		if !has[m] {
			return m
		}
	}
	return n
}

// longestRun is the length of the longest run of one byte in s.
func longestRun(s string, c byte) int {
	most, n := 0, 0
	for i := range len(s) {
		if s[i] != c {
			n = 0
			continue
		}
		n++
		most = max(most, n)
	}
	return most
}
