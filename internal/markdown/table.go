package markdown

import (
	"strings"

	"github.com/rivo/uniseg"
)

// aligned writes a table for a font of fixed width: columns padded to their widest cell, wide characters and emoji
// counted as two, a line under the header. It tells the width of the widest line.
func aligned(t *block) (text string, width int) {
	cells := make([][]string, len(t.rows))
	widths := make([]int, len(t.aligns))
	for i, row := range t.rows {
		cells[i] = make([]string, len(row))
		for j, c := range row {
			s := strings.ReplaceAll(visible(c), "\n", " ")
			cells[i][j] = s
			widths[j] = max(widths[j], uniseg.StringWidth(s))
		}
	}
	for _, w := range widths {
		width += w
	}
	width += 3 * (len(widths) - 1)
	var b strings.Builder
	for i, row := range cells {
		if i > 0 {
			b.WriteByte('\n')
		}
		var line strings.Builder
		for j, s := range row {
			if j > 0 {
				line.WriteString(" | ")
			}
			left, right := padding(t.aligns[j], widths[j]-uniseg.StringWidth(s))
			line.WriteString(strings.Repeat(" ", left) + s + strings.Repeat(" ", right))
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		if i == 0 {
			b.WriteByte('\n')
			for j, w := range widths {
				if j > 0 {
					b.WriteString("-+-")
				}
				b.WriteString(strings.Repeat("-", w))
			}
		}
	}
	return b.String(), width
}

func padding(a align, n int) (left, right int) {
	switch a {
	case alignRight:
		return n, 0
	case alignCenter:
		return n / 2, n - n/2
	default:
		return 0, n
	}
}

// listed makes a list of a table: an item for each row, in it a line for each column, under the header's names.
func listed(t *block) *block {
	if len(t.rows) == 1 {
		return asLines(t)
	}
	l := &block{kind: list}
	for _, row := range t.rows[1:] {
		p := &block{kind: paragraph}
		for j, c := range row {
			if j > 0 {
				p.runs = append(p.runs, run{kind: breakRun})
			}
			for _, r := range t.rows[0][j] {
				if r.kind == breakRun {
					r = run{text: " "}
				}
				r.style |= bold
				p.runs = append(p.runs, r)
			}
			if len(t.rows[0][j]) > 0 {
				p.runs = append(p.runs, run{text: ": "})
			}
			for _, r := range c {
				if r.kind == breakRun {
					r = run{text: " "}
				}
				p.runs = append(p.runs, r)
			}
		}
		p.runs = tidy(p.runs)
		it := &block{kind: item}
		if len(p.runs) > 0 {
			it.children = []*block{p}
		}
		l.children = append(l.children, it)
	}
	return l
}

// leads tells whether a table has links or mentions, which would be lost in code.
func leads(t *block) bool {
	for _, row := range t.rows {
		for _, c := range row {
			for _, r := range c {
				if r.kind == mentionRun || r.link != nil && !r.link.auto {
					return true
				}
			}
		}
	}
	return false
}

// monospaced makes code of a table that is at most so wide, and a list of any other.
func monospaced(t *block, width int) *block {
	if text, w := aligned(t); w <= width && !leads(t) {
		return &block{kind: code, code: text}
	}
	return listed(t)
}
