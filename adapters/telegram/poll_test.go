package telegram_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
)

// say lets ann say something in private and returns the message's id.
func (r *rig) say(text string) string {
	return itoa(r.telegram.Say(telegramtest.Said{Chat: ann, From: ann, Text: text}))
}

// texts are what came in, in order.
func (r *rig) texts() []string {
	var all []string
	for _, m := range r.all() {
		all = append(all, m.Text)
	}
	return all
}

func (r *rig) comesIn(want ...string) {
	r.Helper()
	r.eventually(strings.Join(want, ", ")+" come in", func() bool { return slices.Equal(r.texts(), want) })
}

// polls counts the requests for updates.
func (r *rig) polls() int { return len(r.telegram.Calls("getUpdates")) }

func TestAnUpdateIsConfirmedOnlyAfterItsCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	refused := make(chan struct{}, 100)
	r.answer(func(m adapters.Message) error {
		if m.Text == "two" {
			refused <- struct{}{}
			return fault.New(fault.Unavailable, "the database is down")
		}
		return nil
	})
	for _, text := range []string{"one", "two", "three"} {
		r.say(text)
	}
	quit, _ := r.start(r.adapter)
	<-refused
	<-refused // it came again
	if got := r.texts(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("%v came in while the second could not be committed", got)
	}
	if n := r.telegram.Pending(); n != 2 {
		t.Errorf("%d updates wait at Telegram, want the two that were not committed", n)
	}
	if r.connected() {
		t.Error("it calls itself connected while nothing can be committed")
	}
	quit() // the process ends: the next one gets them
	r.answer(nil)
	r.start(r.another("two"))
	r.comesIn("one", "two", "three")
	r.eventually("all is confirmed", func() bool { return r.telegram.Pending() == 0 && r.connected() })
}

func TestALostAnswerToAPollLosesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	r.telegram.Fail(telegramtest.Fault{Method: "getUpdates", Kind: telegramtest.LoseReply, Times: 2})
	r.say("one")
	r.listen()
	r.comesIn("one")
}

func TestAfterConflictsPollingResumesAndNothingIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	r.telegram.Fail(telegramtest.Fault{
		Method: "getUpdates", Kind: telegramtest.Refuse, Code: http.StatusConflict, Times: 3,
		Description: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
	})
	r.say("one")
	_, ended := r.start(r.adapter)
	r.say("two")
	r.comesIn("one", "two")
	r.eventually("it is connected again", r.connected)
	degraded := 0
	for _, err := range r.states() {
		if err != nil {
			degraded++
			if fault.CodeOf(err) != fault.Conflict || !strings.Contains(err.Error(), "somebody else") {
				t.Errorf("meanwhile it said %v", err)
			}
		}
	}
	if degraded != 3 {
		t.Errorf("it was degraded %d times", degraded)
	}
	select {
	case err := <-ended:
		t.Errorf("it ended: %v", err)
	default:
	}
}

func TestAnotherProgramThatPollsIsOutlived(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	r.listen()
	conflict := func() bool {
		return slices.ContainsFunc(r.states(), func(err error) bool { return fault.CodeOf(err) == fault.Conflict })
	}
	r.eventually("a request of another program's ends ours", func() bool {
		resp, err := http.Get(r.telegram.URL + "/bot" + r.telegram.Token + "/getUpdates")
		r.must(err)
		_ = resp.Body.Close()
		return conflict()
	})
	r.say("one")
	r.comesIn("one")
}

func TestARefusedTokenEndsTheAdapterWithTheReason(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"at the start", "while it polls"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, telegramtest.Options{})
			if when == "at the start" {
				r.telegram.RevokeToken()
			}
			_, ended := r.start(r.adapter)
			if when != "at the start" {
				r.eventually("it is connected", func() bool { return r.connected() && len(r.telegram.Calls("setMyCommands")) > 0 })
				r.telegram.RevokeToken()
			}
			select {
			case err := <-ended:
				if fault.CodeOf(err) != fault.Forbidden || !strings.Contains(err.Error(), "TELEGRAM_BOT_TOKEN") || !strings.Contains(err.Error(), "@BotFather") {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it did not end")
			}
		})
	}
}

func TestWhatIsNoTokenIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	for _, token := range []config.Secret{"", "abc", "12:a/b", "x:y", "-1:abc"} {
		r.config.BotToken = token
		if _, err := r.attempt(); fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "TELEGRAM_BOT_TOKEN") {
			t.Errorf("%q: %v", token.Reveal(), err)
		}
	}
}

func TestTroubleAtTelegramIsOutlived(t *testing.T) {
	t.Parallel()
	for _, f := range []telegramtest.Fault{
		{Method: "getUpdates", Kind: telegramtest.ServerError, Times: 2},
		{Method: "getUpdates", Kind: telegramtest.Malformed, Times: 2},
		{Method: "getUpdates", Kind: telegramtest.RateLimited, RetryAfter: 1},
		{Method: "getMe", Kind: telegramtest.ServerError},
		{Method: "getMe", Kind: telegramtest.LoseReply},
		{Method: "getWebhookInfo", Kind: telegramtest.ServerError},
		{Method: "setMyCommands", Kind: telegramtest.ServerError},
		{Method: "getWebhookInfo", Kind: telegramtest.Refuse, Code: http.StatusNotFound, Description: "Not Found: method not found", Times: -1},
		{Method: "setMyCommands", Kind: telegramtest.Refuse, Code: http.StatusNotFound, Description: "Not Found: method not found", Times: -1},
	} {
		t.Run(strings.Join([]string{string(f.Kind), "of", f.Method, f.Description}, " "), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, telegramtest.Options{})
			r.telegram.Fail(f)
			r.say("one")
			r.start(r.adapter)
			r.comesIn("one")
			r.eventually("it is connected", r.connected)
		})
	}
}

func TestOfTwoGatewaysOnePolls(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	quit := r.listen()
	r.start(r.another("two"))
	r.say("one")
	r.comesIn("one")
	quit()
	r.say("two")
	r.comesIn("one", "two")
	for _, c := range r.telegram.Calls("getUpdates") {
		if c.Code == http.StatusConflict {
			t.Errorf("the two polled at the same time: %s", c.Error)
		}
	}
}

func TestWhatCannotBeReadOrIsRefusedDoesNotHoldUpTheRest(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	r.answer(func(m adapters.Message) error {
		if m.Text == "refused" {
			return fault.New(fault.Invalid, "its ids are refused")
		}
		return nil
	})
	r.telegram.Raw(map[string]any{"message": map[string]any{"message_id": "no number"}})
	r.telegram.Raw(map[string]any{"poll": map[string]any{"id": "1"}})
	r.say("refused")
	r.say("two")
	r.listen()
	r.comesIn("two")
	r.eventually("all is confirmed", func() bool { return r.telegram.Pending() == 0 })
	if n := r.counted(`mikan_messages_refused_total{platform="telegram",reason="unreadable"}`); n != 1 {
		t.Errorf("%v updates counted as unreadable", n)
	}
}

func TestAStrangersWebhookIsLeftAloneAndSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Hosting: telegramtest.LocalMode})
	const theirs = "http://127.0.0.1:1/theirs/secret-path"
	r.setWebhook(theirs)
	r.start(r.adapter)
	r.eventually("it says so", func() bool {
		return slices.ContainsFunc(r.states(), func(err error) bool {
			return fault.CodeOf(err) == fault.Conflict && strings.Contains(err.Error(), "127.0.0.1:1 ") && strings.Contains(err.Error(), "deleteWebhook")
		})
	})
	if r.telegram.Webhook() != theirs {
		t.Error("it was removed")
	}
	for _, err := range r.states() {
		if err != nil && strings.Contains(err.Error(), "secret-path") {
			t.Errorf("the path of their webhook is told: %v", err)
		}
	}
}

func TestMikansOwnWebhookIsRemovedWhenItIsToPoll(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Hosting: telegramtest.LocalMode})
	r.useWebhook()
	quit, _ := r.start(r.adapter)
	r.eventually("the webhook is set", func() bool { return r.telegram.Webhook() != "" && r.connected() })
	quit()
	r.config.WebhookURL, r.config.WebhookSecret = "", ""
	r.start(r.another("two"))
	r.eventually("it is removed", func() bool { return r.telegram.Webhook() == "" }) // what came by it is not what is tested
	r.say("one")
	r.comesIn("one")
}

func TestTheMenuOffersCommandsThatMikanKnows(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	r.listen()
	if len(r.telegram.Menu()) == 0 {
		t.Fatal("the menu is empty")
	}
	for _, c := range r.telegram.Menu() {
		if adapters.ParseWord("/"+c.Command) == adapters.NoWord || adapters.ParseWord("/"+c.Command+"@"+r.telegram.Username) == adapters.NoWord {
			t.Errorf("/%s is in the menu, and no word of mikan's", c.Command)
		}
	}
}

func TestTheTokenStaysOutOfErrorsAndLogs(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	secret := strings.SplitN(r.telegram.Token, ":", 2)[1]
	check := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s succeeded", what)
			return
		}
		for ; err != nil; err = errors.Unwrap(err) {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s tells the token: %v", what, err)
			}
		}
	}
	r.telegram.Fail(telegramtest.Fault{Kind: telegramtest.LoseReply, Times: -1})
	r.telegram.Fail(telegramtest.Fault{Method: "getUpdates", Kind: telegramtest.LoseReply, Times: -1})
	r.exercise(check)
	quit, _ := r.start(r.adapter)
	r.eventually("it reports the trouble", func() bool { return len(r.states()) > 1 })
	quit()
	r.telegram.Mend()
	r.telegram.Fail(telegramtest.Fault{Kind: telegramtest.Malformed, Times: -1})
	r.exercise(check)
	r.config.APIURL = "http://127.0.0.1:1"
	r.adapter = r.another("unreachable")
	r.exercise(check)
	quit, _ = r.start(r.adapter)
	r.eventually("it reports the trouble", func() bool { return len(r.states()) > 4 })
	quit()
	for _, err := range r.states() {
		check("polling", err)
	}
	r.config.APIURL = r.telegram.URL
	if strings.Contains(r.log.String(), secret) {
		t.Errorf("the log tells the token: %s", r.log)
	}
}
