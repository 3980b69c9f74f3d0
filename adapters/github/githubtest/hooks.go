package githubtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// hookPatience is how long GitHub waits for an answer to a webhook.
// https://docs.github.com/en/webhooks/using-webhooks/best-practices-for-using-webhooks#respond-within-10-seconds
const hookPatience = 10 * time.Second

type hook struct {
	id         int64
	target     string // lower-case owner/name, or an owner for a hook of all its repositories
	url        string
	secret     string
	events     []string
	form       bool // application/x-www-form-urlencoded instead of JSON
	deliveries []*delivery
	skip       int // the next deliveries never leave: GitHub cannot connect
}

type delivery struct {
	id         int64
	guid       string
	event      string
	action     string
	at         time.Time
	redelivery bool
	status     string
	code       int
	took       time.Duration
	payload    []byte
}

func (h *hook) takes(r *repo, event string) bool {
	full := strings.ToLower(r.full())
	return (h.target == full || h.target == strings.ToLower(r.owner)) && (len(h.events) == 0 || slices.Contains(h.events, event))
}

// send queues the webhooks of a change that came by REST.
func (c *call) send(event, action string, payload object) {
	c.emit = append(c.emit, c.s.webhooks(c.repo, c.login, event, action, payload)...)
}

// webhooks makes the deliveries of an event, one for each hook that takes it; with the lock held. The functions send
// them, without it.
func (s *Server) webhooks(r *repo, sender, event, action string, payload object) []func() {
	payload["action"] = action
	payload["repository"] = s.repoJSON(r)
	payload["sender"] = s.userJSON(sender)
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	var all []func()
	for _, h := range s.hooks {
		if !h.takes(r, event) {
			continue
		}
		d := s.newDelivery(h, event, action, raw)
		all = append(all, func() { s.deliver(h, d) })
	}
	return all
}

func (s *Server) newDelivery(h *hook, event, action string, raw []byte) *delivery {
	s.nextGUID++
	d := &delivery{id: s.id(), guid: fmt.Sprintf("%08x-0000-11f0-8000-%012x", s.nextGUID, s.nextGUID), event: event, action: action, at: s.now(), payload: raw}
	h.deliveries = append(h.deliveries, d)
	return d
}

func signature(make func() hash.Hash, secret string, body []byte) string {
	mac := hmac.New(make, []byte(secret))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// deliver sends a webhook once and records what came of it. Nothing is ever sent again by itself.
func (s *Server) deliver(h *hook, d *delivery) {
	s.mu.Lock()
	skipped := h.skip > 0
	if skipped {
		h.skip--
	}
	s.mu.Unlock()
	began := time.Now()
	status, code := "failed to connect to host", 0
	if !skipped {
		status, code = s.push(h, d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.status, d.code, d.took = status, code, time.Since(began)
}

// WebhookRequest makes the request of a delivery as GitHub sends it.
func WebhookRequest(address, secret, event, guid string, body []byte) (*http.Request, error) {
	req, err := http.NewRequest(http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "GitHub-Hookshot/1a2b3c4", "Accept": "*/*", "X-GitHub-Event": event, "X-GitHub-Delivery": guid,
		"X-Hub-Signature": "sha1=" + signature(sha1.New, secret, body), "X-Hub-Signature-256": "sha256=" + signature(sha256.New, secret, body),
	} {
		req.Header.Set(name, value)
	}
	return req, nil
}

func (s *Server) push(h *hook, d *delivery) (string, int) {
	body := d.payload
	if h.form {
		body = []byte(url.Values{"payload": {string(d.payload)}}.Encode())
	}
	req, err := WebhookRequest(h.url, h.secret, d.event, d.guid, body)
	if err != nil {
		return "failed to connect to host", 0
	}
	if h.form {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	kind := "organization"
	if strings.Contains(h.target, "/") {
		kind = "repository"
	}
	req.Header.Set("X-GitHub-Hook-ID", strconv.FormatInt(h.id, 10))
	req.Header.Set("X-GitHub-Hook-Installation-Target-Type", kind)
	client := http.Client{Timeout: hookPatience}
	answer, err := client.Do(req)
	if err != nil {
		return "timed out", 0
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, answer.Body)
	if answer.StatusCode < 300 {
		return "OK", answer.StatusCode
	}
	return "Invalid HTTP Response: " + strconv.Itoa(answer.StatusCode), answer.StatusCode
}

// hooksOf are the hooks that a route's path is about.
func (c *call) hooksOf() []*hook {
	target := strings.ToLower(c.values["org"])
	if c.repo != nil {
		target = strings.ToLower(c.repo.full())
	}
	return slices.DeleteFunc(slices.Clone(c.s.hooks), func(h *hook) bool { return h.target != target })
}

func (c *call) hook() *hook {
	for _, h := range c.hooksOf() {
		if h.id == c.number("id") {
			return h
		}
	}
	return nil
}

func (c *call) listHooks() reply {
	return page(c, c.hooksOf(), func(h *hook) object {
		events := h.events
		if len(events) == 0 {
			events = []string{"*"}
		}
		kind := "json"
		if h.form {
			kind = "form"
		}
		return object{"id": h.id, "name": "web", "active": true, "events": events, "config": object{"url": h.url, "content_type": kind, "secret": "********", "insecure_ssl": "0"}}
	})
}

// listDeliveries shows the newest first; the other pages are behind a cursor.
func (c *call) listDeliveries() reply {
	h := c.hook()
	if h == nil {
		return notFound()
	}
	all := slices.Clone(h.deliveries)
	slices.Reverse(all)
	size, from := 30, 0
	if n, err := strconv.Atoi(c.query["per_page"]); err == nil {
		size = min(n, 100)
	}
	if rest, is := strings.CutPrefix(c.query["cursor"], "v1_"); is {
		from, _ = strconv.Atoi(rest)
	}
	shown := []object{}
	for _, d := range all[min(from, len(all)):min(from+size, len(all))] {
		shown = append(shown, object{"id": d.id, "guid": d.guid, "delivered_at": stamp(d.at), "redelivery": d.redelivery, "duration": d.took.Seconds(),
			"status": d.status, "status_code": d.code, "event": d.event, "action": nullable(d.action), "installation_id": nil, "repository_id": nil})
	}
	a := ok(shown)
	if from+size < len(all) {
		a.header = map[string]string{"Link": fmt.Sprintf(`<%s%s?per_page=%d&cursor=v1_%d>; rel="next"`, c.s.URL, c.route.Path, size, from+size)}
	}
	return a
}

func (c *call) attempt() reply {
	h := c.hook()
	if h == nil {
		return notFound()
	}
	for _, d := range h.deliveries {
		if d.id == c.number("rid") {
			again := c.s.again(h, d)
			c.emit = append(c.emit, func() { c.s.deliver(h, again) })
			return reply{status: http.StatusAccepted, body: object{}}
		}
	}
	return notFound()
}

// again makes the redelivery of a delivery: another id, the same GUID and payload.
func (s *Server) again(h *hook, d *delivery) *delivery {
	copied := *d
	copied.id, copied.at, copied.redelivery, copied.status, copied.code = s.id(), s.now(), true, "pending", 0
	h.deliveries = append(h.deliveries, &copied)
	return &copied
}
