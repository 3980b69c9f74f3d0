package telegram

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

const (
	// updateLimit bounds an update in bytes. A message of 4,096 characters with its reply is below 100 kB.
	updateLimit = 1 << 20
	// lookAfter is how often a gateway looks whether its webhook is still the one that Telegram knows.
	lookAfter = time.Minute
	// secretHeader carries the secret that was given to setWebhook.
	secretHeader = "X-Telegram-Bot-Api-Secret-Token"
)

func (in *inbound) mount() {
	in.gateway.Mux.HandleFunc("POST "+config.TelegramWebhookPath, in.serveUpdate)
}

// serveUpdate answers with 200 when an update is committed, or will never be; Telegram repeats it after anything else,
// for 24 hours.
func (in *inbound) serveUpdate(w http.ResponseWriter, r *http.Request) {
	given, secret := []byte(r.Header.Get(secretHeader)), []byte(in.config.WebhookSecret.Reveal())
	if subtle.ConstantTimeCompare(given, secret) != 1 {
		in.metrics.Refused(office.Telegram, "secret")
		http.Error(w, "the secret is wrong", http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, updateLimit))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			http.Error(w, "the update is too large", http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(w, "the update did not arrive whole", http.StatusBadRequest)
		return
	}
	if err := in.commit(r.Context(), in.decode([]json.RawMessage{body})); err != nil {
		in.log.Warn("an update of Telegram's is not taken in yet", "code", fault.CodeOf(err))
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// keepWebhook tells Telegram where to post, and looks now and then whether it still does.
func (in *inbound) keepWebhook(ctx context.Context) error {
	for {
		if err := in.patiently(ctx, func() error { return in.ensureWebhook(ctx) }); err != nil {
			return err
		}
		select {
		case <-time.After(lookAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

func (in *inbound) ensureWebhook(ctx context.Context) error {
	info, err := in.webhookInfo(ctx)
	if errors.Is(err, errUnknownCall) {
		info, err = &models.WebhookInfo{URL: in.config.WebhookURL}, nil
	}
	if err != nil {
		return err
	}
	if info.URL != in.config.WebhookURL || !in.setOnce.Load() {
		if err := in.setWebhook(ctx); err != nil {
			return err
		}
		in.setOnce.Store(true)
		info = &models.WebhookInfo{}
	}
	failed := time.Unix(int64(info.LastErrorDate), 0)
	if info.PendingUpdateCount > 0 && time.Since(failed) < 2*lookAfter {
		in.gateway.Ready(fault.New(fault.Unavailable, "Telegram cannot deliver to the webhook: %s", info.LastErrorMessage))
		return nil
	}
	in.gateway.Ready(nil)
	return nil
}

func (in *inbound) setWebhook(ctx context.Context) error {
	// Noted before the call: a webhook that is there and not known would be taken for a stranger's.
	if err := in.store.SetCursor(ctx, in.webhookStream(), in.config.WebhookURL); err != nil {
		return err
	}
	return in.call(ctx, "setwebhook", func(ctx context.Context) error {
		_, err := in.bot.SetWebhook(ctx, &bot.SetWebhookParams{
			URL: in.config.WebhookURL, SecretToken: in.config.WebhookSecret.Reveal(), AllowedUpdates: allowedUpdates,
		})
		return err
	})
}

func (a *Adapter) webhookInfo(ctx context.Context) (*models.WebhookInfo, error) {
	var info *models.WebhookInfo
	err := a.call(ctx, "getwebhookinfo", func(ctx context.Context) (err error) {
		info, err = a.bot.GetWebhookInfo(ctx)
		return err
	})
	return info, err
}

// webhookStream is where the address of the webhook stands that mikan set last.
func (a *Adapter) webhookStream() store.Stream {
	return store.Stream{Platform: string(office.Telegram), Installation: a.installation(), Scope: "webhook"}
}

// foreignWebhook is an error about a webhook that mikan has not set itself.
func (a *Adapter) foreignWebhook(ctx context.Context, address string) error {
	own, known, err := a.store.Cursor(ctx, a.webhookStream())
	if err != nil || known && own == address {
		return err
	}
	host := "another address"
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		host = u.Host
	}
	return fault.New(fault.Conflict, "this bot's messages go to a webhook at %s that mikan has not set; call deleteWebhook if nothing uses it any more, "+
		"set TELEGRAM_WEBHOOK_SECRET to use a webhook of mikan's, or take another bot", host)
}

// clearWebhook removes the webhook that mikan set before it was told to poll. Somebody else's stays.
func (in *inbound) clearWebhook(ctx context.Context) error {
	info, err := in.webhookInfo(ctx)
	if errors.Is(err, errUnknownCall) { // polling finds out by itself
		in.log.Warn("Telegram does not tell whether a webhook is set", "error", err)
		return nil
	}
	if err != nil || info.URL == "" {
		return err
	}
	if err := in.foreignWebhook(ctx, info.URL); err != nil {
		return err
	}
	return in.call(ctx, "deletewebhook", func(ctx context.Context) error {
		_, err := in.bot.DeleteWebhook(ctx, &bot.DeleteWebhookParams{})
		return err
	})
}
