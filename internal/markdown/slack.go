package markdown

import (
	"strings"
	"unicode/utf16"

	"github.com/geminixiang/mikan/internal/text"
)

// Slack's limits (docs.slack.dev, block-kit: markdown block, table block).
const (
	slackBlocksAtMost   = 50     // in a message
	slackMarkdownAtMost = 12_000 // characters, of all markdown blocks of a message together
	slackTablesAtMost   = 1      // in a message: "only_one_table_allowed"
	slackRowsAtMost     = 100    // of a table, its header included
	slackColumnsAtMost  = 20     // of a table
	slackCellsAtMost    = 10_000 // characters, of all cells of a message together
	// Slack refuses messages whose blocks hold more than about 13,200 characters altogether ("msg_blocks_too_long",
	// slackapi/bolt-js#2509), which it does not document.
	slackTextAtMost = 12_000
	// slackFallbackAtMost is long enough for a notification, and for those who read a message without its blocks.
	slackFallbackAtMost = 3_000
)

// SlackOptions adapts a rendering to one workspace.
type SlackOptions struct {
	Names Names // to "<@U…>" or "<!subteam^S…>"
}

// SlackMessage is a message in Slack's own form: the arguments blocks and text of chat.postMessage.
type SlackMessage struct {
	Blocks []SlackBlock `json:"blocks"`
	Text   string       `json:"text"` // what notifications and clients without blocks show; escaped for mrkdwn
}

// SlackBlockType is a block's "type".
type SlackBlockType string

// The types of block that an answer is made of.
const (
	SlackMarkdown SlackBlockType = "markdown"
	SlackTable    SlackBlockType = "table"
	SlackRichText SlackBlockType = "rich_text"
)

// SlackBlock is a block of one type; the other types' fields are empty.
type SlackBlock struct {
	Type     SlackBlockType   `json:"type"`
	Text     string           `json:"text,omitempty"`            // markdown
	Elements []SlackElement   `json:"elements,omitempty"`        // rich_text
	Rows     [][]SlackElement `json:"rows,omitempty"`            // table: cells, which are rich_text objects
	Columns  []SlackColumn    `json:"column_settings,omitempty"` // table
}

// SlackElement is an element of rich text: a section, list, quote or preformatted text, or what they are made of.
type SlackElement struct {
	Type     string         `json:"type"`
	Text     string         `json:"text,omitempty"`
	URL      string         `json:"url,omitempty"`
	User     string         `json:"user_id,omitempty"`
	Group    string         `json:"usergroup_id,omitempty"`
	Style    any            `json:"style,omitempty"` // *SlackStyle; of a list: "bullet" or "ordered"
	Indent   int            `json:"indent,omitempty"`
	Offset   int            `json:"offset,omitempty"` // how many items an ordered list has before its first
	Border   int            `json:"border,omitempty"`
	Language string         `json:"language,omitempty"`
	Elements []SlackElement `json:"elements,omitempty"`
}

// SlackStyle is how a run of text looks.
type SlackStyle struct {
	Bold   bool `json:"bold,omitempty"`
	Italic bool `json:"italic,omitempty"`
	Strike bool `json:"strike,omitempty"`
	Code   bool `json:"code,omitempty"`
}

// SlackColumn is a table column's alignment: "left", "center" or "right".
type SlackColumn struct {
	Align   string `json:"align,omitempty"`
	Wrapped bool   `json:"is_wrapped,omitempty"`
}

// slackMarkdown is how Slack reads a markdown block. Measured by others on a workspace (PostHog/posthog#95054): it
// reads "<@U1>", "<!here>" and "<url|label>" there as everywhere; "&lt;" and "&gt;" are shown as the characters and not
// read again; in the address of a link nothing is decoded.
var slackMarkdown = dialect{
	flavour: strict, angles: entityBoth, cellBreak: " ",
	table: func(t *block) string { return slackNested.block(monospaced(t, slackTableWidth), false) },
}

// slackNested is slackMarkdown for what has become of a table, which is no table.
var slackNested = dialect{flavour: strict, angles: entityBoth}

// slackTableWidth is how many columns of a fixed font a message shows without a break.
const slackTableWidth = 80

// Slack renders Markdown: prose as markdown blocks, tables as table blocks. Code that holds one of the characters that
// Slack reads in text ("&", "<", ">") goes, with the block that it is in, into rich text, where nothing is read. The
// message keeps Slack's limits if FitsSlack says so.
func Slack(source string, o SlackOptions) SlackMessage {
	m, _ := slack(source, o)
	return m
}

// slackSize is what counts towards Slack's limits.
type slackSize struct{ blocks, tables, rows, markdown, cells, text int }

func slack(source string, o SlackOptions) (SlackMessage, slackSize) {
	blocks := slackTree(source, o)
	var m SlackMessage
	var size slackSize
	m.Text = slackFallback(blocks)
	for i := 0; i < len(blocks); {
		kind := slackType(blocks[i])
		j := i + 1
		for j < len(blocks) && kind != SlackTable && slackType(blocks[j]) == kind {
			j++
		}
		switch group := blocks[i:j]; kind {
		case SlackTable:
			b, cells := slackTable(group[0])
			m.Blocks = append(m.Blocks, b)
			size.tables++
			size.blocks++
			size.rows = max(size.rows, len(b.Rows))
			size.cells += cells
			size.text += cells + 4*len(b.Rows)*len(b.Columns) // as SlackText has it, with bars
		case SlackRichText:
			elements, n := slackRich(group)
			m.Blocks = append(m.Blocks, SlackBlock{Type: SlackRichText, Elements: elements})
			size.blocks++
			size.text += n
		default:
			b := SlackBlock{Type: SlackMarkdown, Text: slackMarkdown.write(group)}
			m.Blocks = append(m.Blocks, b)
			size.blocks += slackTranslated(group)
			size.markdown += units(b.Text)
			size.text += units(b.Text)
		}
		i = j
	}
	return m, size
}

func slackTree(source string, o SlackOptions) []*block {
	blocks := mapRuns(parse(source, lenient), func(runs []run) []run {
		return addressed(unlinked(runs, slackFollows), o.Names, slackNotifies)
	})
	for i, b := range blocks {
		if b.kind == table && len(b.aligns) > slackColumnsAtMost {
			blocks[i] = listed(b)
		}
	}
	return blocks
}

// slackType chooses the type of block that shows a block as it is.
func slackType(b *block) SlackBlockType {
	switch {
	case b.kind == table:
		return SlackTable
	case delicate(b):
		return SlackRichText
	}
	return SlackMarkdown
}

// delicate tells whether there is code in a block that a markdown block might not show as it is.
func delicate(b *block) bool {
	const read = "&<>"
	if b.kind == code && strings.ContainsAny(b.code, read) {
		return true
	}
	for _, r := range b.runs {
		if r.style&inlineCode != 0 && strings.ContainsAny(r.text, read) {
			return true
		}
	}
	for _, row := range b.rows { // becomes code
		for _, c := range row {
			if strings.ContainsAny(visible(c), read) {
				return true
			}
		}
	}
	for _, c := range b.children {
		if delicate(c) {
			return true
		}
	}
	return false
}

// slackTranslated counts the blocks that Slack makes of a markdown block: one for each heading and rule, and one for
// what stands between them.
func slackTranslated(group []*block) int {
	n, prose := 0, false
	for _, b := range group {
		if b.kind == heading || b.kind == rule {
			n++
			prose = false
			continue
		}
		if !prose {
			n++
		}
		prose = true
	}
	return n
}

// slackNotifies tells of the words that address a whole channel. Nothing but "<…>" is a mention where Slack is asked
// not to look for more; this holds also where it is asked to.
func slackNotifies(_ rune, name string, _ *link) bool { return everybody(name) }

func slackFollows(dest string) bool { return absolute(dest) || scheme(dest) == "mailto" }

var mrkdwn = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func slackFallback(blocks []*block) string {
	all := addressed([]run{{text: text.Clip(plainText(blocks), slackFallbackAtMost)}}, nil, slackNotifies) // code, too
	return mrkdwn.Replace(visible(all))
}

// units counts the UTF-16 units of s, which is at least as many as there are characters.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// FitsSlack tells of a part whether Slack takes its rendering as one message. A part has one table at most.
func FitsSlack(o SlackOptions) func(part string) bool {
	return func(part string) bool {
		_, n := slack(part, o)
		return n.blocks <= slackBlocksAtMost && n.tables <= slackTablesAtMost && n.rows <= slackRowsAtMost &&
			n.cells <= slackCellsAtMost && n.markdown <= slackMarkdownAtMost && n.text <= slackTextAtMost
	}
}

// SlackText renders Markdown as the one text that chat.startStream, appendStream and stopStream take as
// markdown_text. It is for drafts: code that would be read as a mention or a link has a character without width in it,
// and of several tables each is code. Slack is what ends them.
func SlackText(source string, o SlackOptions) string {
	d := slackMarkdown
	d.code = slackUnread
	blocks := slackTree(source, o)
	tables := 0
	for _, b := range blocks {
		if b.kind == table {
			tables++
		}
	}
	if tables == 1 {
		d.table = nil
	} else {
		nested := slackNested
		nested.code = slackUnread
		d.table = func(t *block) string { return nested.block(monospaced(t, slackTableWidth), false) }
	}
	return d.write(blocks)
}

// slackUnread keeps Slack from reading "<@U1>", "<!here>", "<#C1>" and "<https://…>" in code.
func slackUnread(code string) string {
	if !strings.Contains(code, "<") {
		return code
	}
	var b strings.Builder
	for i := range len(code) {
		b.WriteByte(code[i])
		if code[i] != '<' || i+1 == len(code) {
			continue
		}
		if rest := code[i+1:]; strings.IndexByte("@!#", rest[0]) >= 0 || slackFollows(rest) {
			b.WriteString(wordJoiner)
		}
	}
	return b.String()
}
