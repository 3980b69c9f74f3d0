package telegram_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/telegram"
	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// post sends a message that must arrive, and returns its number.
func (r *rig) send(m adapters.Outgoing) int {
	r.Helper()
	id, err := r.adapter.Post(r.Context(), m)
	r.must(err)
	_, number, found := strings.Cut(id, ".")
	if !found {
		number = id
	}
	n, err := strconv.Atoi(number)
	r.must(err)
	return n
}

// shown is what the bot shows in a chat, oldest first.
func (r *rig) shown(chat int64) []string {
	var all []string
	for _, m := range r.telegram.FromBot(chat) {
		all = append(all, m.Text)
	}
	return all
}

func TestAnAnswerStandsWhereItWasAskedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	topic := r.telegram.AddTopic(forum, bob, "deploys")
	inTopic := r.telegram.Say(telegramtest.Said{Chat: forum, From: ann, Topic: topic, Text: "in a topic"})
	inGroup := r.telegram.Say(telegramtest.Said{Chat: group, From: ann, Text: "in a group"})
	gone := r.telegram.Say(telegramtest.Said{Chat: group, From: ann, Text: "deleted before it is answered"})
	r.telegram.Delete(group, gone)
	for _, c := range []struct {
		what    string
		chat    int64
		terms   telegram.Reply
		part    int
		replyTo int
		topic   int
	}{
		{"private", ann, telegram.Reply{}, 0, 0, 0},
		{"a group", group, telegram.Reply{Message: inGroup}, 0, inGroup, 0},
		{"a later part", group, telegram.Reply{Message: inGroup}, 1, 0, 0},
		{"a topic", forum, telegram.Reply{Message: inTopic, Topic: topic}, 0, inTopic, topic},
		{"a later part in a topic", forum, telegram.Reply{Message: inTopic, Topic: topic}, 1, topic, topic},
		{"a message that is gone", group, telegram.Reply{Message: gone}, 0, 0, 0},
	} {
		m := to(c.chat, c.what, c.terms)
		m.Part = c.part
		id := r.send(m)
		i := slices.IndexFunc(r.telegram.FromBot(c.chat), func(s telegramtest.Seen) bool { return s.ID == id })
		if i < 0 {
			t.Fatalf("%s: it is not there", c.what)
		}
		if s := r.telegram.FromBot(c.chat)[i]; s.Text != c.what || s.ReplyTo != c.replyTo || s.Topic != c.topic {
			t.Errorf("%s: %+v", c.what, s)
		}
	}
}

func TestAPlaceholderBecomesTheAnswerOrIsTakenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	can := r.adapter.Capabilities(office.Address{ConversationID: itoa(ann)})
	if can.Placeholder != adapters.PlaceholderFirst || can.Redraws != adapters.EditRedraws || can.Repeats != adapters.RepeatsShow || can.RedrawEvery != time.Second || can.Waiting != adapters.WaitingNoticed {
		t.Errorf("a private chat: %+v", can)
	}
	if can := r.adapter.Capabilities(office.Address{ConversationID: itoa(group)}); can.RedrawEvery != 3*time.Second {
		t.Errorf("a group: %+v", can)
	}
	growing := to(ann, "Thinking…", telegram.Reply{})
	growing.Stage = adapters.Growing
	id := itoa(r.send(growing))
	r.must(r.adapter.Edit(t.Context(), id, to(ann, "The answer.", telegram.Reply{})))
	r.must(r.adapter.Edit(t.Context(), id, to(ann, "The answer.", telegram.Reply{}))) // "message is not modified" is success
	if got := r.shown(ann); !slices.Equal(got, []string{"The answer."}) {
		t.Errorf("shown %q", got)
	}
	r.must(r.adapter.Delete(t.Context(), id, to(ann, "", telegram.Reply{})))
	if got := r.shown(ann); len(got) != 0 {
		t.Errorf("shown %q", got)
	}
	if err := r.adapter.Delete(t.Context(), id, to(ann, "", telegram.Reply{})); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("deleted again: %v", err)
	}
	if err := r.adapter.Edit(t.Context(), id, to(ann, "late", telegram.Reply{})); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("edited when it is gone: %v", err)
	}
}

func TestRefusalsHaveCodes(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	id := itoa(r.send(to(bob, "hello", telegram.Reply{})))
	for description, want := range map[string]fault.Code{
		"Forbidden: bot was blocked by the user":                           fault.Forbidden,
		"Forbidden: user is deactivated":                                   fault.Forbidden,
		"Forbidden: bot was kicked from the supergroup chat":               fault.Forbidden,
		"Forbidden: bot is not a member of the channel chat":               fault.Forbidden,
		"Bad Request: not enough rights to send text messages to the chat": fault.Forbidden,
		"Bad Request: have no rights to send a message":                    fault.Forbidden,
		"Bad Request: CHAT_WRITE_FORBIDDEN":                                fault.Forbidden,
		"Bad Request: TOPIC_CLOSED":                                        fault.Forbidden,
		"Bad Request: chat not found":                                      fault.NotFound,
		"Bad Request: message thread not found":                            fault.NotFound,
		"Bad Request: message to edit not found":                           fault.NotFound,
		"Bad Request: MESSAGE_ID_INVALID":                                  fault.NotFound,
		"Bad Request: message can't be edited":                             fault.NotFound,
		"Bad Request: MESSAGE_TOO_LONG":                                    fault.TooLarge,
		"Bad Request: message is too long":                                 fault.TooLarge,
		"Bad Request: message text is empty":                               fault.Invalid,
		"Bad Request: something that nobody has heard of":                  fault.Invalid,
		"Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a …": "",
	} {
		r.telegram.Fail(telegramtest.Fault{Method: "editMessageText", Kind: telegramtest.Refuse, Description: description})
		if err := r.adapter.Edit(t.Context(), id, to(bob, description, telegram.Reply{})); fault.CodeOf(err) != want {
			t.Errorf("%s: %v (%s), want %s", description, err, fault.CodeOf(err), want)
		}
	}
}

func TestWhatARefusalRepeatsOfAMessageIsLeftOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	for _, description := range []string{"Bad Request: it can't be: something about 'what was said' and more", `Bad Request: no "what was said"`} {
		r.telegram.Fail(telegramtest.Fault{Method: "sendMessage", Kind: telegramtest.Refuse, Description: description})
		_, err := r.adapter.Post(t.Context(), to(ann, "what was said", telegram.Reply{}))
		if err == nil || strings.Contains(err.Error(), "said") {
			t.Errorf("%s: it says %v", description, err)
		}
	}
}

func TestAPersonWhoBlockedTheBotEndsTheDelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	for as, chat := range map[telegramtest.BotStanding]int64{telegramtest.BotBlocked: ann, telegramtest.BotKicked: group, telegramtest.BotRestricted: super} {
		r.telegram.Stand(chat, as)
		if _, err := r.adapter.Post(t.Context(), to(chat, "hello", telegram.Reply{})); fault.CodeOf(err) != fault.Forbidden {
			t.Errorf("%s: %v", as, err)
		}
	}
	if _, err := r.adapter.Post(t.Context(), to(-77, "hello", telegram.Reply{})); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a chat that is not: %v", err)
	}
}

func TestTroubleAtTelegramIsUnavailable(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	for _, kind := range []telegramtest.FaultKind{telegramtest.ServerError, telegramtest.Malformed, telegramtest.LoseReply} {
		r.telegram.Fail(telegramtest.Fault{Method: "sendMessage", Kind: kind})
		if _, err := r.adapter.Post(t.Context(), to(ann, string(kind), telegram.Reply{})); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("%s: %v", kind, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	r.telegram.Fail(telegramtest.Fault{Method: "sendMessage", Kind: telegramtest.Slow, Latency: time.Minute})
	if _, err := r.adapter.Post(ctx, to(bob, "slow", telegram.Reply{})); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("too slow: %v", err)
	}
}

func TestAPauseThatTelegramAsksForIsKeptByEverybody(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	id := itoa(r.send(to(ann, "Thinking…", telegram.Reply{})))
	r.telegram.Fail(telegramtest.Fault{Method: "editMessageText", Chat: ann, Kind: telegramtest.RateLimited, RetryAfter: 126})
	limited := func(what string, a *telegram.Adapter, stage adapters.Stage) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		m := to(ann, what, telegram.Reply{})
		m.Stage = stage
		err := a.Edit(ctx, id, m)
		if wait := fault.RetryAfter(err); fault.CodeOf(err) != fault.RateLimited || wait < 120*time.Second || wait > 126*time.Second {
			t.Errorf("%s: %v, to be tried after %v", what, err, wait)
		}
	}
	for { // the first redraw finds the chat's allowance used up
		m := to(ann, "progress", telegram.Reply{})
		m.Stage = adapters.Growing
		if err := r.adapter.Edit(t.Context(), id, m); len(r.telegram.Calls("editMessageText")) == 1 {
			if fault.CodeOf(err) != fault.RateLimited || fault.RetryAfter(err) != 126*time.Second {
				t.Fatalf("Telegram's refusal became %v", err)
			}
			break
		}
	}
	limited("more progress", r.adapter, adapters.Growing)
	limited("the answer", r.adapter, adapters.Complete)
	limited("another process's answer", r.another("two"), adapters.Complete)
	if n := len(r.telegram.Calls("editMessageText")); n != 1 {
		t.Errorf("Telegram was called %d times in its pause", n)
	}
	r.send(to(bob, "another chat goes on", telegram.Reply{}))
}

func TestRatesStayWithinTelegrams(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Limits: telegramtest.LimitsEnforced})
	var all sync.WaitGroup
	for i := range 5 {
		for _, chat := range []int64{ann, group} {
			all.Go(func() { r.send(to(chat, fmt.Sprintf("message %d", i), telegram.Reply{})) })
		}
	}
	all.Wait()
	if len(r.shown(ann)) != 5 || len(r.shown(group)) != 5 {
		t.Errorf("shown %q and %q", r.shown(ann), r.shown(group))
	}
	for _, c := range r.telegram.Calls("sendMessage") {
		if c.Code == http.StatusTooManyRequests {
			t.Errorf("Telegram said %s", c.Error)
		}
	}
}

func TestWhatMayStandTwiceIsCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	for part, label := range map[int]string{0: "first", 1: "later", 2: "later"} {
		m := to(ann, "x", telegram.Reply{})
		m.Part = part
		if _, found, err := r.adapter.FindDelivery(t.Context(), m, time.Now()); found || err != nil {
			t.Errorf("part %d (%s): found %v, %v", part, label, found, err)
		}
	}
	for label, want := range map[string]float64{"first": 1, "later": 2} {
		if n := r.counted(`mikan_deliveries_resent_total{part="` + label + `",platform="telegram"}`); n != want {
			t.Errorf("%s: counted %v", label, n)
		}
	}
}

func TestTypingIsShownWhereTheAnswerWillStand(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	topic := r.telegram.AddTopic(forum, bob, "deploys")
	r.must(r.adapter.Working(t.Context(), to(forum, "", telegram.Reply{Topic: topic}), "thinking"))
	r.must(r.adapter.Rest(t.Context(), to(forum, "", telegram.Reply{Topic: topic})))
	if got := r.telegram.Actions(forum); len(got) != 1 || got[0].Action != "typing" || got[0].Topic != topic {
		t.Errorf("shown %+v", got)
	}
}

func TestDoctorTellsWhatWorks(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{Hosting: telegramtest.LocalMode})
	found := func() map[string]adapters.Finding {
		all := map[string]adapters.Finding{}
		for _, f := range r.adapter.Check(t.Context()) {
			all[f.What] = f
		}
		return all
	}
	f := found()
	if !strings.Contains(f["bot token"].Note, "@"+r.telegram.Username) || !strings.Contains(f["messages"].Note, "long polling") || !strings.Contains(f["groups"].Note, "privacy mode is on") {
		t.Errorf("found %+v", f)
	}
	r.setWebhook("http://127.0.0.1:1/x")
	if f := found(); f["messages"].Err == nil || !strings.Contains(f["messages"].Err.Error(), "deleteWebhook") {
		t.Errorf("a stranger's webhook: %+v", f["messages"])
	}
	r.telegram.RevokeToken()
	if f := found(); f["bot token"].Err == nil || !strings.Contains(f["bot token"].Err.Error(), "@BotFather") {
		t.Errorf("a revoked token: %+v", f)
	}
	open := newRig(t, telegramtest.Options{Privacy: telegramtest.PrivacyOff})
	for _, f := range open.adapter.Check(t.Context()) {
		if f.What == "groups" && !strings.Contains(f.Note, "privacy mode is off") {
			t.Errorf("without privacy mode: %+v", f)
		}
	}
}

func TestPeopleAreMentionedByNamesThatMikanHasHeard(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	r.listen()
	r.say("I am here")
	r.telegram.Say(telegramtest.Said{Chat: bob, From: bob, Text: "so am I"})
	r.eventually("both are known", func() bool {
		_, a, err1 := r.store.Person(t.Context(), "telegram", itoa(r.telegram.BotID), itoa(ann))
		_, b, err2 := r.store.Person(t.Context(), "telegram", itoa(r.telegram.BotID), itoa(bob))
		return err1 == nil && err2 == nil && a && b
	})
	id := r.send(to(group, "ask @ann_example, not @everyone or @stranger_here; `@ann_example` is code", telegram.Reply{}))
	for _, m := range r.telegram.FromBot(group) {
		if m.ID == id && !slices.Equal(m.Notified, []string{"@ann_example"}) {
			t.Errorf("notified %q by %q", m.Notified, m.Text)
		}
	}
	if p, known, err := r.store.Person(t.Context(), "telegram", itoa(r.telegram.BotID), itoa(ann)); err != nil || !known || p != (store.Person{
		Platform: "telegram", Installation: itoa(r.telegram.BotID), ID: itoa(ann), Handle: "ann_example", Name: "Ann Example", Standing: "unknown", KnownAt: p.KnownAt,
	}) {
		t.Errorf("kept %+v, %v", p, err)
	}
}
