package markdown

import "sort"

// Split cuts Markdown into parts that each are Markdown of their own and for each of which fits holds. It cuts between
// blocks where it can, else between list items, table rows and lines, else between sentences, words, and, in the end,
// graphemes, of which it cuts none. A code block that is cut is closed and opened again with its language, a table goes
// on with its header row, a list with its number and depth. What the parts show, one after the other, is what the whole
// shows, repeated headers and numbers aside.
//
// What fits as a whole is returned as it is. Fits must hold for the parts of what it holds for; how often it is called
// grows with the number of parts. A text that shows nothing has no parts, unless it fits as it is. A part that does not
// fit is one single grapheme without any markup.
func Split(source string, fits func(part string) bool) []string {
	if fits(source) {
		return []string{source}
	}
	blocks := parse(source, lenient)
	var m measurer
	m.blocks(blocks, betweenBlocks)
	m.cuts = append(m.cuts, cut{m.at, betweenBlocks})
	s := splitter{blocks: blocks, cuts: m.cuts, fits: fits, size: 1024}
	for s.from < m.at {
		s.next()
	}
	return s.parts
}

// thresholds tell for each rank how much of what would fit a part must hold at least, so that a cut of that rank is
// worth the room that is left empty.
var thresholds = [betweenGraphemes]float64{0.25, 0.4, 0.4, 0.3, 0.5, 0.7}

// nearEnough is the fraction of a part that is not worth another try.
const nearEnough = 32

type splitter struct {
	blocks []*block
	cuts   []cut
	fits   func(string) bool
	from   int // the place where the next part begins
	first  int // the first cut behind it
	size   int // places in the last part
	parts  []string
	naked  bool // the part loses what stands around its text
}

// upTo is the part from the current place to the given cut.
func (s *splitter) upTo(i int) string {
	blocks := slice(s.blocks, s.from, s.cuts[i].at)
	if s.naked {
		blocks = bare(blocks)
	}
	return own.write(blocks)
}

// within is the last cut at most n places ahead, and at least the first one.
func (s *splitter) within(n int) int {
	i := sort.Search(len(s.cuts), func(i int) bool { return s.cuts[i].at > s.from+n }) - 1
	return max(i, s.first)
}

// next cuts the next part off.
func (s *splitter) next() {
	s.naked = false
	last := s.furthest(len(s.cuts))
	if s.naked = last < 0; s.naked {
		// Not one letter fits with what stands around it, such as the address of a link.
		end := s.first
		for end+1 < len(s.cuts) && s.cuts[end].rank > betweenInner {
			end++
		}
		if last = s.furthest(end + 1); last < 0 {
			last = s.first
		}
	}
	i := s.best(last)
	part := s.upTo(i)
	for i != last && i != s.first && !s.fits(part) { // a beginning of what fits does not, for once
		i = s.within((s.cuts[i].at - s.from) / 2)
		part = s.upTo(i)
	}
	if part != "" {
		s.parts = append(s.parts, part)
		s.size = s.cuts[i].at - s.from
	}
	s.from, s.first = s.cuts[i].at, i+1
}

// furthest finds, of the cuts before a limit, one that fits and behind which there is little room left; -1: not even
// the first cut fits.
func (s *splitter) furthest(limit int) int {
	good, bad := -1, limit
	for try := min(s.within(s.size), limit-1); good < 0 || bad == limit; {
		if s.fits(s.upTo(try)) {
			good = try
			if good+1 == bad {
				return good
			}
			try = min(max(s.within(2*(s.cuts[good].at-s.from)), good+1), bad-1)
			continue
		}
		bad = try
		if bad == s.first {
			return -1
		}
		if good < 0 {
			try = s.within((s.cuts[bad].at - s.from) / 2)
		}
	}
	for bad-good > 1 {
		reach := s.cuts[good].at - s.from
		if (s.cuts[bad].at-s.cuts[good].at)*nearEnough < reach {
			break
		}
		// Halve the distance, not the number of cuts: they are dense in prose and rare in tables.
		try := s.within((reach + s.cuts[bad].at - s.from) / 2)
		if try <= good || try >= bad {
			try = (good + bad) / 2
		}
		if s.fits(s.upTo(try)) {
			good = try
		} else {
			bad = try
		}
	}
	return good
}

// best chooses the cut, of those up to one that fits.
func (s *splitter) best(last int) int {
	if last == len(s.cuts)-1 {
		return last
	}
	var latest [ranks]int
	for i := s.first; i <= last; i++ {
		latest[s.cuts[i].rank] = i + 1
	}
	room := float64(s.cuts[last].at - s.from)
	for r, i := range latest[:betweenGraphemes] {
		if i > 0 && float64(s.cuts[i-1].at-s.from) >= thresholds[r]*room {
			return i - 1
		}
	}
	for _, i := range latest {
		if i > 0 {
			return i - 1
		}
	}
	return last
}
