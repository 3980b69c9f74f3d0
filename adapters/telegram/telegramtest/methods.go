// Package telegramtest is a local Telegram Bot API server for tests: one bot, its chats and the people in them. It takes
// the methods in its table and no others, checks them as strictly as Telegram does, answers only what Telegram answers,
// and lets a test say things as a person, break calls, and see what a person would see.
//
// The rules are those of the Bot API's documentation (https://core.telegram.org/bots/api) and of Telegram's own server
// (github.com/tdlib/telegram-bot-api), whose error texts it uses. Whatever a careful client must never do, even where
// Telegram silently puts up with it, is a Violation.
package telegramtest

// Kind is what a parameter holds.
type Kind string

// The kinds.
const (
	Integer Kind = "integer"
	Boolean Kind = "boolean"
	Text    Kind = "string"
	JSON    Kind = "json"
	ChatID  Kind = "chat" // integer or @name
	File    Kind = "file" // an upload, a file_id or an address
)

// Need tells whether a parameter may be left out.
type Need string

// The choices.
const (
	Optional Need = ""
	Required Need = "required"
)

// Param is one parameter of a method.
type Param struct {
	Name string
	Kind Kind
	Need Need
	Max  int // characters (UTF-16 units of a message's text), or the highest integer; 0: unlimited
}

// RateClass tells which of Telegram's limits a method counts for.
type RateClass string

// The classes. Telegram publishes its limits on messages only (https://core.telegram.org/bots/faq): 30 a second over
// all chats, one a second in one chat, with short bursts, and 20 a minute in a group.
const (
	Unlimited RateClass = ""
	PerChat   RateClass = "chat"
)

// Method is one row of the table.
type Method struct {
	Name   string
	Params []Param
	Errors []string // the descriptions it may answer with, beyond those of every method
	Rate   RateClass
	Page   string // in https://core.telegram.org/bots/api
}

// Param finds a parameter by name.
func (m Method) Param(name string) (Param, bool) {
	for _, p := range m.Params {
		if p.Name == name {
			return p, true
		}
	}
	return Param{}, false
}

// MaxText is the longest message, in UTF-16 units after formatting has been taken out of the text.
const MaxText = 4096

// The limits on files, in bytes (https://core.telegram.org/bots/api#sending-files and #getfile).
const (
	MaxDownload = 20 << 20
	MaxUpload   = 50 << 20
	MaxPhoto    = 10 << 20
)

// MaxEntities is how many entities of a message Telegram keeps; the rest it ignores.
const MaxEntities = 100

// The refusals of more than one method.
const (
	chatNotFound    = "Bad Request: chat not found"
	upgraded        = "Bad Request: group chat was upgraded to a supergroup chat"
	blocked         = "Forbidden: bot was blocked by the user"
	kickedGroup     = "Forbidden: bot was kicked from the group chat"
	kickedSuper     = "Forbidden: bot was kicked from the supergroup chat"
	noRights        = "Bad Request: not enough rights to send text messages to the chat"
	threadNotFound  = "Bad Request: message thread not found"
	topicClosed     = "Bad Request: TOPIC_CLOSED"
	replyNotFound   = "Bad Request: message to be replied not found"
	emptyText       = "Bad Request: message text is empty"
	blankText       = "Bad Request: text must be non-empty"
	tooLong         = "Bad Request: message is too long"
	editTooLong     = "Bad Request: MESSAGE_TOO_LONG"
	notModified     = "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message"
	editNotFound    = "Bad Request: message to edit not found"
	cannotEdit      = "Bad Request: message can't be edited"
	deleteNotFound  = "Bad Request: message to delete not found"
	cannotDelete    = "Bad Request: message can't be deleted"
	fileTooBig      = "Bad Request: file is too big"
	badFileID       = "Bad Request: wrong file_id or the file is temporarily unavailable"
	badPhoto        = "Bad Request: IMAGE_PROCESS_FAILED"
	photoDimensions = "Bad Request: PHOTO_INVALID_DIMENSIONS"
	longCaption     = "Bad Request: message caption is too long"
	webhookActive   = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
	otherPoller     = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
	webhookSet      = "Conflict: terminated by setWebhook request"
)

var reach = []string{chatNotFound, upgraded, blocked, kickedGroup, kickedSuper}

var target = []Param{
	{Name: "chat_id", Kind: ChatID, Need: Required},
	{Name: "message_thread_id", Kind: Integer},
}

var manner = []Param{
	{Name: "disable_notification", Kind: Boolean},
	{Name: "reply_parameters", Kind: JSON},
}

// Methods is the table: every method that mikan uses. parse_mode is left out on purpose: text with markup in it is what
// goes wrong, so formatting comes as entities.
var Methods = []Method{
	{Name: "getMe", Page: "#getme"},
	{Name: "getUpdates", Page: "#getupdates", Params: []Param{
		{Name: "offset", Kind: Integer}, {Name: "limit", Kind: Integer, Max: 100}, {Name: "timeout", Kind: Integer, Max: 50},
		{Name: "allowed_updates", Kind: JSON},
	}, Errors: []string{webhookActive, otherPoller, webhookSet}},
	{Name: "setWebhook", Page: "#setwebhook", Params: []Param{
		{Name: "url", Kind: Text, Need: Required}, {Name: "max_connections", Kind: Integer, Max: 100},
		{Name: "allowed_updates", Kind: JSON}, {Name: "drop_pending_updates", Kind: Boolean}, {Name: "secret_token", Kind: Text, Max: 256},
	}},
	{Name: "deleteWebhook", Page: "#deletewebhook", Params: []Param{{Name: "drop_pending_updates", Kind: Boolean}}},
	{Name: "getWebhookInfo", Page: "#getwebhookinfo"},
	{Name: "sendMessage", Page: "#sendmessage", Rate: PerChat, Params: params(target, []Param{
		{Name: "text", Kind: Text, Need: Required, Max: MaxText}, {Name: "entities", Kind: JSON}, {Name: "link_preview_options", Kind: JSON},
	}, manner), Errors: join(reach, []string{noRights, threadNotFound, topicClosed, replyNotFound, emptyText, blankText, tooLong})},
	{Name: "editMessageText", Page: "#editmessagetext", Rate: PerChat, Params: []Param{
		{Name: "chat_id", Kind: ChatID, Need: Required}, {Name: "message_id", Kind: Integer, Need: Required},
		{Name: "text", Kind: Text, Need: Required, Max: MaxText}, {Name: "entities", Kind: JSON}, {Name: "link_preview_options", Kind: JSON},
	}, Errors: join(reach, []string{emptyText, blankText, editTooLong, notModified, editNotFound, cannotEdit})},
	{Name: "deleteMessage", Page: "#deletemessage", Params: []Param{
		{Name: "chat_id", Kind: ChatID, Need: Required}, {Name: "message_id", Kind: Integer, Need: Required},
	}, Errors: join(reach, []string{deleteNotFound, cannotDelete})},
	{Name: "sendChatAction", Page: "#sendchataction", Params: params(target, []Param{{Name: "action", Kind: Text, Need: Required}}),
		Errors: join(reach, []string{threadNotFound})},
	{Name: "sendDocument", Page: "#senddocument", Rate: PerChat, Params: params(target, []Param{
		{Name: "document", Kind: File, Need: Required}, {Name: "caption", Kind: Text, Max: 1024}, {Name: "caption_entities", Kind: JSON},
		{Name: "disable_content_type_detection", Kind: Boolean},
	}, manner), Errors: join(reach, []string{noRights, threadNotFound, topicClosed, replyNotFound, longCaption})},
	{Name: "sendPhoto", Page: "#sendphoto", Rate: PerChat, Params: params(target, []Param{
		{Name: "photo", Kind: File, Need: Required}, {Name: "caption", Kind: Text, Max: 1024}, {Name: "caption_entities", Kind: JSON},
	}, manner), Errors: join(reach, []string{noRights, threadNotFound, topicClosed, replyNotFound, longCaption, badPhoto, photoDimensions})},
	{Name: "getFile", Page: "#getfile", Params: []Param{{Name: "file_id", Kind: Text, Need: Required}}, Errors: []string{fileTooBig, badFileID}},
	{Name: "setMyCommands", Page: "#setmycommands", Params: []Param{
		{Name: "commands", Kind: JSON, Need: Required}, {Name: "scope", Kind: JSON}, {Name: "language_code", Kind: Text},
	}},
	{Name: "getChat", Page: "#getchat", Params: []Param{{Name: "chat_id", Kind: ChatID, Need: Required}}, Errors: reach},
	{Name: "getChatMember", Page: "#getchatmember", Params: []Param{
		{Name: "chat_id", Kind: ChatID, Need: Required}, {Name: "user_id", Kind: Integer, Need: Required},
	}, Errors: reach},
}

// MethodNamed finds a method; Telegram takes names in any case.
func MethodNamed(name string) (Method, bool) {
	for _, m := range Methods {
		if equalFold(m.Name, name) {
			return m, true
		}
	}
	return Method{}, false
}

func params(lists ...[]Param) []Param {
	var all []Param
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func join(lists ...[]string) []string {
	var all []string
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}
