package discord

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// maxUpload is what Discord takes in a guild without boosts, in bytes:
// https://discord.com/developers/docs/reference#uploading-files.
const maxUpload = 10 << 20

// downloads reach the CDN. No token ever goes there: addresses are signed.
var downloads = &http.Client{Timeout: 10 * time.Minute}

// Fetch opens an attachment. Its message is asked for its address, which is good for a day only.
func (a *Adapter) Fetch(ctx context.Context, _ office.Address, f store.Attachment) (io.ReadCloser, error) {
	parts := strings.Split(f.Source, "/")
	if len(parts) != 3 {
		return nil, fault.New(fault.Invalid, "the attachment has no source")
	}
	var m message
	err := a.api.do(ctx, call{what: "message", method: "GET", path: "channels/" + parts[0] + "/messages/" + parts[1], major: parts[0]}, &m)
	if err != nil {
		return nil, err
	}
	files := m.Attachments
	for _, s := range m.Snapshots {
		files = append(files, s.Message.Attachments...)
	}
	for _, known := range files {
		if known.ID == parts[2] {
			return a.download(ctx, known.URL)
		}
	}
	return nil, fault.New(fault.NotFound, "the message no longer has the file")
}

// ownHost tells whether an address is Discord's CDN. An API that was redirected names hosts of its own.
func (a *Adapter) ownHost(u *url.URL) bool {
	if a.api.redirected() {
		return u.Scheme == "http" || u.Scheme == "https"
	}
	switch u.Hostname() {
	case "cdn.discordapp.com", "media.discordapp.net":
		return u.Scheme == "https"
	}
	return false
}

func (a *Adapter) download(ctx context.Context, address string) (io.ReadCloser, error) {
	u, err := url.Parse(address)
	if err != nil || !a.ownHost(u) {
		return nil, fault.New(fault.Forbidden, "the file is not on Discord's own hosts")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the file's address cannot be used")
	}
	failpoint.Hit("discord.download.before")
	resp, err := downloads.Do(r)
	failpoint.Hit("discord.download.after")
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fault.New(fault.Unavailable, "Discord's file host cannot be reached")
	case resp.StatusCode == http.StatusOK:
		return resp.Body, nil
	}
	_ = resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		return nil, fault.New(fault.RateLimited, "Discord's file host asks to wait").After(max(seconds(resp.Header.Get("Retry-After")), time.Second))
	case resp.StatusCode >= 500:
		return nil, fault.New(fault.Unavailable, "Discord's file host failed (status %d)", resp.StatusCode)
	}
	return nil, fault.New(fault.NotFound, "Discord no longer has the file (status %d)", resp.StatusCode)
}

// Upload posts a file where an answer would go.
func (a *Adapter) Upload(ctx context.Context, m adapters.Outgoing, u adapters.Upload) (string, error) {
	t, err := a.termsOf(ctx, m)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(io.LimitReader(u.Content, maxUpload+1))
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "the file cannot be read")
	}
	if len(content) > maxUpload {
		return "", fault.New(fault.TooLarge, "%s has more than the 10 MiB that Discord takes", u.Name)
	}
	p := payload{Nonce: m.Key, EnforceNonce: yes(), AllowedMentions: allowedMentions{Parse: []string{}}}
	if t.Message != "" && t.Thread == "" {
		p.Reference = &replyTo{MessageID: t.Message}
	}
	if m.Markdown != "" {
		r := a.render(ctx, m.Markdown)
		p.Content, p.AllowedMentions = r.content, mentionsOf(r)
	}
	id, err := a.send(ctx, t.Channel, p, u.Name, content)
	if saidNo(err, codeNoReply) {
		p.Reference = nil
		id, err = a.send(ctx, t.Channel, p, u.Name, content)
	}
	return id, err
}

func (a *Adapter) send(ctx context.Context, channelID string, p payload, name string, content []byte) (string, error) {
	contentType, body, err := discordgo.MultipartBodyWithJSON(p, []*discordgo.File{{Name: name, Reader: bytes.NewReader(content)}})
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "the file cannot be encoded")
	}
	var posted message
	err = a.api.do(ctx, call{
		what: "upload", method: "POST", path: "channels/" + channelID + "/messages", major: channelID, form: &form{contentType, body}, limit: writes,
	}, &posted)
	return posted.ID, err
}
