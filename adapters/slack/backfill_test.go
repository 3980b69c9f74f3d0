package slack_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/store"
)

func TestWhatWasMissedIsAnsweredOnceOldestFirst(t *testing.T) {
	t.Parallel()
	in := install(t, slacktest.Options{Rates: slacktest.RatesEnforced}, echo)
	in.Worker()
	first := in.gateway()
	root := in.mention(in.general.ID, "", "before")
	in.answered(in.general.ID, "re: before")
	in.eventually("the position is written", func() bool {
		position, known, err := in.store.Cursor(t.Context(), streamOf(in.slack.Team().ID, in.general.ID))
		return err == nil && known && position >= root.TS
	})
	in.say(slacktest.Saying{Channel: in.general.ID, User: in.ann.ID, Thread: root.TS, Text: "a thread that mikan knows"})
	in.settle()
	in.quit(first)
	var want []string
	for i := range 3 {
		in.mention(in.general.ID, "", fmt.Sprintf("missed%d", i))
		want = append(want, fmt.Sprintf("re: missed%d", i))
	}
	in.mention(in.general.ID, root.TS, "inthread")
	later := in.say(slacktest.Saying{Channel: in.general.ID, User: in.ann.ID, Text: "a new root"})
	in.mention(in.general.ID, later.TS, "innewthread")
	dm, err := in.slack.OpenDM(in.ann.ID)
	in.must(err)
	in.say(slacktest.Saying{Channel: dm.ID, User: in.ann.ID, Text: "privately"})
	in.slack.ForgetPending() // an outage longer than Slack's retries
	in.gateway()
	in.answered(in.general.ID, append(append([]string{"re: before"}, want...), "re: inthread", "re: innewthread")...)
	in.answered(dm.ID, "re: privately")
	var order []string
	for _, v := range in.shown(in.general.ID) {
		if v.ThreadTS == "" {
			order = append(order, v.Shown)
		}
	}
	for i, w := range append([]string{"re: before"}, want...) {
		if i >= len(order) || order[i] != w {
			t.Fatalf("the top level reads %q", order)
		}
	}
}

func TestAtTheFirstStartNothingOldIsAnswered(t *testing.T) {
	t.Parallel()
	in := install(t, slacktest.Options{ClockOffset: -time.Hour}, echo)
	for i := range 20 {
		in.mention(in.general.ID, "", fmt.Sprintf("old%d", i))
	}
	in.slack.ForgetPending()
	in.slack.Advance(time.Hour)
	in.Worker()
	in.gateway()
	in.mention(in.general.ID, "", "new")
	in.answered(in.general.ID, "re: new")
	in.eventually("the past is logged", func() bool {
		var n int
		err := in.store.Pool().QueryRow(t.Context(), `SELECT count(*) FROM chat_log WHERE text LIKE 'old%'`).Scan(&n)
		return err == nil && n == 20
	})
	if n := len(in.Runs()); n != 1 {
		t.Errorf("%d runs", n)
	}
}

func TestJoiningAChannelLogsItsPastAndAnswersNoneOfIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{Rates: slacktest.RatesOff}, config.SlackSettings{})
	party := r.channel(slacktest.NewChannel{Name: "party", Members: []string{r.ann.ID}})
	me := r.slack.Team().BotUser
	for i := range 230 {
		r.say(slacktest.Saying{Channel: party.ID, User: r.ann.ID, Text: fmt.Sprintf("<@%s> past%d", me, i)})
	}
	r.listen(bySocket)
	r.must(r.slack.Join(party.ID, me, r.ann.ID))
	present := r.say(slacktest.Saying{Channel: party.ID, User: r.ann.ID, Text: "<@" + me + "> now"})
	if m := r.got(present.TS); m.Purpose != adapters.ForAnswer || m.Addressed != adapters.Mention {
		t.Errorf("what was said since came in as %+v", m)
	}
	of := func(p adapters.Purpose) int {
		return r.count(func(m adapters.Message) bool {
			return m.Address.ConversationID == party.ID && m.Purpose == p && m.ID < present.TS
		})
	}
	r.eventually("the past is logged", func() bool { return of(adapters.ForContext) >= 199 })
	if n := of(adapters.ForContext); n > 200 {
		t.Errorf("%d messages of the past", n)
	}
	if n := r.count(func(m adapters.Message) bool { return m.ID == present.TS && m.Purpose != adapters.ForAnswer }); n != 0 {
		t.Errorf("the present was taken for the past")
	}
}

func TestTheReceivingSideDoesNotWaitForTheBackfill(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	r.inject(slacktest.Fault{Method: "users.conversations", Kind: slacktest.Slow, Latency: time.Minute})
	r.inject(slacktest.Fault{Method: "users.list", Kind: slacktest.Slow, Latency: time.Minute})
	r.listen(bySocket)
	m := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "hello"})
	if got := r.got(m.TS); got.Standing != adapters.Unknown {
		t.Errorf("nobody is known yet, but the standing is %s", got.Standing)
	}
}

// Servers that stand in for Slack may have none of what no answer needs.
func TestWhatIsMissingOfSlackKeepsNothingFromComingIn(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{Sockets: slacktest.OneSocket}, config.SlackSettings{})
	for _, method := range []string{
		"users.list", "users.conversations", "conversations.info", "chat.startStream", "assistant.threads.setStatus", "reactions.add",
	} {
		r.inject(slacktest.Fault{Method: method, Kind: slacktest.ErrorCode, Code: "unknown_method"})
	}
	r.must(r.store.SetCursor(t.Context(), streamOf(r.slack.Team().ID, r.general.ID), "1700000000.000100"))
	missed := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "<@" + r.slack.Team().BotUser + "> before"})
	r.slack.ForgetPending()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	inbound := r.adapter.Inbound(adapters.Gateway{Receive: r.receive, Ready: r.isReady, Mux: http.NewServeMux()})
	go func() { ended <- inbound.Run(ctx) }()
	r.got(missed.TS)
	live := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "<@" + r.slack.Team().BotUser + "> now", Thread: missed.TS})
	m := r.got(live.TS)
	out := adapters.Outgoing{Address: m.Address, SessionKey: m.SessionKey, Reply: m.Reply, Key: "k", Markdown: "an answer", Stage: adapters.Growing}
	if _, err := r.adapter.Post(ctx, out); err != nil {
		t.Errorf("without streams: %v", err)
	}
	opened, since := 0, time.Now()
	r.eventually("one socket stays open", func() bool {
		if n := len(r.slack.Calls("apps.connections.open")); n != opened {
			opened, since = n, time.Now()
		}
		return r.slack.Sockets() == 1 && time.Since(since) > 3*time.Second // longer than a closed socket takes to come back
	})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the receiving side ended: %v", err)
	}
}

func streamOf(team, channel string) store.Stream {
	return store.Stream{Platform: "slack", Installation: team, Scope: channel}
}
