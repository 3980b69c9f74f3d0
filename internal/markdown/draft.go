package markdown

import (
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	gmtext "github.com/yuin/goldmark/text"
)

// Draft closes what is open at the end of a text that is still being written: emphasis, inline code, a link whose
// address has not come yet. Marks with nothing behind them wait for it. So a draft looks as its text will look, and its
// markup does not flicker. Open code blocks and half tables need no closing. Use it for drafts only: in a text that is
// complete, what is open is text.
func Draft(partial string) string {
	s := strings.TrimRight(partial, " \t\r\n")
	leaf, ok := lastLeaf(s)
	if !ok {
		return partial
	}
	return s[:len(s)-len(leaf)] + closed(leaf)
}

// lastLeaf is the last line or lines of a text if they are of a paragraph, a heading or a cell.
func lastLeaf(s string) (leaf string, ok bool) {
	source := []byte(s)
	var n ast.Node = parsers[lenient].Parse(gmtext.NewReader(source), parser.WithContext(parser.NewContext()))
	for n.LastChild() != nil && n.LastChild().Type() != ast.TypeInline {
		n = n.LastChild()
	}
	for n.Kind() == extast.KindTableCell && n.Lines().Len() == 0 && n.PreviousSibling() != nil { // not written yet
		n = n.PreviousSibling()
	}
	if n.Type() != ast.TypeBlock || n.IsRaw() || n.Lines().Len() == 0 {
		return "", false
	}
	first, last := n.Lines().At(0), n.Lines().At(n.Lines().Len()-1)
	if strings.Trim(s[last.Stop:], " \n#|") != "" {
		return "", false
	}
	return s[first.Start:], true
}

// closed adds to running text the marks that close it.
func closed(s string) string {
	type mark struct {
		text string
		at   int
	}
	var open []mark
	label := -1 // where an address without its end begins
scan:
	for i := 0; i < len(s); {
		c := s[i]
		n := 1
		for i+n < len(s) && s[i+n] == c {
			n++
		}
		switch {
		case c == '\\':
			n = 2
		case c == '`':
			end := closingRun(s[i+n:], n)
			if end < 0 {
				if i+n == len(s) {
					s = strings.TrimRight(s[:i], " ")
				} else {
					s += s[i : i+n]
				}
				break scan
			}
			n += end + n
		case c == ']' && n == 1 && i+1 < len(s) && s[i+1] == '(':
			end := strings.IndexAny(s[i:], ")\n")
			if end < 0 {
				label = i
				break scan
			}
			n = end + 1
		case c == '*' || c == '_' || c == '~' && n == 2:
			before, _ := utf8.DecodeLastRuneInString(" " + s[:i])
			after, _ := utf8.DecodeRuneInString(s[i+n:] + " ")
			opens, closes := flanking(c, before, after, lenient)
			left := n
			for closes && len(open) > 0 && left > 0 {
				top := open[len(open)-1]
				if top.text[0] != c {
					break
				}
				if len(top.text) > left {
					if i+n == len(s) { // half of a closing mark
						s = s[:len(s)-left]
						break scan
					}
					break
				}
				left -= len(top.text)
				open = open[:len(open)-1]
			}
			if opens && left == n || i+n == len(s) && before == ' ' {
				for ; left > 2; left -= 2 {
					open = append(open, mark{s[i : i+2], i})
				}
				open = append(open, mark{s[i : i+left], i})
			}
		}
		i += n
	}
	if label >= 0 {
		if at := strings.LastIndexByte(s[:label], '['); at >= 0 { // the label without its brackets, for now
			s = s[:at] + s[at+1:label]
		}
	}
	for i := len(open) - 1; i >= 0; i-- {
		if rest := strings.TrimRight(s, " *_~"); len(rest) <= open[i].at { // nothing behind it yet
			s = strings.TrimRight(s[:min(open[i].at, len(s))], " ")
			continue
		}
		s += open[i].text
	}
	return s
}

// closingRun finds a run of exactly n backticks.
func closingRun(s string, n int) int {
	for i := 0; i < len(s); {
		m := 0
		for i+m < len(s) && s[i+m] == '`' {
			m++
		}
		if m == n {
			return i
		}
		i += max(m, 1)
	}
	return -1
}
