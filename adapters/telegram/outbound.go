package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/rate"
)

// Telegram's limits (https://core.telegram.org/bots/faq): 30 messages a second over all, one a second in a chat with
// short bursts, 20 a minute in a group. A full bucket and what flows into it stay below them together, in any second and
// any minute; in a chat, two at once are the burst. Edits count like messages.
var (
	overall  = rate.Limit{PerMinute: 15 * 60, Burst: 15, Reserve: 5}
	perChat  = rate.Limit{PerMinute: 60, Burst: 2, Reserve: 1}
	perGroup = rate.Limit{PerMinute: 15, Burst: 5, Reserve: 3}
)

// limit waits until a message may go to a chat.
func (a *Adapter) limit(ctx context.Context, chat int64, p rate.Priority) error {
	id := strconv.FormatInt(chat, 10)
	if chat < 0 {
		if err := a.limiter.Take(ctx, "group "+id, perGroup, p); err != nil {
			return err
		}
	}
	if err := a.limiter.Take(ctx, "chat "+id, perChat, p); err != nil {
		return err
	}
	return a.limiter.Take(ctx, "all", overall, p)
}

// obey keeps all processes quiet in a chat for as long as Telegram asked.
func (a *Adapter) obey(ctx context.Context, chat int64, err error) {
	if fault.CodeOf(err) != fault.RateLimited {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	if err := a.limiter.Obey(ctx, "chat "+strconv.FormatInt(chat, 10), max(fault.RetryAfter(err), time.Second)); err != nil {
		a.log.Warn("a pause that Telegram asked for is not known to other processes", "code", fault.CodeOf(err))
	}
}

// target is where a message goes.
type target struct {
	first string // first id of the chat
	chat  int64
	reply int
	topic int
}

// aim finds where a message goes: to the chat as it is now. What was said in the group that it was cannot be replied to
// from the supergroup that it is.
func (a *Adapter) aim(ctx context.Context, m adapters.Outgoing) (target, error) {
	to := target{first: m.Address.ConversationID}
	chat, err := a.newest(ctx, to.first)
	if err != nil {
		return to, err
	}
	to.chat = chat
	var terms Reply
	if len(m.Reply) > 0 {
		if err := json.Unmarshal(m.Reply, &terms); err != nil {
			return to, fault.New(fault.Internal, "the reply terms are none of Telegram's")
		}
	}
	if terms.Chat == chat {
		to.topic = terms.Topic
		if m.Part == 0 {
			to.reply = terms.Message
		}
	}
	return to, nil
}

// follow makes a call to a chat, and once more to the supergroup that the chat has become.
func (a *Adapter) follow(ctx context.Context, to *target, call func() error) error {
	err := translate(call())
	var away *migrated
	if !errors.As(err, &away) {
		a.obey(ctx, to.chat, err)
		return err
	}
	if err := a.moved(ctx, to.chat, away.to); err != nil {
		return err
	}
	*to = target{first: to.first, chat: away.to}
	err = translate(call())
	if errors.As(err, &away) {
		return fault.New(fault.Unavailable, "the group has become a supergroup more than once")
	}
	a.obey(ctx, to.chat, err)
	return err
}

// Post sends a message. In a group it replies to the message that it answers.
func (a *Adapter) Post(ctx context.Context, m adapters.Outgoing) (string, error) {
	text, err := a.render(ctx, m.Markdown)
	if err != nil {
		return "", err
	}
	to, err := a.aim(ctx, m)
	if err != nil {
		return "", err
	}
	if err := a.limit(ctx, to.chat, rate.Final); err != nil {
		return "", err
	}
	var sent *models.Message
	err = a.formatted(text, func(text rendered) error {
		return a.follow(ctx, &to, func() (err error) {
			sent, err = a.bot.SendMessage(ctx, &bot.SendMessageParams{
				ChatID: to.chat, MessageThreadID: to.topic, ReplyParameters: to.replyParameters(),
				Text: text.text, Entities: text.entities, LinkPreviewOptions: noPreview(),
			})
			return err
		})
	})
	if err != nil {
		return "", err
	}
	return ref{to.chat, sent.ID}.id(to.first), nil
}

func (t target) replyParameters() *models.ReplyParameters {
	if t.reply == 0 {
		return nil
	}
	return &models.ReplyParameters{MessageID: t.reply, AllowSendingWithoutReply: true} // it may be deleted meanwhile
}

// noPreview keeps Telegram from fetching an address because it stands in a text: the model may have been talked into
// writing one that carries what it knows.
func noPreview() *models.LinkPreviewOptions {
	return &models.LinkPreviewOptions{IsDisabled: bot.True()}
}

// formatted sends a text with its formatting, and without it when Telegram refuses that.
func (a *Adapter) formatted(text rendered, send func(rendered) error) error {
	err := send(text)
	if !errors.Is(err, errEntities) {
		return err
	}
	a.log.Warn("Telegram refuses a message's formatting; it goes out as plain text")
	return send(rendered{text: text.text})
}

// Edit changes a message. One in the group that a supergroup was cannot be changed any more: not_found.
func (a *Adapter) Edit(ctx context.Context, messageID string, m adapters.Outgoing) error {
	at, err := a.locate(ctx, messageID, m)
	if err != nil {
		return err
	}
	text, err := a.render(ctx, m.Markdown)
	if err != nil {
		return err
	}
	priority := rate.Final
	if m.Stage == adapters.Growing {
		priority = rate.Progress
	}
	if err := a.limit(ctx, at.chat, priority); err != nil {
		return err
	}
	err = a.formatted(text, func(text rendered) error {
		_, err := a.bot.EditMessageText(ctx, &bot.EditMessageTextParams{
			ChatID: at.chat, MessageID: at.message, Text: text.text, Entities: text.entities, LinkPreviewOptions: noPreview(),
		})
		return a.settled(ctx, at.chat, err)
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// Delete removes a message.
func (a *Adapter) Delete(ctx context.Context, messageID string, m adapters.Outgoing) error {
	at, err := a.locate(ctx, messageID, m)
	if err != nil {
		return err
	}
	if err := a.limiter.Take(ctx, "all", overall, rate.Final); err != nil {
		return err
	}
	_, err = a.bot.DeleteMessage(ctx, &bot.DeleteMessageParams{ChatID: at.chat, MessageID: at.message})
	return a.settled(ctx, at.chat, err)
}

// locate finds a message of mikan's own.
func (a *Adapter) locate(ctx context.Context, messageID string, m adapters.Outgoing) (ref, error) {
	at, err := parseRef(messageID, m.Address.ConversationID)
	if err != nil {
		return ref{}, err
	}
	chat, err := a.newest(ctx, m.Address.ConversationID)
	if err == nil && chat != at.chat {
		err = leftBehind()
	}
	return at, err
}

func leftBehind() error {
	return fault.New(fault.NotFound, "the message stayed in the group that the supergroup was")
}

// settled translates an error about a message that is there already.
func (a *Adapter) settled(ctx context.Context, chat int64, err error) error {
	err = translate(err)
	var away *migrated
	if errors.As(err, &away) {
		if err := a.moved(ctx, chat, away.to); err != nil {
			return err
		}
		return leftBehind()
	}
	a.obey(ctx, chat, err)
	return err
}

// FindDelivery finds nothing: Telegram lists no messages. It is asked when an earlier attempt may have posted the
// message, which then is sent again, at least once in all; that is counted.
func (a *Adapter) FindDelivery(_ context.Context, m adapters.Outgoing, _ time.Time) (string, bool, error) {
	a.metrics.Resent(a.Platform(), m.Part)
	return "", false, nil
}

// Working shows "typing", which lasts five seconds.
func (a *Adapter) Working(ctx context.Context, m adapters.Outgoing, _ string) error {
	to, err := a.aim(ctx, m)
	if err != nil {
		return err
	}
	if err := a.limiter.Take(ctx, "all", overall, rate.Progress); err != nil {
		return err
	}
	return a.call(ctx, "sendchataction", func(ctx context.Context) error {
		_, err := a.bot.SendChatAction(ctx, &bot.SendChatActionParams{ChatID: to.chat, MessageThreadID: to.topic, Action: models.ChatActionTyping})
		return err
	})
}

// Rest has nothing to take back: "typing" ends by itself.
func (a *Adapter) Rest(context.Context, adapters.Outgoing) error { return nil }
