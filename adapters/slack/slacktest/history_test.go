package slacktest_test

import (
	"slices"
	"testing"

	"github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
)

// top are the texts of the channel's top level, newest first.
func (s *stage) top() []string {
	s.t.Helper()
	h, err := s.api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: s.general.ID})
	if err != nil {
		s.t.Fatal(err)
	}
	texts := []string{}
	for _, m := range h.Messages {
		texts = append(texts, m.Text)
	}
	return texts
}

func TestWhatTheTopLevelShows(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	root := s.say("root")
	must(s.Say(slacktest.Saying{Channel: s.general.ID, User: s.ann.ID, Text: "hidden reply", Thread: root.TS}))
	must(s.Say(slacktest.Saying{Channel: s.general.ID, User: s.ann.ID, Text: "broadcast reply", Thread: root.TS, Broadcast: true}))
	if _, err := s.api.PostEphemeral(s.general.ID, s.ann.ID, slack.MsgOptionText("private", false)); err != nil {
		t.Fatal(err)
	}
	lonely := s.say("deleted")
	if err := s.Delete(s.general.ID, lonely.TS); err != nil {
		t.Fatal(err)
	}
	if got, want := s.top(), []string{"broadcast reply", "root"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := s.Delete(s.general.ID, root.TS); err != nil {
		t.Fatal(err)
	}
	if got, want := s.top(), []string{"broadcast reply", "This message was deleted."}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	thread, _, _, err := s.api.GetConversationReplies(&slack.GetConversationRepliesParameters{ChannelID: s.general.ID, Timestamp: root.TS})
	if err != nil || len(thread) != 3 || thread[0].SubType != "tombstone" {
		t.Errorf("%+v %v", thread, err)
	}
	_, ts, full, err := s.api.PostMessageWithResponse(s.general.ID, slack.MsgOptionText("late", false), slack.MsgOptionTS(root.TS))
	if err != nil || full.ThreadTimestamp != "" || ts == "" {
		t.Errorf("a reply to what is gone stands in no thread: %+v %v", full, err)
	}
	s.clean()
}

func TestAThreadIsReadInPagesWithItsParentOnEach(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	root := s.say("root")
	var said []string
	for range 5 {
		said = append(said, must(s.Say(slacktest.Saying{Channel: s.general.ID, User: s.ann.ID, Text: "reply", Thread: root.TS})).TS)
	}
	var read []string
	p := slack.GetConversationRepliesParameters{ChannelID: s.general.ID, Timestamp: root.TS, Limit: 2}
	for pages := 1; ; pages++ {
		page, more, cursor, err := s.api.GetConversationReplies(&p)
		if err != nil {
			t.Fatal(err)
		}
		if page[0].Timestamp != root.TS {
			t.Errorf("page %d begins with %s", pages, page[0].Timestamp)
		}
		for _, m := range page[1:] {
			read = append(read, m.Timestamp)
		}
		if pages == 1 { // what the next page would have begun with
			if err := s.Delete(s.general.ID, said[2]); err != nil {
				t.Fatal(err)
			}
		}
		if p.Cursor = cursor; !more {
			break
		}
	}
	if want := slices.Delete(slices.Clone(said), 2, 3); !slices.Equal(read, want) {
		t.Errorf("%v, want %v", read, want)
	}
	page, _, _, err := s.api.GetConversationReplies(&slack.GetConversationRepliesParameters{ChannelID: s.general.ID, Timestamp: root.TS, Oldest: said[3]})
	if err != nil || len(page) != 2 || page[1].Timestamp != said[4] {
		t.Errorf("after the fourth: %+v %v", page, err)
	}
	s.clean()
}

func TestTimestampsAreUniqueAndRise(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	last := ""
	for range 1_000 {
		ts := s.say("x").TS
		if ts <= last {
			t.Fatalf("%s after %s", ts, last)
		}
		last = ts
	}
}
