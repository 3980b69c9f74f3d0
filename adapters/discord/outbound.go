package discord

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/store"
)

// payload are the parameters of a message:
// https://discord.com/developers/docs/resources/message#create-message.
type payload struct {
	Content         string          `json:"content,omitempty"`
	Nonce           string          `json:"nonce,omitempty"`
	EnforceNonce    *bool           `json:"enforce_nonce,omitempty"`
	Flags           int             `json:"flags,omitempty"`
	AllowedMentions allowedMentions `json:"allowed_mentions"`
	Reference       *replyTo        `json:"message_reference,omitempty"`
}

// allowedMentions never allows everyone or a role: Parse stays empty.
type allowedMentions struct {
	Parse       []string `json:"parse"`
	Users       []string `json:"users,omitempty"`
	RepliedUser *bool    `json:"replied_user,omitempty"`
}

type replyTo struct {
	MessageID       string `json:"message_id"`
	FailIfNotExists bool   `json:"fail_if_not_exists"` // false: the message is posted although what it answers is gone
}

func yes() *bool { v := true; return &v }

func mentionsOf(r rendered) allowedMentions {
	return allowedMentions{Parse: []string{}, Users: r.users}
}

// checked renders a message and refuses what Discord would.
func (a *Adapter) checked(ctx context.Context, m adapters.Outgoing) (rendered, error) {
	r := a.render(ctx, m.Markdown)
	switch {
	case r.content == "":
		return r, fault.New(fault.Invalid, "there is nothing to show in the message")
	case utf8.RuneCountInString(r.content) > maxContent:
		return r, fault.New(fault.TooLarge, "the message is longer than Discord's %d characters", maxContent)
	}
	return r, nil
}

func urgency(m adapters.Outgoing) rate.Priority {
	if m.Stage == adapters.Growing {
		return rate.Progress
	}
	return rate.Final
}

// Post sends a message: into the thread, or as a reply to what it answers. Discord shows a second one with the same
// nonce within some minutes only once.
func (a *Adapter) Post(ctx context.Context, m adapters.Outgoing) (string, error) {
	t, err := a.termsOf(ctx, m)
	if err != nil {
		return "", err
	}
	r, err := a.checked(ctx, m)
	if err != nil {
		return "", err
	}
	if t.Token != "" {
		id, err := a.whisperBack(ctx, t, m, r)
		if fault.CodeOf(err) != fault.NotFound {
			return id, err
		}
		t.Message = "" // too late for an answer to the command: it becomes a message
	}
	p := payload{Content: r.content, Nonce: m.Key, EnforceNonce: yes(), AllowedMentions: mentionsOf(r)}
	if m.OnlyFor != "" {
		return a.postDirect(ctx, m, p)
	}
	if t.Message != "" && t.Thread == "" {
		p.Reference = &replyTo{MessageID: t.Message}
		if m.Part == 0 && a.asks(t, m) {
			p.AllowedMentions.RepliedUser = yes()
		}
	}
	id, err := a.create(ctx, t.Channel, p, urgency(m))
	if saidNo(err, codeNoReply) {
		p.Reference, p.AllowedMentions.RepliedUser = nil, nil
		id, err = a.create(ctx, t.Channel, p, urgency(m))
	}
	return id, err
}

// asks tells whether the message answers somebody who may wait for it elsewhere: in a guild, an answer notifies whoever
// asked, as a reply does.
func (a *Adapter) asks(t terms, m adapters.Outgoing) bool { return t.Guild != "" && m.OnlyFor == "" }

// postDirect shows a message to one person alone, where there is no command that could be answered: in their direct
// conversation. The flag keeps Discord from opening the private link in it, and tells the echo apart.
func (a *Adapter) postDirect(ctx context.Context, m adapters.Outgoing, p payload) (string, error) {
	direct, err := a.direct(ctx, m.OnlyFor)
	if err != nil {
		return "", err
	}
	p.Flags = flagSuppressEmbeds
	return a.create(ctx, direct, p, rate.Final)
}

func (a *Adapter) direct(ctx context.Context, userID string) (string, error) {
	var c channel
	err := a.api.do(ctx, call{what: "dm", method: "POST", path: "users/@me/channels", body: map[string]string{"recipient_id": userID}}, &c)
	return c.ID, err
}

// dedupeAge is how old a message must be, by Discord's clock, to be one that an earlier attempt posted.
const dedupeAge = 2 * time.Second

// nonceLives is longer than Discord remembers a nonce: a message that seems older was not found by one.
const nonceLives = time.Hour

func (a *Adapter) create(ctx context.Context, channelID string, p payload, urgent rate.Priority) (string, error) {
	c := call{
		what: "post", method: "POST", path: "channels/" + channelID + "/messages", major: channelID, body: p, limit: writes, urgent: urgent,
	}
	var posted message
	x, err := a.api.exchange(ctx, c, &posted)
	if err != nil {
		return "", err
	}
	now, dated := http.ParseTime(x.header.Get("Date"))
	age := now.Sub(timeOf(posted.ID))
	if posted.content() == p.Content && (dated != nil || age < dedupeAge || age > nonceLives) {
		return posted.ID, nil
	}
	// The nonce was known: this is what an earlier attempt showed, or showed before somebody deleted it.
	err = a.rewrite(ctx, channelID, posted.ID, p, urgent)
	if fault.CodeOf(err) == fault.NotFound {
		p.Nonce += "2"
		c.body = p
		err = a.api.do(ctx, c, &posted)
	}
	return posted.ID, err
}

func (a *Adapter) rewrite(ctx context.Context, channelID, messageID string, p payload, urgent rate.Priority) error {
	return a.api.do(ctx, call{
		what: "edit", method: "PATCH", path: "channels/" + channelID + "/messages/" + messageID, major: channelID,
		body: payload{Content: p.Content, AllowedMentions: allowedMentions{Parse: []string{}, Users: p.AllowedMentions.Users}}, limit: writes, urgent: urgent,
	}, nil)
}

// Edit replaces the text of a message.
func (a *Adapter) Edit(ctx context.Context, messageID string, m adapters.Outgoing) error {
	t, err := a.termsOf(ctx, m)
	if err != nil {
		return err
	}
	r, err := a.checked(ctx, m)
	if err != nil {
		return err
	}
	if part, ok := strings.CutPrefix(messageID, whisperPrefix); ok {
		return a.editWhisper(ctx, t, part, r)
	}
	where, err := a.shownIn(ctx, t, m)
	if err != nil {
		return err
	}
	return a.rewrite(ctx, where, messageID, payload{Content: r.content, AllowedMentions: mentionsOf(r)}, urgency(m))
}

// shownIn is where Post put a message.
func (a *Adapter) shownIn(ctx context.Context, t terms, m adapters.Outgoing) (string, error) {
	if m.OnlyFor != "" {
		return a.direct(ctx, m.OnlyFor)
	}
	return t.Channel, nil
}

// Delete takes a message back.
func (a *Adapter) Delete(ctx context.Context, messageID string, m adapters.Outgoing) error {
	t, err := a.termsOf(ctx, m)
	if err != nil {
		return err
	}
	if part, ok := strings.CutPrefix(messageID, whisperPrefix); ok {
		return a.api.do(ctx, call{what: "whisper.delete", method: "DELETE", path: t.hook(part), major: t.Interaction}, nil)
	}
	where, err := a.shownIn(ctx, t, m)
	if err != nil {
		return err
	}
	return a.api.do(ctx, call{
		what: "delete", method: "DELETE", path: "channels/" + where + "/messages/" + messageID, major: where, limit: deletions,
	}, nil)
}

const (
	// pageSize is the most that Discord returns of a history at once.
	pageSize = 100
	// mostPages bounds a search for an earlier attempt: 1,000 messages.
	mostPages = 10
	// clockMargin is how much earlier than the intent a message may seem, since two clocks are compared.
	clockMargin = 30 * time.Second
)

// FindDelivery looks in the history, which returns no nonce, for our own message with the same text. The draft of an
// attempt that died may have said something else: where it is a reply, it is the only one to that message that the chat
// log does not know; in a thread, where others of ours look the same, the text must have grown out of the draft's. What
// is not found may still be there within the time that Discord remembers nonces: Post then finds it.
func (a *Adapter) FindDelivery(ctx context.Context, m adapters.Outgoing, since time.Time) (string, bool, error) {
	t, err := a.termsOf(ctx, m)
	if err != nil {
		return "", false, err
	}
	if t.Token != "" {
		if m.Part > 0 {
			// What follows the answer to a command can neither be listed nor be kept from standing twice.
			a.services.Metrics.Resent(a.Platform(), m.Part)
			return "", false, nil
		}
		if id, found, err := a.findWhisper(ctx, t); found || err != nil {
			return id, found, err
		}
		t.Message = ""
	}
	where, err := a.shownIn(ctx, t, m)
	if err != nil {
		return "", false, err
	}
	own, err := a.ownSince(ctx, where, since.Add(-clockMargin))
	if err != nil {
		return "", false, err
	}
	reference := ""
	if t.Thread == "" && m.OnlyFor == "" {
		reference = t.Message
	}
	content := a.render(ctx, m.Markdown).content
	for _, o := range own {
		if to := o.repliesTo(); o.content() == content && (to == reference || to == "") {
			return o.ID, true, nil
		}
	}
	if m.Part > 0 || m.OnlyFor != "" {
		return "", false, nil
	}
	own = slices.DeleteFunc(own, func(o message) bool {
		return o.repliesTo() != reference || reference == "" && !strings.HasPrefix(content, o.content())
	})
	orphans, err := a.orphans(ctx, m, own)
	if err != nil || len(orphans) != 1 {
		return "", false, err
	}
	return orphans[0].ID, true, nil
}

// repliesTo is the message that one answers; empty when there is none.
func (m message) repliesTo() string {
	if m.Reference == nil || m.Reference.Type != isReply {
		return ""
	}
	return m.Reference.MessageID
}

// orphans are those that the chat log does not know as something that mikan said: the draft of an attempt that died.
func (a *Adapter) orphans(ctx context.Context, m adapters.Outgoing, own []message) ([]message, error) {
	officeKey, err := m.Address.Key()
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the address is refused")
	}
	var list []message
	for _, o := range own {
		logged, err := a.services.Store.ChatMessage(ctx, string(officeKey), o.ID)
		switch code := fault.CodeOf(err); {
		case code == fault.NotFound, err == nil && logged.RunID == "" && logged.Kind != store.ChatNotice:
			list = append(list, o)
		case err != nil:
			return nil, err
		}
	}
	return list, nil
}

// ownSince reads our messages in a channel, oldest first.
func (a *Adapter) ownSince(ctx context.Context, channelID string, since time.Time) ([]message, error) {
	self, err := a.me(ctx)
	if err != nil {
		return nil, err
	}
	var own []message
	after := idAt(since)
	for range mostPages {
		page, err := a.history(ctx, channelID, after)
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			if m.Author != nil && m.Author.ID == self.ID && m.Flags&flagEphemeral == 0 && saidByPeople(m.Type) {
				own = append(own, m)
			}
			after = m.ID
		}
		if len(page) < pageSize {
			break
		}
	}
	return own, nil
}

// history reads the page of messages that follows an id, oldest first.
func (a *Adapter) history(ctx context.Context, channelID, after string) ([]message, error) {
	return a.page(ctx, channelID, "after="+after)
}

// past reads the page of messages that comes before an id, oldest first.
func (a *Adapter) past(ctx context.Context, channelID, before string) ([]message, error) {
	return a.page(ctx, channelID, "before="+before)
}

// page reads up to 100 messages. Discord returns them newest first.
func (a *Adapter) page(ctx context.Context, channelID, which string) ([]message, error) {
	var page []message
	err := a.api.do(ctx, call{
		what: "history", method: "GET", path: "channels/" + channelID + "/messages?limit=100&" + which, major: channelID,
	}, &page)
	slices.SortFunc(page, func(x, y message) int {
		if newer(x.ID, y.ID) {
			return 1
		}
		return -1
	})
	return page, err
}
