package slack_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/slack"
	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
)

func TestAStatusStandsInThreadsUntilTheRunRests(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	root := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "root"})
	m := r.outgoing(r.general.ID, root.TS, "k", "")
	r.must(r.adapter.Working(t.Context(), m, "is thinking…"))
	r.must(r.adapter.Working(t.Context(), r.outgoing(r.general.ID, "", "k", ""), "is thinking…")) // nowhere to show it
	if got := r.slack.Statuses(); len(got) != 1 || got[0].Thread != root.TS || got[0].Text != "is thinking…" {
		t.Errorf("statuses: %+v", got)
	}
	r.must(r.adapter.Rest(t.Context(), m))
	if got := r.slack.Statuses(); len(got) != 0 {
		t.Errorf("left behind: %+v", got)
	}
}

func TestAnHourglassIsPutOnAndTakenOffOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	said := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "later"})
	m := r.outgoing(r.general.ID, "", "k", "")
	m.Cause = said.TS
	count := func() int {
		return len(find(r.slack.Messages(slacktest.Which{Channel: r.general.ID}), said.TS).Reactions["hourglass_flowing_sand"])
	}
	for range 2 {
		r.must(r.adapter.Mark(t.Context(), m, adapters.MarkQueued))
	}
	if count() != 1 {
		t.Errorf("%d hourglasses", count())
	}
	for range 2 {
		r.must(r.adapter.Unmark(t.Context(), m, adapters.MarkQueued))
	}
	if count() != 0 {
		t.Errorf("%d hourglasses are left", count())
	}
	m.Cause = "cmd-13.1" // a command is no message
	r.must(r.adapter.Mark(t.Context(), m, adapters.MarkQueued))
}

func TestFilesAreFetchedFromSlacksHostsOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	r.listen(bySocket)
	for _, c := range []struct {
		kind slacktest.FileState
		want fault.Code
	}{
		{slacktest.FileFine, ""}, {slacktest.FileExternal, fault.Forbidden}, {slacktest.FileAway, fault.Forbidden},
		{slacktest.FileBroken, fault.Unavailable},
	} {
		f, err := r.slack.CreateFile(slacktest.NewFile{User: r.ann.ID, Name: "notes.txt", Content: []byte("the content"), Kind: c.kind})
		r.must(err)
		said := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Files: []string{f.ID}, Text: "see"})
		m := r.got(said.TS)
		if len(m.Attachments) != 1 || m.Attachments[0].Name != "notes.txt" || m.Addressed != adapters.Ambient {
			t.Fatalf("%s: it came in as %+v", c.kind, m)
		}
		body, err := r.adapter.Fetch(t.Context(), m.Address, m.Attachments[0])
		if fault.CodeOf(err) != c.want {
			t.Errorf("%q: %v (%s), want %q", c.kind, err, fault.CodeOf(err), c.want)
		}
		if err != nil {
			continue
		}
		content, err := io.ReadAll(body)
		if err != nil || string(content) != "the content" || body.Close() != nil {
			t.Errorf("it holds %q, %v", content, err)
		}
	}
}

func TestADeletedFileIsNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	r.listen(bySocket)
	f, err := r.slack.CreateFile(slacktest.NewFile{User: r.ann.ID, Name: "notes.txt", Content: []byte("x"), Kind: slacktest.FileDeleted})
	r.must(err)
	said := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Files: []string{f.ID}, Text: "see"})
	if m := r.got(said.TS); len(m.Attachments) != 1 || m.Attachments[0].Problem == "" || m.Text != "see" {
		t.Errorf("it came in as %+v", m.Attachments)
	}
}

func TestAFileIsUploadedWhereTheAnswerGoes(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	root := r.say(slacktest.Saying{Channel: r.general.ID, User: r.ann.ID, Text: "root"})
	const content = "a,b\n1,2\n"
	id, err := r.adapter.Upload(t.Context(), r.outgoing(r.general.ID, root.TS, "k", ""), adapters.Upload{Name: "table.csv", Size: int64(len(content)), Content: strings.NewReader(content)})
	r.must(err)
	f, known := r.slack.File(id)
	if !known || string(f.Content) != content {
		t.Errorf("Slack holds %q", f.Content)
	}
	for _, v := range r.shown(r.general.ID) {
		if len(v.Files) == 1 && v.ThreadTS != root.TS {
			t.Errorf("it was posted to thread %q", v.ThreadTS)
		}
	}
}

func TestCommandsAreWordsWithPrivateAnswers(t *testing.T) {
	t.Parallel()
	in := install(t, slacktest.Options{}, llmtest.Always(llmtest.Say("an answer")))
	in.Worker()
	in.gateway()
	answered, err := in.slack.Command(t.Context(), slacktest.Command{Channel: in.general.ID, User: in.ann.ID, Command: "/mikan-help"})
	in.must(err)
	if !answered.Acked {
		t.Error("the command was not acknowledged in time")
	}
	in.eventually("the help is shown to who asked", func() bool {
		got := in.shown(in.general.ID)
		return len(got) == 1 && got[0].EphemeralTo == in.ann.ID && strings.Contains(got[0].Shown, "stop")
	})
	in.mention(in.general.ID, "", "/help") // the same word after a mention
	in.eventually("it is answered", func() bool { return len(in.shown(in.general.ID)) == 2 })
	in.settle()
	if n := len(in.Runs()); n != 0 {
		t.Errorf("%d runs for commands", n)
	}
}

func TestTheHomeShowsWhatRunsAndStopsIt(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	in := install(t, slacktest.Options{}, func(llmtest.Request) llmtest.Reply {
		return llmtest.Reply{Parts: []llmtest.Part{llmtest.Text("a long answer")}, Hold: hold}
	})
	defer close(hold)
	in.Worker()
	in.gateway()
	in.must(in.slack.OpenHome(in.ann.ID))
	home := func() string {
		v, _ := in.slack.Home(in.ann.ID)
		return v.Text
	}
	in.eventually("the home says that nothing runs", func() bool { return strings.Contains(home(), "Nothing at the moment") })
	in.mention(in.general.ID, "", "count the stars")
	in.eventually("a run goes on", func() bool { return len(in.Runs()) == 1 })
	_, err := in.store.Pool().Exec(t.Context(), `INSERT INTO schedules (id, office_key, kind, cron, zone, text, author_id)
		SELECT 's1', key, 'cron', '0 9 * * 1-5', 'Europe/Berlin', 'read the news', $1 FROM offices`, in.ann.ID)
	in.must(err)
	in.must(in.slack.OpenHome(in.ann.ID))
	in.eventually("the home shows it, and what is scheduled", func() bool {
		return strings.Contains(home(), "count the stars") && strings.Contains(home(), "[Stop]") && strings.Contains(home(), "read the news")
	})
	pressed, err := in.slack.Press(t.Context(), slacktest.Press{User: in.ann.ID, ActionID: "mikan_stop"})
	in.must(err)
	if !pressed.Acked {
		t.Error("the press was not acknowledged in time")
	}
	in.settle()
	if got := in.Runs()[0].Outcome; got != run.Stopped {
		t.Errorf("the run ended as %s", got)
	}
}

func TestTheAgentPaneGreetsOnceAndHasATitle(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	r.listen(bySocket)
	thread, err := r.slack.OpenAssistant(r.ann.ID, r.general.ID)
	r.must(err)
	r.eventually("it is greeted", func() bool {
		all := r.slack.AssistantThreads()
		return len(all) == 1 && len(all[0].Prompts) > 0 && len(r.shown(thread.Channel)) == 1
	})
	r.must(r.slack.Redeliver(slacktest.Redelivery{Count: 100, Times: 2}))
	m := r.say(slacktest.Saying{Channel: thread.Channel, User: r.ann.ID, Thread: thread.Thread, Text: "How warm is the sun?"})
	if got := r.got(m.TS); got.SessionKey != thread.Channel+":"+thread.Thread || got.Addressed != adapters.DirectMessage {
		t.Errorf("it came in as %+v", got)
	}
	r.eventually("it has a title", func() bool { return r.slack.AssistantThreads()[0].Title == "How warm is the sun?" })
	if n := len(r.shown(thread.Channel)); n != 1 {
		t.Errorf("%d greetings", n)
	}
}

func TestAStrangersStandingIsLookedUpAfterwards(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	team := r.slack.Team().ID
	guest := r.user(slacktest.NewUser{Name: "guest", Kind: slacktest.Guest})
	for id, want := range map[string]adapters.Standing{r.ann.ID: adapters.Member, guest.ID: adapters.Stranger, "U0999999999": adapters.Stranger} {
		got, err := r.adapter.Standing(t.Context(), adapters.Applicant{Address: office.Address{Platform: office.Slack, ConversationID: r.general.ID}, Installation: team, AuthorID: id})
		if err != nil || got != want {
			t.Errorf("%s is a %s (%v), want %s", id, got, err, want)
		}
	}
	calls := len(r.slack.Calls("users.info"))
	_, err := r.adapter.Standing(t.Context(), adapters.Applicant{Installation: team, AuthorID: r.ann.ID})
	r.must(err)
	if len(r.slack.Calls("users.info")) != calls {
		t.Error("a known person was asked for again")
	}
}

func TestNamesInAnswersBecomeMentionsOfPeopleOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	r.must(r.store.KeepPeople(t.Context(), store.Person{Platform: "slack", Installation: r.slack.Team().ID, ID: r.ann.ID, Handle: "ann", Name: "Ann", Standing: "member"}))
	_, err := r.adapter.Post(t.Context(), r.outgoing(r.general.ID, "", "k", "@ann and @nobody, <!channel> @everyone @here <@"+r.ann.ID+"> `@ann`"))
	r.must(err)
	v := r.shown(r.general.ID)[0]
	var blocks []struct {
		Text string `json:"text"`
	}
	r.must(json.Unmarshal(v.Blocks, &blocks))
	if n := strings.Count(blocks[0].Text, "<@"+r.ann.ID+">"); n != 1 {
		t.Errorf("%d mentions in %q, want one", n, blocks[0].Text)
	}
	for _, all := range []string{"<!channel>", "<!everyone>", "<!here>"} {
		if strings.Contains(blocks[0].Text, all) || strings.Contains(v.Text, all) {
			t.Errorf("%s would notify everybody: %q, %q", all, blocks[0].Text, v.Text)
		}
	}
}

// A server that stands in for Slack may not say which scopes a token has: that is no reason to call any missing.
func TestScopesThatNobodyTellsAreNotCalledMissing(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"ok":true,"url":"ws://127.0.0.1:1","team":"t","team_id":"T1","user":"mikan","user_id":"U1","bot_id":"B1"}`)
	}))
	t.Cleanup(web.Close)
	log := slog.New(slog.DiscardHandler)
	metrics, err := telemetry.NewMetrics(log)
	if err != nil {
		t.Fatal(err)
	}
	c := config.SlackConfig{BotToken: "xoxb-test", AppToken: "xapp-test", APIURL: web.URL + "/"}
	a, err := slack.New(c, config.SlackSettings{}, adapters.Services{Process: "p", Metrics: metrics, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Check(t.Context()) {
		if f.Err != nil {
			t.Errorf("%s: %v", f.What, f.Err)
		}
	}
}
