package discord_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/discord/discordtest"
	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/testenv"
	"github.com/geminixiang/mikan/worker/service"
)

// installation is all of mikan in this process, with a scripted model, before a local Discord: gateways and workers with
// connections of their own to one database and one Temporal.
type installation struct {
	*rig
	model *llmtest.Server
	env   map[string]string
	dir   string
}

// install makes the parts. Nothing runs until gateway and worker are called.
func install(t testing.TB, o discordtest.Options, script llmtest.Script) *installation {
	t.Helper()
	in := &installation{rig: newRig(t, o), model: llmtest.NewServer(t, script), dir: t.TempDir()}
	address, namespace := testenv.Temporal(t)
	in.env = map[string]string{
		"MIKAN_DATABASE_URL": in.database, "TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": namespace,
		"MIKAN_TASK_QUEUE": testenv.TaskQueue(t), "MIKAN_WORKSPACE": filepath.Join(in.dir, "workspace"), "MIKAN_SANDBOX": "host",
		"ANTHROPIC_API_KEY": "test-key-of-the-model", "ANTHROPIC_BASE_URL": in.model.AnthropicURL(), "MIKAN_MODEL": "anthropic/test-model",
		"DISCORD_BOT_TOKEN": in.discord.Token(), "DISCORD_API_URL": in.discord.URL(),
	}
	return in
}

// process is a gateway or a worker.
type process struct {
	platforms *platforms.Platforms
	backend   *backend.Backend
	metrics   *telemetry.Metrics
	log       *slog.Logger
}

func (in *installation) process() process {
	in.Helper()
	env := maps.Clone(in.env)
	cfg, err := config.Load(func(name string) string { return env[name] }, in.dir)
	in.must(err)
	p := process{log: slog.New(slog.NewTextHandler(in.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	p.metrics, err = telemetry.NewMetrics(p.log)
	in.must(err)
	p.backend, err = backend.Open(in.Context(), cfg, p.log, backend.Instruments{TemporalLog: telemetry.TemporalLogger(p.log)})
	in.must(err)
	in.Cleanup(p.backend.Close)
	p.platforms, err = platforms.New(p.backend, p.metrics)
	in.must(err)
	return p
}

// worker starts a worker.
func (in *installation) worker() {
	in.Helper()
	p := in.process()
	s, err := service.Start(in.Context(), service.Options{
		Backend: p.backend, Platforms: p.platforms, Metrics: p.metrics, Fallback: sandbox.Refuse, Say: func(string) {},
	})
	in.must(err)
	in.Cleanup(s.Stop)
}

// gateway starts a gateway with its sweeper; quit ends it.
func (in *installation) gateway() (quit func()) {
	in.Helper()
	p := in.process()
	ctx, cancel := context.WithCancel(in.Context())
	gateway := p.platforms.Gateway(http.NewServeMux(), telemetry.NewHealth(p.metrics, p.log))
	ended := make(chan struct{})
	go func() { gateway.Run(ctx); ended <- struct{}{} }()
	go func() { p.platforms.Sweeper.Run(ctx); ended <- struct{}{} }()
	done := false
	quit = func() {
		cancel()
		if !done {
			<-ended
			<-ended
			done = true
		}
	}
	in.Cleanup(quit)
	if !in.discord.AwaitConnected(in.soon(), 1) {
		in.Fatal("the gateway is not connected")
	}
	return quit
}

// settle waits until nothing waits or runs.
func (in *installation) settle() {
	in.Helper()
	in.eventually("everything is settled", func() bool {
		var open int
		err := in.store.Pool().QueryRow(in.Context(), `SELECT (SELECT count(*) FROM inbox) + (SELECT count(*) FROM runs WHERE state = 'running')`).Scan(&open)
		return err == nil && open == 0
	})
}

// answered waits until mikan's messages in a channel are just these, in this order.
func (in *installation) answered(channel string, want ...string) {
	in.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && !slices.Equal(in.own(channel), want); time.Sleep(10 * time.Millisecond) {
	}
	in.settle()
	if got := in.own(channel); !slices.Equal(got, want) {
		in.Fatalf("mikan shows %q, want %q", got, want)
	}
}

func (in *installation) runs() []store.Run {
	in.Helper()
	runs, err := in.store.Runs(in.Context(), store.RunFilter{Limit: 1000})
	in.must(err)
	return runs
}

// recalls answers with how many of the words it was shown.
func recalls(words ...string) llmtest.Script {
	return func(r llmtest.Request) llmtest.Reply {
		var text string
		for _, m := range r.Messages {
			if m.Role == "user" {
				text += m.Text
			}
		}
		var seen []string
		for _, w := range words {
			if strings.Contains(text, w) {
				seen = append(seen, w)
			}
		}
		return llmtest.Say("seen: %s", strings.Join(seen, " "))
	}
}

func TestAMentionHasOneAnswer(t *testing.T) {
	t.Parallel()
	slow := llmtest.Say("an **answer**")
	slow.Delay = 300 * time.Millisecond // long enough to be seen typing
	in := install(t, discordtest.Options{}, llmtest.Always(slow))
	in.worker()
	in.gateway()
	id := in.say(discordtest.Utterance{Text: in.mention() + " hello"})
	in.answered(in.general, "an **answer**")
	in.discord.Redeliver()
	in.discord.Rewind(10)
	in.discord.ForgetSessions()
	in.discord.DropConnections()
	in.discord.AwaitConnected(in.soon(), 1)
	in.say(discordtest.Utterance{Channel: in.discord.DM(in.ann), Text: "hello"})
	in.answered(in.discord.DM(in.ann), "an **answer**")
	in.answered(in.general, "an **answer**")
	own := in.discord.Own(in.general)[0]
	if own.Reference == nil || own.Reference.MessageID != id || in.discord.Typed(in.general) == 0 {
		t.Errorf("shown: %+v, typed %d times", own, in.discord.Typed(in.general))
	}
	if n := len(in.runs()); n != 2 {
		t.Errorf("%d runs", n)
	}
}

// A reply to an answer, and a thread opened under it, continue the run that gave it and know nothing that came later.
func TestAReplyAndAThreadForkTheAnswersRun(t *testing.T) {
	t.Parallel()
	in := install(t, discordtest.Options{}, recalls("apple", "pear", "plum", "fig"))
	in.worker()
	in.gateway()
	first := in.say(discordtest.Utterance{Text: in.mention() + " apple"})
	in.answered(in.general, "seen: apple")
	answer := in.discord.Own(in.general)[0].ID
	in.say(discordtest.Utterance{Text: in.mention() + " pear"})
	in.answered(in.general, "seen: apple", "seen: apple pear")

	in.say(discordtest.Utterance{Text: "plum", ReplyTo: answer, Ping: true})
	in.answered(in.general, "seen: apple", "seen: apple pear", "seen: apple plum")

	thread := in.discord.OpenThread(in.general, answer, "under the answer")
	in.say(discordtest.Utterance{Channel: thread, Text: in.mention() + " fig"})
	in.eventually("the thread is answered", func() bool { return len(in.own(thread)) == 1 })
	in.settle()
	if got := in.own(thread)[0]; !strings.HasPrefix(got, "seen: apple") || !strings.HasSuffix(got, "fig") || strings.Contains(got, "pear") {
		t.Errorf("the thread shows %q", got)
	}
	in.say(discordtest.Utterance{Channel: thread, Text: "plum"}) // mikan takes part now
	in.eventually("what follows is answered", func() bool { return len(in.own(thread)) == 2 })
	in.settle()
	keys := map[string]int{}
	for _, r := range in.runs() {
		keys[r.SessionKey]++
	}
	if keys[in.general] != 2 || keys[in.general+":"+answer] < 1 || len(keys) != 2 {
		t.Errorf("runs by session: %v (first message %s)", keys, first)
	}
}

func TestALostReplyAndStormsAreOneAnswer(t *testing.T) {
	t.Parallel()
	in := install(t, discordtest.Options{Rates: discordtest.RatesEnforced}, llmtest.Always(llmtest.Say("an answer")))
	in.discord.Fail(discordtest.Fault{Method: "POST", Route: create, Lost: discordtest.ReplyLost})
	in.worker()
	in.gateway()
	in.say(discordtest.Utterance{Text: in.mention() + " one"})
	in.answered(in.general, "an answer")
	in.discord.Fail(discordtest.Fault{Method: "POST", Route: create, Times: 2, Status: 429, RetryAfter: 0.3})
	in.discord.Fail(discordtest.Fault{Method: "POST", Route: create, Times: 1, Status: 503})
	in.discord.Fail(discordtest.Fault{Method: "PATCH", Route: change, Times: 2, Status: 500})
	in.say(discordtest.Utterance{Text: in.mention() + " two"})
	in.answered(in.general, "an answer", "an answer")
}

func TestTwoGatewaysAnswerOnceAndOneTakesOver(t *testing.T) {
	t.Parallel()
	in := install(t, discordtest.Options{}, llmtest.Always(llmtest.Say("an answer")))
	in.worker()
	quit := in.gateway()
	in.gateway()
	in.say(discordtest.Utterance{Text: in.mention() + " one"})
	in.answered(in.general, "an answer")
	quit()
	in.say(discordtest.Utterance{Text: in.mention() + " two"})
	in.answered(in.general, "an answer", "an answer")
}

// What another bot says never starts a run, so that two bots cannot keep each other busy.
func TestAnotherBotIsNeverAnswered(t *testing.T) {
	t.Parallel()
	in := install(t, discordtest.Options{}, llmtest.Always(llmtest.Say("an answer")))
	in.worker()
	in.gateway()
	bot := in.discord.AddBot("other")
	in.discord.Join(in.guild, bot)
	in.say(discordtest.Utterance{Text: in.mention() + " hello"})
	in.answered(in.general, "an answer")
	answer := in.discord.Own(in.general)[0].ID
	for range 10 {
		in.say(discordtest.Utterance{User: bot, Text: in.mention() + " thanks", ReplyTo: answer, Ping: true})
	}
	in.say(discordtest.Utterance{Text: in.mention() + " bye"})
	in.answered(in.general, "an answer", "an answer")
}
