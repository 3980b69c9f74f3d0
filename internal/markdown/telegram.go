package markdown

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Telegram's limits (core.telegram.org/bots/api, sendMessage; core.telegram.org/api/entities).
const (
	telegramAtMost      = 4_096 // UTF-16 units of a message's text, its entities not counted
	telegramEntities    = 100   // of a message; those beyond are ignored
	telegramTableWidth  = 44    // columns of a fixed font that a telephone shows without a break
	telegramQuoteAtMost = 600   // units of a quote that is shown whole; a longer one is folded
	telegramURLAtMost   = 2_000 // bytes
)

// TelegramOptions adapts a rendering to one chat.
type TelegramOptions struct {
	Names Names // to "@username" or to "tg://user?id=123", which becomes a text link
}

// TelegramMessage is a text with its formatting beside it: the arguments text and entities of sendMessage, to be sent
// without parse_mode. Nothing in a text can be a parse error then.
type TelegramMessage struct {
	Text     string   `json:"text"`
	Entities []Entity `json:"entities,omitempty"`
}

// EntityType is a Telegram MessageEntity's "type".
type EntityType string

// The types of entity that an answer uses.
const (
	Bold                 EntityType = "bold"
	Italic               EntityType = "italic"
	Strikethrough        EntityType = "strikethrough"
	InlineCode           EntityType = "code"
	Pre                  EntityType = "pre"
	TextLink             EntityType = "text_link"
	Blockquote           EntityType = "blockquote"
	ExpandableBlockquote EntityType = "expandable_blockquote"
)

// Entity formats a run of a text. Offset and Length count UTF-16 units, as Telegram does.
type Entity struct {
	Type     EntityType `json:"type"`
	Offset   int        `json:"offset"`
	Length   int        `json:"length"`
	URL      string     `json:"url,omitempty"`      // text_link
	Language string     `json:"language,omitempty"` // pre
}

// Telegram renders Markdown as a text and its entities. Entities nest as Telegram wants it: of two with characters in
// common one holds the other, code holds none, and a link or a quote none of its kind. The text is trimmed as Telegram
// itself trims; a text of nothing visible comes out empty, which Telegram refuses: do not send it.
func Telegram(source string, o TelegramOptions) TelegramMessage {
	blocks := mapRuns(parse(source, lenient), func(runs []run) []run {
		return addressed(uncoded(unlinked(runs, telegramFollows)), o.Names, telegramNotifies)
	})
	var w telegramWriter
	w.blocks(blocks, 0)
	return w.message()
}

// FitsTelegram tells of a part whether its rendering is within Telegram's 4,096 UTF-16 units and 100 entities.
func FitsTelegram(o TelegramOptions) func(part string) bool {
	return func(part string) bool {
		m := Telegram(part, o)
		return units(m.Text) <= telegramAtMost && len(m.Entities) <= telegramEntities
	}
}

// uncoded makes text of code in the labels of links, which Telegram does not let be both.
func uncoded(runs []run) []run {
	out := make([]run, len(runs))
	for i, r := range runs {
		if r.link != nil {
			r.style &^= inlineCode
		}
		out[i] = r
	}
	return out
}

// telegramNotifies tells whether Telegram takes a name for a username. It finds them in any text but code. An
// address with a joiner in it becomes a link to the address without.
func telegramNotifies(before rune, name string, _ *link) bool {
	n := 0
	for n < len(name) && (isAlnum(name[n]) || name[n] == '_') {
		n++
	}
	return n >= 3 && !(unicode.IsLetter(before) || unicode.IsDigit(before) || before == '_')
}

// telegramFollows tells whether Telegram takes an address for a link; one that it does not take may be refused with the
// message. "tg://" would be a mention.
func telegramFollows(dest string) bool {
	if !absolute(dest) || len(dest) > telegramURLAtMost {
		return false
	}
	u, err := url.Parse(telegramURL(dest))
	return err == nil && u.User == nil && strings.Contains(u.Hostname(), ".") &&
		!strings.ContainsFunc(u.Hostname(), func(r rune) bool {
			return r != '.' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		})
}

// telegramURL is an address without what an address cannot hold.
func telegramURL(dest string) string {
	return strings.NewReplacer(" ", "%20", "<", "%3C", ">", "%3E", `"`, "%22", "\t", "%09", "`", "%60").Replace(dest)
}

// telegramWriter writes a text and its entities.
type telegramWriter struct {
	text     strings.Builder
	at       int // units written
	entities []Entity
	quoted   bool // within a quote
}

func (w *telegramWriter) write(s string) {
	w.text.WriteString(s)
	w.at += units(s)
}

// entity formats what was written since a place.
func (w *telegramWriter) entity(e Entity, from int) {
	e.Offset, e.Length = from, w.at-from
	w.entities = append(w.entities, e)
}

func (w *telegramWriter) blocks(blocks []*block, indent int) {
	for i, b := range blocks {
		if i > 0 {
			w.write("\n")
			if blocks[i-1].kind != heading && indent == 0 {
				w.write("\n")
			}
		}
		w.block(b, indent)
	}
}

func (w *telegramWriter) block(b *block, indent int) {
	switch b.kind {
	case heading:
		w.inline(boldly(b.runs), indent)
	case quote:
		w.quote(b)
	case list:
		w.list(b, indent)
	case code:
		from := w.at
		w.write(b.code)
		w.entity(Entity{Type: Pre, Language: b.lang}, from)
	case table:
		w.block(monospaced(b, telegramTableWidth), indent)
	case rule:
		w.write(ruleLine)
	default:
		w.inline(b.runs, indent)
	}
}

// quote writes a quote; one within it is text of the outer one, with the sign of a quote before it.
func (w *telegramWriter) quote(b *block) {
	if w.quoted {
		w.write("> ")
		w.blocks(b.children, 0)
		return
	}
	from := w.at
	w.quoted = true
	w.blocks(b.children, 0)
	w.quoted = false
	e := Entity{Type: Blockquote}
	if w.at-from > telegramQuoteAtMost {
		e.Type = ExpandableBlockquote
	}
	w.entity(e, from)
}

func (w *telegramWriter) list(b *block, indent int) {
	for i, it := range b.children {
		if i > 0 {
			w.write("\n")
		}
		marker := bullet
		if indent > 0 {
			marker = "◦ "
		}
		if b.ordered {
			marker = strconv.Itoa(b.start+i) + ". "
		}
		in := indent + 2
		if len(it.children) > 0 && it.children[0].kind == list && it.task == noTask { // nothing but a list
			w.blocks(it.children, in)
			continue
		}
		w.write(strings.Repeat(" ", indent) + marker + [...]string{"", openBox, doneBox}[it.task])
		for j, c := range it.children {
			inner := c.kind == paragraph || c.kind == heading
			if j > 0 || !inner {
				w.write("\n")
			}
			if j > 0 && inner {
				w.write(strings.Repeat(" ", in))
			}
			w.block(c, in)
		}
	}
}

// inline writes runs; the lines after the first are indented.
func (w *telegramWriter) inline(runs []run, indent int) {
	flat := make([]run, len(runs))
	for i, r := range runs {
		switch {
		case r.kind == breakRun:
			r.text = "\n" + strings.Repeat(" ", indent)
		case r.style&inlineCode != 0:
			r.style = inlineCode
		}
		if r.link != nil && r.link.auto && r.text == r.link.dest {
			r.link = nil // Telegram sees what it is
		}
		flat[i] = r
	}
	w.styled(flat, 0, nil)
}

func (w *telegramWriter) styled(runs []run, open style, l *link) {
	for i := 0; i < len(runs); {
		s, group, n := longest(runs[i:], open, l)
		from := w.at
		switch {
		case n == 0:
			w.leaf(runs[i])
			n = 1
		case group != nil:
			w.styled(runs[i:i+n], open, group)
			w.entity(Entity{Type: TextLink, URL: telegramURL(group.dest)}, from)
		default:
			w.styled(runs[i:i+n], open|s, l)
			w.entity(Entity{Type: map[style]EntityType{bold: Bold, italic: Italic, strike: Strikethrough}[s]}, from)
		}
		i += n
	}
}

func (w *telegramWriter) leaf(r run) {
	from := w.at
	switch {
	case r.kind == mentionRun && strings.HasPrefix(r.native, "tg://"):
		w.write(r.text)
		w.entity(Entity{Type: TextLink, URL: r.native}, from)
	case r.kind == mentionRun:
		w.write(r.native)
	case r.style&inlineCode != 0:
		w.write(r.text)
		w.entity(Entity{Type: InlineCode}, from)
	default:
		w.write(r.text)
	}
}

// message trims the text and its entities: Telegram takes space from both ends of a text, and so moves what stands
// behind it, and an entity of mere space is none. Code keeps the space that it begins with.
func (w *telegramWriter) message() TelegramMessage {
	all := utf16.Encode([]rune(w.text.String()))
	slices.SortStableFunc(w.entities, outerFirst)
	code := map[int]bool{} // where code begins, and perhaps a quote that holds it
	for _, e := range w.entities {
		if e.Type == Pre {
			code[e.Offset] = true
		}
	}
	start, end := 0, len(all)
	for end > 0 && blank(all[end-1]) {
		end--
	}
	for start < end && !code[start] && blank(all[start]) {
		start++
	}
	var m TelegramMessage
	m.Text = string(utf16.Decode(all[start:end]))
	for _, e := range w.entities {
		from, to := max(e.Offset, start), min(e.Offset+e.Length, end)
		for from < to && blank(all[to-1]) {
			to--
		}
		for from < to && !code[from] && blank(all[from]) {
			from++
		}
		if from < to {
			e.Offset, e.Length = from-start, to-from
			m.Entities = append(m.Entities, e)
		}
	}
	slices.SortStableFunc(m.Entities, outerFirst)
	return m
}

// outerFirst orders entities by where they begin, those that hold others before these.
func outerFirst(a, b Entity) int {
	quote := func(e Entity) int {
		if e.Type == Blockquote || e.Type == ExpandableBlockquote {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(b.Length, a.Length), cmp.Compare(quote(a), quote(b)))
}

// blank tells of the space that Telegram trims.
func blank(unit uint16) bool { return unit <= ' ' || unit == 0xa0 || unit == 0x2028 || unit == 0x3000 }
