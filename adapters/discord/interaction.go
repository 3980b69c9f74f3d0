package discord

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
)

// A slash command is an interaction: Discord wants an answer within 3 s, by a callback that can also say that the answer
// comes later. Either way the answer is for its user alone and can be changed for 15 minutes.

// Types of interaction and of callback:
// https://discord.com/developers/docs/interactions/receiving-and-responding.
const (
	interactionCommand = 2

	callbackMessage  = 4 // here is the answer
	callbackDeferred = 5 // it comes later
)

// whisperPrefix marks the ids of answers to commands, which the callback does not tell: "i<interaction>" for the first
// one, "i<message id>" of a follow-up.
const whisperPrefix = "i"

// callbackWithin is how long Discord waits for the callback.
const callbackWithin = 3 * time.Second

type callback struct {
	Type int     `json:"type"`
	Data payload `json:"data"`
}

// hook is the path of an answer: of the first one when the id is the interaction's own.
func (t terms) hook(id string) string {
	if id == t.Interaction {
		id = "@original"
	}
	return "webhooks/" + t.App + "/" + t.Token + "/messages/" + id
}

// whisperBack answers a command. not_found means that it can no longer be answered.
func (a *Adapter) whisperBack(ctx context.Context, t terms, m adapters.Outgoing, r rendered) (string, error) {
	data := payload{Content: r.content, Flags: flagEphemeral | flagSuppressEmbeds, AllowedMentions: mentionsOf(r)}
	if m.Part > 0 {
		var posted message
		err := a.api.do(ctx, call{what: "whisper.more", method: "POST", path: "webhooks/" + t.App + "/" + t.Token, major: t.Interaction, body: data}, &posted)
		return whisperPrefix + posted.ID, err
	}
	if time.Since(timeOf(t.Interaction)) < callbackWithin {
		err := a.callBack(ctx, t, callback{Type: callbackMessage, Data: data})
		if !saidNo(err, codeAcknowledged, codeUnknownInteraction) {
			return whisperPrefix + t.Interaction, err
		}
	}
	err := a.editWhisper(ctx, t, t.Interaction, r)
	if saidNo(err, codeUnknownWebhook) { // nobody has called back yet
		err = a.callBack(ctx, t, callback{Type: callbackMessage, Data: data})
	}
	return whisperPrefix + t.Interaction, err
}

func (a *Adapter) callBack(ctx context.Context, t terms, c callback) error {
	return a.api.do(ctx, call{
		what: "callback", method: "POST", path: "interactions/" + t.Interaction + "/" + t.Token + "/callback", major: t.Interaction, body: c,
	}, nil)
}

func (a *Adapter) editWhisper(ctx context.Context, t terms, id string, r rendered) error {
	return a.api.do(ctx, call{
		what: "whisper", method: "PATCH", path: t.hook(id), major: t.Interaction, body: payload{Content: r.content, AllowedMentions: mentionsOf(r)},
	}, nil)
}

// findWhisper tells whether a command has its answer.
func (a *Adapter) findWhisper(ctx context.Context, t terms) (string, bool, error) {
	var shown message
	err := a.api.do(ctx, call{what: "whisper.find", method: "GET", path: t.hook(t.Interaction), major: t.Interaction}, &shown)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return "", false, nil
	case err != nil:
		return "", false, err
	}
	return whisperPrefix + t.Interaction, shown.Flags&flagLoading == 0 && shown.content() != "", nil
}

// command makes a slash command the message that it stands for: "/stop all".
func (a *Adapter) command(ctx context.Context, i interaction, self string) (adapters.Message, error) {
	if i.Channel != nil && i.Channel.ID != "" {
		if _, ok := a.places.known(i.Channel.ID); !ok {
			a.places.keep(i.GuildID, *i.Channel)
		}
	}
	p, err := a.placeOf(ctx, message{ChannelID: i.ChannelID, GuildID: i.GuildID})
	if err != nil {
		return adapters.Message{}, err
	}
	text := "/" + i.Data.Name
	for _, o := range i.Data.Options {
		var value string
		if json.Unmarshal(o.Value, &value) == nil {
			text += " " + value
		}
	}
	said := message{ID: i.ID, ChannelID: i.ChannelID, GuildID: i.GuildID, Author: i.User, Member: i.Member}
	if i.Member != nil {
		said.Author = i.Member.User
	}
	out := adapters.Message{
		Installation: self, ID: i.ID, SentAt: timeOf(i.ID), Change: adapters.Created, Text: strings.TrimSpace(text), Addressed: adapters.Pressed,
		Author: authorOf(said, self),
		Reply:  adapters.ReplyOf(terms{Guild: p.Guild, Channel: p.ID, Interaction: i.ID, App: i.App, Token: i.Token}),
	}
	if p.isThread() {
		out.Reply = adapters.ReplyOf(terms{Guild: p.Guild, Channel: p.ID, Thread: p.ID, Interaction: i.ID, App: i.App, Token: i.Token})
	}
	out.Groups, out.Standing = groupsOf(p, i.Member)
	return out, a.locate(&out, p, "")
}

// acknowledge tells Discord, once the command is committed, that it was received. Whoever answers it may have done so
// already.
func (a *Adapter) acknowledge(ctx context.Context, i interaction, r adapters.Receipt) {
	c := callback{Type: callbackDeferred, Data: payload{Flags: flagEphemeral, AllowedMentions: allowedMentions{Parse: []string{}}}}
	switch r.Decision {
	case adapters.Queued, adapters.Commanded, adapters.Undecided:
	case adapters.Stranged:
		c.Type, c.Data.Content = callbackMessage, "I may not answer you here."
	default:
		c.Type, c.Data.Content = callbackMessage, "There is nothing for me to do here."
	}
	t := terms{Interaction: i.ID, App: i.App, Token: i.Token}
	if err := a.callBack(ctx, t, c); err != nil && !saidNo(err, codeAcknowledged) {
		a.log.Warn("a command could not be acknowledged", "code", fault.CodeOf(err))
	}
}
