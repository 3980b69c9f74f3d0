package store_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/prompt"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
)

// walk does random things to one office and keeps a small model of what must be true.
type walk struct {
	*scene
	random  *rand.Rand
	keys    []string
	open    map[string]*openRun // by session key
	waiting map[string][]string // message ids in the inbox, by session key
	last    map[string]string   // newest prompt of each session since its reset
	ids     []string            // messages that a thread can be opened under
}

type openRun struct {
	run     store.Run
	step    int
	pending []int // calls of the newest turn without a result
}

func (w *walk) any(list []string) string { return list[w.random.IntN(len(list))] }

func (w *walk) act() string {
	key := w.any(w.keys)
	at := w.open[key]
	switch n := w.random.IntN(20); {
	case n < 2:
		w.ids = append(w.ids, w.chat(key, "bob", "chat "+strconv.Itoa(w.count)))
		return "chat in " + key
	case n < 5 || (at == nil && len(w.waiting[key]) == 0):
		id := w.ask(key, "ann", "ask "+strconv.Itoa(w.count))
		w.ids, w.waiting[key] = append(w.ids, id), append(w.waiting[key], id)
		return "ask in " + key
	case n < 6 && len(w.keys) < 6:
		key := "C1:" + w.any(w.ids)
		w.keys = append(w.keys, key)
		return "thread " + key
	case at == nil:
		return w.start(key)
	case n < 13:
		return w.think(at, key)
	case n < 17 && len(at.pending) > 0:
		i := at.pending[0]
		at.pending = at.pending[1:]
		w.result(at.run, at.step, i, fmt.Sprintf("c%d", i), "out "+strconv.Itoa(w.count))
		return "result in " + key
	case n < 18:
		delete(w.open, key)
		w.ids = append(w.ids, w.settle(at.run, "Stopped.", run.Stopped))
		return "stop " + key
	case n < 19:
		w.reset(key)
		w.last[key] = ""
		w.settle(at.run, "Stopped.", run.Stopped)
		delete(w.open, key)
		return "reset " + key
	default:
		return w.compactSome(at, key)
	}
}

func (w *walk) start(key string) string {
	w.count++
	claim := w.claimAs(key, fmt.Sprintf("w%d", w.count), store.Now)
	if claim.Kind != store.ClaimedRun {
		w.t.Fatalf("claimed %+v in %s", claim, key)
	}
	if first := w.waiting[key][0]; claim.Run.TriggerMessageID != first {
		w.t.Fatalf("claimed %s in %s, want the oldest, %s", claim.Run.TriggerMessageID, key, first)
	}
	w.last[key] = w.waiting[key][0]
	w.waiting[key] = w.waiting[key][1:]
	w.open[key] = &openRun{run: claim.Run}
	return "claim in " + key
}

// think takes a step, also when results of the step before are missing: the worker died.
func (w *walk) think(at *openRun, key string) string {
	at.step++
	at.pending = nil
	if w.random.IntN(3) == 0 {
		w.scene.think(at.run, at.step, words("answer "+strconv.Itoa(w.count)))
		w.ids = append(w.ids, w.settle(at.run, "answer", run.Answered))
		delete(w.open, key)
		return "answer in " + key
	}
	blocks := []llm.Block{}
	if w.random.IntN(2) == 0 {
		blocks = append(blocks, words("let me see"))
	}
	for i := range 1 + w.random.IntN(3) {
		blocks = append(blocks, call(fmt.Sprintf("c%d", i), "bash", `{"command":"true"}`))
		at.pending = append(at.pending, i)
	}
	w.scene.think(at.run, at.step, blocks...)
	return "calls in " + key
}

// compactSome cuts where a compaction may cut: anywhere but between a call and its results, with the newest prompt kept.
func (w *walk) compactSome(at *openRun, key string) string {
	read, err := w.s.Context(w.ctx(), w.session(key).ID)
	w.must(err)
	var cuts []int
	for i, e := range read.Entries {
		if i > 0 && e.Kind != store.EntryToolResult {
			cuts = append(cuts, i)
		}
		if e.MessageID == w.last[key] {
			break
		}
	}
	if len(cuts) == 0 {
		return "no compaction in " + key
	}
	w.count++
	w.compact(at.run, key, fmt.Sprintf("compact/%d", w.count), fmt.Sprintf("summary %d", w.count), cuts[w.random.IntN(len(cuts))])
	return "compaction in " + key
}

// TestEveryRequestIsValidAfterAnyHistory drives random sequences of messages, crashes, stops, resets, forks, syncs and
// compactions. After each step, the request that every session would send is put to strict servers of both providers'
// dialects through the real clients. MIKAN_WALKS sets how many sequences of 40 steps are walked; each prefix of one is a
// sequence of its own.
func TestEveryRequestIsValidAfterAnyHistory(t *testing.T) {
	t.Parallel()
	walks := 50
	if n, err := strconv.Atoi(os.Getenv("MIKAN_WALKS")); err == nil {
		walks = n
	}
	server := llmtest.NewServer(t, llmtest.Always(llmtest.Say("ok")))
	providers := llm.NewProviders(llm.ProvidersConfig{
		Anthropic: llm.Endpoint{APIKey: "k", BaseURL: server.URL}, OpenAI: llm.Endpoint{APIKey: "k", BaseURL: server.URL + "/v1"},
	})
	models := []llm.Ref{{Provider: llm.ProviderAnthropic, Model: "claude-sonnet-5-5"}, {Provider: llm.ProviderOpenAIChat, Model: "gpt-5"}}
	s := storetest.Open(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range walks {
		w := &walk{
			scene: sceneIn(t, s, "C1"), random: rand.New(rand.NewPCG(seed, uint64(n))), keys: []string{"C1"},
			open: map[string]*openRun{}, waiting: map[string][]string{}, last: map[string]string{},
		}
		w.office.Key, w.office.ConversationID = fmt.Sprintf("v1-slack-c1-%016x", n), fmt.Sprintf("W%d", n)
		w.ids = []string{w.chat("C1", "bob", "hello")}
		var done []string
		for range 40 {
			done = append(done, w.act())
			if err := w.check(providers, models); err != nil {
				t.Fatalf("walk %d of seed %d after\n  %s\n%v", n, seed, strings.Join(done, "\n  "), err)
			}
		}
	}
}

func (w *walk) check(providers *llm.Providers, models []llm.Ref) error {
	for key, at := range w.open {
		read, err := w.s.Context(w.ctx(), at.run.SessionID)
		if err != nil {
			return err
		}
		messages, _ := prompt.Messages(read, store.Memory{Office: "remembered"})
		var all strings.Builder
		for _, m := range messages {
			for _, b := range m.Blocks {
				all.WriteString(b.Text + "\n")
			}
		}
		trigger, err := w.s.ChatMessage(w.ctx(), w.office.Key, w.last[key])
		if err != nil {
			return err
		}
		if n := strings.Count(all.String(), "]: "+trigger.Text+"\n"); n != 1 {
			return fmt.Errorf("the newest message of %s, %q, is %d times in its request", key, trigger.Text, n)
		}
		for _, ref := range models {
			model, err := providers.Model(ref)
			if err != nil {
				return err
			}
			if _, err := model.Complete(w.ctx(), llm.Request{Model: ref.Model, System: "s", Messages: messages}, func(llm.Event) {}); err != nil {
				return fmt.Errorf("%s refuses the request of %s: %w", ref, key, err)
			}
		}
	}
	return nil
}
