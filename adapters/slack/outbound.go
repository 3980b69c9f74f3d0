package slack

import (
	"context"
	"encoding/json"
	"time"

	sdk "github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/markdown"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/text"
)

// keyEvent is the event type of the metadata that our messages carry. Everybody in the workspace can read metadata, so
// there is nothing in it but the key.
const keyEvent = "mikan_delivery"

// maxFallback is how much of a message's text is repeated for notifications. chat.update takes 4,000 characters; a post
// is cut alike, so that a message looks the same however it came about.
const maxFallback = 3_900

// Split cuts an answer into messages.
func (*Adapter) Split(answer string) []string {
	return markdown.Split(answer, markdown.FitsSlack(splitOptions))
}

// Post sends a message: one call. A message that grows in a thread is streamed.
func (a *Adapter) Post(ctx context.Context, m adapters.Outgoing) (string, error) {
	to, err := a.termsOf(ctx, m)
	if err != nil {
		return "", err
	}
	if to.OnlyFor != "" {
		return a.whisper(ctx, to, m)
	}
	if m.Stage == adapters.Growing && streamable(to) {
		id, err := a.startStream(ctx, to, m)
		if !cannotStream(err) {
			return id, err
		}
	}
	var id string
	err = a.limited(ctx, to.Team, postPublic, to.Channel, priorityOf(m), func(ctx context.Context) error {
		_, posted, err := a.api.PostMessageContext(ctx, to.Channel, append(a.content(ctx, to, m),
			threadOption(to), sdk.MsgOptionDisableLinkUnfurl(), sdk.MsgOptionDisableMediaUnfurl())...)
		id = posted
		return err
	})
	return id, err
}

// whisper shows a message to one person. It cannot be edited or found again: what is said later is said anew.
func (a *Adapter) whisper(ctx context.Context, to terms, m adapters.Outgoing) (string, error) {
	var id string
	err := a.limited(ctx, to.Team, postPrivate, "", priorityOf(m), func(ctx context.Context) error {
		blocks, fallback := a.render(ctx, to, m)
		var err error
		id, err = a.api.PostEphemeralContext(ctx, to.Channel, to.OnlyFor, blocks, fallback, threadOption(to))
		return err
	})
	if address, known := a.responses.find(to.Channel, to.OnlyFor); known && said(err, "channel_not_found", "not_in_channel", "user_not_in_channel") {
		// A command was given where mikan is no member.
		err = a.call(ctx, to.Team, postPrivate, "", func(ctx context.Context) error {
			blocks, fallback := a.render(ctx, to, m)
			_, _, err := a.api.PostMessageContext(ctx, to.Channel, blocks, fallback, sdk.MsgOptionResponseURL(address, "ephemeral"))
			return err
		})
		id = "response-" + m.Key
	}
	return id, err
}

// Edit shows the whole text anew.
func (a *Adapter) Edit(ctx context.Context, messageID string, m adapters.Outgoing) error {
	to, err := a.termsOf(ctx, m)
	if err != nil {
		return err
	}
	switch {
	case to.OnlyFor != "" && m.Stage == adapters.Growing:
		return nil
	case to.OnlyFor != "":
		_, err := a.whisper(ctx, to, m)
		return err
	case m.Stage == adapters.Growing:
		return a.redraw(ctx, to, messageID, m)
	}
	if a.streams.open(messageID) {
		if err := a.stopStream(ctx, to, messageID, m); err != nil {
			return err
		}
	}
	return a.replace(ctx, to, messageID, m)
}

// replace edits a message, and ends the stream that it is if another process began it.
func (a *Adapter) replace(ctx context.Context, to terms, messageID string, m adapters.Outgoing) error {
	err := a.update(ctx, to, messageID, m)
	if !said(err, "streaming_state_conflict") {
		return err
	}
	if err := a.stopStream(ctx, to, messageID, m); err != nil {
		return err
	}
	return a.update(ctx, to, messageID, m)
}

func (a *Adapter) update(ctx context.Context, to terms, messageID string, m adapters.Outgoing) error {
	return a.limited(ctx, to.Team, update, "", priorityOf(m), func(ctx context.Context) error {
		_, _, _, err := a.api.UpdateMessageContext(ctx, to.Channel, messageID, a.content(ctx, to, m)...)
		return err
	})
}

// Delete takes a message back.
func (a *Adapter) Delete(ctx context.Context, messageID string, m adapters.Outgoing) error {
	to, err := a.termsOf(ctx, m)
	if err != nil {
		return err
	}
	if to.OnlyFor != "" {
		return nil // an ephemeral message is gone when its reader reloads
	}
	if a.streams.open(messageID) {
		if err := a.stopStream(ctx, to, messageID, m); err != nil {
			return err
		}
	}
	remove := func(ctx context.Context) error {
		_, _, err := a.api.DeleteMessageContext(ctx, to.Channel, messageID)
		return err
	}
	err = a.limited(ctx, to.Team, deleting, "", rate.Final, remove)
	if said(err, "streaming_state_conflict", "cant_delete_message") { // a stream that a process began which has died
		if err := a.stopStream(ctx, to, messageID, m); err != nil {
			return err
		}
		err = a.limited(ctx, to.Team, deleting, "", rate.Final, remove)
	}
	return err
}

// lookBack is how much earlier than the intent a message may have come about: the database's clock and Slack's differ.
const lookBack = 30 * time.Second

// FindDelivery reads the thread, or the channel, since the intent. A message of ours is known by the key in its metadata.
// A stream has no metadata until it is stopped: our first message in the thread since the intent that has no key is one.
func (a *Adapter) FindDelivery(ctx context.Context, m adapters.Outgoing, since time.Time) (string, bool, error) {
	to, err := a.termsOf(ctx, m)
	if err != nil || to.OnlyFor != "" {
		return "", false, err // ephemeral messages are in no history
	}
	me, err := a.identity(ctx)
	if err != nil {
		return "", false, err
	}
	orphan, cursor := "", ""
	for {
		page, next, err := a.ownPage(ctx, to, stampOf(since.Add(-lookBack)), cursor)
		if err != nil {
			return "", false, err
		}
		for _, one := range page {
			if one.User != me.User && (one.BotID == "" || one.BotID != me.Bot) {
				continue
			}
			if one.Metadata.EventType == keyEvent && one.Metadata.EventPayload["key"] == m.Key {
				return one.Timestamp, true, nil
			}
			if to.Thread != "" && one.Metadata.EventType == "" && len(one.Files) == 0 && later(one.Timestamp, stampOf(since)) &&
				(orphan == "" || later(orphan, one.Timestamp)) {
				orphan = one.Timestamp
			}
		}
		if next == "" {
			return orphan, orphan != "", nil
		}
		cursor = next
	}
}

// ownPage reads one page of where a message went to.
func (a *Adapter) ownPage(ctx context.Context, to terms, oldest, cursor string) (page []sdk.Message, next string, err error) {
	if to.Thread != "" {
		err = a.limited(ctx, to.Team, replies, "", rate.Final, func(ctx context.Context) error {
			var err error
			page, _, next, err = a.api.GetConversationRepliesContext(ctx, &sdk.GetConversationRepliesParameters{
				ChannelID: to.Channel, Timestamp: to.Thread, Oldest: oldest, Cursor: cursor, Limit: 200, IncludeAllMetadata: true,
			})
			return err
		})
		if said(err, "thread_not_found") {
			return nil, "", nil
		}
		return page, next, err
	}
	err = a.limited(ctx, to.Team, history, "", rate.Final, func(ctx context.Context) error {
		answer, err := a.api.GetConversationHistoryContext(ctx, &sdk.GetConversationHistoryParameters{
			ChannelID: to.Channel, Oldest: oldest, Cursor: cursor, Limit: 200, IncludeAllMetadata: true,
		})
		if err != nil {
			return err
		}
		page, next = answer.Messages, answer.ResponseMetaData.NextCursor
		return nil
	})
	return page, next, err
}

// content is what a message says, with its key.
func (a *Adapter) content(ctx context.Context, to terms, m adapters.Outgoing) []sdk.MsgOption {
	blocks, fallback := a.render(ctx, to, m)
	return []sdk.MsgOption{blocks, fallback, keyOption(m)}
}

func keyOption(m adapters.Outgoing) sdk.MsgOption {
	return sdk.MsgOptionMetadata(sdk.SlackMetadata{EventType: keyEvent, EventPayload: map[string]any{"key": m.Key}})
}

// render makes blocks and the text for notifications.
func (a *Adapter) render(ctx context.Context, to terms, m adapters.Outgoing) (blocks, fallback sdk.MsgOption) {
	shown := markdown.Slack(a.whole(m), a.mentionOptions(ctx, to.Team))
	native := make([]sdk.Block, len(shown.Blocks))
	for i, b := range shown.Blocks {
		native[i] = block{b}
	}
	return sdk.MsgOptionBlocks(native...), sdk.MsgOptionText(cutEscaped(shown.Text, maxFallback), false)
}

// whole is the text of a message. A text that grows beyond one message is shown as far as it fits; its end is a message
// of its own when it is complete.
func (a *Adapter) whole(m adapters.Outgoing) string {
	if m.Stage == adapters.Growing {
		return a.Split(m.Markdown)[0]
	}
	return m.Markdown
}

// block passes a rendered block through the SDK.
type block struct{ markdown.SlackBlock }

func (b block) BlockType() sdk.MessageBlockType { return sdk.MessageBlockType(b.Type) }
func (b block) ID() string                      { return "" }
func (b block) MarshalJSON() ([]byte, error)    { return json.Marshal(b.SlackBlock) }

// cutEscaped shortens an escaped text, and leaves no half of an escape behind.
func cutEscaped(escaped string, most int) string {
	if len([]rune(escaped)) <= most {
		return escaped
	}
	head := text.Head(escaped, most-1)
	for back := 1; back <= len("&amp") && back <= len(head); back++ {
		if head[len(head)-back] == '&' {
			head = head[:len(head)-back]
			break
		}
	}
	return head + "…"
}

// termsOf reads where a message goes. What nobody asked for by a message, a scheduled run for instance, has no terms: it
// goes to the conversation's top level.
func (a *Adapter) termsOf(ctx context.Context, m adapters.Outgoing) (terms, error) {
	var to terms
	if err := json.Unmarshal(m.Reply, &to); err != nil && len(m.Reply) > 0 {
		return terms{}, fault.Wrap(fault.Invalid, err, "the reply terms cannot be read")
	}
	if to.Channel == "" {
		to.Channel = m.Address.ConversationID
	}
	if to.Channel != m.Address.ConversationID {
		return terms{}, fault.New(fault.Invalid, "the reply terms lead to another conversation")
	}
	if to.Team == "" {
		me, err := a.identity(ctx)
		if err != nil {
			return terms{}, err
		}
		to.Team = me.Team
	}
	if m.OnlyFor != "" {
		to.OnlyFor = m.OnlyFor
	}
	return to, nil
}

func threadOption(to terms) sdk.MsgOption {
	if to.Thread == "" {
		return sdk.MsgOptionCompose()
	}
	return sdk.MsgOptionTS(to.Thread)
}

func priorityOf(m adapters.Outgoing) rate.Priority {
	if m.Stage == adapters.Growing {
		return rate.Progress
	}
	return rate.Final
}
