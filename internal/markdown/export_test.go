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

// Header is the header of the table that a text begins with, without space.
func Header(source string) string {
	blocks := parse(source, lenient)
	for len(blocks) > 0 && blocks[0].kind != table {
		blocks = blocks[0].children
	}
	if len(blocks) == 0 {
		return ""
	}
	var b strings.Builder
	for _, c := range blocks[0].rows[0] {
		b.WriteString(visible(c))
	}
	return Condensed(b.String())
}
