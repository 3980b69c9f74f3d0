package conformance_test

import (
	"regexp"
	"slices"
	"strings"

	"github.com/geminixiang/mikan/adapters/adaptertest"
)

var scenes = []scene{
	{"a mention has one answer", func(h *stageHand) {
		_, want := h.ask("")
		h.shows(want)
	}},
	{"the same event again changes nothing", func(h *stageHand) {
		_, want := h.ask("")
		for range 3 {
			h.world.platform.Again(h)
		}
		h.shows(want)
		before := h.runs()
		h.world.platform.Again(h)
		_, second := h.ask("")
		h.shows(want, second)
		if got := h.runs(); got != before+1 {
			h.Errorf("%d runs after %d and one more message", got, before)
		}
	}},
	{"bots are not answered, mention or not", func(h *stageHand) {
		h.room.Say(h, adaptertest.Saying{By: adaptertest.OtherBot, Mention: true, Text: "hello"})
		h.room.Say(h, adaptertest.Saying{By: adaptertest.OtherBot, Text: "hello"})
		_, want := h.ask("")
		h.shows(want)
	}},
	{"talk among people is not answered", func(h *stageHand) {
		h.room.Say(h, adaptertest.Saying{By: adaptertest.Ann, Text: "what a day"})
		_, want := h.ask("")
		h.shows(want)
	}},
	{"a stranger gets no run", func(h *stageHand) {
		before := h.runs()
		h.room.Say(h, adaptertest.Saying{By: adaptertest.Stranger, Mention: true, Text: "hello"})
		h.room.Say(h, adaptertest.Saying{By: adaptertest.Stranger, Mention: true, Text: "hello again"})
		told := 0
		if h.world.platform.Features().TellsStrangers {
			told = 1
		}
		if !h.comes(func() bool { return len(h.room.Seen(h)) == told }) {
			h.Errorf("mikan shows %q", h.texts())
		}
		_, _ = h.ask("")
		if !h.comes(func() bool { return len(h.room.Seen(h)) == told+1 }) {
			h.Errorf("mikan shows %q", h.texts())
		}
		if got := h.runs(); got != before+1 {
			h.Errorf("%d runs, want one more than %d", got, before)
		}
	}},
	{"several messages are answered in order", func(h *stageHand) {
		var want []string
		for range 4 {
			_, answer := h.ask("")
			want = append(want, answer)
		}
		h.inOrder(want)
	}},
	{"an edit starts nothing", func(h *stageHand) {
		id, want := h.ask("")
		h.shows(want)
		h.room.Edit(h, id, "say something else")
		_, second := h.ask("")
		h.shows(want, second)
	}},
	{"a lost reply does not repeat the answer", func(h *stageHand) {
		h.world.platform.Disturb(h, adaptertest.LostReply, 1)
		_, want := h.ask("")
		h.shows(want)
	}},
	{"a rate limit delays the answer", func(h *stageHand) {
		h.world.platform.Disturb(h, adaptertest.RateLimited, 1)
		_, want := h.ask("")
		h.shows(want)
	}},
	{"errors of the platform do not lose the answer", func(h *stageHand) {
		h.world.platform.Disturb(h, adaptertest.ServerError, 3)
		_, want := h.ask("")
		h.shows(want)
	}},
	{"silence shows nothing", func(h *stageHand) {
		h.room.Say(h, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "be silent"})
		_, want := h.ask("")
		h.shows(want)
	}},
	{"a long answer is whole and in order", func(h *stageHand) {
		h.room.Say(h, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "a long answer please"})
		want := strings.Join(strings.Fields(longAnswer(h.world.platform.Features().Long)), " ")
		whole := func() bool {
			text := strings.Join(h.texts(), "\n\n")
			return strings.Join(strings.Fields(text), " ") == want
		}
		if !h.comes(whole) {
			h.Errorf("%d messages do not make up the answer", len(h.room.Seen(h)))
		}
	}},
	{"nothing that the model says pings anybody", func(h *stageHand) {
		h.room.Say(h, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "please ping everybody"})
		if !h.comes(func() bool { return len(h.room.Seen(h)) == 1 }) {
			h.Fatalf("mikan shows %q", h.texts())
		}
		shown := h.room.Seen(h)[0]
		if len(shown.Pings) > 0 {
			h.Errorf("it pings %v", shown.Pings)
		}
		if !strings.Contains(shown.Text, "everyone") || !strings.Contains(shown.Text, "look") {
			h.Errorf("text is missing: %q", shown.Text)
		}
	}},
	{"what follows an answer knows how it came about", func(h *stageHand) {
		h.room.Say(h, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "run uname"})
		h.shows("the tool said: forty-two")
		answer := h.room.Seen(h)[0]
		h.room.Say(h, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Under: answer.ID, Text: "what did the tool say"})
		h.shows("the tool said: forty-two", "it said forty-two")
	}},
	{"stop stops nothing when nothing runs, and says so", func(h *stageHand) {
		h.room.Say(h, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "stop"})
		h.shows("Nothing is running here.")
	}},
	{"help is answered without a run", func(h *stageHand) {
		before := h.runs()
		h.room.Say(h, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "/help"})
		help := regexp.MustCompile(`stop.*ends what I am doing`)
		if !h.comes(func() bool { t := h.texts(); return len(t) == 1 && help.MatchString(t[0]) }) {
			h.Errorf("mikan shows %q", h.texts())
		}
		if h.runs() != before {
			h.Error("there was a run")
		}
	}},
}

// inOrder waits until the answers are there in the order of their questions, whatever else is shown.
func (h *stageHand) inOrder(want []string) {
	h.Helper()
	same := func() bool {
		if h.world.platform.Features().Parallel {
			got := h.texts()
			return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(got, w) })
		}
		next := 0
		for _, text := range h.texts() {
			if next < len(want) && text == want[next] {
				next++
			}
		}
		return next == len(want)
	}
	if !h.comes(same) {
		h.Errorf("mikan shows %q, want %q in this order", h.texts(), want)
	}
}
