package markdown

import (
	"strconv"
	"strings"
)

// What stands for what has no characters of its own.
const (
	openBox  = "☐ "
	doneBox  = "☑ "
	bullet   = "• "
	ruleLine = "──────────"
)

// Plain is a text without markup, for notifications and other places that show no formatting. Items have their bullets
// and numbers, cells are divided by bars.
func Plain(source string) string { return plainText(parse(source, lenient)) }

func plainText(blocks []*block) string {
	var lines []string
	for i, b := range blocks {
		if i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, plainBlock(b))
	}
	return strings.Join(lines, "\n")
}

func plainBlock(b *block) string {
	switch b.kind {
	case list:
		items := make([]string, len(b.children))
		for i, it := range b.children {
			marker := bullet
			if b.ordered {
				marker = strconv.Itoa(b.start+i) + ". "
			}
			marker += [...]string{"", openBox, doneBox}[it.task]
			parts := make([]string, len(it.children))
			for j, c := range it.children {
				parts[j] = plainBlock(c)
			}
			items[i] = prefixed(strings.Join(parts, "\n"), marker, "  ")
		}
		return strings.Join(items, "\n")
	case quote:
		return prefixed(plainText(b.children), "> ", "> ")
	case code:
		return b.code
	case table:
		rows := make([]string, len(b.rows))
		for i, row := range b.rows {
			cells := make([]string, len(row))
			for j, c := range row {
				cells[j] = strings.ReplaceAll(visible(c), "\n", " ")
			}
			rows[i] = strings.Join(cells, " | ")
		}
		return strings.Join(rows, "\n")
	case rule:
		return ruleLine
	default:
		return visible(b.runs)
	}
}
