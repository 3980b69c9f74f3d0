package telegram

import (
	"context"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/markdown"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// textLimit is the longest message in UTF-16 units (https://core.telegram.org/bots/api#sendmessage).
const textLimit = 4096

// Split cuts Markdown into parts that each fit one message.
func (a *Adapter) Split(source string) []string {
	return markdown.Split(source, markdown.FitsTelegram(markdown.TelegramOptions{}))
}

// rendered is a message as Telegram takes it.
type rendered struct {
	text     string
	entities []models.MessageEntity
}

// render makes Markdown a message. Errors are too_large and, where nothing would be seen, invalid.
func (a *Adapter) render(ctx context.Context, source string) (rendered, error) {
	m := markdown.Telegram(source, markdown.TelegramOptions{Names: a.names(ctx, source)})
	if units(m.Text) > textLimit { // names can be longer than what stood for them
		m = markdown.Telegram(source, markdown.TelegramOptions{})
	}
	if m.Text == "" { // nothing but markup: shown as it is
		m = markdown.TelegramMessage{Text: strings.TrimSpace(source)}
	}
	switch {
	case m.Text == "":
		return rendered{}, fault.New(fault.Invalid, "the message is empty")
	case units(m.Text) > textLimit:
		return rendered{}, fault.New(fault.TooLarge, "the message has more than %d characters", textLimit)
	}
	return rendered{m.Text, entities(m.Entities)}, nil
}

func units(text string) int { return len(utf16.Encode([]rune(text))) }

func entities(from []markdown.Entity) []models.MessageEntity {
	var all []models.MessageEntity
	for _, e := range from {
		all = append(all, models.MessageEntity{
			Type: models.MessageEntityType(e.Type), Offset: e.Offset, Length: e.Length, URL: e.URL, Language: e.Language,
		})
	}
	return all
}

// names resolves the people that a text mentions, by what mikan has heard of them. Without the database nobody is.
func (a *Adapter) names(ctx context.Context, source string) markdown.Names {
	var asked []string
	markdown.Telegram(source, markdown.TelegramOptions{Names: func(name string) (string, bool) {
		if !slices.Contains(asked, name) {
			asked = append(asked, name)
		}
		return "", false
	}})
	if len(asked) == 0 {
		return nil
	}
	known, err := a.store.PeopleNamed(ctx, string(office.Telegram), a.installation(), asked)
	if err != nil {
		return nil
	}
	return func(name string) (string, bool) {
		p, ok := known[strings.ToLower(name)]
		if !ok || p.Bot {
			return "", false
		}
		return mention(p), true
	}
}

// mention is what notifies a person.
func mention(p store.Person) string {
	if p.Handle != "" {
		return "@" + p.Handle
	}
	return "tg://user?id=" + p.ID
}
