package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	sdk "github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

const (
	// homeRuns is how many runs a home shows; Slack takes 100 blocks.
	homeRuns = 20
	// homeEvery is how often a home that was opened is drawn again while something runs, and homeFor for how long: Slack
	// does not tell when it is closed.
	homeEvery = 5 * time.Second
	homeFor   = 10 * time.Minute
)

// openHome draws somebody's home, and again while something of theirs goes on.
func (in *inbound) openHome(me identity, user string) {
	in.mu.Lock()
	already := in.homes[user]
	in.homes[user] = true
	ctx := in.ctx
	in.mu.Unlock()
	if already || ctx == nil {
		return
	}
	in.work.Go(func() {
		defer func() {
			in.mu.Lock()
			defer in.mu.Unlock()
			delete(in.homes, user)
		}()
		shown := ""
		for until := time.Now().Add(homeFor); time.Now().Before(until); {
			runs, err := in.Store.OpenRunsOf(ctx, string(office.Slack), user, homeRuns)
			var schedules []store.Schedule
			if err == nil {
				schedules, err = in.Store.SchedulesOf(ctx, string(office.Slack), user, homeRuns)
			}
			if err == nil {
				err = in.publishHome(ctx, me, user, append(homeOf(runs, time.Now()), planned(schedules)...), &shown)
			}
			if err != nil && ctx.Err() == nil {
				in.Log.Warn("the App Home was not drawn", "error", err)
			}
			if len(runs) == 0 {
				return
			}
			select {
			case <-time.After(homeEvery):
			case <-ctx.Done():
				return
			}
		}
	})
}

// publishHome draws a home, if it looks different from what was shown last.
func (in *inbound) publishHome(ctx context.Context, me identity, user string, blocks []sdk.Block, shown *string) error {
	raw, err := json.Marshal(blocks)
	if err != nil || string(raw) == *shown {
		return err
	}
	err = in.limited(ctx, me.Team, publishHome, "", rate.Final, func(ctx context.Context) error {
		_, err := in.api.PublishViewContext(ctx, sdk.PublishViewContextRequest{
			UserID: user, View: sdk.HomeTabViewRequest{Type: sdk.VTHomeTab, Blocks: sdk.Blocks{BlockSet: blocks}},
		})
		return err
	})
	if err == nil {
		*shown = string(raw)
	}
	return err
}

// homeOf shows the runs that somebody began: how long each has been going, what it does, and a button that stops it.
// Other people's runs are not shown: a home is no window into private channels.
func homeOf(runs []store.OpenRun, now time.Time) []sdk.Block {
	blocks := []sdk.Block{sdk.NewHeaderBlock(sdk.NewTextBlockObject(sdk.PlainTextType, "What I am doing for you", false, false))}
	for _, r := range runs {
		var to terms
		_ = json.Unmarshal(r.Reply, &to) // without them the answer to "stop" goes to the top level
		value, err := json.Marshal(stopValue{Channel: r.ConversationID, Session: r.SessionKey, Thread: to.Thread})
		if err != nil {
			continue
		}
		where := "here, between us"
		if !strings.HasPrefix(r.ConversationID, "D") {
			where = "in <#" + r.ConversationID + ">"
		}
		line := fmt.Sprintf("*%s*\n%s, %s, for %s", escape(text.Clip(strings.Join(strings.Fields(r.Asked), " "), 150)), doingNow(r.Slot), where, elapsed(now.Sub(r.StartedAt)))
		stop := sdk.NewButtonBlockElement(stopAction, string(value), sdk.NewTextBlockObject(sdk.PlainTextType, "Stop", false, false)).WithStyle(sdk.StyleDanger)
		blocks = append(blocks, sdk.NewSectionBlock(sdk.NewTextBlockObject(sdk.MarkdownType, line, false, false), nil, sdk.NewAccessory(stop)))
	}
	if len(runs) == 0 {
		blocks = append(blocks, sdk.NewSectionBlock(sdk.NewTextBlockObject(sdk.MarkdownType,
			"Nothing at the moment. Write to me in *Messages*, or mention me in a channel.", false, false), nil, nil))
	}
	return blocks
}

// planned shows the schedules that somebody made.
func planned(schedules []store.Schedule) []sdk.Block {
	if len(schedules) == 0 {
		return nil
	}
	blocks := []sdk.Block{sdk.NewHeaderBlock(sdk.NewTextBlockObject(sdk.PlainTextType, "What is scheduled", false, false))}
	for _, s := range schedules {
		when := "`" + s.Cron + "`, " + s.Zone
		if s.At != nil {
			when = fmt.Sprintf("<!date^%d^{date_short_pretty} {time}|%s>", s.At.Unix(), s.At.UTC().Format(time.RFC3339))
		}
		line := "*" + escape(text.Clip(strings.Join(strings.Fields(s.Text), " "), 150)) + "*\n" + when
		blocks = append(blocks, sdk.NewSectionBlock(sdk.NewTextBlockObject(sdk.MarkdownType, line, false, false), nil, nil))
	}
	return blocks
}

// doingNow says what a step is, by its name in the store.
func doingNow(slot string) string {
	switch kind, _, _ := strings.Cut(slot, "/"); kind {
	case "":
		return "starting"
	case "tool":
		return "using a tool"
	}
	return "thinking"
}

// elapsed is in steps of five seconds, so that a home is not drawn for nothing.
func elapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", max(0, int(d/homeEvery))*int(homeEvery/time.Second))
	}
	return fmt.Sprintf("%d min", int(d.Minutes()))
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace

// greeting is what an assistant thread begins with.
const greeting = "Hi! Ask me anything, or tell me what you want done. I can run commands and work with files; `/mikan-help` shows more."

// greet opens an assistant thread: a first message, once, and something to begin with.
func (in *inbound) greet(ctx context.Context, me identity, thread assistant) error {
	in.mu.Lock()
	in.assistant[thread.Channel+"/"+thread.Thread] = true
	in.mu.Unlock()
	m := adapters.Outgoing{
		Address: office.Address{Platform: office.Slack, ConversationID: thread.Channel}, Key: "greeting", Markdown: greeting,
		Reply: adapters.ReplyOf(terms{Team: me.Team, Channel: thread.Channel, Thread: thread.Thread}),
	}
	// The event may come again, also to another gateway.
	if _, greeted, err := in.FindDelivery(ctx, m, timeOf(thread.Thread)); err != nil || greeted {
		return err
	}
	if _, err := in.Post(ctx, m); err != nil {
		return err
	}
	return in.limited(ctx, me.Team, setPrompts, "", rate.Progress, func(ctx context.Context) error {
		return in.api.SetAssistantThreadsSuggestedPromptsContext(ctx, sdk.AssistantThreadsSetSuggestedPromptsParameters{
			ChannelID: thread.Channel, ThreadTS: thread.Thread, Title: "For example",
			Prompts: []sdk.AssistantThreadsPrompt{
				{Title: "What can you do?", Message: "What can you do for me here?"},
				{Title: "What do you remember?", Message: "/mikan-memory"},
			},
		})
	})
}

// titleLength is how much of the first message an assistant thread is called by.
const titleLength = 80

// title names an assistant thread by the first thing that is said in it.
func (in *inbound) title(m adapters.Message) {
	if m.ThreadID == "" || m.Audience != store.Private || m.Author.Kind != store.AuthorHuman || m.Text == "" {
		return
	}
	channel, thread := m.Address.ConversationID, m.ThreadID
	in.mu.Lock()
	untitled := in.assistant[channel+"/"+thread]
	delete(in.assistant, channel+"/"+thread)
	in.mu.Unlock()
	if !untitled {
		return
	}
	title := text.Clip(strings.Join(strings.Fields(m.Text), " "), titleLength)
	in.beside("an assistant thread has no title", func(ctx context.Context) error {
		return in.limited(ctx, m.Installation, setTitle, "", rate.Progress, func(ctx context.Context) error {
			return in.api.SetAssistantThreadsTitleContext(ctx, sdk.AssistantThreadsSetTitleParameters{ChannelID: channel, ThreadTS: thread, Title: title})
		})
	})
}
