package markdown

// The tree of an answer. Blocks nest; the text of a leaf is a flat list of runs, each with all that is true of it, so
// that markup of any depth is as cheap to cut, to compare and to render as plain text.

type blockKind uint8

const (
	paragraph blockKind = iota
	heading
	quote
	list
	item
	code
	table
	rule
)

type block struct {
	kind     blockKind
	level    int    // heading: 1–6
	lang     string // code: the first word of the fence's info
	code     string // code: without the line break that ends it
	runs     []run  // paragraph, heading
	children []*block
	ordered  bool // list
	start    int  // list: the first item's number
	tight    bool // list
	task     task // item
	aligns   []align
	rows     [][]cell // table: the header is the first
	again    bool     // table: the header was shown before

	from, to int   // where the block lies in the whole; set by measure
	parts    []int // where each run or row of it begins; set by measure
}

type cell []run

type task uint8

const (
	noTask task = iota
	openTask
	doneTask
)

type align uint8

const (
	alignNone align = iota
	alignLeft
	alignCenter
	alignRight
)

type style uint8

const (
	bold style = 1 << iota
	italic
	strike
	inlineCode
)

type runKind uint8

const (
	textRun runKind = iota
	breakRun
	mentionRun // text is what was written, native what the platform calls it
)

type run struct {
	kind   runKind
	text   string
	native string
	style  style
	link   *link // runs of one link share it
}

// link is what a run leads to. An image is a link to it: nothing is loaded unless a reader wants it.
type link struct {
	dest string
	auto bool // what is shown is the address itself
}

// visible is what a reader sees of a leaf, with "\n" for its line breaks.
func visible(runs []run) string {
	if len(runs) == 1 && runs[0].kind == textRun {
		return runs[0].text
	}
	var n int
	for _, r := range runs {
		n += len(r.text) + 1
	}
	b := make([]byte, 0, n)
	for _, r := range runs {
		if r.kind == breakRun {
			b = append(b, '\n')
		} else {
			b = append(b, r.text...)
		}
	}
	return string(b)
}

// tidy joins what belongs together and removes what no platform shows: space around line breaks, breaks that follow
// one another, empty runs.
func tidy(runs []run) []run {
	out := make([]run, 0, len(runs))
	atStart := true
	for _, r := range runs {
		if r.kind == breakRun {
			if !atStart {
				out = trimEnd(out)
				atStart = len(out) == 0 || out[len(out)-1].kind == breakRun
			}
			if !atStart {
				out = append(out, run{kind: breakRun})
				atStart = true
			}
			continue
		}
		if atStart && r.style&inlineCode == 0 {
			r.text = trimLeft(r.text)
		}
		if r.text == "" {
			continue
		}
		atStart = false
		if n := len(out); n > 0 && joins(out[n-1], r) {
			out[n-1].text += r.text
			continue
		}
		out = append(out, r)
	}
	out = trimEnd(out)
	for len(out) > 0 && out[len(out)-1].kind == breakRun {
		out = trimEnd(out[:len(out)-1])
	}
	return out
}

func joins(a, b run) bool {
	return a.kind == textRun && b.kind == textRun && a.style == b.style && a.link == b.link
}

func trimEnd(runs []run) []run {
	for n := len(runs); n > 0; n = len(runs) {
		last := &runs[n-1]
		if last.kind != textRun || last.style&inlineCode != 0 {
			return runs
		}
		last.text = trimRight(last.text)
		if last.text != "" {
			return runs
		}
		runs = runs[:n-1]
	}
	return runs
}

func trimLeft(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	return s
}

func trimRight(s string) string {
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
