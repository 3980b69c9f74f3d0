package slacktest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
)

// answer is Slack's envelope.
type answer struct {
	OK       bool   `json:"ok"`
	Error    string `json:"error"`
	Needed   string `json:"needed"`
	TS       string `json:"ts"`
	Metadata struct {
		Messages []string `json:"messages"`
	} `json:"response_metadata"`
}

// form calls a method the plain way, to send what the SDK never would.
func (s *stage) form(method, token string, v url.Values) (answer, *http.Response) {
	s.t.Helper()
	return s.send(method, token, "application/x-www-form-urlencoded", v.Encode())
}

func (s *stage) send(method, token, kind, body string) (answer, *http.Response) {
	s.t.Helper()
	req := must(http.NewRequest(http.MethodPost, s.APIURL()+method, strings.NewReader(body)))
	req.Header.Set("Content-Type", kind)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw := must(io.ReadAll(resp.Body))
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil && len(raw) > 0 {
		s.t.Fatalf("%s: %v", raw, err)
	}
	return a, resp
}

func blocks(n int, block string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(block+",", n), ",") + "]"
}

func TestWhatSlackRefusesIsRefusedAndKept(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{Rates: slacktest.RatesOff})
	root := s.say("root")
	reply := must(s.Say(slacktest.Saying{Channel: s.general.ID, User: s.ann.ID, Text: "reply", Thread: root.TS}))
	md := func(chars int) string { return `{"type":"markdown","text":"` + strings.Repeat("x", chars) + `"}` }
	cells := func(n, chars int) string {
		return blocks(n, `{"type":"raw_text","text":"`+strings.Repeat("x", chars)+`"}`)
	}
	table := func(rows, columns, chars int) string {
		return `{"type":"table","rows":` + blocks(rows, cells(columns, chars)) + `}`
	}
	section := func(chars int) string {
		return `{"type":"section","text":{"type":"mrkdwn","text":"` + strings.Repeat("x", chars) + `"}}`
	}
	button := func(id string) string {
		return `{"type":"actions","elements":[{"type":"button","action_id":"` + id + `","text":{"type":"plain_text","text":"Stop"}}]}`
	}
	post := func(kv ...string) url.Values {
		v := url.Values{"channel": {s.general.ID}}
		for i := 0; i < len(kv); i += 2 {
			v.Set(kv[i], kv[i+1])
		}
		return v
	}

	for _, c := range []struct {
		name, method string
		args         url.Values
		want         string
	}{
		{"a method outside the table", "chat.scheduleMessage", post("text", "x"), "unknown_method"},
		{"an argument outside the table", "chat.postMessage", post("text", "x", "client_msg_id", "y"), "invalid_arguments"},
		{"no channel", "chat.postMessage", url.Values{"text": {"x"}}, "channel_not_found"},
		{"a session key as a channel", "chat.postMessage", url.Values{"channel": {s.general.ID + ":" + root.TS}, "text": {"x"}}, "channel_not_found"},
		{"a user as a channel", "chat.postMessage", url.Values{"channel": {s.ann.ID}, "text": {"x"}}, "channel_not_found"},
		{"nothing to say", "chat.postMessage", post(), "no_text"},
		{"blanks", "chat.postMessage", post("text", " \n"), "no_text"},
		{"a text too long to post", "chat.postMessage", post("text", strings.Repeat("ü", 40_001)), "msg_too_long"},
		{"a text too long to update", "chat.update", post("ts", root.TS, "text", strings.Repeat("ü", 4_001)), "msg_too_long"},
		{"a markdown text too long", "chat.postMessage", post("markdown_text", strings.Repeat("ü", 12_001)), "msg_too_long"},
		{"markdown beside a text", "chat.postMessage", post("markdown_text", "x", "text", "y"), "markdown_text_conflict"},
		{"a timestamp as a number", "chat.postMessage", post("text", "x", "thread_ts", "1"), "invalid_arguments"},
		{"a reply to a reply", "chat.postMessage", post("text", "x", "thread_ts", reply.TS), "cannot_reply_to_message"},
		{"a broadcast of no reply", "chat.postMessage", post("text", "x", "reply_broadcast", "true"), "invalid_arguments"},
		{"blocks that are no JSON", "chat.postMessage", post("blocks", "[{"), "invalid_blocks_format"},
		{"blocks that are no list", "chat.postMessage", post("blocks", `{"type":"divider"}`), "invalid_blocks_format"},
		{"51 blocks", "chat.postMessage", post("blocks", blocks(51, `{"type":"divider"}`)), "invalid_blocks"},
		{"a block outside the table", "chat.postMessage", post("blocks", `[{"type":"video"}]`), "invalid_blocks"},
		{"an unknown field in a block", "chat.postMessage", post("blocks", `[{"type":"divider","colour":"red"}]`), "invalid_blocks"},
		{"12,001 characters of markdown in two blocks", "chat.postMessage", post("blocks", "["+md(6_000)+","+md(6_001)+"]"), "msg_blocks_too_long"},
		{"an empty markdown block", "chat.postMessage", post("blocks", "["+md(0)+"]"), "invalid_blocks"},
		{"a long section", "chat.postMessage", post("blocks", "["+section(3_001)+"]"), "invalid_blocks"},
		{"an empty section", "chat.postMessage", post("blocks", "["+section(0)+"]"), "invalid_blocks"},
		{"a long header", "chat.postMessage", post("blocks", `[{"type":"header","text":{"type":"plain_text","text":"`+strings.Repeat("x", 151)+`"}}]`), "invalid_blocks"},
		{"markup in a header", "chat.postMessage", post("blocks", `[{"type":"header","text":{"type":"mrkdwn","text":"x"}}]`), "invalid_blocks"},
		{"101 rows", "chat.postMessage", post("blocks", "["+table(101, 1, 1)+"]"), "invalid_blocks"},
		{"21 columns", "chat.postMessage", post("blocks", "["+table(1, 21, 1)+"]"), "invalid_blocks"},
		{"10,001 characters in a table", "chat.postMessage", post("blocks", "["+table(1, 1, 10_001)+"]"), "invalid_blocks"},
		{"an empty cell", "chat.postMessage", post("blocks", "["+table(1, 1, 0)+"]"), "invalid_blocks"},
		{"ragged rows", "chat.postMessage", post("blocks", `[{"type":"table","rows":[`+cells(1, 1)+","+cells(2, 1)+`]}]`), "invalid_blocks"},
		{"two tables", "chat.postMessage", post("blocks", "["+table(1, 1, 1)+","+table(1, 1, 1)+"]"), "invalid_attachments"},
		{"a table beside one in Markdown", "chat.postMessage", post("blocks", "["+table(1, 1, 1)+`,{"type":"markdown","text":"| a |\n|---|\n| b |"}]`), "invalid_attachments"},
		{"a bad block in an attachment", "chat.postMessage", post("attachments", `[{"blocks":[{"type":"video"}]}]`), "invalid_blocks"},
		{"a long action id", "chat.postMessage", post("blocks", "["+button(strings.Repeat("a", 256))+"]"), "invalid_blocks"},
		{"an action id twice", "chat.postMessage", post("blocks", strings.Replace("["+button("a")+"]", `[{"type":"button"`, `[{"type":"button","action_id":"a","text":{"type":"plain_text","text":"Go"}},{"type":"button"`, 1)), "invalid_blocks"},
		{"a block id twice", "chat.postMessage", post("blocks", blocks(2, `{"type":"divider","block_id":"b"}`)), "invalid_blocks"},
		{"a list item that is no section", "chat.postMessage", post("blocks", `[{"type":"rich_text","elements":[{"type":"rich_text_list","style":"bullet","elements":[{"type":"text","text":"x"}]}]}]`), "invalid_blocks"},
		{"an empty text in rich text", "chat.postMessage", post("blocks", `[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":""}]}]}]`), "invalid_blocks"},
		{"metadata that is no JSON", "chat.postMessage", post("text", "x", "metadata", "x"), "invalid_metadata_format"},
		{"metadata without an event type", "chat.postMessage", post("text", "x", "metadata", `{"event_payload":{}}`), "invalid_metadata_schema"},
		{"metadata too large", "chat.postMessage", post("text", "x", "metadata", `{"event_type":"a","event_payload":{"k":"`+strings.Repeat("x", 8_000)+`"}}`), "metadata_too_large"},
		{"an update of somebody else's message", "chat.update", post("ts", root.TS, "text", "x"), "cant_update_message"},
		{"a deletion of somebody else's message", "chat.delete", post("ts", root.TS), "cant_delete_message"},
		{"a stream outside a thread", "chat.startStream", post("recipient_team_id", s.team.ID, "recipient_user_id", s.ann.ID), "invalid_arguments"},
		{"a stream without a team", "chat.startStream", post("thread_ts", root.TS, "recipient_user_id", s.ann.ID), "missing_recipient_team_id"},
		{"a stream for nobody", "chat.startStream", post("thread_ts", root.TS, "recipient_team_id", s.team.ID), "missing_recipient_user_id"},
		{"a stream for a user of another team", "chat.startStream", post("thread_ts", root.TS, "recipient_team_id", "T9999999999", "recipient_user_id", s.ann.ID), "user_not_found"},
		{"a stream of 12,001 characters", "chat.startStream", post("thread_ts", root.TS, "recipient_team_id", s.team.ID, "recipient_user_id", s.ann.ID, "markdown_text", strings.Repeat("x", 12_001)), "msg_too_long"},
		{"a chunk of 12,001 characters", "chat.startStream", post("thread_ts", root.TS, "recipient_team_id", s.team.ID, "recipient_user_id", s.ann.ID, "chunks", `[{"type":"markdown_text","text":"`+strings.Repeat("x", 12_001)+`"}]`), "msg_too_long"},
		{"an unknown chunk", "chat.startStream", post("thread_ts", root.TS, "recipient_team_id", s.team.ID, "recipient_user_id", s.ann.ID, "chunks", `[{"type":"song"}]`), "invalid_chunks"},
		{"a task with a long title", "chat.startStream", post("thread_ts", root.TS, "recipient_team_id", s.team.ID, "recipient_user_id", s.ann.ID, "chunks", `[{"type":"task_update","id":"1","title":"`+strings.Repeat("x", 257)+`"}]`), "invalid_chunks"},
		{"an emoji with colons", "reactions.add", post("timestamp", root.TS, "name", ":eyes:"), "invalid_name"},
		{"a limit beyond 999", "conversations.history", post("limit", "1000"), "invalid_arguments"},
		{"a cursor of another method", "conversations.history", post("cursor", "dXNlcjpVMQ=="), "invalid_cursor"},
		{"a time with letters", "conversations.history", post("oldest", "yesterday"), "invalid_ts_oldest"},
		{"an unknown kind of conversation", "conversations.list", url.Values{"types": {"secret"}}, "invalid_types"},
		{"nobody to open a conversation with", "conversations.open", url.Values{}, "users_list_not_supplied"},
		{"a group of nine", "conversations.open", url.Values{"users": {strings.Repeat(s.ann.ID+",", 8) + s.ann.ID}}, "too_many_users"},
		{"five prompts", "assistant.threads.setSuggestedPrompts", url.Values{"channel_id": {s.general.ID}, "thread_ts": {root.TS}, "prompts": {blocks(5, `{"title":"a","message":"b"}`)}}, "invalid_arguments"},
		{"a status without text or its absence", "assistant.threads.setStatus", url.Values{"channel_id": {s.general.ID}, "thread_ts": {root.TS}}, "invalid_arguments"},
		{"a home with 101 blocks", "views.publish", url.Values{"user_id": {s.ann.ID}, "view": {`{"type":"home","blocks":` + blocks(101, `{"type":"divider"}`) + `}`}}, "invalid_blocks"},
		{"markdown in a home", "views.publish", url.Values{"user_id": {s.ann.ID}, "view": {`{"type":"home","blocks":[` + md(1) + `]}`}}, "invalid_blocks"},
		{"a modal as a home", "views.publish", url.Values{"user_id": {s.ann.ID}, "view": {`{"type":"modal","blocks":[]}`}}, "invalid_arguments"},
		{"a view of more than 250 kB", "views.publish", url.Values{"user_id": {s.ann.ID}, "view": {`{"type":"home","private_metadata":"` + strings.Repeat("x", 250_000) + `","blocks":[]}`}}, "view_too_large"},
		{"an upload of nothing", "files.getUploadURLExternal", url.Values{"filename": {"a"}, "length": {"0"}}, "missing_argument"},
		{"an upload of 2 GiB", "files.getUploadURLExternal", url.Values{"filename": {"a"}, "length": {"2147483648"}}, "file_upload_size_restricted"},
		{"a file that was never announced", "files.completeUploadExternal", url.Values{"files": {`[{"id":"F9999999999"}]`}}, "file_not_found"},
	} {
		s.ResetRecords()
		got, _ := s.form(c.method, s.team.BotToken, c.args)
		if got.OK || got.Error != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
		if v := s.Violations(); len(v) != 1 || v[0].Kind != slacktest.Refused {
			t.Errorf("%s: violations %v", c.name, v)
		}
		if c.want != "unknown_method" && len(got.Metadata.Messages) == 0 {
			t.Errorf("%s: no explanation", c.name)
		}
	}
	if n := len(s.Messages(slacktest.Which{ByApp: true})); n != 0 {
		t.Errorf("%d messages came of refused calls", n)
	}
}

func TestTokensScopesAndEncodings(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	channel := url.Values{"channel": {s.general.ID}}
	for _, c := range []struct {
		name, method, token, want string
	}{
		{"no token", "conversations.info", "", "not_authed"},
		{"a token of nobody's", "conversations.info", "xoxb-0", "invalid_auth"},
		{"an app token where a bot's is wanted", "conversations.info", s.App().AppToken, "not_allowed_token_type"},
	} {
		if got, _ := s.form(c.method, c.token, channel); got.Error != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if got, _ := s.form("apps.connections.open", s.team.BotToken, nil); got.Error != "not_allowed_token_type" {
		t.Errorf("a bot token where an app's is wanted: %+v", got)
	}
	if got, _ := s.form("auth.test", "", url.Values{"token": {s.team.BotToken}}); !got.OK {
		t.Errorf("a token as an argument: %+v", got)
	}

	for _, method := range []string{"conversations.history", "conversations.replies", "conversations.info", "users.info", "users.list", "files.info"} {
		if got, _ := s.send(method, s.team.BotToken, "application/json", `{"channel":"`+s.general.ID+`"}`); got.Error != "invalid_arguments" {
			t.Errorf("%s with a JSON body: %+v", method, got)
		}
	}
	if got, _ := s.send("chat.postMessage", s.team.BotToken, "application/json; charset=utf-8", `{"channel":"`+s.general.ID+`","text":"x","blocks":[{"type":"divider"}],"mrkdwn":false}`); !got.OK {
		t.Errorf("a post with a JSON body: %+v", got)
	}
	for kind, want := range map[string]string{"text/csv": "invalid_post_type", "application/json": "json_not_object"} {
		if got, _ := s.send("chat.postMessage", s.team.BotToken, kind, `"x"`); got.Error != want {
			t.Errorf("%s: %+v, want %s", kind, got, want)
		}
	}

	s.SetScopes("chat:write", "channels:read")
	got, resp := s.form("conversations.history", s.team.BotToken, channel)
	if got.Error != "missing_scope" || got.Needed != "channels:history" || resp.Header.Get("X-OAuth-Scopes") != "chat:write,channels:read" {
		t.Errorf("without channels:history: %+v %v", got, resp.Header)
	}
	private := must(s.CreateChannel(slacktest.NewChannel{Name: "secret", Kind: slacktest.PrivateChannel, WithBot: true}))
	if got, _ := s.form("conversations.info", s.team.BotToken, url.Values{"channel": {private.ID}}); got.Needed != "groups:read" {
		t.Errorf("a private channel with channels:read: %+v", got)
	}
	if got, _ := s.form("reactions.add", s.team.BotToken, url.Values{"channel": {s.general.ID}, "name": {"eyes"}, "timestamp": {"1700000000.000001"}}); got.Needed != "reactions:write" {
		t.Errorf("a reaction without its scope: %+v", got)
	}
}

func TestTheStateOfTheWorkspaceRefusesWithoutBlame(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{Rates: slacktest.RatesOff})
	apart := must(s.CreateChannel(slacktest.NewChannel{Name: "apart", Members: []string{s.ann.ID}}))
	hidden := must(s.CreateChannel(slacktest.NewChannel{Name: "hidden", Kind: slacktest.PrivateChannel, Members: []string{s.ann.ID}}))
	old := must(s.CreateChannel(slacktest.NewChannel{Name: "old", Members: []string{s.ann.ID}, WithBot: true}))
	_, own, err := s.api.PostMessage(old.ID, slack.MsgOptionText("x", false))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Archive(old.ID, slacktest.Archived); err != nil {
		t.Fatal(err)
	}
	_, gone, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText("x", false))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.api.DeleteMessage(s.general.ID, gone); err != nil {
		t.Fatal(err)
	}
	said := s.say("x")
	eyes := slack.NewRefToMessage(s.general.ID, said.TS)
	if err := s.api.AddReaction("eyes", eyes); err != nil {
		t.Fatal(err)
	}
	text := slack.MsgOptionText("x", false)
	third := func(_, _ string, err error) error { return err }
	fourth := func(_, _, _ string, err error) error { return err }
	outsider := must(s.CreateUser(slacktest.NewUser{Name: "out"}))
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"a channel without the bot", third(s.api.PostMessage(apart.ID, text)), "not_in_channel"},
		{"a private channel without the bot", third(s.api.PostMessage(hidden.ID, text)), "channel_not_found"},
		{"a channel that never was", third(s.api.PostMessage("C9999999999", text)), "channel_not_found"},
		{"an archived channel", third(s.api.PostMessage(old.ID, text)), "is_archived"},
		{"an edit in an archived channel", fourth(s.api.UpdateMessage(old.ID, own, text)), "is_inactive"},
		{"an edit of a deleted message", fourth(s.api.UpdateMessage(s.general.ID, gone, text)), "message_not_found"},
		{"a second deletion", third(s.api.DeleteMessage(s.general.ID, gone)), "message_not_found"},
		{"a second reaction", s.api.AddReaction("eyes", eyes), "already_reacted"},
		{"the end of no reaction", s.api.RemoveReaction("wave", eyes), "no_reaction"},
		{"a reaction to nothing", s.api.AddReaction("eyes", slack.NewRefToMessage(s.general.ID, gone)), "message_not_found"},
	} {
		if got := code(c.err); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if _, err := s.api.PostEphemeral(s.general.ID, outsider.ID, text); code(err) != "user_not_in_channel" {
		t.Errorf("a private word to somebody outside: %v", err)
	}
	if _, err := s.api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: apart.ID}); code(err) != "not_in_channel" {
		t.Errorf("history of a channel without the bot: %v", err)
	}
	if _, _, _, err := s.api.GetConversationReplies(&slack.GetConversationRepliesParameters{ChannelID: s.general.ID, Timestamp: gone}); code(err) != "thread_not_found" {
		t.Errorf("replies of a deleted message: %v", err)
	}
	if _, err := s.api.GetUserInfo("U9999999999"); code(err) != "user_not_found" {
		t.Errorf("nobody: %v", err)
	}
	s.clean()
}
