package markdown

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// A text is measured in places: every byte that a reader sees is one, every line break, and the end of every leaf, so
// that each cut of the tree is one number.

// rank is how good a place is for a cut, the best first.
type rank uint8

const (
	betweenBlocks rank = iota
	betweenItems       // of a list, or blocks of a quote
	betweenInner       // deeper, or rows of a table
	betweenLines
	betweenSentences
	betweenWords
	betweenGraphemes
	ranks
)

type cut struct {
	at   int
	rank rank
}

// clusterAtMost is how many bytes a grapheme may have and never be cut. The longest emoji in use has 35; what piles
// more on one letter is cut between its characters, because it would not fit anywhere.
const clusterAtMost = 1024

// measurer gives every block of a tree its place and collects where it can be cut.
type measurer struct {
	at   int
	cuts []cut
}

// cut notes that a cut is possible at the current place. The better rank of two counts.
func (m *measurer) cut(at int, r rank) {
	if n := len(m.cuts); n > 0 && m.cuts[n-1].at == at {
		m.cuts[n-1].rank = min(m.cuts[n-1].rank, r)
		return
	}
	m.cuts = append(m.cuts, cut{at, r})
}

func (m *measurer) blocks(blocks []*block, r rank) {
	for i, b := range blocks {
		b.from = m.at
		m.block(b, r)
		if m.at == b.from {
			m.at++
		}
		b.to = m.at
		if i+1 < len(blocks) {
			m.cut(m.at, between(b, blocks[i+1], r))
		}
	}
}

// between ranks the place between two blocks: what introduces the next block stays with it.
func between(b, next *block, r rank) rank {
	if b.kind == heading {
		return betweenWords
	}
	if b.kind == paragraph && next.kind != paragraph && len(b.runs) > 0 &&
		strings.HasSuffix(b.runs[len(b.runs)-1].text, ":") {
		return max(r, betweenInner)
	}
	return r
}

func (m *measurer) block(b *block, r rank) {
	switch b.kind {
	case paragraph, heading:
		b.parts = m.leaf(b.runs, betweenLines)
		m.at++
	case code:
		m.code(b.code)
		m.at++
	case table:
		b.parts = make([]int, len(b.rows))
		for i, row := range b.rows {
			b.parts[i] = m.at
			for _, c := range row {
				m.leaf(c, betweenWords)
				m.at++
				m.cut(m.at, betweenWords)
			}
			m.at++
			switch {
			case i == 0: // a header without a row
				m.cut(m.at, betweenGraphemes)
			case i+1 < len(b.rows):
				m.cut(m.at, betweenInner)
			}
		}
	case list, quote:
		m.blocks(b.children, min(r+1, betweenInner))
	case item:
		m.blocks(b.children, betweenInner)
	}
}

// leaf measures runs and returns where each begins.
func (m *measurer) leaf(runs []run, lines rank) []int {
	starts := make([]int, len(runs))
	at := m.at
	for i, r := range runs {
		starts[i] = at
		at += max(len(r.text), 1)
	}
	m.text(visible(runs), func(before, after rune) rank {
		switch {
		case before == '\n':
			return lines
		case ends(before):
			return betweenSentences
		case before == ' ' || before == '\t' || eastAsian(before) || eastAsian(after):
			return betweenWords
		}
		return betweenGraphemes
	})
	m.at = at
	return starts
}

// ends tells of the characters that end a sentence without a space behind them.
func ends(r rune) bool { return r == '。' || r == '！' || r == '？' || r == '…' }

func (m *measurer) code(s string) {
	blank := false
	m.text(s, func(before, after rune) rank {
		switch {
		case before != '\n':
			blank = false
			return betweenGraphemes
		case blank || after == '\n':
			blank = after == '\n'
			return betweenInner
		}
		return betweenLines
	})
	m.at += len(s)
}

// text notes the cuts within s, which begins at the current place, ranked by the characters beside them.
func (m *measurer) text(s string, rank func(before, after rune) rank) {
	sentence := false // the last character but one ended a sentence
	state := -1
	for rest, pos := s, 0; rest != ""; {
		var cluster string
		if len(rest) > 1 && rest[0] < utf8.RuneSelf && rest[1] < utf8.RuneSelf {
			cluster, rest, state = rest[:1], rest[1:], -1
		} else {
			cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		}
		if len(cluster) > clusterAtMost {
			for i, r := range cluster {
				if i > 0 {
					m.cut(m.at+pos+i, betweenGraphemes)
				}
				_ = r
			}
		}
		pos += len(cluster)
		before, _ := utf8.DecodeLastRuneInString(cluster)
		after, _ := utf8.DecodeRuneInString(rest)
		if rest != "" {
			r := rank(before, after)
			if r == betweenWords && before == ' ' && sentence {
				r = betweenSentences
			}
			m.cut(m.at+pos, r)
		}
		sentence = before == '.' || before == '!' || before == '?'
	}
}
