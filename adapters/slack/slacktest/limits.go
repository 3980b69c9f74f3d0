package slacktest

// The limits of Slack's reference. Lengths are in characters, sizes in bytes.
const (
	// MaxPostText: longer texts are cut by Slack without a word, so this server refuses them.
	// https://docs.slack.dev/reference/methods/chat.postMessage#truncating
	MaxPostText = 40_000
	// MaxUpdateText is the limit that chat.update's page gives with msg_too_long.
	MaxUpdateText = 4_000
	// MaxMarkdownText limits one markdown_text argument or chunk.
	MaxMarkdownText = 12_000
	// MaxMarkdownBlocks limits the markdown blocks of one message taken together.
	// https://docs.slack.dev/reference/block-kit/blocks/markdown-block
	MaxMarkdownBlocks = 12_000
	// MaxMessageBlocks and MaxViewBlocks limit the blocks of a message and of a view.
	MaxMessageBlocks = 50
	MaxViewBlocks    = 100
	MaxViewBytes     = 250_000
	MaxAttachments   = 100

	MaxBlockID       = 255
	MaxActionID      = 255
	MaxSectionText   = 3_000
	MaxSectionFields = 10
	MaxFieldText     = 2_000
	MaxHeaderText    = 150
	MaxContextItems  = 10
	MaxActionItems   = 25
	MaxContextAction = 5
	MaxButtonText    = 75
	MaxButtonValue   = 2_000
	MaxURL           = 3_000
	MaxAltText       = 2_000
	MaxImageTitle    = 2_000

	// A table. https://docs.slack.dev/reference/block-kit/blocks/table-block
	MaxTables         = 1 // a message
	MaxTableRows      = 100
	MaxTableColumns   = 20
	MaxTableText      = 10_000 // all cells of a message's tables together
	MaxTableSettings  = 20
	MaxTaskFieldChars = 256 // title, details and output of a task_update chunk, title of a plan_update chunk

	// MaxMetadata is the size of event_payload and event_type as JSON.
	// https://docs.slack.dev/messaging/message-metadata
	MaxMetadata = 8_000

	// MaxFileBytes is the size of one file.
	MaxFileBytes = 1 << 30
	// MaxSocketResponse is the size of an acknowledgement with its payload; longer ones vanish on Slack's side.
	MaxSocketResponse = 20 * 1024
	// MaxConnections is how many sockets one app may hold.
	// https://docs.slack.dev/apis/events-api/using-socket-mode
	MaxConnections = 10
	// A response_url takes this many posts, for half an hour.
	// https://docs.slack.dev/interactivity/handling-user-interaction#message_responses
	MaxResponses = 5
)
