package markdown

import (
	"sort"
	"strings"
)

// headerAtMost is the length in bytes up to which a table's header is repeated on each part of the table.
const headerAtMost = 300

// slice is what lies between two places of a measured tree, as a tree of its own.
func slice(blocks []*block, from, to int) []*block {
	var out []*block
	first := sort.Search(len(blocks), func(i int) bool { return blocks[i].to > from })
	for _, b := range blocks[first:] {
		if b.from >= to {
			break
		}
		if b = b.slice(from, to); b != nil {
			out = append(out, b)
		}
	}
	return out
}

// slice is the part of a block between two places; nil: nothing of it can be seen.
func (b *block) slice(from, to int) *block {
	if from <= b.from && to >= b.to {
		return b
	}
	c := *b
	c.parts = nil
	switch b.kind {
	case paragraph, heading:
		if c.runs = sliceRuns(b.runs, b.parts, from, to); len(c.runs) == 0 {
			return nil
		}
	case code:
		lo, hi := max(from-b.from, 0), min(to-b.from, len(b.code))
		if lo >= hi {
			return nil
		}
		c.code = strings.TrimSuffix(b.code[lo:hi], "\n")
		if hi == len(b.code) {
			c.code = b.code[lo:hi]
		}
	case table:
		return b.sliceRows(from, to)
	case list:
		first := sort.Search(len(b.children), func(i int) bool { return b.children[i].to > from })
		c.start += first
		c.children = slice(b.children, from, to)
	case item:
		c.children = slice(b.children, from, to)
		if from > b.from {
			c.task = noTask
		}
	case quote:
		c.children = slice(b.children, from, to)
	}
	if c.kind >= quote && c.kind <= item && len(c.children) == 0 {
		return nil
	}
	return &c
}

func sliceRuns(runs []run, starts []int, from, to int) []run {
	first := max(sort.Search(len(runs), func(i int) bool { return starts[i] > from })-1, 0)
	var out []run
	for i, r := range runs[first:] {
		at := starts[first+i]
		if at >= to {
			break
		}
		if r.kind == textRun {
			lo, hi := max(from-at, 0), min(to-at, len(r.text))
			if lo >= hi {
				continue
			}
			r.text = r.text[lo:hi]
		}
		out = append(out, r)
	}
	return tidy(out)
}

// sliceRows is a part of a table under the table's header.
func (b *block) sliceRows(from, to int) *block {
	c := *b
	c.rows, c.parts = nil, nil
	first := max(sort.Search(len(b.rows), func(i int) bool { return b.parts[i] > from })-1, 0)
	if first > 0 {
		c.rows, c.again = append(c.rows, b.header()), true
	}
	for i := first; i < len(b.rows) && b.parts[i] < to; i++ {
		at := b.parts[i]
		row := make([]cell, len(b.rows[i]))
		for j, runs := range b.rows[i] {
			starts := make([]int, len(runs))
			for k, r := range runs {
				starts[k] = at
				at += max(len(r.text), 1)
			}
			at++
			row[j] = sliceRuns(runs, starts, from, to)
		}
		c.rows = append(c.rows, row)
	}
	if c.again && !shows(c.rows[1:]) {
		return nil
	}
	return &c
}

func shows(rows [][]cell) bool {
	for _, row := range rows {
		for _, c := range row {
			if len(c) > 0 {
				return true
			}
		}
	}
	return false
}

// header is the header to repeat: the table's own, or an empty one where that would take the place of what it heads.
func (b *block) header() []cell {
	size := 0
	for _, c := range b.rows[0] {
		for _, r := range c {
			size += len(r.text)
		}
	}
	if size <= headerAtMost {
		return b.rows[0]
	}
	return make([]cell, len(b.rows[0]))
}

// bare is the text of a tree without anything around it.
func bare(blocks []*block) []*block {
	var runs []run
	var walk func([]*block)
	walk = func(blocks []*block) {
		for _, b := range blocks {
			for _, r := range b.runs {
				runs = append(runs, run{kind: r.kind, text: r.text})
			}
			if b.kind == code {
				for i, line := range strings.Split(b.code, "\n") {
					if i > 0 {
						runs = append(runs, run{kind: breakRun})
					}
					runs = append(runs, run{text: line})
				}
			}
			for i, row := range b.rows {
				if i == 0 && b.again {
					continue
				}
				for _, c := range row {
					for _, r := range c {
						runs = append(runs, run{kind: r.kind, text: r.text})
					}
				}
			}
			walk(b.children)
		}
	}
	walk(blocks)
	if runs = tidy(runs); len(runs) == 0 {
		return nil
	}
	return []*block{{kind: paragraph, runs: runs}}
}
