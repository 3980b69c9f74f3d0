package telegram

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/store"
)

// emptyMention is what the bot's name says when nothing else is said.
const emptyMention = "(My name was called without a question. It is about what was said here recently: read it and help.)"

// message makes one of Telegram's messages a message of mikan's. first is the first id of its chat. It is false for what
// nobody says: joins, titles, pins and other service messages. Errors are invalid: ids that make no session key.
func (me identity) message(m *models.Message, change adapters.Change, first string) (adapters.Message, bool, error) {
	said, files := me.text(m), attachments(m)
	if said == "" && len(files) == 0 && m.Text == "" && m.Caption == "" {
		return adapters.Message{}, false, nil
	}
	made := adapters.Message{
		Address:      office.Address{Platform: office.Telegram, ConversationID: first},
		Installation: strconv.FormatInt(me.id, 10),
		Audience:     store.Shared,
		OfficeName:   chatName(m.Chat),
		ID:           ref{m.Chat.ID, m.ID}.id(first),
		Author:       me.author(m),
		Standing:     adapters.Stranger, // until a rule admits the person or the chat
		Groups:       []adapters.Group{{Kind: store.PrincipalChat, ID: strconv.FormatInt(m.Chat.ID, 10)}},
		Text:         said,
		SentAt:       time.Unix(int64(m.Date), 0),
		Change:       change,
		Addressed:    me.addressed(m),
		Attachments:  files,
	}
	if me.meantForAnotherBot(m) {
		made.Purpose = adapters.ForContext
	}
	if said == "" && len(files) == 0 {
		made.Text = emptyMention
	}
	place := session.TelegramPlace{Place: session.Shared, Chat: first, Message: made.ID}
	terms := Reply{Chat: m.Chat.ID, Message: m.ID}
	if isPrivate(m) {
		made.Audience, place.Place, terms.Message = store.Private, session.Private, 0
	}
	if replied, ok := repliedTo(m); ok {
		made.ReplyTo = replied.id(first)
		place.RepliedTo = made.ReplyTo
	}
	if m.IsTopicMessage && !isPrivate(m) {
		terms.Topic = m.MessageThreadID
		made.ThreadID = ref{m.Chat.ID, m.MessageThreadID}.id(first)
		place.Topic = made.ThreadID
	}
	made.Reply = adapters.ReplyOf(terms)
	key, err := session.TelegramKey(place)
	made.SessionKey = string(key)
	return made, true, err
}

// join adds a further file of an album, and what is said about it.
func (me identity) join(made *adapters.Message, m *models.Message) {
	made.Attachments = append(made.Attachments, attachments(m)...)
	said := me.text(m)
	if said == "" {
		return
	}
	if made.Text != "" {
		said = made.Text + "\n" + said
	}
	made.Text = said
	if reason := me.addressed(m); made.Addressed == adapters.NotAddressed || made.Addressed == adapters.Ambient {
		made.Addressed = reason
	}
}

func isPrivate(m *models.Message) bool { return m.Chat.Type == models.ChatTypePrivate }

// repliedTo is the message that somebody chose to reply to. In a topic, every message without one replies to the topic's
// creation: nobody chose that.
func repliedTo(m *models.Message) (ref, bool) {
	to := m.ReplyToMessage
	if to == nil || m.IsTopicMessage && (to.ID == m.MessageThreadID || to.ForumTopicCreated != nil) {
		return ref{}, false
	}
	at := ref{m.Chat.ID, to.ID}
	if to.Chat.ID != 0 {
		at.chat = to.Chat.ID // of a group that this supergroup was
	}
	return at, true
}

// author is who said a message. Behind a chat that speaks there is a person: an anonymous administrator, or somebody who
// posts as a channel of theirs. A channel's post that Telegram copied into the discussion group is no person's.
func (me identity) author(m *models.Message) adapters.Author {
	switch {
	case m.SenderChat != nil && m.IsAutomaticForward:
		return adapters.Author{ID: strconv.FormatInt(m.SenderChat.ID, 10), Name: chatName(*m.SenderChat), Kind: store.AuthorBot}
	case m.SenderChat != nil:
		return adapters.Author{ID: strconv.FormatInt(m.SenderChat.ID, 10), Name: chatName(*m.SenderChat), Kind: store.AuthorHuman}
	case m.From == nil:
		return adapters.Author{ID: strconv.FormatInt(m.Chat.ID, 10), Name: chatName(m.Chat), Kind: store.AuthorBot}
	}
	author := adapters.Author{ID: strconv.FormatInt(m.From.ID, 10), Name: personName(*m.From), Kind: store.AuthorHuman}
	switch {
	case m.From.ID == me.id:
		author.Kind = store.AuthorMikan
	case m.From.IsBot:
		author.Kind = store.AuthorBot
	}
	return author
}

func personName(u models.User) string {
	name := strings.TrimSpace(u.FirstName + " " + u.LastName)
	if name == "" {
		name = u.Username
	}
	return name
}

func chatName(c models.Chat) string {
	if c.Title != "" {
		return c.Title
	}
	return personName(models.User{FirstName: c.FirstName, LastName: c.LastName, Username: c.Username})
}

// reasons are why a message is meant for mikan, the first that holds.
var reasons = []struct {
	reason adapters.Reason
	holds  func(identity, *models.Message) bool
}{
	{adapters.NotAddressed, identity.meantForAnotherBot},
	{adapters.NotAddressed, func(_ identity, m *models.Message) bool { return m.MediaGroupID != "" && m.Caption == "" }}, // a file of an album
	{adapters.DirectMessage, func(_ identity, m *models.Message) bool { return isPrivate(m) }},
	{adapters.Mention, identity.mentioned},
	{adapters.Reply, identity.answered},
	{adapters.Ambient, func(identity, *models.Message) bool { return true }},
}

func (me identity) addressed(m *models.Message) adapters.Reason {
	for _, r := range reasons {
		if r.holds(me, m) {
			return r.reason
		}
	}
	return adapters.NotAddressed
}

// mentioned tells whether the message names the bot: @username, /command@username, or the bot picked from a list.
func (me identity) mentioned(m *models.Message) bool {
	words := wordsOf(m)
	for _, e := range words.entities {
		if me.names(words.units, e) {
			return true
		}
	}
	return false
}

// names tells whether an entity names the bot.
func (me identity) names(units []uint16, e models.MessageEntity) bool {
	switch e.Type {
	case models.MessageEntityTypeMention:
		return strings.EqualFold(cut(units, e.Offset, e.Length), "@"+me.username)
	case models.MessageEntityTypeTextMention:
		return e.User != nil && e.User.ID == me.id
	case models.MessageEntityTypeBotCommand:
		_, at, _ := strings.Cut(cut(units, e.Offset, e.Length), "@")
		return strings.EqualFold(at, me.username)
	}
	return false
}

// meantForAnotherBot tells whether the message is a command that names another bot, such as /stop@other_bot.
func (me identity) meantForAnotherBot(m *models.Message) bool {
	words := wordsOf(m)
	for _, e := range words.entities {
		if e.Type == models.MessageEntityTypeBotCommand && e.Offset == 0 {
			_, at, found := strings.Cut(cut(words.units, 0, e.Length), "@")
			return found && !strings.EqualFold(at, me.username)
		}
	}
	return false
}

// answered tells whether the message replies to one of the bot's.
func (me identity) answered(m *models.Message) bool {
	_, chosen := repliedTo(m)
	return chosen && m.ReplyToMessage.From != nil && m.ReplyToMessage.From.ID == me.id
}
