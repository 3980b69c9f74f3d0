package telegramtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// webhook is where updates go instead of into getUpdates.
type webhook struct {
	url     string
	secret  string
	most    int
	stop    context.CancelFunc
	failed  time.Time
	failure string
}

// webhookTime bounds one delivery.
const webhookTime = 30 * time.Second

var secretCharacters = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)

func (s *Server) setWebhook(c *call) (any, *refusal) {
	address, secret := c.args.text("url"), c.args.text("secret_token")
	if address == "" {
		return s.deleteWebhook(c)
	}
	if problem := s.checkWebhook(address); problem != nil {
		return nil, problem
	}
	switch {
	case len(secret) > 256:
		return nil, wrong("secret token is too long")
	case !secretCharacters.MatchString(secret):
		return nil, wrong("secret token contains unallowed characters")
	}
	s.drop(c)
	s.allow(c.args)
	s.endWebhook()
	if s.poll != nil {
		s.poll.ended <- webhookSet
		s.poll = nil
	}
	ctx, stop := context.WithCancel(context.Background())
	s.webhook = webhook{url: address, secret: secret, most: int(c.args.integer("max_connections")), stop: stop}
	go s.deliver(ctx)
	s.happen()
	return true, nil
}

func (s *Server) checkWebhook(address string) *refusal {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return wrong("invalid webhook URL specified")
	case s.Hosting == LocalMode:
		return nil
	case u.Scheme != "https":
		return wrong("bad webhook: An HTTPS URL must be provided for webhook")
	case !slices.Contains([]string{"", "443", "80", "88", "8443"}, u.Port()):
		return wrong("bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443")
	case u.Hostname() == "localhost" || strings.HasPrefix(u.Hostname(), "127."):
		return wrong("bad webhook: IP address %s is reserved", u.Hostname())
	}
	return nil
}

func (s *Server) drop(c *call) {
	if c.args.flag("drop_pending_updates") {
		s.violateLocked(c.method.Name, "it drops messages that nobody has read")
		s.updates = nil
	}
}

func (s *Server) deleteWebhook(c *call) (any, *refusal) {
	s.drop(c)
	s.endWebhook()
	s.happen()
	return true, nil
}

func (s *Server) endWebhook() {
	if s.webhook.stop != nil {
		s.webhook.stop()
	}
	s.webhook = webhook{}
}

// StopWebhook ends deliveries to a webhook, as deleteWebhook does.
func (s *Server) StopWebhook() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endWebhook()
}

func (s *Server) getWebhookInfo(*call) (any, *refusal) {
	w := map[string]any{"url": s.webhook.url, "has_custom_certificate": false, "pending_update_count": len(s.updates)}
	if s.webhook.url != "" {
		w["max_connections"] = 40
		if s.webhook.most > 0 {
			w["max_connections"] = s.webhook.most
		}
	}
	if !s.webhook.failed.IsZero() {
		w["last_error_date"], w["last_error_message"] = s.webhook.failed.Unix(), s.webhook.failure
	}
	return w, nil
}

// deliver posts updates to the webhook, those of one chat in their order, each until it is answered with 2xx.
func (s *Server) deliver(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		next, wait := s.due()
		changed, to := s.changed, s.webhook
		s.mu.Unlock()
		if next == nil {
			select {
			case <-changed:
			case <-time.After(wait):
			case <-ctx.Done():
			}
			continue
		}
		failure := post(ctx, to, next)
		if ctx.Err() != nil {
			return
		}
		s.settle(next.id, failure)
	}
}

// due finds the next update to post: the first of each chat whose pause is over. The lock is held.
func (s *Server) due() (next *update, wait time.Duration) {
	now, wait := time.Now(), time.Minute
	seen := map[int64]bool{}
	for _, u := range s.updates {
		if seen[u.chat] {
			continue
		}
		seen[u.chat] = true
		if left := u.after.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		return &u, 0
	}
	return nil, wait
}

func post(ctx context.Context, to webhook, u *update) (failure string) {
	body, _ := json.Marshal(u.wire())
	ctx, cancel := context.WithTimeout(ctx, webhookTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	if to.secret != "" {
		req.Header.Set("X-Telegram-Bot-Api-Secret-Token", to.secret)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "Webhook connection closed"
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return fmt.Sprintf("Wrong response from the webhook: %s", resp.Status)
	}
	return ""
}

func (s *Server) settle(id int64, failure string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.updates {
		u := &s.updates[i]
		if u.id != id {
			continue
		}
		if failure == "" {
			s.forgotten = append(s.forgotten, *u)
			s.updates = slices.Delete(s.updates, i, i+1)
			break
		}
		u.after = time.Now().Add(s.Pause << min(u.attempts, 4))
		u.attempts++
		s.webhook.failed, s.webhook.failure = s.Now(), failure
		break
	}
	s.happen()
}
