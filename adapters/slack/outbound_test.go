package slack_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
)

// outgoing is a message on its way to a place; thread may be empty.
func (r *rig) outgoing(channel, thread, key, markdown string) adapters.Outgoing {
	team := r.slack.Team()
	reply, err := json.Marshal(map[string]string{"team": team.ID, "channel": channel, "thread": thread, "user": r.ann.ID, "user_team": team.ID})
	r.must(err)
	return adapters.Outgoing{Address: office.Address{Platform: office.Slack, ConversationID: channel}, SessionKey: channel, Key: key, Markdown: markdown, Reply: reply}
}

func growing(m adapters.Outgoing, markdown string) adapters.Outgoing {
	m.Stage, m.Markdown = adapters.Growing, markdown
	return m
}

func complete(m adapters.Outgoing, markdown string) adapters.Outgoing {
	m.Stage, m.Markdown = adapters.Complete, markdown
	return m
}

func (r *rig) shown(channel string) []slacktest.Visible {
	return r.slack.Messages(slacktest.Which{Channel: channel, ByApp: true})
}

func (r *rig) inject(f slacktest.Fault) {
	r.Helper()
	r.must(r.slack.Inject(f))
}

func TestAPostWhoseReplyWasLostIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	root := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "root"})
	for _, thread := range []string{"", root.TS} {
		since := time.Now()
		for i := range 3 { // others of ours, before and after
			_, err := r.adapter.Post(t.Context(), r.outgoing(r.general.ID, thread, "other"+thread+string(rune('a'+i)), "something else"))
			r.must(err)
		}
		r.inject(slacktest.Fault{Method: "chat.postMessage", Kind: slacktest.DropReply, Times: 1})
		m := r.outgoing(r.general.ID, thread, "key"+thread, "an answer")
		if _, err := r.adapter.Post(t.Context(), m); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("a lost reply is %v", err)
		}
		id, found, err := r.adapter.FindDelivery(t.Context(), m, since)
		if err != nil || !found {
			t.Fatalf("in thread %q it was not found: %v", thread, err)
		}
		for _, v := range r.shown(r.general.ID) {
			if v.TS == id && v.Shown != "an answer" {
				t.Errorf("found %q", v.Shown)
			}
		}
		never := r.outgoing(r.general.ID, thread, "never"+thread, "never said")
		if _, found, err := r.adapter.FindDelivery(t.Context(), never, since); err != nil || found {
			t.Errorf("what was never posted was found (%v)", err)
		}
	}
}

func TestADeliveryIsFoundOnALaterPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{Rates: slacktest.RatesOff}, config.SlackSettings{})
	since := time.Now()
	m := r.outgoing(r.general.ID, "", "key", "an answer")
	want, err := r.adapter.Post(t.Context(), m)
	r.must(err)
	for range 250 {
		r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "talk"})
	}
	id, found, err := r.adapter.FindDelivery(t.Context(), m, since)
	if err != nil || !found || id != want {
		t.Errorf("found %q %v %v, want %q", id, found, err, want)
	}
}

func TestWhatSlackRefusesHasACode(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	closed := r.channel(slacktest.NewChannel{Name: "closed", Members: []string{r.ann.ID}, WithBot: true})
	r.must(r.slack.Archive(closed.ID, slacktest.Archived))
	other := r.channel(slacktest.NewChannel{Name: "other", Members: []string{r.ann.ID}})
	for _, c := range []struct {
		what  string
		fault *slacktest.Fault
		at    string
		want  fault.Code
	}{
		{"an archived channel", nil, closed.ID, fault.Forbidden},
		{"a channel without mikan", nil, other.ID, fault.Forbidden},
		{"an unknown channel", nil, "C0999999999", fault.NotFound},
		{"a missing scope", &slacktest.Fault{Kind: slacktest.ErrorCode, Code: "missing_scope"}, r.general.ID, fault.Forbidden},
		{"an internal error", &slacktest.Fault{Kind: slacktest.ErrorCode, Code: "internal_error"}, r.general.ID, fault.Unavailable},
		{"a word that nobody knows", &slacktest.Fault{Kind: slacktest.ErrorCode, Code: "fatal_error"}, r.general.ID, fault.Unavailable},
		{"status 500", &slacktest.Fault{Kind: slacktest.ServerError}, r.general.ID, fault.Unavailable},
		{"a lost reply", &slacktest.Fault{Kind: slacktest.DropReply}, r.general.ID, fault.Unavailable},
		{"ratelimited inside a 200", &slacktest.Fault{Kind: slacktest.TooManyInBody}, r.general.ID, fault.RateLimited},
	} {
		if c.fault != nil {
			c.fault.Method, c.fault.Times = "chat.postMessage", 1
			r.inject(*c.fault)
		}
		_, err := r.adapter.Post(t.Context(), r.outgoing(c.at, "", "k", "x"))
		if fault.CodeOf(err) != c.want {
			t.Errorf("%s: %v (%s), want %s", c.what, err, fault.CodeOf(err), c.want)
		}
		if err != nil && strings.Contains(err.Error(), r.slack.Team().BotToken) {
			t.Errorf("%s: the error holds the token", c.what)
		}
		r.slack.ClearFaults()
	}
	m := r.outgoing(r.general.ID, "", "k", "x")
	if err := r.adapter.Edit(t.Context(), "1700000000.000100", m); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("an edit of nothing: %v", err)
	}
	foreign := m
	foreign.Address.ConversationID = "C0000000099"
	if _, err := r.adapter.Post(t.Context(), foreign); fault.CodeOf(err) != fault.Invalid {
		t.Errorf("terms of another conversation: %v", err)
	}
}

func TestARateLimitIsObeyedByEveryProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	other := newAdapter(t, r.slack, r.store, bySocket, config.SlackSettings{})
	m := r.outgoing(r.general.ID, "", "k", "x")
	id, err := r.adapter.Post(t.Context(), growing(m, "x"))
	r.must(err)
	r.inject(slacktest.Fault{Method: "chat.update", Kind: slacktest.TooMany, RetryAfter: 126 * time.Second, Times: 1})
	err = r.adapter.Edit(t.Context(), id, growing(m, "x y"))
	if fault.CodeOf(err) != fault.RateLimited || fault.RetryAfter(err) != 126*time.Second {
		t.Fatalf("429: %v after %s", err, fault.RetryAfter(err))
	}
	calls := len(r.slack.Calls("chat.update"))
	for _, a := range []adapters.Outbound{r.adapter, other} {
		err := a.Edit(t.Context(), id, growing(m, "x y z"))
		if fault.CodeOf(err) != fault.RateLimited || fault.RetryAfter(err) < 100*time.Second {
			t.Errorf("another redraw: %v after %s", err, fault.RetryAfter(err))
		}
	}
	if n := len(r.slack.Calls("chat.update")); n != calls {
		t.Errorf("%d edits were tried before their time", n-calls)
	}
}

func TestWhispersReachOnePerson(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	m := r.outgoing(r.general.ID, "", "k", "for you")
	m.OnlyFor = r.ann.ID
	_, err := r.adapter.Post(t.Context(), m)
	r.must(err)
	got := r.shown(r.general.ID)
	if len(got) != 1 || got[0].EphemeralTo != r.ann.ID || got[0].Shown != "for you" {
		t.Errorf("shown: %+v", got)
	}
}

func TestAStreamEndsAsTheMessageThatWasNeverStreamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	root := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "root"})
	const answer = "# Head\n\nsome **bold** text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```go\nx := 1\n```\n"
	plain := r.outgoing(r.general.ID, root.TS, "plain", answer)
	want, err := r.adapter.Post(t.Context(), plain)
	r.must(err)
	for _, c := range []struct {
		name   string
		before func(id string)
		other  bool // another process finishes
	}{
		{"by the app", func(string) {}, false},
		{"by Slack, after its time", func(id string) { r.slack.ExpireStream(r.general.ID, id) }, false},
		{"by the reader", func(id string) { r.slack.StopStream(r.general.ID, id) }, false},
		{"by another process", func(string) {}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			since := time.Now()
			m := r.outgoing(r.general.ID, root.TS, "streamed "+c.name, "")
			id, err := r.adapter.Post(t.Context(), growing(m, "# Head\n\nsome"))
			r.must(err)
			v := find(r.shown(r.general.ID), id)
			if v.Stream == nil || v.Stream.State != slacktest.Streaming || v.ThreadTS != root.TS {
				t.Fatalf("it is not streamed: %+v", v)
			}
			if orphan, found, err := r.adapter.FindDelivery(t.Context(), m, since); err != nil || !found || orphan != id {
				t.Errorf("an orphan stream: %q %v %v, want %q", orphan, found, err, id)
			}
			r.must(r.adapter.Edit(t.Context(), id, growing(m, "# Head\n\nsome **bold** text and more")))
			c.before(id)
			a := r.adapter
			if c.other {
				a = newAdapter(t, r.slack, r.store, bySocket, config.SlackSettings{})
			}
			r.must(a.Edit(t.Context(), id, growing(m, "# Head\n\nsome **bold** text and more, and more")))
			r.must(a.Edit(t.Context(), id, complete(m, answer)))
			final, plain := find(r.shown(r.general.ID), id), find(r.shown(r.general.ID), want)
			if final.Stream.State == slacktest.Streaming || string(final.Blocks) != string(plain.Blocks) || final.Text != plain.Text {
				t.Errorf("streamed it is %s %q, otherwise %s %q", final.Blocks, final.Text, plain.Blocks, plain.Text)
			}
			if again, found, err := r.adapter.FindDelivery(t.Context(), m, since); err != nil || !found || again != id {
				t.Errorf("the finished stream: %q %v %v, want %q", again, found, err, id)
			}
		})
	}
}

func find(all []slacktest.Visible, id string) slacktest.Visible {
	for _, v := range all {
		if v.TS == id {
			return v
		}
	}
	return slacktest.Visible{}
}

func TestAStreamOnlyGrows(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{Rates: slacktest.RatesOff}, config.SlackSettings{})
	root := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "root"})
	m := r.outgoing(r.general.ID, root.TS, "k", "")
	answer := strings.Repeat("Some words of **an answer** with `code`, a [link](https://a.example) and 中文. ", 40)
	id, err := r.adapter.Post(t.Context(), growing(m, answer[:10]))
	r.must(err)
	for end := 50; end < len(answer); end += 50 {
		r.must(r.adapter.Edit(t.Context(), id, growing(m, strings.ToValidUTF8(answer[:end], ""))))
	}
	v := find(r.shown(r.general.ID), id)
	if v.Stream.State != slacktest.Streaming || v.Stream.Appends == 0 || len(r.slack.Calls("chat.update")) != 0 {
		t.Errorf("after growing it is %s with %d appends and %d edits", v.Stream.State, v.Stream.Appends, len(r.slack.Calls("chat.update")))
	}
	// A tool's line changes: what was sent cannot be taken back, so the stream ends and edits go on.
	r.must(r.adapter.Edit(t.Context(), id, growing(m, "✓ bash\n\n"+answer[:100])))
	if v = find(r.shown(r.general.ID), id); v.Stream.State != slacktest.Stopped || !strings.Contains(v.Shown, "✓ bash") {
		t.Errorf("after a change it is %s and shows %q", v.Stream.State, v.Shown)
	}
}

func TestAnAppendWhoseReplyWasLostIsNotShownTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	root := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "root"})
	m := r.outgoing(r.general.ID, root.TS, "k", "")
	id, err := r.adapter.Post(t.Context(), growing(m, "one"))
	r.must(err)
	r.inject(slacktest.Fault{Method: "chat.appendStream", Kind: slacktest.DropReply, Times: 1})
	if err := r.adapter.Edit(t.Context(), id, growing(m, "one two")); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("a lost reply is %v", err)
	}
	r.must(r.adapter.Edit(t.Context(), id, growing(m, "one two three")))
	if v := find(r.shown(r.general.ID), id); v.Shown != "one two three" {
		t.Errorf("shown: %q", v.Shown)
	}
}

func TestASilentRunTakesItsStreamBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	root := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "root"})
	m := r.outgoing(r.general.ID, root.TS, "k", "")
	id, err := r.adapter.Post(t.Context(), growing(m, "[SIL"))
	r.must(err)
	r.must(r.adapter.Delete(t.Context(), id, m))
	if got := r.shown(r.general.ID); len(got) != 0 {
		t.Errorf("left behind: %+v", got)
	}
	// Whoever began the stream has died: another process takes it back.
	m = r.outgoing(r.general.ID, root.TS, "k2", "")
	id, err = r.adapter.Post(t.Context(), growing(m, "[SIL"))
	r.must(err)
	r.must(newAdapter(t, r.slack, r.store, bySocket, config.SlackSettings{}).Delete(t.Context(), id, m))
	if got := r.shown(r.general.ID); len(got) != 0 {
		t.Errorf("left behind by another process: %+v", got)
	}
}

func TestWhatNobodyAskedForGoesToTheTopLevel(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	for _, reply := range []string{"", "{}"} {
		m := adapters.Outgoing{Address: office.Address{Platform: office.Slack, ConversationID: r.general.ID}, SessionKey: r.general.ID + ":scheduled:s1:1", Key: "k" + reply, Markdown: "news", Reply: json.RawMessage(reply)}
		id, err := r.adapter.Post(t.Context(), growing(m, "ne"))
		r.must(err)
		r.must(r.adapter.Edit(t.Context(), id, complete(m, "news")))
		if v := find(r.shown(r.general.ID), id); v.ThreadTS != "" || v.Shown != "news" || v.Stream != nil {
			t.Errorf("shown: %+v", v)
		}
	}
}
