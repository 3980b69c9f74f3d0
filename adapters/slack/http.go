package slack

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"github.com/geminixiang/mikan/internal/failpoint"
)

// eventsPath takes everything that Slack sends: events, commands and presses of buttons. The other paths are for apps
// whose settings name them one by one.
const (
	eventsPath   = "/slack/events"
	commandsPath = "/slack/commands"
	pressesPath  = "/slack/interactive"
)

// maxBody is more than Slack sends.
const maxBody = 1 << 20

func (in *inbound) mount(mux *http.ServeMux) {
	for _, path := range []string{eventsPath, commandsPath, pressesPath} {
		mux.HandleFunc("POST "+path, in.serve)
	}
}

// serve takes a request of Slack's in. It is answered once what it brings is committed; anything but 200 makes Slack send
// an event again.
func (in *inbound) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return
	}
	if !in.signed(r.Header, body) {
		in.refuse("signature", "a request without Slack's signature was refused")
		http.Error(w, "the signature is refused", http.StatusUnauthorized)
		return
	}
	kind, payload := readRequest(r.Header.Get("Content-Type"), body)
	var e envelope
	if kind == socketmode.RequestTypeEventsAPI && json.Unmarshal(payload, &e) == nil && e.Type == "url_verification" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, e.Challenge)
		return
	}
	in.mu.Lock()
	running := in.ctx != nil && in.ctx.Err() == nil
	in.mu.Unlock()
	if !running {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	me, err := in.identity(r.Context())
	if err != nil {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	if _, do := in.workOf(me, kind, payload); do != nil {
		if err := do(r.Context()); err != nil {
			http.Error(w, "not committed", http.StatusServiceUnavailable)
			return
		}
	}
	failpoint.Hit("slack.ack.before")
	w.WriteHeader(http.StatusOK)
	failpoint.Hit("slack.ack.after")
}

// signed checks Slack's signature, in constant time, and that the request is at most five minutes old.
// https://docs.slack.dev/authentication/verifying-requests-from-slack
func (in *inbound) signed(header http.Header, body []byte) bool {
	verifier, err := sdk.NewSecretsVerifier(header, in.config.SigningSecret.Reveal())
	if err != nil {
		return false
	}
	_, _ = verifier.Write(body) // a hash takes everything
	return verifier.Ensure() == nil
}

// readRequest tells what a request brings, as a socket would say it: events are JSON, commands a form, presses JSON
// inside a form.
func readRequest(contentType string, body []byte) (kind string, payload json.RawMessage) {
	if !strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
		return socketmode.RequestTypeEventsAPI, body
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return "", nil
	}
	if press := form.Get("payload"); press != "" {
		return socketmode.RequestTypeInteractive, json.RawMessage(press)
	}
	fields := map[string]string{}
	for name := range form {
		fields[name] = form.Get(name)
	}
	payload, _ = json.Marshal(fields)
	return socketmode.RequestTypeSlashCommands, payload
}
