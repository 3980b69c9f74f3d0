package markdown

import (
	"bytes"
	"html"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	gmtext "github.com/yuin/goldmark/text"

	"github.com/geminixiang/mikan/internal/text"
)

// parse reads a text. It takes any bytes: what is no text becomes U+FFFD.
func parse(source string, f flavour) []*block {
	source = text.Storable(source)
	if strings.IndexByte(source, '\r') >= 0 {
		source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	}
	raw := []byte(source)
	root := parsers[f].Parse(gmtext.NewReader(raw), parser.WithContext(parser.NewContext()))
	c := converter{source: raw, used: map[string]bool{}}
	c.references(root)
	return c.blocks(root)
}

// converter makes the tree of a text.
type converter struct {
	source []byte
	used   map[string]bool // labels of definitions that a link refers to
}

// references notes which definitions are used: the others are what their author wants read, such as a list of sources.
func (c *converter) references(root ast.Node) {
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var ref *ast.ReferenceLink
		switch n := n.(type) {
		case *ast.Link:
			ref = n.Reference
		case *ast.Image:
			ref = n.Reference
		}
		if ref != nil {
			c.used[label(ref.Value)] = true
		}
		return ast.WalkContinue, nil
	})
}

func label(b []byte) string { return strings.ToLower(strings.Join(strings.Fields(string(b)), " ")) }

func (c *converter) blocks(parent ast.Node) []*block {
	var out []*block
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if b := c.block(n); b != nil {
			out = append(out, b)
		}
	}
	return out
}

func (c *converter) block(n ast.Node) *block {
	switch n := n.(type) {
	case *ast.Heading:
		runs := c.runs(n)
		for i := range runs {
			if runs[i].kind == breakRun {
				runs[i] = run{text: " "}
			}
		}
		return &block{kind: heading, level: n.Level, runs: tidy(runs)}
	case *ast.Blockquote:
		return &block{kind: quote, children: c.blocks(n)}
	case *ast.List:
		b := &block{kind: list, ordered: n.IsOrdered(), start: n.Start, tight: n.IsTight}
		for i := n.FirstChild(); i != nil; i = i.NextSibling() {
			b.children = append(b.children, c.item(i))
		}
		return b
	case *ast.FencedCodeBlock:
		return codeBlock(c.lines(n), language(unescape(string(n.Language(c.source)))))
	case *ast.CodeBlock:
		return codeBlock(c.lines(n), "")
	case *ast.ThematicBreak:
		return &block{kind: rule}
	case *extast.Table:
		return c.table(n)
	case *ast.LinkReferenceDefinition:
		if c.used[label(n.Label)] {
			return nil
		}
		return &block{kind: paragraph, runs: c.definition(n)}
	default:
		if runs := c.runs(n); len(runs) > 0 {
			return &block{kind: paragraph, runs: runs}
		}
		return nil
	}
}

// codeBlock is a block of code; code of mere space is nothing that anybody would see.
func codeBlock(text, lang string) *block {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return &block{kind: code, lang: lang, code: text}
}

// definition is what was written to define a link that nothing refers to.
func (c *converter) definition(n *ast.LinkReferenceDefinition) []run {
	s, dest := c.lines(n), string(n.Destination)
	before, after, found := strings.Cut(s, dest)
	if !found || !absolute(dest) {
		return tidy(c.text(s, 0, nil))
	}
	runs := c.text(strings.TrimSuffix(before, "<"), 0, nil)
	dest = unescape(dest)
	runs = append(runs, run{text: dest, link: &link{dest: dest, auto: true}})
	return tidy(append(runs, c.text(strings.TrimPrefix(after, ">"), 0, nil)...))
}

func (c *converter) item(n ast.Node) *block {
	b := &block{kind: item, children: c.blocks(n)}
	if first := n.FirstChild(); first != nil {
		if box, ok := first.FirstChild().(*extast.TaskCheckBox); ok {
			b.task = openTask
			if box.IsChecked {
				b.task = doneTask
			}
		}
	}
	return b
}

// lines is what a block's lines hold, without the line break that ends the last.
func (c *converter) lines(n ast.Node) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(c.source))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// language is what may stand behind a fence and be no markup anywhere.
func language(info string) string {
	info, _, _ = strings.Cut(info, " ")
	if len(info) > 40 {
		return ""
	}
	for _, r := range info {
		if r <= ' ' || r >= utf8.RuneSelf || strings.ContainsRune("`~\\&<>*[]()|@!\"'", r) {
			return ""
		}
	}
	return info
}

func (c *converter) table(n *extast.Table) *block {
	b := &block{kind: table}
	for _, a := range n.Alignments {
		b.aligns = append(b.aligns, map[extast.Alignment]align{
			extast.AlignLeft: alignLeft, extast.AlignCenter: alignCenter, extast.AlignRight: alignRight,
		}[a])
	}
	for r := n.FirstChild(); r != nil; r = r.NextSibling() {
		b.rows = append(b.rows, c.row(r, len(b.aligns)))
	}
	if len(b.aligns) > columnsAtMost {
		return asLines(b)
	}
	return b
}

func (c *converter) row(n ast.Node, columns int) []cell {
	row := make([]cell, 0, columns)
	end := -1
	for cn := n.FirstChild(); cn != nil; cn = cn.NextSibling() {
		row = append(row, cell(c.runs(cn)))
		if lines := cn.Lines(); lines != nil && lines.Len() > 0 {
			end = lines.At(0).Stop
		}
	}
	// A row with more cells than the table has columns would lose them.
	if end >= 0 {
		line, _, _ := bytes.Cut(c.source[end:], []byte("\n"))
		rest := strings.TrimSpace(string(line))
		rest = strings.Trim(rest, "|")
		if rest = strings.TrimSpace(rest); rest != "" && len(row) > 0 && len(row) == columns {
			last := row[len(row)-1]
			row[len(row)-1] = tidy(append(last, c.text(" | "+rest, 0, nil)...))
		}
	}
	return row
}

// asLines makes lines of text of a table that is too wide to be one.
func asLines(t *block) *block {
	b := &block{kind: paragraph}
	for _, row := range t.rows {
		for i, cell := range row {
			if i > 0 {
				b.runs = append(b.runs, run{text: " | "})
			}
			b.runs = append(b.runs, cell...)
		}
		b.runs = append(b.runs, run{kind: breakRun})
	}
	b.runs = tidy(b.runs)
	return b
}

func (c *converter) runs(n ast.Node) []run { return tidy(c.inline(nil, n, 0, nil)) }

func (c *converter) inline(out []run, parent ast.Node, s style, l *link) []run {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			out = append(out, c.text(string(n.Segment.Value(c.source)), s, l)...)
			if n.SoftLineBreak() || n.HardLineBreak() {
				out = append(out, run{kind: breakRun})
			}
		case *ast.String:
			out = append(out, c.text(string(n.Value), s, l)...)
		case *ast.CodeSpan:
			out = append(out, run{text: c.span(n), style: s | inlineCode, link: l})
		case *ast.Emphasis:
			more := italic
			if n.Level == 2 {
				more = bold
			}
			out = c.inline(out, n, s|more, l)
		case *extast.Strikethrough:
			out = c.inline(out, n, s|strike, l)
		case *ast.Link:
			out = c.linked(out, n, s, l, string(n.Destination))
		case *ast.Image:
			out = c.linked(out, n, s, l, string(n.Destination))
		case *ast.AutoLink:
			out = c.autoLink(out, n, s, l)
		case *extast.TaskCheckBox: // the item has it
		default:
			out = c.inline(out, n, s, l)
		}
	}
	return out
}

// linked adds a link or an image, which is shown as its address when nothing describes it.
func (c *converter) linked(out []run, n ast.Node, s style, outer *link, dest string) []run {
	dest = strings.TrimSpace(unescape(dest))
	l := outer
	if l == nil && dest != "" && len(dest) <= addressAtMost {
		l = &link{dest: dest}
	}
	before := len(out)
	out = c.inline(out, n, s, l)
	for _, r := range out[before:] {
		if r.kind == textRun && strings.TrimSpace(r.text) != "" {
			if len(dest) > addressAtMost {
				out = append(out, run{text: " (" + dest + ")", style: s, link: outer})
			}
			return out
		}
	}
	if l != nil {
		l.auto = l.dest == dest
	}
	return append(out, run{text: dest, style: s, link: l})
}

func (c *converter) autoLink(out []run, n *ast.AutoLink, s style, outer *link) []run {
	shown, dest := string(n.Label(c.source)), string(n.URL(c.source))
	if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(dest), "mailto:") {
		dest = "mailto:" + dest
	}
	if at := n.Pos(); at < 0 || at >= len(c.source) || c.source[at] != '<' { // a bare address is text, in which "&amp;" is "&"
		shown, dest = unescape(shown), unescape(dest)
	}
	l := outer
	if l == nil && len(dest) <= addressAtMost {
		l = &link{dest: dest, auto: true}
	}
	return append(out, run{text: shown, style: s, link: l})
}

// span is a code span's text. Within a table's cell "\|" is a bar there, too.
func (c *converter) span(n *ast.CodeSpan) string {
	var b strings.Builder
	for t := n.FirstChild(); t != nil; t = t.NextSibling() {
		if t, ok := t.(*ast.Text); ok {
			b.Write(t.Segment.Value(c.source))
		}
	}
	s := strings.ReplaceAll(b.String(), "\n", " ")
	for p := n.Parent(); p != nil; p = p.Parent() {
		if _, ok := p.(*extast.TableCell); ok {
			return strings.ReplaceAll(s, `\|`, "|")
		}
	}
	return s
}

// text makes runs of text in which escapes and references to characters stand, and "<br>", the one tag that is read:
// there is no other way to break a line in a cell.
func (c *converter) text(s string, st style, l *link) []run {
	var out []run
	for {
		at, size := breakTag(s)
		if at < 0 {
			break
		}
		out = append(out, run{text: plain(s[:at]), style: st, link: l}, run{kind: breakRun})
		s = s[at+size:]
	}
	return append(out, run{text: plain(s), style: st, link: l})
}

// breakTag finds the first "<br>", "<br/>" or "<br />" that is not escaped.
func breakTag(s string) (at, size int) {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '<')
		if i < 0 {
			return -1, 0
		}
		i += from
		from = i + 1
		tag := s[i:min(len(s), i+8)]
		if len(tag) < 4 || !strings.EqualFold(tag[1:3], "br") || escaped(s, i) {
			continue
		}
		rest := strings.TrimLeft(tag[3:], " ")
		rest = strings.TrimPrefix(rest, "/")
		if strings.HasPrefix(rest, ">") {
			return i, len(tag) - len(rest) + 1
		}
	}
}

// escaped tells whether an odd number of backslashes stands before a place.
func escaped(s string, at int) bool {
	n := 0
	for at > n && s[at-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}

// plain is unescaped text without the control characters that show nothing and that platforms refuse.
func plain(s string) string {
	s = unescape(s)
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\v' || r == '\f':
			return ' '
		case r < ' ' || r == 0x7f:
			return -1
		}
		return r
	}, s)
}

// unescape resolves backslash escapes and references to characters.
func unescape(s string) string {
	if !strings.ContainsAny(s, `\&`) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && isPunct(s[i+1]):
			i++
			b.WriteByte(s[i])
		case s[i] == '&':
			n := reference(s[i:])
			if n == 0 {
				b.WriteByte('&')
				continue
			}
			b.WriteString(html.UnescapeString(s[i : i+n]))
			i += n - 1
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// reference measures the reference to a character ("&amp;", "&#38;", "&#x26;") that s begins with; 0: there is none.
func reference(s string) int {
	end := strings.IndexByte(s[:min(len(s), 40)], ';')
	if end < 2 {
		return 0
	}
	name := s[1:end]
	if name[0] == '#' {
		digits, hex := name[1:], false
		if digits != "" && (digits[0] == 'x' || digits[0] == 'X') {
			digits, hex = digits[1:], true
		}
		if digits == "" || len(digits) > 7 || hex && len(digits) > 6 {
			return 0
		}
		for i := range len(digits) {
			d := digits[i] | 0x20
			if (digits[i] < '0' || digits[i] > '9') && (!hex || d < 'a' || d > 'f') {
				return 0
			}
		}
		return end + 1
	}
	for i := range len(name) {
		if !isAlnum(name[i]) {
			return 0
		}
	}
	// The standard library also knows names without ";", and then leaves the rest of a longer one as it is.
	if u := html.UnescapeString(s[:end+1]); u == s[:end+1] || strings.HasSuffix(u, ";") && u != ";" {
		return 0
	}
	return end + 1
}

func isPunct(b byte) bool {
	return b >= '!' && b <= '/' || b >= ':' && b <= '@' || b >= '[' && b <= '`' || b >= '{' && b <= '~'
}

func isAlnum(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
