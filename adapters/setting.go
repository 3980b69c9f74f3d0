package adapters

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/schedule"
	"github.com/geminixiang/mikan/internal/settings"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

// set tells or changes the setting that a word is named after, in the office where it was said.
func (c *Control) set(ctx context.Context, row store.InboxRow) error {
	if _, said, err := c.Store.NoticeFor(ctx, row.OfficeKey, row.MessageID); said || err != nil {
		return err // repeated: it was done
	}
	message, err := c.Store.ChatMessage(ctx, row.OfficeKey, row.MessageID)
	if err != nil {
		return err
	}
	o, err := c.Store.Office(ctx, row.OfficeKey)
	if err != nil {
		return err
	}
	text, err := c.setting(ctx, Word(row.Word), message, o)
	if err != nil {
		return err
	}
	return c.say(ctx, row, row.Word, "", text, store.Final)
}

// setting carries a setting word out and returns what is said about it.
func (c *Control) setting(ctx context.Context, word Word, message store.ChatMessage, o store.Office) (string, error) {
	if word == AutoReply && o.Audience == store.Private {
		return "Nobody else is here: I answer everything.", nil
	}
	wanted := argumentOf(message.Text)
	if wanted == "" {
		in, err := c.Settings(ctx, o.Key)
		if word == Model {
			return fmt.Sprintf("`%s` answers here. `/model provider/model` chooses another one.", cmp.Or(in.Model, c.DefaultModel, "No model")), err
		}
		return fmt.Sprintf("Auto-reply is %s here. `/auto-reply on`, `off` or `jev` changes it.", in.AutoReply), err
	}
	may, err := c.governs(ctx, o.Key, message)
	if err != nil {
		return "", err
	}
	if !may {
		return "Only this conversation's administrators can change that here.", nil
	}
	name, value, err := settings.Parse(string(word), wanted)
	if fault.CodeOf(err) == fault.Invalid {
		return "That is not possible: " + err.Error() + ".", nil
	}
	if err != nil {
		return "", err
	}
	if err := c.Store.SetSetting(ctx, o.Key, string(name), value); err != nil {
		return "", err
	}
	return fmt.Sprintf("From the next message on, %s is `%v` here.", name, value), nil
}

// What a list of scheduled tasks shows fits one message on every platform.
const (
	shownEvents = 1400 // bytes
	eventText   = 120  // characters
)

// events lists the tasks that mikan starts by itself in an office.
func (c *Control) events(ctx context.Context, row store.InboxRow) error {
	all, err := c.Store.Schedules(ctx, row.OfficeKey)
	if err != nil {
		return err
	}
	in, err := c.Settings(ctx, row.OfficeKey)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s store.Schedule) bool { return s.State == store.ScheduleEnded })
	if len(all) == 0 {
		return c.say(ctx, row, row.Word, "", "Nothing is scheduled here.", store.Final)
	}
	said := "Scheduled here:\n"
	for i, s := range all {
		line := "\n- " + eventWhen(s, in.Zone) + ": " + text.Clip(strings.Join(strings.Fields(s.Text), " "), eventText)
		if len(said)+len(line) > shownEvents {
			said += fmt.Sprintf("\n\n_…and %d more._", len(all)-i)
			break
		}
		said += line
	}
	return c.say(ctx, row, row.Word, "", said, store.Final)
}

// eventWhen tells when a task is due next, in the zone given.
func eventWhen(s store.Schedule, zone *time.Location) string {
	const form = "Mon 2 Jan 2006 15:04 MST"
	switch {
	case s.State == store.SchedulePaused:
		return "paused"
	case s.At != nil:
		return s.At.In(zone).Format(form)
	}
	next, err := schedule.Next(s.Cron, s.Zone, time.Now())
	if err != nil || next.IsZero() {
		return "`" + s.Cron + "`"
	}
	return fmt.Sprintf("`%s` (%s), next %s", s.Cron, s.Zone, next.In(zone).Format(form))
}
