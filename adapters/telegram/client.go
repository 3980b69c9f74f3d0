package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/go-telegram/bot"

	"github.com/geminixiang/mikan/internal/fault"
)

const (
	// telegramURL is where the Bot API is.
	telegramURL = "https://api.telegram.org"
	// answerLimit bounds an answer of the Bot API in bytes: 100 updates of 4,096 characters are far below it.
	answerLimit = 32 << 20
)

// transport carries the library's calls. The token is a part of every address, so no address may leave it: not in an
// error, and not to another host, for which reason redirects are not followed.
type transport struct {
	http  *http.Client
	base  string // without a slash at its end
	token string
}

func newTransport(base, token string) *transport {
	if base == "" {
		base = telegramURL
	}
	return &transport{
		base: strings.TrimRight(base, "/"), token: token,
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// Do sends a request for the library and hands back what the Bot API itself has said; its errors carry a code.
func (t *transport) Do(req *http.Request) (*http.Response, error) {
	resp, err := t.http.Do(req)
	if err != nil {
		return nil, unreachable(req.Context(), err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusRequestEntityTooLarge {
		_ = resp.Body.Close()
		return nil, fault.New(fault.TooLarge, "Telegram takes no request of this size")
	}
	if kind == "text/html" || resp.StatusCode >= http.StatusInternalServerError { // a page of a proxy between us
		_ = resp.Body.Close()
		return nil, fault.New(fault.Unavailable, "Telegram answered with HTTP status %d", resp.StatusCode)
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, answerLimit)
	return resp, nil
}

// unreachable is why there was no answer, without the address that was called.
func unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	return fault.Wrap(fault.Unavailable, err, "Telegram is not reachable")
}

// envelope is what every answer of the Bot API is wrapped in.
type envelope struct {
	OK          bool            `json:"ok"`
	Result      json.RawMessage `json:"result"`
	ErrorCode   int             `json:"error_code"`
	Description string          `json:"description"`
	Parameters  struct {
		RetryAfter int `json:"retry_after"`
	} `json:"parameters"`
}

// updates fetches what waits, from offset on, which tells Telegram to forget everything before it. The library's own
// poller moves the offset before its handler has run, and exports no method that does not. Updates come undecoded, so
// that one that cannot be read does not take the others with it.
func (t *transport) updates(ctx context.Context, offset int64, timeout time.Duration) ([]json.RawMessage, error) {
	query, err := json.Marshal(map[string]any{
		"offset": offset, "limit": updatesAtOnce, "timeout": int(timeout.Seconds()), "allowed_updates": allowedUpdates,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+callTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+"/bot"+t.token+"/getUpdates", bytes.NewReader(query))
	if err != nil {
		return nil, fault.New(fault.Invalid, "TELEGRAM_API_URL and TELEGRAM_BOT_TOKEN make no address")
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var e envelope
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
		return nil, unreachable(ctx, err)
	}
	if !e.OK {
		return nil, e.refusal()
	}
	var updates []json.RawMessage
	if err := json.Unmarshal(e.Result, &updates); err != nil {
		return nil, fault.New(fault.Unavailable, "Telegram answered getUpdates with something else than updates")
	}
	return updates, nil
}

func (e envelope) refusal() error {
	switch e.ErrorCode {
	case http.StatusUnauthorized, http.StatusNotFound:
		return refusedToken()
	case http.StatusConflict:
		return fault.New(fault.Conflict, "%s", e.Description)
	case http.StatusTooManyRequests:
		return fault.New(fault.RateLimited, "Telegram asks for a pause").After(time.Duration(e.Parameters.RetryAfter) * time.Second)
	}
	return fault.New(fault.Unavailable, "Telegram answered getUpdates with %d %s", e.ErrorCode, e.Description)
}

// errToken is what a refused token can be told by.
var errToken = errors.New("the token is refused")

// errUnknownCall marks a 404: whoever is asked knows the method not, or the token not. Telegram itself has every method;
// servers that stand in for it may lack some.
var errUnknownCall = errors.New("the call is unknown")

func refusedToken() error {
	return fault.Wrap(fault.Forbidden, errToken, "TELEGRAM_BOT_TOKEN is wrong or was revoked; ask @BotFather for the bot's token (/token) and set it")
}

// migrated is the answer of a group that has become a supergroup.
type migrated struct{ to int64 }

func (m *migrated) Error() string { return fmt.Sprintf("the group is the supergroup %d now", m.to) }

// errEntities marks a refusal of a message's formatting.
var errEntities = errors.New("the formatting is refused")

// errUnchanged marks an edit that would change nothing.
var errUnchanged = errors.New("the message says so already")

// verdicts are what Telegram's descriptions mean, the first that fits. Descriptions of Telegram's own server:
// https://github.com/tdlib/telegram-bot-api.
var verdicts = []struct {
	has  string // in lower case
	code fault.Code
	mark error
}{
	{"message is not modified", fault.Conflict, errUnchanged},
	{"can't parse entities", fault.Invalid, errEntities},
	{"can't parse messageentity", fault.Invalid, errEntities},
	{"entity", fault.Invalid, errEntities},
	{"entities", fault.Invalid, errEntities},
	{"message to edit not found", fault.NotFound, nil},
	{"message can't be edited", fault.NotFound, nil}, // it is as good as gone: what was to be said must be said anew
	{"message_id_invalid", fault.NotFound, nil},
	{"message to delete not found", fault.NotFound, nil},
	{"chat not found", fault.NotFound, nil},
	{"thread not found", fault.NotFound, nil},
	{"topic_deleted", fault.NotFound, nil},
	{"file_id", fault.NotFound, nil},
	{"too long", fault.TooLarge, nil},
	{"too big", fault.TooLarge, nil},
	{"message_too_long", fault.TooLarge, nil},
	{"entity too large", fault.TooLarge, nil},
	{"empty", fault.Invalid, nil},
	{"not enough rights", fault.Forbidden, nil},
	{"no rights", fault.Forbidden, nil},
	{"can't be deleted", fault.Forbidden, nil},
	{"topic_closed", fault.Forbidden, nil},
	{"chat_write_forbidden", fault.Forbidden, nil},
}

// quoted is what descriptions repeat of a message. An apostrophe within a word begins no quotation.
var quoted = regexp.MustCompile(`(?s)(?:\B)'.*'|".*"`)

// translate gives an error of the library's a code. What it says of a call is Telegram's description, without what the
// description repeats of the message.
func translate(err error) error {
	var coded *fault.Error
	var paused *bot.TooManyRequestsError
	var moved *bot.MigrateError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded):
		return coded
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Unavailable, "Telegram did not answer in time")
	case errors.As(err, &paused):
		return fault.New(fault.RateLimited, "Telegram asks for a pause of %d s", paused.RetryAfter).After(time.Duration(paused.RetryAfter) * time.Second)
	case errors.As(err, &moved):
		return &migrated{int64(moved.MigrateToChatID)}
	case errors.Is(err, bot.ErrorUnauthorized):
		return refusedToken()
	case errors.Is(err, bot.ErrorNotFound):
		return fault.Wrap(fault.Forbidden, errUnknownCall, "Telegram knows no such call, or no such bot")
	case errors.Is(err, bot.ErrorForbidden):
		return fault.New(fault.Forbidden, "%s", discreet(described(err)))
	case errors.Is(err, bot.ErrorConflict):
		return fault.New(fault.Conflict, "%s", discreet(described(err)))
	case errors.Is(err, bot.ErrorBadRequest):
		return judge(described(err))
	default:
		return fault.New(fault.Unavailable, "Telegram's answer cannot be read")
	}
}

func described(err error) string {
	_, description, _ := strings.Cut(err.Error(), ", ")
	return description
}

// discreet leaves out what a description repeats of a message: errors are logged.
func discreet(description string) string { return quoted.ReplaceAllString(description, "'…'") }

func judge(description string) error {
	lower := strings.ToLower(description)
	for _, v := range verdicts {
		if !strings.Contains(lower, v.has) {
			continue
		}
		if v.mark != nil {
			return fault.Wrap(v.code, v.mark, "%s", discreet(description))
		}
		return fault.New(v.code, "%s", discreet(description))
	}
	return fault.New(fault.Invalid, "%s", discreet(description))
}

// download opens a file at the Bot API's own host.
func (t *transport) download(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base+"/file/bot"+t.token+"/"+strings.TrimLeft(path, "/"), nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "Telegram names a file that has no address")
	}
	resp, err := t.http.Do(req)
	switch {
	case err != nil:
		return nil, unreachable(ctx, err)
	case resp.StatusCode == http.StatusOK:
		return resp.Body, nil
	}
	_ = resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		return nil, fault.New(fault.RateLimited, "Telegram asks for a pause").After(retryAfter(resp))
	case resp.StatusCode >= http.StatusInternalServerError:
		return nil, fault.New(fault.Unavailable, "Telegram answered with HTTP status %d", resp.StatusCode)
	}
	return nil, fault.New(fault.NotFound, "Telegram does not have the file any more (HTTP status %d)", resp.StatusCode)
}

func retryAfter(resp *http.Response) time.Duration {
	seconds, err := time.ParseDuration(resp.Header.Get("Retry-After") + "s")
	if err != nil {
		return time.Second
	}
	return seconds
}
