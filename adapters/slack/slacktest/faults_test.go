package slacktest_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	text := slack.MsgOptionText("x", false)
	for _, c := range []struct {
		fault   slacktest.Fault
		want    string // the SDK's error; "?" for any
		applied int
	}{
		{slacktest.Fault{Kind: slacktest.DropReply}, "?", 1},
		{slacktest.Fault{Kind: slacktest.ServerError}, "slack server error: 500 Internal Server Error", 0},
		{slacktest.Fault{Kind: slacktest.ErrorCode}, "internal_error", 0},
		{slacktest.Fault{Kind: slacktest.ErrorCode, Code: "message_limit_exceeded"}, "message_limit_exceeded", 0},
		{slacktest.Fault{Kind: slacktest.ErrorAfter}, "internal_error", 1},
		{slacktest.Fault{Kind: slacktest.TooMany, RetryAfter: 126 * time.Second}, "429", 0},
		{slacktest.Fault{Kind: slacktest.TooManyInBody, RetryAfter: time.Second}, "ratelimited", 0},
		{slacktest.Fault{Kind: slacktest.Slow, Latency: time.Millisecond}, "", 1},
	} {
		before := len(s.Messages(slacktest.Which{ByApp: true}))
		c.fault.Method, c.fault.Times = "chat.postMessage", 1
		if err := s.Inject(c.fault); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.api.PostMessage(s.general.ID, text)
		if got := code(err); got != c.want && (c.want != "?" || err == nil) {
			t.Errorf("%s: %q, want %q", c.fault.Kind, got, c.want)
		}
		if n := len(s.Messages(slacktest.Which{ByApp: true})) - before; n != c.applied {
			t.Errorf("%s: %d messages, want %d", c.fault.Kind, n, c.applied)
		}
		if _, _, err := s.api.PostMessage(s.general.ID, text); err != nil {
			t.Errorf("after %s: %v", c.fault.Kind, err)
		}
	}
	calls := s.Calls("chat.postMessage")
	if len(calls) != 16 || calls[0].Fault != "drop_reply" || !calls[0].OK || calls[0].Text("text") != "x" || calls[4].Error != "internal_error" {
		t.Errorf("calls %+v", calls)
	}
	for _, v := range s.Violations() {
		if v.Kind != slacktest.TooFast { // sixteen posts at once
			t.Errorf("violation %s", v)
		}
	}
}

func TestFaultsChooseTheirCalls(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{Rates: slacktest.RatesOff})
	if err := s.Inject(slacktest.Fault{Method: "chat.postMessage", Kind: slacktest.ErrorCode, Skip: 1, Times: 2}); err != nil {
		t.Fatal(err)
	}
	if err := s.Inject(slacktest.Fault{Method: "*", Kind: slacktest.ErrorCode, Code: "fatal_error", Args: map[string]string{"text": "b"}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, word := range []string{"a", "a", "a", "a", "b"} {
		_, _, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText(word, false))
		got = append(got, code(err))
	}
	want := []string{"", "internal_error", "internal_error", "", "fatal_error"}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	s.ClearFaults()
	if _, _, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText("b", false)); err != nil {
		t.Error(err)
	}
	if s.Inject(slacktest.Fault{Method: "chat.sing", Kind: slacktest.ErrorCode}) == nil || s.Inject(slacktest.Fault{Method: "*", Kind: slacktest.Slow}) == nil {
		t.Error("a fault that can never show was accepted")
	}
}

func TestDocumentedRates(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{Rates: slacktest.RatesEnforced, RateScale: 0.001}) // no pause of this machine frees a call
	other := must(s.CreateChannel(slacktest.NewChannel{Name: "other", WithBot: true}))
	post := func(channel string) error {
		_, _, err := s.api.PostMessage(channel, slack.MsgOptionText("x", false))
		return err
	}
	for range slacktest.RatePosting.PerChannelBurst {
		if err := post(s.general.ID); err != nil {
			t.Fatal(err)
		}
	}
	s.clean()
	if err := post(s.general.ID); code(err) != "429" {
		t.Errorf("a burst's end: %v", err)
	}
	if err := post(other.ID); err != nil {
		t.Errorf("another channel: %v", err)
	}
	if v := s.Violations(); len(v) != 1 || v[0].Kind != slacktest.TooFast || v[0].Method != "chat.postMessage" {
		t.Errorf("violations %v", v)
	}
	_, resp := s.form("chat.postMessage", s.team.BotToken, url.Values{"channel": {s.general.ID}, "text": {"x"}})
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Retry-After") == "0" {
		t.Errorf("%d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
	}

	if err := s.SetRates(slacktest.RatesEnforced, 1e6); err != nil { // a minute is 60 µs
		t.Fatal(err)
	}
	for range 3 * slacktest.RatePosting.PerChannelBurst {
		if err := post(s.general.ID); err != nil {
			t.Fatalf("with a faster clock: %v", err)
		}
	}
	if err := s.SetRates(slacktest.RatesWatched, 0.001); err != nil {
		t.Fatal(err)
	}
	s.ResetRecords()
	for range slacktest.Tier2.PerMinute + 1 {
		if _, err := s.api.GetUserGroups(); err != nil {
			t.Fatal(err)
		}
	}
	if v := s.Violations(); len(v) != 1 || v[0].Kind != slacktest.TooFast {
		t.Errorf("watched only: %v", v)
	}
}

func TestEditsAfterTheWindow(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{EditWindow: time.Hour})
	_, ts, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText("x", false))
	if err != nil {
		t.Fatal(err)
	}
	edit := func() error {
		_, _, _, err := s.api.UpdateMessage(s.general.ID, ts, slack.MsgOptionText("y", false))
		return err
	}
	if err := edit(); err != nil {
		t.Error(err)
	}
	s.Advance(2 * time.Hour)
	if err := edit(); code(err) != "edit_window_closed" {
		t.Errorf("after two hours: %v", err)
	}
	s.clean()
}

func TestWhatAnUpdateKeeps(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	key := slack.MsgOptionMetadata(slack.SlackMetadata{EventType: "delivery", EventPayload: map[string]any{"key": "k"}})
	md := func(text string) slack.MsgOption { return slack.MsgOptionBlocks(slack.NewMarkdownBlock("", text)) }
	_, ts, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText("fallback", false), md("one"), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		options []slack.MsgOption
		shown   string
		marked  bool
	}{
		{"other blocks", []slack.MsgOption{md("two"), slack.MsgOptionText("fallback", false)}, "two", false},
		{"a text alone takes the blocks away", []slack.MsgOption{slack.MsgOptionText("plain", false)}, "plain", true},
		{"blocks again", []slack.MsgOption{md("three")}, "three", true},
	} {
		if _, _, _, err := s.api.UpdateMessage(s.general.ID, ts, c.options...); err != nil {
			t.Fatal(err)
		}
		v := s.Messages(slacktest.Which{ByApp: true})[0]
		if v.Shown != c.shown || (v.EditedAt != "") != c.marked || len(v.Metadata) == 0 {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	s.clean()
}

func TestAwaitReturnsOnceItHolds(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- s.Await(ctx, func() bool { return len(s.Messages(slacktest.Which{ByApp: true})) == 2 })
	}()
	for range 2 {
		if _, _, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText("x", false)); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	over, stop := context.WithCancel(ctx)
	stop()
	if s.Await(over, func() bool { return false }) == nil {
		t.Error("a condition that never holds was awaited")
	}
}

func TestAFaultClosesAStream(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	root := s.say("question")
	ts := s.stream(root.TS, "one")
	if err := s.Inject(slacktest.Fault{Method: "chat.appendStream", Kind: slacktest.CloseStream, Skip: 1, Times: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.add(ts, " two"); err != nil {
		t.Error(err)
	}
	if got := code(s.add(ts, " three")); got != "message_not_in_streaming_state" {
		t.Errorf("%s", got)
	}
	if v := s.Messages(slacktest.Which{ByApp: true}); v[0].Shown != "one two" {
		t.Errorf("%q", v[0].Shown)
	}
	s.clean()
}

func TestAppsThatMayReadLittle(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{History: slacktest.HistoryScarce, Rates: slacktest.RatesEnforced, RateScale: 0.001})
	for range 16 {
		s.say("x")
	}
	read := func() (*slack.GetConversationHistoryResponse, error) {
		return s.api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: s.general.ID, Limit: 200})
	}
	if h, err := read(); err != nil || len(h.Messages) != 15 || !h.HasMore {
		t.Errorf("%+v %v", h, err)
	}
	if _, err := read(); code(err) != "429" {
		t.Errorf("a second call in the minute: %v", err)
	}
}
