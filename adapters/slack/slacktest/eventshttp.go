package slacktest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Endpoints are the addresses that an app without Socket Mode is reached at. All empty: Socket Mode.
type Endpoints struct {
	Events        string `json:"events"`
	Commands      string `json:"commands,omitempty"`      // slash commands
	Interactivity string `json:"interactivity,omitempty"` // buttons
}

func (e Endpoints) usesHTTP() bool { return e.Events != "" }

// SetEndpoints switches to the HTTP Events API, after the address of events has answered Slack's challenge, or back to
// Socket Mode with the zero value.
func (s *Server) SetEndpoints(ctx context.Context, e Endpoints) error {
	if e.usesHTTP() {
		challenge := uuid.NewString()
		body, err := json.Marshal(reply{"type": "url_verification", "token": "verification", "challenge": challenge})
		if err != nil {
			return err
		}
		status, answer, err := s.signedPost(ctx, e.Events, "application/json", body, nil)
		if err != nil || status != http.StatusOK || !bytes.Contains(answer, []byte(challenge)) {
			s.mu.Lock()
			s.violate(BadURL, "", fmt.Sprintf("%s answered the challenge with %d", e.Events, status))
			s.mu.Unlock()
			return fmt.Errorf("slacktest: the events URL did not answer the challenge: %d %w", status, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = e
	return nil
}

// Sign makes the headers of a request as Slack signs it.
// https://docs.slack.dev/authentication/verifying-requests-from-slack
func (s *Server) Sign(body []byte, at time.Time) http.Header {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(s.App().SigningSecret))
	_, _ = fmt.Fprintf(mac, "v0:%s:%s", stamp, body) // a hash takes everything
	return http.Header{"X-Slack-Request-Timestamp": {stamp}, "X-Slack-Signature": {"v0=" + hex.EncodeToString(mac.Sum(nil))}}
}

// signedPost posts as Slack does and waits for an answer as long as Slack does.
func (s *Server) signedPost(ctx context.Context, to, kind string, body []byte, extra http.Header) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.AckTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	// The signature's time is the machine's: the app compares it with its own clock.
	req.Header = s.Sign(body, time.Now())
	req.Header.Set("Content-Type", kind)
	req.Header.Set("User-Agent", "Slackbot 1.0 (+https://api.slack.com/robots)")
	for k, v := range extra {
		req.Header[k] = v
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, answer, err
}

// postDelivery makes one attempt over HTTP. Lock held.
func (s *Server) postDelivery(d *delivery) {
	to, kind, body := s.endpoints.Events, "application/json", []byte(d.payload)
	switch d.kind {
	case "slash_commands":
		to, kind, body = s.endpoints.Commands, "application/x-www-form-urlencoded", commandForm(d.payload)
	case "interactive":
		to, kind, body = s.endpoints.Interactivity, "application/x-www-form-urlencoded", []byte(url.Values{"payload": {string(d.payload)}}.Encode())
	}
	if to == "" {
		s.giveUp(d)
		return
	}
	d.sent++
	extra := http.Header{}
	if d.attempt > 0 {
		extra.Set("X-Slack-Retry-Num", strconv.Itoa(d.attempt))
		extra.Set("X-Slack-Retry-Reason", d.reason)
	}
	go func() {
		status, answer, err := s.signedPost(context.Background(), to, kind, body, extra)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case err != nil && isTimeout(err):
			s.failed(d, "http_timeout")
		case err != nil:
			s.failed(d, "connection_failed")
		case status >= 300:
			s.failed(d, "http_error")
		default:
			if !json.Valid(answer) {
				answer = nil
			}
			s.acknowledge(d, answer)
		}
	}()
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

func commandForm(payload json.RawMessage) []byte {
	var fields map[string]any
	if json.Unmarshal(payload, &fields) != nil {
		return nil
	}
	form := url.Values{}
	for k, v := range fields {
		form.Set(k, fmt.Sprint(v))
	}
	return []byte(form.Encode())
}
