package slacktest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
)

// eventID is the id of a request's event.
func eventID(t *testing.T, e socketmode.Event) string {
	t.Helper()
	var outer struct {
		EventID string `json:"event_id"`
	}
	if err := json.Unmarshal(e.Request.Payload, &outer); err != nil {
		t.Fatal(err)
	}
	return outer.EventID
}

// settled waits until every delivery is acknowledged or given up, and returns them.
func (s *stage) settled() []slacktest.Delivery {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Settled(ctx); err != nil {
		s.t.Fatal(err)
	}
	return s.Deliveries()
}

func TestAnUnacknowledgedEventComesAgainMarkedAsARetry(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{AckTimeout: 50 * time.Millisecond, RetryDelays: []time.Duration{0, 0, time.Millisecond}})
	c := s.connect()
	s.say("hello")
	first := next(t, c, socketmode.EventTypeEventsAPI)
	again := next(t, c, socketmode.EventTypeEventsAPI)
	if eventID(t, first) != eventID(t, again) || first.Request.EnvelopeID == again.Request.EnvelopeID {
		t.Error("a retry has the same event and another envelope")
	}
	if first.Request.RetryAttempt != 0 || again.Request.RetryAttempt != 1 || again.Request.RetryReason != "timeout" {
		t.Errorf("attempts %d and %d (%s)", first.Request.RetryAttempt, again.Request.RetryAttempt, again.Request.RetryReason)
	}
	for range 2 { // three repetitions in all
		next(t, c, socketmode.EventTypeEventsAPI)
	}
	if d := s.settled(); len(d) != 1 || !d[0].Lost || d[0].Sent != 4 {
		t.Errorf("after all retries: %+v", d)
	}
	s.clean()
}

func TestAnUnacknowledgedEventComesAgainOnTheNextConnection(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	c := s.connect()
	s.say("hello")
	first := next(t, c, socketmode.EventTypeEventsAPI)
	if n := s.Disconnect(slacktest.RefreshRequested, 0); n != 1 {
		t.Fatalf("%d connections", n)
	}
	again := next(t, c, socketmode.EventTypeEventsAPI)
	if eventID(t, first) != eventID(t, again) || again.Request.RetryAttempt != 1 {
		t.Errorf("attempt %d", again.Request.RetryAttempt)
	}
	if err := c.Ack(*again.Request); err != nil {
		t.Fatal(err)
	}
	if d := s.settled(); len(d) != 1 || !d[0].Acked {
		t.Errorf("%+v", d)
	}
	s.clean()
}

func TestDroppedAndSilentConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{PingInterval: 20 * time.Millisecond, AckTimeout: time.Hour})
	c := s.connect(socketmode.OptionPingInterval(time.Second))
	for name, end := range map[string]func() int{"drop": s.DropSockets, "silence": s.Silence} {
		if n := end(); n == 0 {
			t.Fatalf("%s: no connection", name)
		}
		said := s.say(name) // into the void, where Slack believes that somebody listens
		e := next(t, c, socketmode.EventTypeEventsAPI)
		if _, event := inner(t, e); event["ts"] != said.TS {
			t.Errorf("%s: %v", name, event)
		}
		if err := c.Ack(*e.Request); err != nil {
			t.Fatal(err)
		}
		s.settled()
	}
	s.clean()
}

func TestEachEventGoesToOneOfTheConnections(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	a, b := s.connect(), s.connect()
	got := map[string]int{}
	for range 6 {
		s.say("x")
	}
	for range 3 {
		for _, c := range []*socketmode.Client{a, b} {
			e := next(t, c, socketmode.EventTypeEventsAPI)
			got[eventID(t, e)]++
			if err := c.Ack(*e.Request); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(got) != 6 {
		t.Errorf("events %v", got)
	}
	s.settled()
	s.clean()
}

// plain is a socket without the SDK, to misbehave on.
func (s *stage) plain() *websocket.Conn {
	s.t.Helper()
	_, url, err := s.api.StartSocketModeContext(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	c, _, err := websocket.Dial(context.Background(), url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

func (s *stage) frame(c *websocket.Conn) map[string]any {
	s.t.Helper()
	_, raw, err := c.Read(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	var f map[string]any
	if err := json.Unmarshal(raw, &f); err != nil {
		s.t.Fatal(err)
	}
	return f
}

func TestBadAcknowledgementsAreKept(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	c := s.plain()
	if hello := s.frame(c); hello["type"] != "hello" || hello["num_connections"] != 1.0 {
		t.Errorf("hello %v", hello)
	}
	s.say("hello")
	envelope, _ := s.frame(c)["envelope_id"].(string)
	for _, text := range []string{
		"no JSON",
		`{"envelope_id":"made up"}`,
		`{"envelope_id":"` + envelope + `","payload":{"text":"` + strings.Repeat("x", 20*1024) + `"}}`,
		`{"envelope_id":"` + envelope + `","payload":{"text":"x"}}`,
	} {
		if err := c.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if d := s.settled(); !d[0].Acked {
		t.Errorf("%+v", d)
	}
	var kinds []slacktest.ViolationKind
	for _, v := range s.Violations() {
		kinds = append(kinds, v.Kind)
	}
	want := []slacktest.ViolationKind{slacktest.BadFrame, slacktest.BadEnvelope, slacktest.BadEnvelope, slacktest.BadEnvelope}
	if !slices.Equal(kinds, want) {
		t.Errorf("violations %v", s.Violations())
	}
}

func TestAnAppHoldsTenConnectionsAndEachURLOpensOne(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{Rates: slacktest.RatesOff})
	_, url, err := s.api.StartSocketModeContext(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i := range slacktest.MaxConnections {
		if hello := s.frame(s.plain()); hello["num_connections"] != float64(i+1) {
			t.Errorf("connection %d: %v", i+1, hello)
		}
	}
	if f := s.frame(s.plain()); f["type"] != "disconnect" {
		t.Errorf("the eleventh: %v", f)
	}
	if s.Sockets() != slacktest.MaxConnections || len(s.Violations()) != 1 {
		t.Errorf("%d sockets, %v", s.Sockets(), s.Violations())
	}
	if s.DropSockets() != slacktest.MaxConnections {
		t.Error("not all were dropped")
	}
	first, _, err := websocket.Dial(context.Background(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.CloseNow() }()
	if _, _, err := websocket.Dial(context.Background(), url, nil); err == nil {
		t.Error("a second connection with one URL")
	}
}

func TestHeldEventsComeLateReversedOrOnlyAsRetries(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	c := s.connect()
	s.Hold()
	a, b := s.say("a"), s.say("b")
	s.Advance(72 * time.Hour)
	if n := s.Release(slacktest.Release{AsRetry: true, Reverse: true}); n != 2 {
		t.Fatalf("%d held", n)
	}
	for _, want := range []string{b.TS, a.TS} {
		e := next(t, c, socketmode.EventTypeEventsAPI)
		if _, event := inner(t, e); event["ts"] != want || e.Request.RetryAttempt != 1 {
			t.Errorf("attempt %d of %v, want %s", e.Request.RetryAttempt, event["ts"], want)
		}
		if err := c.Ack(*e.Request); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Redeliver(slacktest.Redelivery{Times: 3}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		e := next(t, c, socketmode.EventTypeEventsAPI)
		if _, event := inner(t, e); event["ts"] != b.TS || e.Request.RetryAttempt != 1 {
			t.Errorf("redelivered %v", event)
		}
		if err := c.Ack(*e.Request); err != nil {
			t.Fatal(err)
		}
	}
	s.settled()
	s.clean()
}

func TestEventsOfAnOutageAreLost(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	s.say("nobody listens")
	if n := s.ForgetPending(); n != 1 {
		t.Errorf("%d forgotten", n)
	}
	c := s.connect()
	said := s.say("somebody listens")
	e := next(t, c, socketmode.EventTypeEventsAPI)
	if _, event := inner(t, e); event["ts"] != said.TS {
		t.Errorf("%v", event)
	}
	s.clean()
}

func TestACommandThatNobodyAcknowledgesFails(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{AckTimeout: time.Millisecond})
	c := s.connect()
	for _, listens := range []bool{true, false} {
		if !listens {
			s.DropSockets()
		}
		a, err := s.Command(context.Background(), slacktest.Command{Channel: s.general.ID, User: s.ann.ID, Command: "/mikan-help"})
		if err != nil || a.Acked {
			t.Errorf("%+v %v", a, err)
		}
	}
	next(t, c, socketmode.EventTypeSlashCommand)
	s.clean()
}

func TestCommandsAndButtons(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{AckTimeout: time.Hour})
	c := s.connect()
	ctx := context.Background()
	type result struct {
		slacktest.Answered
		err error
	}
	done := make(chan result, 1)
	run := func(do func() (slacktest.Answered, error)) {
		go func() {
			a, err := do()
			done <- result{a, err}
		}()
	}

	run(func() (slacktest.Answered, error) {
		return s.Command(ctx, slacktest.Command{Channel: s.general.ID, User: s.ann.ID, Command: "/mikan-stop", Text: "all"})
	})
	e := next(t, c, socketmode.EventTypeSlashCommand)
	cmd := e.Data.(slack.SlashCommand)
	if cmd.Command != "/mikan-stop" || cmd.Text != "all" || cmd.ChannelID != s.general.ID || cmd.UserID != s.ann.ID || !e.Request.AcceptsResponsePayload {
		t.Errorf("%+v", cmd)
	}
	if err := c.Ack(*e.Request, map[string]any{"text": "stopping"}); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil || !r.Acked {
		t.Errorf("%+v", r)
	}
	for i := range slacktest.MaxResponses + 1 {
		_, _, err := s.api.PostMessage("", slack.MsgOptionText(fmt.Sprint("later ", i), false), slack.MsgOptionResponseURL(cmd.ResponseURL, slack.ResponseTypeEphemeral))
		if (err != nil) != (i == slacktest.MaxResponses) {
			t.Errorf("post %d to the response_url: %v", i, err)
		}
	}
	private := s.Messages(slacktest.Which{ByApp: true})
	if len(private) != 1+slacktest.MaxResponses || private[0].Shown != "stopping" || private[5].EphemeralTo != s.ann.ID {
		t.Errorf("%+v", private)
	}
	if v := s.Violations(); len(v) != 1 || v[0].Kind != slacktest.BadResponse {
		t.Errorf("violations %v", v)
	}

	stop := slack.NewButtonBlockElement("stop", "run-1", slack.NewTextBlockObject(slack.PlainTextType, "Stop", false, false))
	_, ts, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText("working", false), slack.MsgOptionBlocks(slack.NewActionBlock("controls", stop)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.api.PublishView(s.ann.ID, slack.HomeTabViewRequest{Type: slack.VTHomeTab, Blocks: slack.Blocks{BlockSet: []slack.Block{slack.NewActionBlock("controls", stop)}}}, ""); err != nil {
		t.Fatal(err)
	}
	for _, p := range []slacktest.Press{
		{Channel: s.general.ID, TS: ts, User: s.ann.ID, ActionID: "stop"},
		{User: s.ann.ID, ActionID: "stop", Value: "run-1"},
	} {
		run(func() (slacktest.Answered, error) { return s.Press(ctx, p) })
		e := next(t, c, socketmode.EventTypeInteractive)
		cb := e.Data.(slack.InteractionCallback)
		if a := cb.ActionCallback.BlockActions; cb.Type != slack.InteractionTypeBlockActions || len(a) != 1 || a[0].ActionID != "stop" || a[0].Value != "run-1" || cb.User.ID != s.ann.ID {
			t.Errorf("%+v", cb)
		}
		if err := c.Ack(*e.Request); err != nil {
			t.Fatal(err)
		}
		if r := <-done; r.err != nil || !r.Acked {
			t.Errorf("%+v", r)
		}
	}
	if _, err := s.Press(ctx, slacktest.Press{User: s.ann.ID, ActionID: "start"}); err == nil {
		t.Error("a button that is not there was pressed")
	}
	if v, ok := s.Home(s.ann.ID); !ok || v.Text != "[Stop]" || v.Count != 1 {
		t.Errorf("home %+v", v)
	}
}

func TestDisconnectFrames(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	for _, reason := range []slacktest.DisconnectReason{slacktest.Warning, slacktest.RefreshRequested, slacktest.LinkDisabled} {
		c := s.plain()
		s.frame(c) // hello
		if n := s.Disconnect(reason, 0); n != 1 {
			t.Fatalf("%s: %d connections", reason, n)
		}
		if f := s.frame(c); f["type"] != "disconnect" || f["reason"] != string(reason) {
			t.Errorf("%s: %v", reason, f)
		}
		if _, _, err := c.Read(context.Background()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Errorf("%s: %v", reason, err)
		}
		s.DropSockets() // so that none of the ended ones is counted
	}
	s.clean()
}

func TestDelayedAnswers(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{AckTimeout: time.Hour})
	c := s.connect()
	stop := slack.NewButtonBlockElement("stop", "", slack.NewTextBlockObject(slack.PlainTextType, "Stop", false, false))
	_, ts, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText("working", false), slack.MsgOptionBlocks(slack.NewActionBlock("", stop)))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Press(context.Background(), slacktest.Press{Channel: s.general.ID, TS: ts, User: s.ann.ID, ActionID: "stop"})
		done <- err
	}()
	e := next(t, c, socketmode.EventTypeInteractive)
	if err := c.Ack(*e.Request); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	to := e.Data.(slack.InteractionCallback).ResponseURL
	for _, o := range [][]slack.MsgOption{
		{slack.MsgOptionText("stopped", false), slack.MsgOptionReplaceOriginal(to)},
		{slack.MsgOptionText("told to all", false), slack.MsgOptionResponseURL(to, slack.ResponseTypeInChannel)},
		{slack.MsgOptionText("told to one", false), slack.MsgOptionResponseURL(to, slack.ResponseTypeEphemeral)},
	} {
		if _, _, err := s.api.PostMessage("", o...); err != nil {
			t.Error(err)
		}
	}
	v := s.Messages(slacktest.Which{ByApp: true})
	if len(v) != 3 || v[0].Shown != "stopped" || v[0].Edits != 1 || v[1].EphemeralTo != "" || v[2].EphemeralTo != s.ann.ID {
		t.Errorf("%+v", v)
	}
	s.clean()
	s.Advance(31 * time.Minute)
	if _, _, err := s.api.PostMessage("", slack.MsgOptionText("late", false), slack.MsgOptionResponseURL(to, slack.ResponseTypeEphemeral)); err == nil {
		t.Error("a response_url worked after half an hour")
	}
}
