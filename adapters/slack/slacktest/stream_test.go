package slacktest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
)

func (s *stage) stream(root, text string) string {
	s.t.Helper()
	_, ts, err := s.api.StartStream(s.general.ID, slack.MsgOptionTS(root), slack.MsgOptionMarkdownText(text),
		slack.MsgOptionRecipientTeamID(s.team.ID), slack.MsgOptionRecipientUserID(s.ann.ID))
	if err != nil {
		s.t.Fatal(err)
	}
	return ts
}

func (s *stage) add(ts, text string) error {
	_, _, err := s.api.AppendStream(s.general.ID, ts, slack.MsgOptionMarkdownText(text))
	return err
}

// read returns one message as the app reads it.
func (s *stage) read(root, ts string) slack.Message {
	s.t.Helper()
	list, _, _, err := s.api.GetConversationReplies(&slack.GetConversationRepliesParameters{ChannelID: s.general.ID, Timestamp: root, IncludeAllMetadata: true})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range list {
		if m.Timestamp == ts {
			return m
		}
	}
	s.t.Fatalf("no message %s in %s", ts, root)
	return slack.Message{}
}

func TestAStreamIsLockedUntilItStopsAndThenCarriesItsMetadata(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	root := s.say("question")
	ts := s.stream(root.TS, "one ")
	if err := s.add(ts, "two "); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := s.api.UpdateMessage(s.general.ID, ts, slack.MsgOptionText("x", false)); code(err) != "streaming_state_conflict" {
		t.Errorf("an edit while streaming: %v", err)
	}
	if _, _, err := s.api.DeleteMessage(s.general.ID, ts); code(err) != "cant_delete_message" {
		t.Errorf("a deletion while streaming: %v", err)
	}
	if m := s.read(root.TS, ts); m.Text != "one two " || m.Metadata.EventType != "" {
		t.Errorf("an open stream reads as %q with metadata %+v", m.Text, m.Metadata)
	}
	key := slack.SlackMetadata{EventType: "delivery", EventPayload: map[string]any{"key": "k"}}
	if _, _, err := s.api.StopStream(s.general.ID, ts, slack.MsgOptionMarkdownText("three"), slack.MsgOptionMetadata(key)); err != nil {
		t.Fatal(err)
	}
	if m := s.read(root.TS, ts); m.Text != "one two three" || m.Metadata.EventPayload["key"] != "k" {
		t.Errorf("a stopped stream reads as %q with metadata %+v", m.Text, m.Metadata)
	}
	if got := code(s.add(ts, "four")); got != "message_not_in_streaming_state" {
		t.Errorf("text after the stop: %s", got)
	}
	if _, _, err := s.api.StopStream(s.general.ID, ts); code(err) != "message_not_in_streaming_state" {
		t.Errorf("a second stop: %v", err)
	}
	if _, _, _, err := s.api.UpdateMessage(s.general.ID, ts, slack.MsgOptionText("final", false)); err != nil {
		t.Errorf("an edit after the stop: %v", err)
	}
	v := s.Messages(slacktest.Which{ByApp: true})
	if len(v) != 1 || v[0].Shown != "final" || v[0].Stream.State != slacktest.Stopped || v[0].Stream.Appends != 1 || v[0].ThreadTS != root.TS {
		t.Errorf("visible %+v", v)
	}
	s.clean()
}

func TestSlackEndsStreamsAndSoDoPeople(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{StreamLifetime: time.Minute})
	root := s.say("question")
	old := s.stream(root.TS, "one")
	s.Advance(59 * time.Second)
	if err := s.add(old, " two"); err != nil {
		t.Fatal(err)
	}
	s.Advance(time.Second)
	if got := code(s.add(old, " three")); got != "message_not_in_streaming_state" {
		t.Errorf("after its time: %s", got)
	}
	if _, _, _, err := s.api.UpdateMessage(s.general.ID, old, slack.MsgOptionText("one two three", false)); err != nil {
		t.Errorf("an edit of an expired stream: %v", err)
	}

	pressed := s.stream(root.TS, "one")
	if err := s.StopStream(s.general.ID, pressed); err != nil {
		t.Fatal(err)
	}
	if got := code(s.add(pressed, "two")); got != "stopped_by_user" {
		t.Errorf("after the button: %s", got)
	}
	cut := s.stream(root.TS, "one")
	if first, second := s.ExpireStream(s.general.ID, cut), s.ExpireStream(s.general.ID, cut); first != nil || second == nil {
		t.Errorf("a stream ends once: %v, %v", first, second)
	}
	if v := s.Messages(slacktest.Which{ByApp: true}); len(v) != 3 || v[2].Shown != "one" || v[2].Stream.State != slacktest.Expired {
		t.Errorf("visible %+v", v)
	}
	s.clean()
}

func TestChunksOfAStream(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	root := s.say("question")
	_, ts, err := s.api.StartStream(s.general.ID, slack.MsgOptionTS(root.TS), slack.MsgOptionRecipientTeamID(s.team.ID), slack.MsgOptionRecipientUserID(s.ann.ID),
		slack.MsgOptionChunks(slack.NewMarkdownTextChunk("hello"), slack.TaskUpdateChunk{Type: slack.StreamChunkTaskUpdate, ID: "1", Title: "Look", Status: "in_progress"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.api.AppendStream(s.general.ID, ts, slack.MsgOptionChunks(slack.TaskUpdateChunk{Type: slack.StreamChunkTaskUpdate, ID: "1", Title: "Looked", Status: "complete"})); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.api.StopStream(s.general.ID, ts, slack.MsgOptionBlocks(slack.NewMarkdownBlock("", "the end"))); err != nil {
		t.Fatal(err)
	}
	v := s.Messages(slacktest.Which{ByApp: true})
	if want := "(complete) Looked\n\nhello\n\nthe end"; len(v) != 1 || v[0].Shown != want {
		t.Errorf("shown %q, want %q", v[0].Shown, want)
	}
	s.clean()
}

func TestTheStatusOfAThreadEndsWhenTheAppSpeaks(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	root := s.say("question")
	status := func(text string) {
		t.Helper()
		if err := s.api.SetAssistantThreadsStatus(slack.AssistantThreadsSetStatusParameters{ChannelID: s.general.ID, ThreadTS: root.TS, Status: text}); err != nil {
			t.Fatal(err)
		}
	}
	shown := func() string {
		var all []string
		for _, st := range s.Statuses() {
			all = append(all, st.Text)
		}
		return strings.Join(all, ",")
	}
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"an empty status", func() { status("") }},
		{"a post in the thread", func() {
			if _, _, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText("x", false), slack.MsgOptionTS(root.TS)); err != nil {
				t.Fatal(err)
			}
		}},
		{"a stream", func() { s.stream(root.TS, "x") }},
		{"two minutes", func() { s.Advance(2 * time.Minute) }},
	} {
		status("is thinking…")
		if got := shown(); got != "is thinking…" {
			t.Errorf("before %s: %q", c.name, got)
		}
		if c.do(); shown() != "" {
			t.Errorf("%s does not end the status", c.name)
		}
	}
	status("is thinking…")
	if _, _, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText("elsewhere", false)); err != nil {
		t.Fatal(err)
	}
	if shown() == "" {
		t.Error("a post elsewhere ends the status")
	}
	s.clean()
}
