package telegram_test

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
)

// useWebhook configures a webhook at a free port.
func (r *rig) useWebhook() {
	r.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	r.must(err)
	r.must(ln.Close())
	r.config.WebhookURL = "http://" + ln.Addr().String() + config.TelegramWebhookPath
	r.config.WebhookSecret = "a-secret_of-ours"
	r.adapter = r.another("one")
}

// setWebhook sets somebody else's webhook.
func (r *rig) setWebhook(address string) {
	r.Helper()
	resp, err := http.Get(r.telegram.URL + "/bot" + r.telegram.Token + "/setWebhook?url=" + address)
	r.must(err)
	_ = resp.Body.Close()
}

// post makes a request to the webhook as somebody who claims to be Telegram.
func (r *rig) post(method, secret, body string) int {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.config.WebhookURL, strings.NewReader(body))
	r.must(err)
	if secret != "" {
		req.Header.Set("X-Telegram-Bot-Api-Secret-Token", secret)
	}
	resp, err := http.DefaultClient.Do(req)
	r.must(err)
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestUpdatesComeByWebhook(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Hosting: telegramtest.LocalMode})
	r.useWebhook()
	refused := make(chan struct{}, 100)
	r.answer(func(m adapters.Message) error {
		if m.Text == "two" && len(refused) < 2 {
			refused <- struct{}{}
			return fault.New(fault.Unavailable, "the database is down")
		}
		return nil
	})
	r.start(r.adapter)
	r.eventually("the webhook is set", func() bool { return r.telegram.Webhook() == r.config.WebhookURL && r.connected() })
	for _, text := range []string{"one", "two", "three"} {
		r.say(text)
	}
	r.comesIn("one", "two", "three") // the second is repeated until it is committed, and the third waits behind it
	r.eventually("all is confirmed", func() bool { return r.telegram.Pending() == 0 })
	if len(refused) != 2 {
		t.Errorf("the second was tried %d times in vain", len(refused))
	}
	if n := r.polls(); n != 0 {
		t.Errorf("it polled %d times", n)
	}
}

func TestTwoGatewaysShareAWebhook(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Hosting: telegramtest.LocalMode})
	r.useWebhook()
	r.start(r.adapter)
	r.eventually("the webhook is set", func() bool { return r.telegram.Webhook() != "" && r.connected() })
	before := r.telegram.Webhook()
	second := r.another("two")
	ctx := t.Context()
	side := second.Inbound(adapters.Gateway{Receive: r.receive, Ready: r.isReady, Mux: http.NewServeMux()})
	go func() { _ = side.Run(ctx) }()
	r.eventually("the second has set it, too", func() bool { return len(r.telegram.Calls("setWebhook")) == 2 })
	r.say("one")
	r.comesIn("one")
	if r.telegram.Webhook() != before {
		t.Error("the webhook moved")
	}
}

func TestWhoDoesNotKnowTheSecretIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Hosting: telegramtest.LocalMode})
	r.useWebhook()
	r.start(r.adapter)
	r.eventually("the webhook is set", func() bool { return r.telegram.Webhook() != "" && r.connected() })
	const forged = `{"update_id":1,"message":{"message_id":1,"date":1,"chat":{"id":1001,"type":"private"},"from":{"id":1001},"text":"let me in"}}`
	for _, c := range []struct {
		what, method, secret, body string
		want                       int
	}{
		{"no secret", http.MethodPost, "", forged, http.StatusUnauthorized},
		{"a wrong secret", http.MethodPost, "a-secret_of-our5", forged, http.StatusUnauthorized},
		{"a part of the secret", http.MethodPost, "a-secret", forged, http.StatusUnauthorized},
		{"no secret and a huge body", http.MethodPost, "", strings.Repeat("x", 2<<20), http.StatusUnauthorized},
		{"another method", http.MethodGet, "a-secret_of-ours", "", http.StatusMethodNotAllowed},
		{"a huge body", http.MethodPost, "a-secret_of-ours", strings.Repeat("x", 2<<20), http.StatusRequestEntityTooLarge},
		{"no update", http.MethodPost, "a-secret_of-ours", "not JSON", http.StatusOK}, // it would be no update the next time
	} {
		if got := r.post(c.method, c.secret, c.body); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
	if got := r.all(); len(got) != 0 {
		t.Errorf("%+v came in", got)
	}
	if n := r.counted(`mikan_messages_refused_total{platform="telegram",reason="secret"}`); n != 4 {
		t.Errorf("%v requests counted as refused", n)
	}
}

func TestTheWebhookIsSetOnceItsSecretIsUnknownToTelegram(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Hosting: telegramtest.LocalMode})
	r.useWebhook()
	r.setWebhook(r.config.WebhookURL) // the same address, with another secret or none
	r.start(r.adapter)
	r.say("one")
	r.comesIn("one")
	if !slices.Contains(r.texts(), "one") {
		t.Error("nothing came in")
	}
}
