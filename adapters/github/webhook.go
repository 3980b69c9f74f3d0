package github

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/text"
)

// WebhookPath is where GitHub sends events.
const WebhookPath = "/github/webhook"

// maxPayload is the largest payload that GitHub sends.
// https://docs.github.com/en/webhooks/webhook-events-and-payloads#payload-cap
const maxPayload = 25 << 20

// takeWithin bounds the work on one webhook: GitHub hangs up after ten seconds and counts the delivery as failed, so an
// honest refusal comes before that.
const takeWithin = 8 * time.Second

// webhook takes one delivery. What it is acknowledged with: 200 a ping, 202 what is committed or will never be of use,
// 401 a wrong signature, 405 other methods, 413 more than 25 MiB, 400 what is signed and yet no payload of GitHub's, 503
// what could not be committed: GitHub does not send it again by itself, but it is read and asked for later.
func (in *inbound) webhook(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
		return
	}
	if r.ContentLength > maxPayload {
		http.Error(w, "at most 25 MiB", http.StatusRequestEntityTooLarge)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPayload))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, "at most 25 MiB", http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, "the body ended early", http.StatusBadRequest)
		return
	case !signed(r.Header.Get("X-Hub-Signature-256"), in.config.WebhookSecret.Reveal(), body):
		in.Metrics.Refused(office.GitHub, "signature")
		http.Error(w, "the signature is missing or wrong", http.StatusUnauthorized)
		return
	}
	payload, ok := payloadOf(r.Header.Get("Content-Type"), body)
	event := r.Header.Get("X-GitHub-Event")
	if !ok || event == "" {
		http.Error(w, "not a delivery of GitHub's", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), takeWithin)
	defer cancel()
	err = in.deliver(ctx, r.Header, event, payload)
	switch fault.CodeOf(err) {
	case "":
		if event == "ping" {
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, "pong\n")
			return
		}
		w.WriteHeader(http.StatusAccepted)
	case fault.Invalid:
		in.Metrics.Refused(office.GitHub, "payload")
		http.Error(w, "the payload cannot be read", http.StatusBadRequest)
	default:
		in.Log.Warn("a webhook was not taken in; it will be read or asked for again", "event", event,
			"delivery", text.Clip(r.Header.Get("X-GitHub-Delivery"), 64), "code", fault.CodeOf(err))
		in.missed()
		http.Error(w, "not now", http.StatusServiceUnavailable)
	}
}

// signed compares in constant time. Only SHA-256 counts; the older header is ignored.
func signed(header, secret string, body []byte) bool {
	digits, ok := strings.CutPrefix(header, "sha256=")
	claimed, err := hex.DecodeString(digits)
	if !ok || err != nil || secret == "" {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return hmac.Equal(mac.Sum(nil), claimed)
}

// payloadOf unwraps the form in which a webhook may be configured to come.
func payloadOf(contentType string, body []byte) (json.RawMessage, bool) {
	kind, _, err := mime.ParseMediaType(contentType)
	if err == nil && kind == "application/x-www-form-urlencoded" {
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, false
		}
		body = []byte(values.Get("payload"))
	}
	return body, json.Valid(body)
}

// deliver takes in what a delivery says. A delivery is known again by what it says, whichever GUID it comes under: two
// webhooks of one repository, a redelivery, and what was read meanwhile are all the same.
func (in *inbound) deliver(ctx context.Context, header http.Header, event string, payload []byte) error {
	if event == "ping" {
		in.noteHook(ctx, header, payload)
		return nil
	}
	if !slices.Contains(handled, event) {
		return nil
	}
	me, err := in.self(ctx)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "who the token belongs to is not known yet")
	}
	all, err := saidIn(event, payload, me)
	if err != nil {
		return fault.New(fault.Invalid, "the payload is none of GitHub's")
	}
	// Before anything is asked or kept: whoever dies over the first delivery of all leaves word of where it came from.
	in.noteHook(ctx, header, payload)
	for _, s := range all {
		if addressed(s, me, in.on) != adapters.NotAddressed {
			in.noteRepository(ctx, me, s)
		}
		kept, err := in.take(ctx, s, me)
		if err != nil {
			return err
		}
		if kept {
			in.noteRepository(ctx, me, s)
		}
	}
	return nil
}

// hookOf names the webhook that a delivery came by; false when GitHub did not say.
func hookOf(header http.Header, payload []byte) (hook, bool) {
	id, err := strconv.ParseInt(header.Get("X-GitHub-Hook-ID"), 10, 64)
	if err != nil || id <= 0 {
		return hook{}, false
	}
	var p struct {
		Repository struct {
			Name  string `json:"name"`
			Owner struct {
				Login string `json:"login"`
			} `json:"owner"`
		} `json:"repository"`
		Organization struct {
			Login string `json:"login"`
		} `json:"organization"`
	}
	if json.Unmarshal(payload, &p) != nil {
		return hook{}, false
	}
	h := hook{id: id, owner: strings.ToLower(p.Repository.Owner.Login)}
	switch header.Get("X-GitHub-Hook-Installation-Target-Type") {
	case "repository":
		h.repo = strings.ToLower(p.Repository.Name)
		return h, h.owner != "" && h.repo != ""
	case "organization":
		if h.owner == "" {
			h.owner = strings.ToLower(p.Organization.Login)
		}
		return h, h.owner != ""
	}
	return hook{}, false
}
