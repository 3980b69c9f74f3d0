package markdown

import "strings"

const (
	slackIndentAtMost = 8
	// slackElementSize is what an element adds to a message besides its text, in characters.
	slackElementSize = 20
)

// slackRichText collects the elements of a rich_text block.
type slackRichText struct {
	elements []SlackElement
	size     int
	border   int // 1 within a quote
}

// slackRich makes elements of blocks, and tells their size in characters.
func slackRich(blocks []*block) ([]SlackElement, int) {
	var t slackRichText
	t.blocks(blocks, 0)
	return t.elements, t.size
}

func (t *slackRichText) blocks(blocks []*block, indent int) {
	for i, b := range blocks {
		switch b.kind {
		case paragraph, heading:
			runs := b.runs
			if b.kind == heading {
				runs = boldly(runs)
			}
			elements := t.inline(runs)
			if i+1 < len(blocks) && (blocks[i+1].kind == paragraph || blocks[i+1].kind == heading) {
				elements = append(elements, SlackElement{Type: "text", Text: "\n"})
			}
			t.add(SlackElement{Type: t.section(), Elements: elements})
		case quote:
			outer := t.border
			t.border = 1
			t.blocks(b.children, indent)
			t.border = outer
		case list:
			t.list(b, indent)
		case code:
			t.preformatted(b.code, b.lang)
		case table:
			text, _ := aligned(b)
			t.preformatted(text, "")
		case rule:
			t.add(SlackElement{Type: t.section(), Elements: []SlackElement{{Type: "text", Text: ruleLine}}})
		}
	}
}

func (t *slackRichText) section() string {
	if t.border > 0 {
		return "rich_text_quote"
	}
	return "rich_text_section"
}

func (t *slackRichText) add(e SlackElement) {
	if len(e.Elements) == 0 {
		return
	}
	t.size += slackElementSize
	t.elements = append(t.elements, e)
}

func (t *slackRichText) preformatted(code, language string) {
	t.size += units(code)
	t.add(SlackElement{
		Type: "rich_text_preformatted", Border: t.border, Language: language,
		Elements: []SlackElement{{Type: "text", Text: code}},
	})
}

// list makes a list's elements. Slack's lists hold lines only: one within an item is a list of its own, further in,
// and the outer list goes on behind it.
func (t *slackRichText) list(b *block, indent int) {
	style := "bullet"
	if b.ordered {
		style = "ordered"
	}
	l := SlackElement{Type: "rich_text_list", Style: style, Indent: min(indent, slackIndentAtMost), Border: t.border}
	begun := func(at int) SlackElement {
		next := l
		if b.ordered {
			next.Offset = max(b.start+at-1, 0)
		}
		return next
	}
	current := begun(0)
	for i, it := range b.children {
		line, rest := itemLine(it)
		if len(line) > 0 || len(rest) == 0 || rest[0].kind != list {
			elements := t.inline(line)
			if len(elements) == 0 {
				elements = []SlackElement{{Type: "text", Text: " "}}
			}
			current.Elements = append(current.Elements, SlackElement{Type: "rich_text_section", Elements: elements})
			t.size += slackElementSize
		}
		if len(rest) > 0 {
			t.add(current)
			t.blocks(rest, indent+1)
			current = begun(i + 1)
		}
	}
	t.add(current)
}

// itemLine is the text with which an item begins, its paragraphs one under the other, and the blocks behind it.
func itemLine(it *block) (line []run, rest []*block) {
	switch it.task {
	case openTask:
		line = append(line, run{text: openBox})
	case doneTask:
		line = append(line, run{text: doneBox})
	}
	begun := false
	for i, b := range it.children {
		if b.kind != paragraph && b.kind != heading {
			return line, it.children[i:]
		}
		if begun {
			line = append(line, run{kind: breakRun})
		}
		begun = true
		if b.kind == heading {
			line = append(line, boldly(b.runs)...)
		} else {
			line = append(line, b.runs...)
		}
	}
	return line, nil
}

func boldly(runs []run) []run {
	out := make([]run, len(runs))
	for i, r := range runs {
		r.style |= bold
		out[i] = r
	}
	return out
}

func (t *slackRichText) inline(runs []run) []SlackElement {
	elements, n := slackInline(runs)
	t.size += n
	return elements
}

// slackInline makes elements of runs, and tells their size in characters.
func slackInline(runs []run) ([]SlackElement, int) {
	var out []SlackElement
	size := 0
	for _, r := range runs {
		var e SlackElement
		switch {
		case r.kind == breakRun:
			e = SlackElement{Type: "text", Text: "\n"}
		case r.kind == mentionRun:
			e = slackMention(r)
		case r.link != nil:
			e = SlackElement{Type: "link", URL: r.link.dest, Text: r.text}
		default:
			e = SlackElement{Type: "text", Text: r.text}
		}
		if r.style != 0 {
			e.Style = &SlackStyle{
				Bold: r.style&bold != 0, Italic: r.style&italic != 0,
				Strike: r.style&strike != 0, Code: r.style&inlineCode != 0,
			}
		}
		size += units(e.Text) + slackElementSize
		out = append(out, e)
	}
	return out, size
}

// slackMention makes an element of "<@U…>" or "<!subteam^S…>"; anything else is text.
func slackMention(r run) SlackElement {
	inner := strings.TrimSuffix(strings.TrimPrefix(r.native, "<"), ">")
	inner, _, _ = strings.Cut(inner, "|")
	if id, ok := strings.CutPrefix(inner, "@"); ok && id != "" {
		return SlackElement{Type: "user", User: id}
	}
	if id, ok := strings.CutPrefix(inner, "!subteam^"); ok && id != "" {
		return SlackElement{Type: "usergroup", Group: id}
	}
	return SlackElement{Type: "text", Text: r.text}
}

// slackTable makes a table block, and tells the characters in its cells.
func slackTable(t *block) (SlackBlock, int) {
	b := SlackBlock{Type: SlackTable}
	size := 0
	for _, a := range t.aligns {
		b.Columns = append(b.Columns, SlackColumn{
			Align: [...]string{"left", "left", "center", "right"}[a], Wrapped: true,
		})
	}
	for i, row := range t.rows {
		cells := make([]SlackElement, len(row))
		for j, c := range row {
			runs := []run(c)
			if i == 0 {
				runs = boldly(runs)
			}
			if len(runs) == 0 { // Slack refuses a cell without text
				runs = []run{{text: " "}}
			}
			elements, _ := slackInline(runs)
			size += units(visible(runs))
			cells[j] = SlackElement{Type: string(SlackRichText), Elements: []SlackElement{
				{Type: "rich_text_section", Elements: elements},
			}}
		}
		b.Rows = append(b.Rows, cells)
	}
	return b, size
}
