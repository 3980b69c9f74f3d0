// Package telegram is the adapter of Telegram's Bot API: long polling or a webhook inbound, messages with entities
// outbound.
//
// Telegram can neither deduplicate a message nor list those of a chat. A run's message is therefore posted as a
// placeholder before the model is called, and edited from then on: an edit can be repeated.
//
// A group that becomes a supergroup gets another id and counts its messages anew. Its office stays that of the first id
// (store.Alias); ids of messages in later chats carry the chat's, as "-1001234567890.5", so that none is taken for one
// of the first chat's.
package telegram

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// callTime bounds a call that nothing else bounds.
const callTime = 15 * time.Second

// Adapter is one bot.
type Adapter struct {
	config    config.TelegramConfig
	botID     int64
	bot       *bot.Bot
	transport *transport
	store     *store.Store
	process   string
	metrics   *telemetry.Metrics
	log       *slog.Logger
	limiter   *rate.Limiter
	identity  atomic.Pointer[identity] // nil until Telegram has said who the bot is
	people    sync.Map                 // what was kept of people lately, by id
}

// identity is the bot as people address it.
type identity struct {
	id       int64
	username string
}

var (
	_ adapters.Adapter  = (*Adapter)(nil)
	_ adapters.Presence = (*Adapter)(nil)
	_ adapters.Fetcher  = (*Adapter)(nil)
	_ adapters.Uploader = (*Adapter)(nil)
)

// New makes the adapter of the bot that the token is for. It calls nothing. Errors are invalid: what is set is no token.
func New(c config.TelegramConfig, s adapters.Services) (*Adapter, error) {
	token := c.BotToken.Reveal()
	number, _, found := strings.Cut(token, ":")
	id, err := strconv.ParseInt(number, 10, 64)
	if !found || err != nil || id <= 0 || strings.ContainsAny(token, "/?# ") {
		return nil, fault.New(fault.Invalid, "TELEGRAM_BOT_TOKEN is no bot token, which looks like 123456789:AAH…; set it to what @BotFather gave you")
	}
	a := &Adapter{
		config: c, botID: id, transport: newTransport(c.APIURL, token),
		store: s.Store, process: s.Process, metrics: s.Metrics, log: s.Log,
	}
	a.limiter = &rate.Limiter{Store: s.Store, Installation: "telegram/" + number}
	a.bot, err = bot.New(token, bot.WithSkipGetMe(), bot.WithServerURL(a.transport.base), bot.WithHTTPClient(0, a.transport),
		bot.WithErrorsHandler(func(error) { s.Log.Warn("the Telegram library reports a problem with a request") }))
	if err != nil {
		return nil, fault.New(fault.Invalid, "TELEGRAM_BOT_TOKEN is refused by the Telegram library")
	}
	return a, nil
}

// Platform is telegram.
func (a *Adapter) Platform() office.Platform { return office.Telegram }

// installation names the bot in cursors and among people.
func (a *Adapter) installation() string { return strconv.FormatInt(a.botID, 10) }

// Redraws of one message are at least so far apart; a group takes 20 messages a minute.
const (
	redrawPrivate = time.Second
	redrawGroup   = 3 * time.Second
)

// Capabilities of a chat. Groups have negative ids.
func (a *Adapter) Capabilities(at office.Address) adapters.Capabilities {
	c := adapters.Capabilities{
		Redraws: adapters.EditRedraws, RedrawEvery: redrawPrivate, Placeholder: adapters.PlaceholderFirst, Waiting: adapters.WaitingNoticed,
	}
	if strings.HasPrefix(at.ConversationID, "-") {
		c.RedrawEvery = redrawGroup
	}
	return c
}

// call makes a call that no delivery makes. what names its fail points and is a constant.
func (a *Adapter) call(ctx context.Context, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	failpoint.Hit("telegram." + what + ".before")
	err := do(ctx)
	failpoint.Hit("telegram." + what + ".after")
	return translate(err)
}

// whoAmI asks Telegram who the bot is.
func (a *Adapter) whoAmI(ctx context.Context) (*models.User, error) {
	var me *models.User
	err := a.call(ctx, "getme", func(ctx context.Context) (err error) {
		me, err = a.bot.GetMe(ctx)
		return err
	})
	if errors.Is(err, errUnknownCall) { // every server has this method
		err = refusedToken()
	}
	if err != nil {
		return nil, err
	}
	a.identity.Store(&identity{id: me.ID, username: me.Username})
	return me, nil
}

// Check tells whether the token works, how messages come in, and what the bot hears in groups.
func (a *Adapter) Check(ctx context.Context) []adapters.Finding {
	me, err := a.whoAmI(ctx)
	if err != nil {
		return []adapters.Finding{{What: "bot token", Err: err}}
	}
	found := []adapters.Finding{{What: "bot token", Note: fmt.Sprintf("@%s (%d)", me.Username, me.ID)}, a.checkWebhook(ctx)}
	groups := adapters.Finding{What: "groups"}
	switch {
	case !me.CanJoinGroups:
		groups.Note = "the bot cannot be added to groups (@BotFather: /setjoingroups)"
	case me.CanReadAllGroupMessages:
		groups.Note = "privacy mode is off: mikan logs everything that is said in its groups"
	default:
		groups.Note = "privacy mode is on: in groups mikan knows only commands, mentions and replies to it; to give it the talk " +
			"around them, turn it off (@BotFather: /setprivacy) and add the bot to the group again"
	}
	return append(found, groups)
}

func (a *Adapter) checkWebhook(ctx context.Context) adapters.Finding {
	finding := adapters.Finding{What: "messages"}
	info, err := a.webhookInfo(ctx)
	switch {
	case err != nil:
		finding.Err = err
	case a.config.WebhookURL != "" && info.URL != a.config.WebhookURL:
		finding.Note = "the webhook is not set yet; the gateway sets it when it starts"
	case a.config.WebhookURL != "" && info.LastErrorDate != 0:
		finding.Note = fmt.Sprintf("by webhook; %d wait; the last failure, at %s: %s",
			info.PendingUpdateCount, time.Unix(int64(info.LastErrorDate), 0).UTC().Format(time.RFC3339), info.LastErrorMessage)
	case a.config.WebhookURL != "":
		finding.Note = fmt.Sprintf("by webhook; %d wait", info.PendingUpdateCount)
	case info.URL != "":
		finding.Err = a.foreignWebhook(ctx, info.URL)
		if finding.Err == nil {
			finding.Note = "the webhook that mikan has set is still there; the gateway removes it when it starts"
		}
	default:
		finding.Note = fmt.Sprintf("by long polling; %d wait", info.PendingUpdateCount)
	}
	return finding
}
