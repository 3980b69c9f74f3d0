package conformance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/adapters/adaptertest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/worker/service/servicetest"
)

// scene is one behaviour. Scenes of a platform share an installation and come one after the other, each in a room of its
// own: faults concern the whole server.
type scene struct {
	name string
	play func(*stageHand)
}

// stageHand is what a scene works with.
type stageHand struct {
	*testing.T
	world *world
	room  adaptertest.Room
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, make := range adaptertest.All {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			p := make(t)
			script := &script{long: p.Features().Long}
			w := newWorld(t, p, script.answer)
			for _, s := range scenes {
				if !t.Run(s.name, func(t *testing.T) {
					s.play(&stageHand{T: t, world: w, room: p.Room(t)})
					servicetest.Eventually(t, "everything is settled", w.Settled)
				}) && testing.Short() {
					break
				}
			}
			for _, v := range p.Violations() {
				t.Errorf("a rule of the platform was broken: %s", v)
			}
		})
	}
}

// script is the model: it does what the newest message asks for.
type script struct{ long int }

func (s *script) answer(r llmtest.Request) llmtest.Reply {
	if results := r.LastResults(); len(results) > 0 {
		return llmtest.Say("the tool said: %s", strings.TrimSpace(results[0].Text))
	}
	said := r.LastUserText()
	switch {
	case strings.Contains(said, "run uname"):
		return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall("c1", "bash", `{"command":"echo forty-two"}`)}}
	case strings.Contains(said, "what did the tool say"):
		for _, m := range r.Messages {
			if strings.Contains(m.Text, "forty-two") {
				return llmtest.Say("it said forty-two")
			}
		}
		return llmtest.Say("I do not know")
	case strings.Contains(said, "long answer"):
		return llmtest.Say("%s", longAnswer(s.long))
	case strings.Contains(said, "be silent"):
		return llmtest.Say("[SILENT]")
	case strings.Contains(said, "ping everybody"):
		return llmtest.Say("hey @everyone @here @channel <!channel> <!here> <@U1> <@&1> <@1> @nobody-here, look")
	}
	return llmtest.Say("re: %s", lastWord(said))
}

func lastWord(said string) string {
	fields := strings.Fields(said)
	if len(fields) == 0 {
		return ""
	}
	return fields[len(fields)-1]
}

// longAnswer is an answer of at least so many characters.
func longAnswer(length int) string {
	var b strings.Builder
	for i := 0; b.Len() < length; i++ {
		fmt.Fprintf(&b, "This is paragraph number %d of a long answer, with some words in it.\n\n", i)
	}
	return strings.TrimSpace(b.String())
}

// ask mentions mikan and returns the message's id and the answer that is expected.
func (h *stageHand) ask(under string) (id, want string) {
	h.Helper()
	w, before := adaptertest.Word(), h.logged()
	id = h.room.Say(h, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Under: under, Text: "say " + w})
	// People do not say two things at once; a platform's connections carry events in parallel.
	servicetest.Eventually(h, "the message is taken in", func() bool { return h.logged() > before })
	return id, "re: " + w
}

func (h *stageHand) texts() []string {
	var texts []string
	for _, s := range h.room.Seen(h) {
		texts = append(texts, strings.TrimSpace(s.Text))
	}
	return texts
}

// shows waits until mikan shows just these messages and nothing is left open.
func (h *stageHand) shows(want ...string) {
	h.Helper()
	h.world.Shows(h, h.texts, want...)
}
