package memory

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Heading is the line below which capture keeps its lines. The rest of the file is the agent's and the people's.
const Heading = "## Captured knowledge"

const (
	headingText  = "Captured knowledge"
	headingLevel = 2
)

var byteOrderMark = []byte("\uFEFF")

// section is where capture's lines are in a file. All positions are byte offsets, at the beginning of a line or the end
// of the file.
type section struct {
	start int // the heading's line
	body  int // the line after it
	end   int // the next heading of the same or a higher level
	items []item
	// listEnd is behind the last list item and everything that belongs to it; 0 without items.
	listEnd int
}

// item is a list item of the section.
type item struct {
	line   span
	single bool // it is nothing but its line: no continuation, no list inside
}

// span is a line without its line ending.
type span struct{ from, to int }

func (s span) of(content []byte) string { return string(content[s.from:s.to]) }

// findSection finds the section; false when there is none.
func findSection(content []byte) (section, bool) {
	mark := 0
	if bytes.HasPrefix(content, byteOrderMark) {
		mark = len(byteOrderMark)
	}
	found := section{start: -1, end: len(content)}
	doc := parse(content[mark:])
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		heading, ok := n.(*ast.Heading)
		if !ok || heading.Level > headingLevel {
			continue
		}
		at := lineStart(content, mark+heading.Pos())
		if found.start >= 0 {
			found.end = at
			break
		}
		if heading.Level == headingLevel && headingSays(heading, content[mark:]) == headingText {
			found.start, found.body = at, nextLine(content, at)
		}
	}
	if found.start >= 0 {
		found.list(doc, content, mark)
		return found, true
	}
	return appendedSection(content)
}

// appendedSection finds a section at the end of the file that no reader of Markdown sees as one, since something before
// it was left open: a code fence, a comment. Without this, every capture would add another.
func appendedSection(content []byte) (section, bool) {
	start := bytes.LastIndex(content, []byte(Heading))
	if start < 0 || lineStart(content, start) != start || lineAt(content, start).of(content) != Heading {
		return section{}, false
	}
	found := section{start: start, body: nextLine(content, start), end: len(content)}
	for at := found.body; at < len(content); at = nextLine(content, at) {
		line := lineAt(content, at).of(content)
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "- ") {
			return section{}, false
		}
	}
	found.list(parse(content[found.body:]), content, found.body)
	return found, true
}

// blocks finds headings and lists. What is inside of a line does not matter here, and parsing it would cost the most.
var blocks = parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...))

func parse(content []byte) ast.Node { return blocks.Parse(text.NewReader(content)) }

func headingSays(h *ast.Heading, source []byte) string {
	var b strings.Builder
	for i := range h.Lines().Len() {
		segment := h.Lines().At(i)
		b.Write(segment.Value(source))
	}
	return strings.TrimSpace(b.String())
}

// list fills in the items of the lists that stand directly in the section. offset is where the parsed text begins.
func (s *section) list(doc ast.Node, content []byte, offset int) {
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if _, ok := n.(*ast.List); !ok {
			continue
		}
		at := lineStart(content, offset+n.Pos())
		if at < s.body || at >= s.end {
			continue
		}
		end := s.end
		if next := n.NextSibling(); next != nil {
			end = min(end, lineStart(content, offset+next.Pos()))
		}
		for i := n.FirstChild(); i != nil; i = i.NextSibling() {
			from, to := lineStart(content, offset+i.Pos()), end
			if next := i.NextSibling(); next != nil {
				to = lineStart(content, offset+next.Pos())
			}
			line := lineAt(content, from)
			s.items = append(s.items, item{line, len(bytes.TrimSpace(content[line.to:max(line.to, to)])) == 0})
		}
		s.listEnd = blankFrom(content, at, end)
	}
}

// blankFrom moves a position back over the blank lines before it.
func blankFrom(content []byte, from, at int) int {
	for at > from {
		before := lineStart(content, at-1)
		if before < from || len(bytes.TrimSpace(content[before:at])) > 0 {
			break
		}
		at = before
	}
	return at
}

func lineStart(content []byte, at int) int {
	start := bytes.LastIndexByte(content[:min(max(at, 0), len(content))], '\n') + 1
	if start == 0 && bytes.HasPrefix(content, byteOrderMark) {
		return min(len(byteOrderMark), len(content))
	}
	return start
}

func lineAt(content []byte, at int) span {
	end := len(content)
	if i := bytes.IndexByte(content[at:], '\n'); i >= 0 {
		end = at + i
		if end > at && content[end-1] == '\r' {
			end--
		}
	}
	return span{at, end}
}

func nextLine(content []byte, at int) int {
	if i := bytes.IndexByte(content[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(content)
}

// ending is the line ending that the file uses.
func ending(content []byte) string {
	feeds := bytes.Count(content, []byte{'\n'})
	if feeds > 0 && 2*bytes.Count(content, []byte("\r\n")) > feeds {
		return "\r\n"
	}
	return "\n"
}

// said is what a line states: without its list marker and provenance.
func said(line string) string {
	return oneLine(line)
}
