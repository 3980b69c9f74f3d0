package slacktest

import "slices"

// Encoding tells how arguments may travel. They are flags.
type Encoding int

// The encodings. Reading methods take no JSON body: the arguments in it are not seen.
const (
	Form Encoding = 1 << iota // query string, application/x-www-form-urlencoded or multipart/form-data
	JSON                      // application/json with the token in the Authorization header
)

// TokenKind is the kind of token that a method takes.
type TokenKind string

// The kinds. https://docs.slack.dev/authentication/tokens
const (
	BotToken TokenKind = "bot" // xoxb-…
	AppToken TokenKind = "app" // xapp-…
)

// ParamKind is the type of an argument.
type ParamKind int

// The types. Lists, blocks and other structures arrive as JSON, inside a form as a string that holds JSON.
const (
	Text         ParamKind = iota
	Bool                   // true, false, 1, 0
	Int                    // a decimal number
	Timestamp              // 1234567890.123456: a message
	Moment                 // like Timestamp, but the fraction is optional: a point in time
	Conversation           // C…, D… or G…
	Person                 // U… or W…
	Words                  // a list of strings, or one string with commas
	Blocks
	Attachments
	Chunks
	Metadata
	View
	Files
	Prompts
)

// Param is one argument.
type Param struct {
	Name     string
	Kind     ParamKind
	Required bool
	Max      int // most characters of a text, largest number, most items of a list; 0: no limit of its own
	TooLong  string
	OneOf    []string
}

// Rate is what a method may be called with. Slack counts by method, workspace and app.
// https://docs.slack.dev/apis/web-api/rate-limits
type Rate struct {
	Name      string
	PerMinute int
	// PerChannel allows one call a second in each channel, with a short burst. 0: no such limit.
	PerChannelBurst int
}

// The rates. The figures of the special ones stand on the methods' pages, where a page gives one; "several hundred a
// minute" for posting in a workspace is taken as 300, and a burst in a channel as 5.
var (
	Tier1       = Rate{Name: "tier 1", PerMinute: 1}
	Tier2       = Rate{Name: "tier 2", PerMinute: 20}
	Tier3       = Rate{Name: "tier 3", PerMinute: 50}
	Tier4       = Rate{Name: "tier 4", PerMinute: 100}
	RatePosting = Rate{Name: "posting", PerMinute: 300, PerChannelBurst: 5}
	RateStatus  = Rate{Name: "status", PerMinute: 600}
	RateLinks   = Rate{Name: "permalinks", PerMinute: 300}
	RateAuth    = Rate{Name: "auth.test", PerMinute: 300}
)

// Scopes are what a token must carry. A method that names a conversation needs the scope of that conversation's kind.
type Scopes struct {
	Any    []string // one of these
	ByKind map[ChannelKind]string
}

// Method is one row of the table.
type Method struct {
	Name      string
	Verbs     []string
	Encodings Encoding
	Token     TokenKind
	Scopes    Scopes
	Rate      Rate
	Params    []Param
	// Errors are the method's own, as its page lists them, less those that concern features this product does not
	// use (Canvas, Enterprise Grid, org-wide tokens, drafts).
	Errors []string
}

// Page is the method's page in Slack's reference.
func (m Method) Page() string { return "https://docs.slack.dev/reference/methods/" + m.Name }

// CommonErrors may come from every method.
var CommonErrors = []string{
	"accesslimited", "account_inactive", "fatal_error", "internal_error", "invalid_arg_name", "invalid_arguments",
	"invalid_auth", "invalid_charset", "invalid_form_data", "invalid_json", "invalid_post_type", "json_not_object",
	"method_deprecated", "missing_post_type", "missing_scope", "no_permission", "not_allowed_token_type", "not_authed",
	"ratelimited", "request_timeout", "service_unavailable", "team_added_to_org", "token_expired", "token_revoked",
	"unknown_method",
}

var (
	get    = []string{"GET", "POST"}
	post   = []string{"POST"}
	read   = map[ChannelKind]string{PublicChannel: "channels:read", PrivateChannel: "groups:read", DirectMessage: "im:read", GroupDM: "mpim:read"}
	recall = map[ChannelKind]string{PublicChannel: "channels:history", PrivateChannel: "groups:history", DirectMessage: "im:history", GroupDM: "mpim:history"}
	open   = map[ChannelKind]string{DirectMessage: "im:write", GroupDM: "mpim:write"}
	write  = Scopes{Any: []string{"chat:write"}}
)

func need(name string, kind ParamKind) Param { return Param{Name: name, Kind: kind, Required: true} }
func may(name string, kind ParamKind) Param  { return Param{Name: name, Kind: kind} }
func upTo(most int, tooLong string, p Param) Param {
	p.Max, p.TooLong = most, tooLong
	return p
}
func oneOf(p Param, values ...string) Param {
	p.OneOf = values
	return p
}

var messageParams = []Param{
	upTo(MaxMarkdownText, "msg_too_long", may("markdown_text", Text)), may("blocks", Blocks), may("attachments", Attachments),
	oneOf(may("parse", Text), "none", "full"), may("link_names", Bool),
}

var postErrors = []string{
	"cannot_reply_to_message", "channel_not_found", "invalid_attachments", "invalid_blocks", "invalid_blocks_format",
	"invalid_metadata_format", "invalid_metadata_schema", "is_archived", "markdown_text_conflict",
	"message_limit_exceeded", "messages_tab_disabled", "metadata_too_large", "msg_blocks_too_long", "msg_too_long",
	"no_text", "not_in_channel", "rate_limited", "restricted_action", "restricted_action_non_threadable_channel",
	"restricted_action_read_only_channel", "restricted_action_thread_locked", "too_many_attachments",
}

var streamErrors = append([]string{
	"channel_type_not_supported", "invalid_chunks", "messaging_processing_failed", "msg_blocks_too_many",
}, postErrors...)

// Methods is the table. What an app does beyond it, this server refuses.
//
// chat.postMessage has no client_msg_id: its page names errors about one, but no such argument, so nothing says what a
// second post with the same one would do.
var Methods = []Method{
	{Name: "auth.test", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: RateAuth},
	{Name: "apps.connections.open", Verbs: post, Encodings: Form | JSON, Token: AppToken, Rate: Tier3,
		Scopes: Scopes{Any: []string{"connections:write"}},
		Errors: []string{"forbidden_team", "insecure_request", "missing_args"}},

	{Name: "bots.info", Verbs: get, Encodings: Form, Token: BotToken, Rate: Tier3,
		Scopes: Scopes{Any: []string{"users:read"}},
		Params: []Param{may("bot", Text), may("team_id", Text)},
		Errors: []string{"bot_not_found", "bots_not_found", "missing_argument"}},
	{Name: "users.info", Verbs: get, Encodings: Form, Token: BotToken, Rate: Tier4,
		Scopes: Scopes{Any: []string{"users:read"}},
		Params: []Param{need("user", Person), may("include_locale", Bool)},
		Errors: []string{"user_not_found", "user_not_visible"}},
	{Name: "users.list", Verbs: get, Encodings: Form, Token: BotToken, Rate: Tier2,
		Scopes: Scopes{Any: []string{"users:read"}},
		Params: []Param{may("cursor", Text), upTo(1000, "invalid_arguments", may("limit", Int)), may("include_locale", Bool), may("team_id", Text)},
		Errors: []string{"invalid_cursor", "limit_required"}},
	{Name: "usergroups.list", Verbs: get, Encodings: Form, Token: BotToken, Rate: Tier2,
		Scopes: Scopes{Any: []string{"usergroups:read"}},
		Params: []Param{may("include_count", Bool), may("include_disabled", Bool), may("include_users", Bool), may("team_id", Text)},
		Errors: []string{"plan_upgrade_required"}},
	{Name: "usergroups.users.list", Verbs: get, Encodings: Form, Token: BotToken, Rate: Tier2,
		Scopes: Scopes{Any: []string{"usergroups:read"}},
		Params: []Param{need("usergroup", Text), may("include_disabled", Bool), may("team_id", Text)},
		Errors: []string{"no_such_subteam", "plan_upgrade_required"}},

	{Name: "conversations.info", Verbs: get, Encodings: Form, Token: BotToken, Rate: Tier3,
		Scopes: Scopes{ByKind: read},
		Params: []Param{need("channel", Conversation), may("include_locale", Bool), may("include_num_members", Bool)},
		Errors: []string{"channel_is_limited_access", "channel_not_found"}},
	{Name: "conversations.list", Verbs: get, Encodings: Form, Token: BotToken, Rate: Tier2,
		Scopes: Scopes{ByKind: read},
		Params: []Param{may("cursor", Text), may("exclude_archived", Bool), upTo(999, "invalid_limit", may("limit", Int)), may("types", Words), may("team_id", Text)},
		Errors: []string{"invalid_cursor", "invalid_limit", "invalid_types"}},
	{Name: "users.conversations", Verbs: get, Encodings: Form, Token: BotToken, Rate: Tier3,
		Scopes: Scopes{ByKind: read},
		Params: []Param{may("cursor", Text), may("exclude_archived", Bool), upTo(999, "invalid_limit", may("limit", Int)), may("types", Words), may("user", Person), may("team_id", Text)},
		Errors: []string{"invalid_cursor", "invalid_limit", "invalid_types"}},
	{Name: "conversations.history", Verbs: get, Encodings: Form, Token: BotToken, Rate: Tier3,
		Scopes: Scopes{ByKind: recall},
		Params: []Param{need("channel", Conversation), may("cursor", Text), may("include_all_metadata", Bool), may("inclusive", Bool),
			may("latest", Moment), may("oldest", Moment), upTo(999, "invalid_arguments", may("limit", Int))},
		Errors: []string{"channel_is_limited_access", "channel_not_found", "invalid_cursor", "invalid_ts_latest", "invalid_ts_oldest", "not_in_channel"}},
	{Name: "conversations.replies", Verbs: get, Encodings: Form, Token: BotToken, Rate: Tier3,
		Scopes: Scopes{ByKind: recall},
		Params: []Param{need("channel", Conversation), need("ts", Timestamp), may("cursor", Text), may("include_all_metadata", Bool), may("inclusive", Bool),
			may("latest", Moment), may("oldest", Moment), upTo(1000, "invalid_arguments", may("limit", Int))},
		Errors: []string{"channel_not_found", "invalid_cursor", "invalid_ts_latest", "invalid_ts_oldest", "not_in_channel", "thread_not_found"}},
	{Name: "conversations.members", Verbs: get, Encodings: Form, Token: BotToken, Rate: Tier4,
		Scopes: Scopes{ByKind: read},
		Params: []Param{need("channel", Conversation), may("cursor", Text), upTo(999, "invalid_limit", may("limit", Int))},
		Errors: []string{"channel_not_found", "fetch_members_failed", "invalid_cursor", "invalid_limit"}},
	{Name: "conversations.open", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: Tier3,
		Scopes: Scopes{ByKind: open},
		Params: []Param{may("channel", Conversation), may("prevent_creation", Bool), may("return_im", Bool), upTo(8, "too_many_users", may("users", Words))},
		Errors: []string{"channel_not_found", "not_enough_users", "too_many_users", "user_disabled", "user_not_found", "user_not_visible", "users_list_not_supplied"}},

	{Name: "chat.postMessage", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: RatePosting, Scopes: write,
		Params: append([]Param{need("channel", Conversation), upTo(MaxPostText, "msg_too_long", may("text", Text)), may("thread_ts", Timestamp),
			may("reply_broadcast", Bool), may("metadata", Metadata), may("mrkdwn", Bool), may("unfurl_links", Bool), may("unfurl_media", Bool)}, messageParams...),
		Errors: postErrors},
	{Name: "chat.postEphemeral", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: Tier4, Scopes: write,
		Params: append([]Param{need("channel", Conversation), need("user", Person), upTo(MaxPostText, "msg_too_long", may("text", Text)), may("thread_ts", Timestamp)}, messageParams...),
		Errors: append([]string{"user_not_in_channel"}, postErrors...)},
	{Name: "chat.update", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: Tier3, Scopes: write,
		Params: append([]Param{need("channel", Conversation), need("ts", Timestamp), upTo(MaxUpdateText, "msg_too_long", may("text", Text)),
			may("metadata", Metadata), may("reply_broadcast", Bool)}, messageParams...),
		Errors: append([]string{"block_mismatch", "cant_update_message", "edit_window_closed", "is_inactive", "message_not_found",
			"streaming_state_conflict", "update_failed"}, postErrors...)},
	{Name: "chat.delete", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: Tier3, Scopes: write,
		Params: []Param{need("channel", Conversation), need("ts", Timestamp)},
		Errors: []string{"cant_delete_message", "channel_not_found", "message_not_found"}},
	{Name: "chat.getPermalink", Verbs: get, Encodings: Form, Token: BotToken, Rate: RateLinks,
		Params: []Param{need("channel", Conversation), need("message_ts", Timestamp)},
		Errors: []string{"channel_not_found", "message_not_found"}},

	{Name: "chat.startStream", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: Tier2, Scopes: write,
		Params: []Param{need("channel", Conversation), need("thread_ts", Timestamp), upTo(MaxMarkdownText, "msg_too_long", may("markdown_text", Text)),
			may("chunks", Chunks), may("recipient_team_id", Text), may("recipient_user_id", Person),
			oneOf(may("task_display_mode", Text), "timeline", "plan", "dense")},
		Errors: append([]string{"missing_recipient_team_id", "missing_recipient_user_id", "user_not_found"}, streamErrors...)},
	{Name: "chat.appendStream", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: Tier4, Scopes: write,
		Params: []Param{need("channel", Conversation), need("ts", Timestamp), upTo(MaxMarkdownText, "msg_too_long", may("markdown_text", Text)), may("chunks", Chunks)},
		Errors: append([]string{"message_not_found", "message_not_in_streaming_state", "message_not_owned_by_app", "stopped_by_user"}, streamErrors...)},
	{Name: "chat.stopStream", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: Tier2, Scopes: write,
		Params: []Param{need("channel", Conversation), need("ts", Timestamp), upTo(MaxMarkdownText, "msg_too_long", may("markdown_text", Text)),
			may("chunks", Chunks), may("blocks", Blocks), may("metadata", Metadata)},
		Errors: append([]string{"message_not_found", "message_not_in_streaming_state", "message_not_owned_by_app"}, streamErrors...)},

	{Name: "reactions.add", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: Tier3,
		Scopes: Scopes{Any: []string{"reactions:write"}},
		Params: []Param{need("channel", Conversation), need("name", Text), need("timestamp", Timestamp)},
		Errors: []string{"already_reacted", "bad_timestamp", "channel_not_found", "invalid_name", "is_archived", "message_not_found", "not_reactable", "too_many_emoji", "too_many_reactions"}},
	{Name: "reactions.remove", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: Tier2,
		Scopes: Scopes{Any: []string{"reactions:write"}},
		Params: []Param{need("channel", Conversation), need("name", Text), need("timestamp", Timestamp)},
		Errors: []string{"bad_timestamp", "channel_not_found", "invalid_name", "message_not_found", "no_item_specified", "no_reaction"}},

	{Name: "files.getUploadURLExternal", Verbs: get, Encodings: Form, Token: BotToken, Rate: Tier4,
		Scopes: Scopes{Any: []string{"files:write"}},
		Params: []Param{need("filename", Text), upTo(MaxFileBytes, "file_upload_size_restricted", need("length", Int)),
			upTo(1000, "alt_txt_too_large", may("alt_txt", Text)), may("snippet_type", Text)},
		Errors: []string{"alt_txt_too_large", "file_type_not_allowed", "file_upload_size_restricted", "file_uploads_disabled", "missing_argument", "storage_limit_reached"}},
	{Name: "files.completeUploadExternal", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: Tier4,
		Scopes: Scopes{Any: []string{"files:write"}},
		Params: []Param{need("files", Files), may("channel_id", Conversation), upTo(100, "channels_limit_exceeded", may("channels", Words)),
			upTo(MaxPostText, "invalid_arguments", may("initial_comment", Text)), may("blocks", Blocks), may("thread_ts", Timestamp)},
		Errors: []string{"channel_not_found", "channels_limit_exceeded", "file_not_found", "file_update_failed", "invalid_blocks", "invalid_channel", "not_in_channel", "posting_to_channel_denied"}},
	{Name: "files.info", Verbs: get, Encodings: Form, Token: BotToken, Rate: Tier4,
		Scopes: Scopes{Any: []string{"files:read"}},
		Params: []Param{need("file", Text), may("count", Int), may("cursor", Text), may("limit", Int), may("page", Int)},
		Errors: []string{"file_deleted", "file_not_found", "not_visible"}},

	{Name: "assistant.threads.setStatus", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: RateStatus,
		Scopes: Scopes{Any: []string{"chat:write", "assistant:write"}},
		Params: []Param{need("channel_id", Conversation), need("thread_ts", Timestamp), need("status", Text), upTo(10, "invalid_arguments", may("loading_messages", Words))},
		Errors: []string{"channel_not_found", "invalid_thread_ts"}},
	{Name: "assistant.threads.setSuggestedPrompts", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: Tier4,
		Scopes: Scopes{Any: []string{"assistant:write"}},
		Params: []Param{need("channel_id", Conversation), need("thread_ts", Timestamp), upTo(4, "invalid_arguments", need("prompts", Prompts)), may("title", Text)},
		Errors: []string{"channel_not_found", "invalid_thread_ts", "message_not_found"}},
	{Name: "assistant.threads.setTitle", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: Tier4,
		Scopes: Scopes{Any: []string{"assistant:write"}},
		Params: []Param{need("channel_id", Conversation), need("thread_ts", Timestamp), need("title", Text)},
		Errors: []string{"channel_not_found", "invalid_thread_ts"}},
	{Name: "views.publish", Verbs: post, Encodings: Form | JSON, Token: BotToken, Rate: Tier4,
		Params: []Param{need("user_id", Person), need("view", View), may("hash", Text)},
		Errors: []string{"hash_conflict", "invalid_blocks", "not_enabled", "user_not_found", "view_too_large"}},
}

// MethodNamed returns the row of a method.
func MethodNamed(name string) (Method, bool) {
	i := slices.IndexFunc(Methods, func(m Method) bool { return m.Name == name })
	if i < 0 {
		return Method{}, false
	}
	return Methods[i], true
}

// Param returns the method's argument of that name.
func (m Method) Param(name string) (Param, bool) {
	i := slices.IndexFunc(m.Params, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return Param{}, false
	}
	return m.Params[i], true
}

// Returns tells whether the method may answer with an error.
func (m Method) Returns(code string) bool {
	return slices.Contains(m.Errors, code) || slices.Contains(CommonErrors, code)
}
