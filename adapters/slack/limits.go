package slack

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/slack-go/slack"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/rate"
)

// method is a method of the Web API with what Slack allows of it, by workspace and app. The special figures stand on the
// methods' pages; the others are Slack's tiers: 20, 50 and 100 a minute.
// https://docs.slack.dev/apis/web-api/rate-limits
type method struct {
	name  string
	limit rate.Limit
	// perChannel tells that each channel has a limit of its own beside the workspace's.
	perChannel rate.Limit
}

// share leaves a little of what is allowed unused: clocks differ, and Slack counts by its own.
const share = 0.95

// tier is a method that may be called so often a minute. Slack counts over any minute, so what is allowed at once and
// what comes back in a minute must together stay below that.
func tier(name string, perMinute, burst, reserve float64) method {
	return method{name: name, limit: rate.Limit{PerMinute: perMinute*share - burst, Burst: burst, Reserve: reserve}}
}

// The methods that mikan calls.
var (
	authTest  = method{name: "auth.test"}
	usersInfo = tier("users.info", 100, 30, 0)
	usersList = tier("users.list", 20, 4, 0)
	memberOf  = tier("users.conversations", 50, 10, 0)
	history   = tier("conversations.history", 50, 15, 4) // the reserve is for looking for our own messages
	replies   = tier("conversations.replies", 50, 15, 4)
	infoOf    = tier("conversations.info", 50, 10, 0)
	// A channel takes a message a second, and more in short bursts; a workspace "several hundred" a minute.
	postPublic = method{
		name: "chat.postMessage", limit: rate.Limit{PerMinute: 90, Burst: 200, Reserve: 50},
		perChannel: rate.Limit{PerMinute: 22, Burst: 3, Reserve: 1},
	}
	postPrivate = tier("chat.postEphemeral", 100, 30, 0)
	update      = tier("chat.update", 50, 15, 6)
	deleting    = tier("chat.delete", 50, 15, 0)
	appendTo    = tier("chat.appendStream", 100, 20, 0)
	stopStream  = tier("chat.stopStream", 20, 10, 0)
	// Fewer than can be stopped.
	startStream = method{name: "chat.startStream", limit: rate.Limit{PerMinute: 7, Burst: 8}}
	setStatus   = tier("assistant.threads.setStatus", 600, 100, 0)
	setPrompts  = tier("assistant.threads.setSuggestedPrompts", 100, 20, 0)
	setTitle    = tier("assistant.threads.setTitle", 100, 20, 0)
	removeSign  = tier("reactions.remove", 20, 10, 0)
	addSign     = method{name: "reactions.add", limit: rate.Limit{PerMinute: 8, Burst: 9}} // fewer than can be taken off
	publishHome = tier("views.publish", 100, 20, 0)
	uploadURL   = tier("files.getUploadURLExternal", 100, 20, 0)
	uploadEnd   = tier("files.completeUploadExternal", 100, 20, 0)
	uploadBytes = method{name: "files.upload"}
	fileInfo    = tier("files.info", 100, 20, 0)
)

// limited calls a method when the limits of all of mikan's processes together allow it.
func (a *Adapter) limited(ctx context.Context, team string, m method, channel string, p rate.Priority, do func(context.Context) error) error {
	if err := a.take(ctx, team, m, channel, p); err != nil {
		return err
	}
	return a.call(ctx, team, m, channel, do)
}

// take spends one call of a method's limits. Both limits of posting are asked at once: a short answer is one post, and
// every question costs the database a commit.
func (a *Adapter) take(ctx context.Context, team string, m method, channel string, p rate.Priority) error {
	if m.limit == (rate.Limit{}) {
		return nil
	}
	limiter := a.limiter(team)
	if m.perChannel == (rate.Limit{}) {
		return limiter.Take(ctx, m.name, m.limit, p)
	}
	both := make(chan error, 1)
	go func() { both <- limiter.Take(ctx, m.name+"/"+channel, m.perChannel, p) }()
	err := limiter.Take(ctx, m.name, m.limit, p)
	return errors.Join(<-both, err)
}

func (a *Adapter) limiter(team string) *rate.Limiter {
	return &rate.Limiter{Store: a.Store, Installation: "slack/" + team}
}

// call makes one call and gives its error a code. A rate that Slack refuses is obeyed by every process.
func (a *Adapter) call(ctx context.Context, team string, m method, channel string, do func(context.Context) error) error {
	failpoint.Hit("slack." + m.name + ".before")
	err := translate(m.name, do(ctx))
	failpoint.Hit("slack." + m.name + ".after")
	if fault.CodeOf(err) == fault.RateLimited && team != "" {
		bucket := m.name
		if m.perChannel != (rate.Limit{}) {
			bucket += "/" + channel
		}
		_ = a.limiter(team).Obey(context.WithoutCancel(ctx), bucket, fault.RetryAfter(err))
	}
	return err
}

// patiently calls a method that nobody waits for: it leaves the reserve to those who do, and is repeated until it
// succeeds or can never succeed.
func (a *Adapter) patiently(ctx context.Context, team string, m method, do func(context.Context) error) error {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		err := a.limited(ctx, team, m, "", rate.Progress, do)
		if err == nil || !fault.Retryable(fault.CodeOf(err)) {
			return err
		}
		pause := max(fault.RetryAfter(err), 50*time.Millisecond)
		if fault.CodeOf(err) != fault.RateLimited {
			pause = wait
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// translate gives an error of the SDK a code. Its text never holds a token: addresses are left out.
func translate(name string, err error) error {
	var (
		limited *sdk.RateLimitedError
		status  sdk.StatusCodeError
		refused sdk.SlackErrorResponse
		network *url.Error
		syntax  *json.SyntaxError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &limited):
		return fault.New(fault.RateLimited, "Slack limits %s", name).After(max(limited.RetryAfter, time.Second))
	case errors.As(err, &status):
		if status.Code == http.StatusTooManyRequests {
			return fault.New(fault.RateLimited, "Slack limits %s", name).After(time.Second)
		}
		return fault.New(byStatus(status.Code), "Slack answered %s with status %d", name, status.Code)
	case errors.As(err, &refused):
		code := byWord(refused.Err)
		coded := fault.Wrap(code, refusal{refused.Err, details(refused)}, "Slack refused %s", name)
		if code == fault.RateLimited {
			return coded.After(time.Second)
		}
		return coded
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &network):
		return fault.Wrap(fault.Unavailable, network.Err, "Slack was not reached for %s", name)
	case errors.As(err, &syntax):
		return fault.New(fault.Unavailable, "Slack's answer to %s is no JSON", name)
	}
	return fault.Wrap(fault.Unavailable, err, "%s failed", name)
}

// details are what Slack says about arguments or scopes.
func details(r sdk.SlackErrorResponse) string {
	said := ""
	if r.Needed != "" {
		said += " (needed: " + r.Needed + ")"
	}
	if len(r.ResponseMetadata.Messages) > 0 {
		said += " (" + strings.Join(r.ResponseMetadata.Messages, "; ") + ")"
	}
	return said
}

func byStatus(status int) fault.Code {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Forbidden
	case http.StatusNotFound, http.StatusGone:
		return fault.NotFound
	case http.StatusRequestEntityTooLarge:
		return fault.TooLarge
	}
	return fault.Unavailable
}

// byWord sorts Slack's errors. What is not named here may pass: an unknown word is no reason to lose an answer.
func byWord(word string) fault.Code {
	switch word {
	case "ratelimited", "rate_limited", "message_limit_exceeded":
		return fault.RateLimited
	case "channel_not_found", "message_not_found", "thread_not_found", "user_not_found", "users_not_found", "file_not_found", "file_deleted", "no_such_subteam":
		return fault.NotFound
	case "msg_too_long", "msg_blocks_too_long", "msg_blocks_too_many", "metadata_too_large", "view_too_large":
		return fault.TooLarge
	case "not_authed", "invalid_auth", "account_inactive", "token_revoked", "token_expired", "no_permission", "missing_scope",
		"not_allowed_token_type", "team_added_to_org", "org_login_required", "ekm_access_denied", "accesslimited", "access_denied",
		"not_in_channel", "is_archived", "is_inactive", "restricted_action", "restricted_action_read_only_channel",
		"restricted_action_thread_locked", "restricted_action_non_threadable_channel", "restricted_action_thread_only_channel",
		"user_not_in_channel", "messages_tab_disabled", "cant_update_message", "cant_delete_message", "edit_window_closed",
		"user_not_visible", "not_visible", "posting_to_channel_denied", "forbidden_team", "cannot_reply_to_message", "method_not_supported_for_channel_type":
		return fault.Forbidden
	case "invalid_arguments", "invalid_arg_name", "invalid_blocks", "invalid_blocks_format", "invalid_attachments", "no_text",
		"invalid_metadata_format", "invalid_metadata_schema", "invalid_thread_ts", "invalid_cursor", "invalid_ts_oldest",
		"invalid_ts_latest", "invalid_chunks", "channel_type_not_supported", "markdown_text_conflict", "unknown_method",
		"method_deprecated", "block_mismatch", "invalid_name", "no_item_specified":
		return fault.Invalid
	}
	return fault.Unavailable
}

// refusal is a word with which Slack refuses a call.
type refusal struct {
	word   string
	detail string
}

func (r refusal) Error() string { return r.word + r.detail }

// said tells whether an error of call is Slack's refusal with one of these words.
func said(err error, words ...string) bool {
	r, refused := errors.AsType[refusal](err)
	return refused && slices.Contains(words, r.word)
}
