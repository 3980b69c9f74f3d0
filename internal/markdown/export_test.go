package markdown

import (
	"strings"
	"unicode"
)

// Read is what a text's tree shows, without space: the text of its leaves, in order.
func Read(source string) string {
	var b strings.Builder
	var walk func([]*block)
	walk = func(blocks []*block) {
		for _, x := range blocks {
			b.WriteString(visible(x.runs))
			b.WriteString(x.code)
			for _, row := range x.rows {
				for _, c := range row {
					b.WriteString(visible(c))
				}
			}
			walk(x.children)
		}
	}
	walk(parse(source, lenient))
	return Condensed(b.String())
}

// Condensed is s without space.
func Condensed(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

// Written is a text after a round through the tree.
func Written(source string) string { return own.write(parse(source, lenient)) }

// Headers are the headers of the first and the last table of a text, without space. That of the first counts only if
// the text begins with it.
func Headers(source string) (first, last string) {
	var tables []*block
	var walk func([]*block)
	walk = func(blocks []*block) {
		for _, b := range blocks {
			if b.kind == table {
				tables = append(tables, b)
			}
			walk(b.children)
		}
	}
	blocks := parse(source, lenient)
	walk(blocks)
	for len(blocks) > 0 && blocks[0].kind != table {
		blocks = blocks[0].children
	}
	if len(blocks) > 0 {
		first = headerText(blocks[0])
	}
	if n := len(tables); n > 0 {
		last = headerText(tables[n-1])
	}
	return first, last
}

func headerText(t *block) string {
	var b strings.Builder
	for _, c := range t.rows[0] {
		b.WriteString(visible(c))
	}
	return Condensed(b.String())
}
