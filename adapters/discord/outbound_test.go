package discord_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/discord/discordtest"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
)

const (
	create = "/channels/{channel}/messages"
	change = "/channels/{channel}/messages/{message}"
)

func (r *rig) post(m adapters.Outgoing) string {
	r.Helper()
	id, err := r.adapter.Post(r.Context(), m)
	r.must(err)
	return id
}

// inThread is an answer in a thread.
func (r *rig) inThread(thread, answers, text string) adapters.Outgoing {
	m := r.outgoing(r.general, "", text)
	m.SessionKey = r.general + ":" + thread
	m.Reply = json.RawMessage(`{"guild":"` + r.guild + `","channel":"` + thread + `","thread":"` + thread + `","message":"` + answers + `"}`)
	return m
}

func TestAnswersGoToTheThreadElseReplyToTheQuestion(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	question := r.say(discordtest.Utterance{Text: "?"})
	thread := r.discord.OpenThread(r.general, question, "a thread")
	inside := r.say(discordtest.Utterance{Channel: thread, Text: "??"})
	r.post(r.outgoing(r.general, question, "an answer"))
	r.post(r.inThread(thread, inside, "in the thread"))
	scheduled := r.outgoing(r.general, "", "on schedule")
	scheduled.SessionKey = r.general + ":" + thread
	r.post(scheduled)
	later := r.outgoing(r.general, question, "the second part")
	later.Part = 1
	r.post(later)

	own := r.discord.Own(r.general)
	if len(own) != 2 || own[0].Reference == nil || own[0].Reference.MessageID != question || !slices.Equal(own[0].Pinged, []string{r.ann}) {
		t.Fatalf("in the channel: %+v", own)
	}
	if len(own[1].Pinged) != 0 {
		t.Errorf("the second part notified %v", own[1].Pinged)
	}
	for _, m := range r.discord.Own(thread) {
		if m.Reference != nil || len(m.Pinged) != 0 {
			t.Errorf("in the thread: %+v", m)
		}
	}
	if got := r.own(thread); !slices.Equal(got, []string{"in the thread", "on schedule"}) {
		t.Errorf("the thread shows %q", got)
	}
}

func TestAnAnswerIsPostedAlthoughItsQuestionIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	question := r.say(discordtest.Utterance{Text: "?"})
	r.discord.Remove(r.general, question)
	r.post(r.outgoing(r.general, question, "an answer"))
	r.discord.Restrict(r.general, "no_history")
	r.post(r.outgoing(r.general, r.say(discordtest.Utterance{Text: "?"}), "another"))
	if got := r.own(r.general); !slices.Equal(got, []string{"an answer", "another"}) {
		t.Errorf("shown: %q", got)
	}
}

// Whatever the model writes, nobody is notified but those whom it names by a name that mikan knows.
func TestNoTextNotifiesAnybodyUnmeant(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	bob := r.discord.AddUser("Bob")
	r.discord.Join(r.guild, bob)
	hostile := "@everyone @here <@" + bob + "> <@!" + bob + "> <@&" + r.guild + "> <@&" + r.discord.BotRole(r.guild) + "> `@everyone` [@everyone](https://x.example)\n\n```\n@here\n```\n<#" + r.general + ">"
	id := r.post(r.outgoing(r.general, "", hostile))
	m := r.outgoing(r.general, "", hostile+" edited")
	r.must(r.adapter.Edit(t.Context(), id, m))
	for _, part := range r.adapter.Split(strings.Repeat(hostile+"\n\n", 40)) {
		r.post(r.outgoing(r.general, "", part))
	}
	for _, m := range r.discord.Own(r.general) {
		if len(m.Pinged) != 0 {
			t.Errorf("%q notified %v", m.Content, m.Pinged)
		}
	}
}

func TestAKnownNameBecomesAMention(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	r.decision(r.say(discordtest.Utterance{Text: "hello"})) // mikan has met Ann
	r.post(r.outgoing(r.general, "", "ask @ann, or @nobody, or `@ann`"))
	own := r.discord.Own(r.general)
	if len(own) != 1 || !strings.HasPrefix(own[0].Content, "ask <@"+r.ann+">") || !strings.Contains(own[0].Content, "`@ann`") || !slices.Equal(own[0].Pinged, []string{r.ann}) {
		t.Errorf("shown: %+v", own)
	}
}

func TestALostReplyIsNotASecondMessage(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]discordtest.Reply{"the connection breaks": discordtest.ReplyLost, "half a reply": discordtest.ReplyMalformed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, discordtest.Options{})
			r.discord.Fail(discordtest.Fault{Method: "POST", Route: create, Lost: reply})
			m := r.outgoing(r.general, "", "a draft")
			if _, err := r.adapter.Post(t.Context(), m); fault.CodeOf(err) != fault.Unavailable {
				t.Fatalf("the first attempt: %v", err)
			}
			m.Markdown = "the answer" // it has grown meanwhile
			r.post(m)
			if got := r.own(r.general); !slices.Equal(got, []string{"the answer"}) {
				t.Errorf("shown: %q", got)
			}
		})
	}
}

func TestAMessageThatSomebodyDeletedIsShownAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	m := r.outgoing(r.general, "", "a draft")
	id := r.post(m)
	r.discord.Remove(r.general, id)
	m.Markdown = "the answer"
	if err := r.adapter.Edit(t.Context(), id, m); fault.CodeOf(err) != fault.NotFound {
		t.Fatalf("an edit: %v", err)
	}
	again := r.post(m) // Discord still knows the nonce
	if got := r.own(r.general); !slices.Equal(got, []string{"the answer"}) || again == id {
		t.Errorf("shown: %q", got)
	}
}

// After some minutes Discord has forgotten the nonce: the history tells, which holds none.
func TestAnEarlierAttemptIsFoundInTheHistory(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{NonceWindow: time.Nanosecond})
	since := time.Now()
	question := r.say(discordtest.Utterance{Text: "?"})
	thread := r.discord.OpenThread(r.general, "", "a thread")
	other := r.say(discordtest.Utterance{Text: "another?"})
	r.post(r.outgoing(r.general, other, "the same words"))

	for name, m := range map[string]adapters.Outgoing{
		"a reply":     r.outgoing(r.general, question, "the same words"),
		"in a thread": r.inThread(thread, "", "the same words"),
	} {
		if id, found, err := r.adapter.FindDelivery(t.Context(), m, since); err != nil || found {
			t.Errorf("%s: found %s before it was posted, %v", name, id, err)
		}
		for range 120 {
			r.say(discordtest.Utterance{Text: "talk"})
		}
		posted := r.post(m)
		m.Key = strings.Repeat("0", 24)
		if id, found, err := r.adapter.FindDelivery(t.Context(), m, since); err != nil || !found || id != posted {
			t.Errorf("%s: found %q, %v; want %s", name, id, err, posted)
		}
		m.Markdown = "the same words, and more: the draft has grown"
		if id, found, err := r.adapter.FindDelivery(t.Context(), m, since); err != nil || !found || id != posted {
			t.Errorf("%s, grown: found %q, %v; want %s", name, id, err, posted)
		}
		if name == "in a thread" { // it may be another message of ours that is growing
			m.Markdown = "Stopping…"
			if id, found, err := r.adapter.FindDelivery(t.Context(), m, since); err != nil || found {
				t.Errorf("%s: %s was taken for a notice, %v", name, id, err)
			}
			m.Markdown = "the same words"
		}
		if _, found, err := r.adapter.FindDelivery(t.Context(), m, time.Now().Add(time.Hour)); err != nil || found {
			t.Errorf("%s: something was found that is older than the intent, %v", name, err)
		}
	}
}

func TestErrorsTellWhetherToTryAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	for name, c := range map[string]struct {
		fault discordtest.Fault
		want  fault.Code
	}{
		"a failing server":   {discordtest.Fault{Status: 500}, fault.Unavailable},
		"a bad gateway":      {discordtest.Fault{Status: 502}, fault.Unavailable},
		"no access":          {discordtest.Fault{Status: 403, Code: 50001}, fault.Forbidden},
		"no permission":      {discordtest.Fault{Status: 403, Code: 50013}, fault.Forbidden},
		"an archived thread": {discordtest.Fault{Status: 403, Code: 50083}, fault.Forbidden},
		"no channel":         {discordtest.Fault{Status: 404, Code: 10003}, fault.NotFound},
		"a bad form":         {discordtest.Fault{Status: 400, Code: 50035}, fault.Invalid},
		"too large":          {discordtest.Fault{Status: 413, Code: 40005}, fault.TooLarge},
	} {
		c.fault.Method, c.fault.Route = "POST", create
		r.discord.Fail(c.fault)
		_, err := r.adapter.Post(t.Context(), r.outgoing(r.general, "", "hello"))
		if fault.CodeOf(err) != c.want || strings.Contains(err.Error(), r.discord.Token()) || strings.Contains(err.Error(), "http") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if got := r.own(r.general); len(got) != 0 {
		t.Errorf("shown: %q", got)
	}
	for name, text := range map[string]string{"nothing": " \n ", "too much": strings.Repeat("x", 2001)} {
		if _, err := r.adapter.Post(t.Context(), r.outgoing(r.general, "", text)); fault.Retryable(fault.CodeOf(err)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.discord.Close()
	if _, err := r.adapter.Post(t.Context(), r.outgoing(r.general, "", "hello")); fault.CodeOf(err) != fault.Unavailable || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("unreachable: %v", err)
	}
}

// A 429 is obeyed by every process: progress is dropped, a final message waits when there is time.
func TestARateLimitIsObeyedByAllProcesses(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.discord.Fail(discordtest.Fault{Method: "POST", Route: create, Status: 429, RetryAfter: 120})
	_, err := r.adapter.Post(t.Context(), r.outgoing(r.general, "", "hello"))
	if fault.CodeOf(err) != fault.RateLimited || fault.RetryAfter(err) != 2*time.Minute {
		t.Fatalf("a 429: %v after %s", err, fault.RetryAfter(err))
	}
	r.wire("another process")
	within := r.soon()
	_, err = r.adapter.Post(within, r.outgoing(r.general, "", "hello"))
	if fault.CodeOf(err) != fault.RateLimited || fault.RetryAfter(err) < time.Minute {
		t.Errorf("another process: %v after %s", err, fault.RetryAfter(err))
	}
	if n := len(r.discord.Calls("POST", create)); n != 1 {
		t.Errorf("%d calls", n)
	}
	other := r.discord.AddChannel(r.guild, "other")
	r.post(r.outgoing(other, "", "hello")) // limits are for each channel
	r.discord.Fail(discordtest.Fault{Method: "PATCH", Route: change, Status: 429, RetryAfter: 60, Global: discordtest.ScopeGlobal})
	_ = r.adapter.Edit(within, r.discord.Own(other)[0].ID, r.outgoing(other, "", "edited"))
	if _, err = r.adapter.Post(within, r.outgoing(other, "", "again")); fault.CodeOf(err) != fault.RateLimited {
		t.Errorf("after a global 429: %v", err)
	}
}

func TestDiscordsOwnLimitsAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{Rates: discordtest.RatesEnforced})
	id := r.post(r.outgoing(r.general, "", "0"))
	for i := range 20 {
		m := r.outgoing(r.general, "", fmt.Sprint(i))
		m.Stage = adapters.Growing
		err := r.adapter.Edit(t.Context(), id, m)
		if err != nil && fault.CodeOf(err) != fault.RateLimited {
			t.Fatal(err)
		}
	}
	m := r.outgoing(r.general, "", "final")
	r.must(r.adapter.Edit(t.Context(), id, m))
	for _, c := range r.discord.Calls("", "") {
		if c.Status == 429 {
			t.Errorf("%s %s met a limit", c.Method, c.Route)
		}
	}
	if got := r.own(r.general); !slices.Equal(got, []string{"final"}) {
		t.Errorf("shown: %q", got)
	}
}

func TestLongAnswersAreCutWithinDiscordsLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	var code strings.Builder
	for i := range 300 {
		fmt.Fprintf(&code, "line %d of the program\n", i)
	}
	for name, text := range map[string]string{
		"prose":         strings.Repeat("Some words that people read. ", 134),
		"a block":       "Here:\n\n```go\n" + code.String() + "```\n\nDone.",
		"CJK and emoji": strings.Repeat("漢字👩‍👩‍👧‍👦", 500),
		"names":         strings.Repeat("@ann ", 399),
		"markup":        strings.Repeat("*_~`|>#", 400),
	} {
		for i, part := range r.adapter.Split(text) {
			r.post(r.outgoing(r.general, "", part))
			own := r.discord.Own(r.general)
			shown := own[len(own)-1].Content
			if n := utf8.RuneCountInString(shown); n > 2000 {
				t.Errorf("%s, part %d: %d characters", name, i, n)
			}
			if strings.Count(shown, "```")%2 != 0 {
				t.Errorf("%s, part %d: its fences are not balanced", name, i)
			}
			if name == "a block" && strings.Contains(shown, "line ") && !strings.Contains(shown, "```go") {
				t.Errorf("part %d lost the language", i)
			}
		}
	}
}

func TestTypingAndTheSignOfWaiting(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	question := r.say(discordtest.Utterance{Text: "?"})
	thread := r.discord.OpenThread(r.general, "", "a thread")
	m := r.outgoing(r.general, question, "")
	r.must(r.adapter.Working(t.Context(), m, "thinking"))
	r.must(r.adapter.Working(t.Context(), r.inThread(thread, "", ""), "thinking"))
	if r.discord.Typed(r.general) != 1 || r.discord.Typed(thread) != 1 {
		t.Errorf("typing: %d, %d", r.discord.Typed(r.general), r.discord.Typed(thread))
	}
	signs := func() []string { return r.discord.Messages(r.general)[0].Reactions }
	r.must(r.adapter.Mark(t.Context(), m, adapters.MarkQueued))
	r.must(r.adapter.Mark(t.Context(), m, adapters.MarkQueued))
	if !slices.Equal(signs(), []string{"⏳"}) {
		t.Errorf("signs: %q", signs())
	}
	r.must(r.adapter.Unmark(t.Context(), m, adapters.MarkQueued))
	if len(signs()) != 0 {
		t.Errorf("signs: %q", signs())
	}
	r.discord.Remove(r.general, question)
	r.must(r.adapter.Unmark(t.Context(), m, adapters.MarkQueued))
}

// The whole way out: a part whose attempt fails is tried again, the one before it is not.
func TestAPartThatFailsDoesNotRepeatTheOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	id := r.say(discordtest.Utterance{Text: r.mention() + " tell"})
	r.decision(id)
	run := r.claim(r.general, r.general)
	text := strings.Repeat("Some words that people read. ", 134)
	parts := r.adapter.Split(text)
	if len(parts) < 2 {
		t.Fatalf("%d parts", len(parts))
	}
	end := adapters.Ending{Kind: store.AnswerDelivery, Text: text, Settlement: store.Settlement{Outcome: "answered"}}
	r.discord.Fail(discordtest.Fault{Method: "POST", Route: create, After: 1, Status: 429, RetryAfter: 0.2})
	for attempt := 0; ; attempt++ {
		if _, err := r.delivery.Finish(t.Context(), run.ID, end); err == nil {
			break
		} else if attempt > 50 {
			t.Fatal(err)
		}
	}
	if n := len(r.own(r.general)); n != len(parts) {
		t.Errorf("%d messages for %d parts", n, len(parts))
	}
}
