package markdown

import (
	"strconv"
	"strings"
)

// dialect is how a reader of Markdown reads it.
type dialect struct {
	flavour   flavour
	angles    angles
	autoLinks bool   // "<https://…>" is a link
	decodes   bool   // "&amp;" in the address of a link is "&"
	cellBreak string // a line break within a cell
	// text escapes text; nil: as CommonMark needs it.
	text func(string) string
	// code changes what stands in code; nil: nothing does.
	code func(string) string
	// table writes a table otherwise than GFM does; nil: as GFM does.
	table func(*block) string
}

// own is the dialect of this package: whatever is parsed can be written in it, and is then parsed as the same.
var own = dialect{flavour: lenient, angles: escapedAngles, autoLinks: true, decodes: true, cellBreak: "<br>"}

// write writes blocks as Markdown.
func (d *dialect) write(blocks []*block) string { return d.blocks(blocks, apart) }

type spacing uint8

const (
	apart   spacing = iota // blocks stand apart by a blank line
	closeBy                // as in a tight list, where they can
)

func (d *dialect) blocks(blocks []*block, sp spacing) string {
	var b strings.Builder
	var last *block
	alternate := false
	for _, block := range blocks {
		// Of two lists in a row the second would go on with the first, were its marker the same.
		alternate = last != nil && last.kind == list && block.kind == list && last.ordered == block.ordered && !alternate
		s := d.block(block, alternate)
		if last != nil {
			b.WriteByte('\n')
			if sp == apart || !follows(last, block) {
				b.WriteByte('\n')
			}
		}
		b.WriteString(s)
		last = block
	}
	return b.String()
}

// follows tells whether a block is one of its own without a blank line before it.
func follows(last, next *block) bool {
	switch next.kind {
	case list:
		return last.kind != list && (!next.ordered || next.start == 1) && len(next.children) > 0 && !empty(next.children[0])
	case code, heading:
		return true
	case quote:
		return last.kind != quote
	default:
		return false
	}
}

func empty(item *block) bool { return len(item.children) == 0 && item.task == noTask }

func (d *dialect) block(b *block, alternate bool) string {
	switch b.kind {
	case heading:
		return d.heading(b)
	case quote:
		return prefixed(d.blocks(b.children, apart), "> ", "> ")
	case list:
		return d.list(b, alternate)
	case code:
		return d.fence(b)
	case table:
		if d.table != nil {
			return d.table(b)
		}
		return d.grid(b)
	case rule:
		return "---"
	default:
		return d.inline(b.runs, inParagraph)
	}
}

// prefixed puts one prefix before the first line and another before the others. No line ends in a blank for it.
func prefixed(s, first, rest string) string {
	var b strings.Builder
	b.Grow(len(s) + len(first) + len(rest)*(strings.Count(s, "\n")+1))
	prefix := first
	for {
		line, more, found := strings.Cut(s, "\n")
		if line == "" {
			b.WriteString(strings.TrimRight(prefix, " "))
		} else {
			b.WriteString(prefix + line)
		}
		if !found {
			return b.String()
		}
		b.WriteByte('\n')
		prefix, s = rest, more
	}
}

func (d *dialect) heading(b *block) string {
	marks := strings.Repeat("#", b.level)
	s := d.inline(b.runs, inHeading)
	if s == "" {
		return marks
	}
	if strings.HasSuffix(s, "#") { // would be taken for the heading's end
		s = s[:len(s)-1] + `\#`
	}
	return marks + " " + s
}

func (d *dialect) list(b *block, alternate bool) string {
	sp := apart
	if b.tight && !crowded(b) {
		sp = closeBy
	}
	var out strings.Builder
	for i, it := range b.children {
		if i > 0 {
			out.WriteByte('\n')
			if sp == apart {
				out.WriteByte('\n')
			}
		}
		marker := "- "
		if alternate {
			marker = "* "
		}
		if b.ordered {
			marker = strconv.Itoa(min(b.start+i, 999_999_999)) + ". "
			if alternate {
				marker = marker[:len(marker)-2] + ") "
			}
		}
		indent := strings.Repeat(" ", len(marker))
		body := d.blocks(it.children, sp)
		if len(it.children) == 0 || it.children[0].kind == paragraph {
			body = [...]string{"", "[ ] ", "[x] "}[it.task] + body
		}
		out.WriteString(prefixed(body, marker, indent))
	}
	return out.String()
}

// crowded tells whether an item of a list has blocks that need a blank line between them.
func crowded(b *block) bool {
	for _, it := range b.children {
		for i := 1; i < len(it.children); i++ {
			if !follows(it.children[i-1], it.children[i]) {
				return true
			}
		}
	}
	return false
}

func (d *dialect) fence(b *block) string {
	text := b.code
	if d.code != nil {
		text = d.code(text)
	}
	marks := strings.Repeat("`", max(3, 1+longestRun(text, '`')))
	return marks + b.lang + "\n" + text + "\n" + marks
}

// grid writes a table as GFM has it.
func (d *dialect) grid(b *block) string {
	var out strings.Builder
	for i, row := range b.rows {
		out.WriteByte('|')
		for _, c := range row {
			out.WriteString(" " + d.inline(c, inCell) + " |")
		}
		out.WriteByte('\n')
		if i > 0 {
			continue
		}
		out.WriteByte('|')
		for _, a := range b.aligns {
			out.WriteString([...]string{" --- |", " :-- |", " :-: |", " --: |"}[a])
		}
		out.WriteByte('\n')
	}
	return strings.TrimSuffix(out.String(), "\n")
}
