package slacktest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"
	"github.com/slack-go/slack/socketmode"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
)

// stage is a server with one person and one channel that the bot is in, and the real SDK talking to it.
type stage struct {
	*slacktest.Server
	t       *testing.T
	api     *slack.Client
	team    slacktest.Team
	ann     slacktest.User
	general slacktest.Channel
}

func newStage(t *testing.T, o slacktest.Options) *stage {
	t.Helper()
	s, err := slacktest.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	st := &stage{Server: s, t: t, team: s.Team()}
	st.api = st.client(st.team.BotToken)
	st.ann = must(s.CreateUser(slacktest.NewUser{Name: "ann"}))
	st.general = must(s.CreateChannel(slacktest.NewChannel{Name: "general", Members: []string{st.ann.ID}, WithBot: true}))
	return st
}

func (s *stage) client(token string) *slack.Client {
	return slack.New(token, slack.OptionAPIURL(s.APIURL()), slack.OptionAppLevelToken(s.App().AppToken))
}

// clean fails the test when the app did anything that Slack would refuse.
func (s *stage) clean() {
	s.t.Helper()
	for _, v := range s.Violations() {
		s.t.Errorf("violation: %s", v)
	}
}

func (s *stage) say(text string) slacktest.Message {
	s.t.Helper()
	return must(s.Say(slacktest.Saying{Channel: s.general.ID, User: s.ann.ID, Text: text}))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// connect opens a Socket Mode connection with the real client and returns its events.
func (s *stage) connect(o ...socketmode.Option) *socketmode.Client {
	s.t.Helper()
	o = append([]socketmode.Option{socketmode.OptionLog(log.New(io.Discard, "", 0))}, o...)
	c := socketmode.New(s.api, o...)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.RunContext(ctx) // ends with the context
	}()
	s.t.Cleanup(func() {
		cancel()
		for {
			select {
			case <-c.Events:
			case <-done:
				return
			}
		}
	})
	next(s.t, c, socketmode.EventTypeHello)
	return c
}

// next returns the next event of a type, whatever else comes before it.
func next(t *testing.T, c *socketmode.Client, kind socketmode.EventType) socketmode.Event {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case e := <-c.Events:
			if e.Type == kind {
				return e
			}
		case <-timeout:
			t.Fatalf("no %s event", kind)
		}
	}
}

func inner(t *testing.T, e socketmode.Event) (slackevents.EventsAPIEvent, map[string]any) {
	t.Helper()
	outer, ok := e.Data.(slackevents.EventsAPIEvent)
	if !ok {
		t.Fatalf("%T is no event", e.Data)
	}
	var payload struct{ Event map[string]any }
	if err := json.Unmarshal(e.Request.Payload, &payload); err != nil {
		t.Fatal(err)
	}
	return outer, payload.Event
}

// code is the error that Slack answered with.
func code(err error) string {
	var r slack.SlackErrorResponse
	var limited *slack.RateLimitedError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &r):
		return r.Err
	case errors.As(err, &limited):
		return "429"
	}
	return err.Error()
}

func TestAMentionIsHeardAndAnswered(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	c := s.connect()
	said := s.say("<@" + s.team.BotUser + "> hello")

	ids, kinds := map[string]bool{}, map[string]bool{}
	for range 2 {
		e := next(t, c, socketmode.EventTypeEventsAPI)
		_, event := inner(t, e)
		if event["ts"] != said.TS || event["channel"] != s.general.ID || event["user"] != s.ann.ID {
			t.Errorf("event %v", event)
		}
		var outer struct {
			EventID string `json:"event_id"`
		}
		if err := json.Unmarshal(e.Request.Payload, &outer); err != nil {
			t.Fatal(err)
		}
		ids[outer.EventID], kinds[event["type"].(string)] = true, true
		if err := c.Ack(*e.Request); err != nil {
			t.Fatal(err)
		}
	}
	if len(ids) != 2 || !kinds["message"] || !kinds["app_mention"] {
		t.Errorf("ids %v, kinds %v", ids, kinds)
	}

	_, ts, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText("fallback", false), slack.MsgOptionTS(said.TS),
		slack.MsgOptionBlocks(slack.NewMarkdownBlock("", "**hi** ann")),
		slack.MsgOptionMetadata(slack.SlackMetadata{EventType: "delivery", EventPayload: map[string]any{"key": "k1"}}))
	if err != nil {
		t.Fatal(err)
	}
	_, echo := inner(t, next(t, c, socketmode.EventTypeEventsAPI))
	if echo["bot_id"] != s.team.BotID || echo["user"] != s.team.BotUser || echo["ts"] != ts || echo["thread_ts"] != said.TS || echo["metadata"] != nil {
		t.Errorf("echo %v", echo)
	}
	if _, _, _, err := s.api.UpdateMessage(s.general.ID, ts, slack.MsgOptionText("final", false)); err != nil {
		t.Fatal(err)
	}
	mine := s.Messages(slacktest.Which{ByApp: true})
	if len(mine) != 1 || mine[0].Shown != "final" || mine[0].Edits != 1 || mine[0].ThreadTS != said.TS {
		t.Errorf("visible %+v", mine)
	}
	s.clean()
}

func TestHistoryPagesAndTellsMetadataOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	var said []string
	for _, w := range []string{"one", "two", "three"} {
		said = append(said, s.say(w).TS)
	}
	_, ts, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText("four", false),
		slack.MsgOptionMetadata(slack.SlackMetadata{EventType: "delivery", EventPayload: map[string]any{"key": "k1"}}))
	if err != nil {
		t.Fatal(err)
	}
	_, reply, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText("in the thread", false), slack.MsgOptionTS(said[0]))
	if err != nil {
		t.Fatal(err)
	}

	var texts []string
	p := slack.GetConversationHistoryParameters{ChannelID: s.general.ID, Limit: 3}
	for {
		h, err := s.api.GetConversationHistory(&p)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range h.Messages {
			texts = append(texts, m.Text)
			if m.Metadata.EventType != "" {
				t.Error("metadata without asking")
			}
		}
		if s.say("later " + p.Cursor); !h.HasMore {
			break
		}
		p.Cursor = h.ResponseMetaData.NextCursor
	}
	if got := len(texts); got != 4 || texts[0] != "four" || texts[3] != "one" {
		t.Errorf("history %v", texts)
	}
	h, err := s.api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: s.general.ID, Oldest: ts, Latest: ts, Inclusive: true, IncludeAllMetadata: true})
	if err != nil || len(h.Messages) != 1 || h.Messages[0].Metadata.EventPayload["key"] != "k1" {
		t.Errorf("one message with metadata: %+v %v", h, err)
	}
	h, err = s.api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: s.general.ID, Oldest: said[1], Latest: ts})
	if err != nil || len(h.Messages) != 1 || h.Messages[0].Text != "three" {
		t.Errorf("between, exclusive: %+v %v", h, err)
	}
	thread, _, _, err := s.api.GetConversationReplies(&slack.GetConversationRepliesParameters{ChannelID: s.general.ID, Timestamp: said[0]})
	if err != nil || len(thread) != 2 || thread[0].ReplyCount != 1 || thread[1].Timestamp != reply {
		t.Errorf("thread %+v %v", thread, err)
	}
	s.clean()
}
