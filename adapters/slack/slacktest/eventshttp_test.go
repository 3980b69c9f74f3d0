package slacktest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
)

// receiver is an app's HTTP side: it verifies with the SDK what it is sent and answers as told.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	answers []int // statuses of the first requests; 200 afterwards
	retries []string
	bodies  [][]byte
}

func (s *stage) receiver(answers ...int) *receiver {
	s.t.Helper()
	r := &receiver{answers: answers}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body := must(io.ReadAll(req.Body))
		v, err := slack.NewSecretsVerifier(req.Header, s.App().SigningSecret)
		if err == nil {
			_, _ = v.Write(body) // a hash takes everything
			err = v.Ensure()
		}
		if err != nil {
			s.t.Errorf("signature: %v", err)
		}
		e, err := slackevents.ParseEvent(body, slackevents.OptionNoVerifyToken())
		if err == nil && e.Type == slackevents.URLVerification {
			_, _ = io.WriteString(w, e.Data.(*slackevents.EventsAPIURLVerificationEvent).Challenge)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bodies = append(r.bodies, body)
		r.retries = append(r.retries, req.Header.Get("X-Slack-Retry-Num")+" "+req.Header.Get("X-Slack-Retry-Reason"))
		if len(r.answers) > 0 {
			status := r.answers[0]
			r.answers = r.answers[1:]
			w.WriteHeader(status)
		}
	}))
	s.t.Cleanup(r.Close)
	return r
}

func TestEventsOverHTTPAreSignedAndRepeatedUntilTheyAreTaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		answers []int
		retries []string
		acked   bool
	}{
		{"taken at once", nil, []string{" "}, true},
		{"taken at the third attempt", []int{500, 302}, []string{" ", "1 http_error", "2 http_error"}, true},
		{"never taken", []int{500, 500, 500, 500, 500}, []string{" ", "1 http_error", "2 http_error", "3 http_error"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, slacktest.Options{RetryDelays: []time.Duration{0, 0, time.Millisecond}})
			r := s.receiver(c.answers...)
			if err := s.SetEndpoints(context.Background(), slacktest.Endpoints{Events: r.URL}); err != nil {
				t.Fatal(err)
			}
			s.say("hello")
			if d := s.settled(); len(d) != 1 || d[0].Acked != c.acked {
				t.Errorf("%+v", d)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if !slices.Equal(r.retries, c.retries) {
				t.Errorf("attempts %q, want %q", r.retries, c.retries)
			}
			for _, b := range r.bodies {
				if string(b) != string(r.bodies[0]) {
					t.Error("a retry says something else")
				}
			}
			s.clean()
		})
	}
}

func TestCommandsAndButtonsOverHTTP(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	r := s.receiver()
	if err := s.SetEndpoints(context.Background(), slacktest.Endpoints{Events: r.URL, Commands: r.URL, Interactivity: r.URL}); err != nil {
		t.Fatal(err)
	}
	stop := slack.NewButtonBlockElement("stop", "run-1", slack.NewTextBlockObject(slack.PlainTextType, "Stop", false, false))
	_, ts, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText("working", false), slack.MsgOptionBlocks(slack.NewActionBlock("controls", stop)))
	if err != nil {
		t.Fatal(err)
	}
	s.settled()
	if a, err := s.Command(context.Background(), slacktest.Command{Channel: s.general.ID, User: s.ann.ID, Command: "/mikan-stop", Text: "a&b"}); err != nil || !a.Acked {
		t.Errorf("%+v %v", a, err)
	}
	if a, err := s.Press(context.Background(), slacktest.Press{Channel: s.general.ID, TS: ts, User: s.ann.ID, ActionID: "stop"}); err != nil || !a.Acked {
		t.Errorf("%+v %v", a, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	command := must(url.ParseQuery(string(r.bodies[1])))
	if command.Get("command") != "/mikan-stop" || command.Get("text") != "a&b" || command.Get("response_url") == "" {
		t.Errorf("%v", command)
	}
	press := must(url.ParseQuery(string(r.bodies[2])))
	var cb slack.InteractionCallback
	if err := json.Unmarshal([]byte(press.Get("payload")), &cb); err != nil || cb.ActionCallback.BlockActions[0].Value != "run-1" {
		t.Errorf("%v %v", press, err)
	}
	s.clean()
}

func TestAnEventsURLMustAnswerTheChallenge(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	deaf := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(deaf.Close)
	if err := s.SetEndpoints(context.Background(), slacktest.Endpoints{Events: deaf.URL}); err == nil {
		t.Error("accepted")
	}
	if v := s.Violations(); len(v) != 1 || v[0].Kind != slacktest.BadURL {
		t.Errorf("violations %v", v)
	}
}

func TestAnAnswerThatComesTooLateIsNone(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{AckTimeout: 50 * time.Millisecond, RetryDelays: []time.Duration{0}})
	reasons := make(chan string, 10)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := must(io.ReadAll(r.Body))
		e, err := slackevents.ParseEvent(body, slackevents.OptionNoVerifyToken())
		if err == nil && e.Type == slackevents.URLVerification {
			_, _ = io.WriteString(w, e.Data.(*slackevents.EventsAPIURLVerificationEvent).Challenge)
			return
		}
		reasons <- r.Header.Get("X-Slack-Retry-Reason")
		<-r.Context().Done() // until Slack hangs up
	}))
	t.Cleanup(slow.Close)
	for { // the challenge has the same time to be answered in
		if err := s.SetEndpoints(context.Background(), slacktest.Endpoints{Events: slow.URL}); err == nil {
			break
		}
	}
	s.say("hello")
	if d := s.settled(); !d[0].Lost {
		t.Errorf("%+v", d)
	}
	if first, second := <-reasons, <-reasons; first != "" || second != "http_timeout" {
		t.Errorf("reasons %q and %q", first, second)
	}
}
