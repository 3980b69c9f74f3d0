package telegram_test

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/testenv"
	"github.com/geminixiang/mikan/worker/service"
)

// installation is all of mikan in this process, with a scripted model, before a local Telegram: a worker and two
// gateways.
type installation struct {
	*rig
}

// install runs it until the test ends. The people and chats of every rig may talk to it, but for bob.
func install(t testing.TB, script llmtest.Script) *installation {
	t.Helper()
	in := &installation{rig: &rig{TB: t, telegram: telegramtest.Start(t, telegramtest.Options{Pause: 20 * time.Millisecond}), log: &strings.Builder{}}}
	populate(in.telegram)
	model := llmtest.NewServer(t, script)
	address, namespace := testenv.Temporal(t)
	dir := t.TempDir()
	env := map[string]string{
		"MIKAN_DATABASE_URL": testenv.PostgresURL(t), "TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": namespace,
		"MIKAN_TASK_QUEUE": testenv.TaskQueue(t), "MIKAN_WORKSPACE": filepath.Join(dir, "workspace"), "MIKAN_SANDBOX": "host",
		"ANTHROPIC_API_KEY": "test-key-of-the-model", "ANTHROPIC_BASE_URL": model.AnthropicURL(), "MIKAN_MODEL": "anthropic/test-model",
		"TELEGRAM_BOT_TOKEN": in.telegram.Token, "TELEGRAM_API_URL": in.telegram.URL,
	}
	cfg, err := config.Load(func(name string) string { return env[name] }, dir)
	in.must(err)
	in.store, err = backend.OpenStore(t.Context(), cfg)
	in.must(err)
	t.Cleanup(in.store.Close)
	_, _, err = in.store.Migrate(t.Context())
	in.must(err)
	for kind, ids := range map[store.PrincipalKind][]int64{store.PrincipalUser: {ann}, store.PrincipalChat: {group, forum}} {
		for _, id := range ids {
			in.must(in.store.SetAccess(t.Context(), store.AccessRule{Platform: "telegram", Kind: kind, Principal: itoa(id), Effect: store.Allow}))
		}
	}
	for range 2 {
		in.process(cfg, in.serve)
	}
	in.process(cfg, func(b *backend.Backend, p *platforms.Platforms, m *telemetry.Metrics) {
		in.metrics = m
		s, err := service.Start(in.Context(), service.Options{Backend: b, Platforms: p, Metrics: m, Fallback: sandbox.Refuse, Say: func(string) {}})
		in.must(err)
		in.Cleanup(s.Stop)
	})
	return in
}

// process makes the parts of a process and runs it.
func (in *installation) process(cfg config.Config, run func(*backend.Backend, *platforms.Platforms, *telemetry.Metrics)) {
	in.Helper()
	log := slog.New(slog.NewTextHandler(in.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	metrics, err := telemetry.NewMetrics(log)
	in.must(err)
	b, err := backend.Open(in.Context(), cfg, log, backend.Instruments{TemporalLog: telemetry.TemporalLogger(log)})
	in.must(err)
	in.Cleanup(b.Close)
	p, err := platforms.New(b, metrics)
	in.must(err)
	run(b, p, metrics)
}

// serve runs a gateway with its sweeper.
func (in *installation) serve(_ *backend.Backend, p *platforms.Platforms, m *telemetry.Metrics) {
	ctx, cancel := context.WithCancel(in.Context())
	gateway := p.Gateway(http.NewServeMux(), telemetry.NewHealth(m, slog.New(slog.DiscardHandler)))
	ended := make(chan struct{}, 2)
	go func() { gateway.Run(ctx); ended <- struct{}{} }()
	go func() { p.Sweeper.Run(ctx); ended <- struct{}{} }()
	in.Cleanup(func() { cancel(); <-ended; <-ended })
}

// answered waits until a chat shows just these messages of mikan's, and nothing is left open.
func (in *installation) answered(chat int64, want ...string) {
	in.Helper()
	var got []string
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var open int
		err := in.store.Pool().QueryRow(in.Context(), `SELECT (SELECT count(*) FROM inbox) + (SELECT count(*) FROM runs WHERE state = 'running')`).Scan(&open)
		if got = in.shown(chat); err == nil && open == 0 && slices.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			in.Fatalf("mikan shows %q with %d left open, want %q", got, open, want)
		}
	}
}

func TestMikanOnTelegram(t *testing.T) {
	t.Parallel()
	waiting, goOn := make(chan struct{}, 10), make(chan struct{})
	in := install(t, func(r llmtest.Request) llmtest.Reply {
		_, said, _ := strings.Cut(llmtest.Sentence(r.LastUserText())+"\n", "]: ") // behind "[time] [name] [in-thread:…]: "
		if said = strings.TrimSpace(said); said == "" {
			said = llmtest.Sentence(r.LastUserText())
		}
		if strings.HasPrefix(said, "wait") {
			waiting <- struct{}{}
			<-goOn
		}
		if strings.HasPrefix(said, "what did") {
			if strings.Contains(string(r.Body), "the secret is 42") {
				return llmtest.Say("you said 42")
			}
			return llmtest.Say("I do not know")
		}
		return llmtest.Say("**re:** %s", said)
	})
	me := "@" + in.telegram.Username

	// The placeholder is there before the model has said anything, and becomes the answer.
	in.say("wait in private")
	<-waiting
	in.eventually("the placeholder is shown", func() bool { return len(in.shown(ann)) == 1 })
	if got := in.shown(ann)[0]; !strings.Contains(got, "hinking") {
		t.Errorf("the placeholder says %q", got)
	}
	goOn <- struct{}{}
	in.answered(ann, "re: wait in private")
	if m := in.telegram.FromBot(ann)[0]; m.Versions == 0 || !slices.Equal(m.Bold, []string{"re:"}) {
		t.Errorf("the answer is %+v", m)
	}

	// Events that come again change nothing; a stranger in private is told once.
	in.telegram.Redeliver(5)
	in.telegram.Say(telegramtest.Said{Chat: bob, From: bob, Text: "let me in"})
	in.eventually("bob is told", func() bool { return len(in.shown(bob)) == 1 })
	in.answered(ann, "re: wait in private")

	// While a run goes on in a group, the group becomes a supergroup. The answer stands there, once, and whoever replies
	// to it is understood.
	in.telegram.Say(telegramtest.Said{Chat: group, From: bob, Text: me + " wait, the secret is 42"})
	<-waiting
	in.eventually("the placeholder is shown", func() bool { return len(in.shown(group)) == 1 })
	in.telegram.Migrate(group, became)
	goOn <- struct{}{}
	in.answered(became, "re: wait, the secret is 42")
	answer := in.telegram.FromBot(became)[0]
	in.telegram.Say(telegramtest.Said{Chat: became, From: bob, ReplyTo: answer.ID, Text: "what did I say?"})
	in.answered(became, "re: wait, the secret is 42", "you said 42")
	var offices int
	in.must(in.store.Pool().QueryRow(t.Context(), `SELECT count(*) FROM offices WHERE conversation_id IN ($1, $2)`, itoa(group), itoa(became)).Scan(&offices))
	if offices != 1 {
		t.Errorf("the group has %d offices", offices)
	}

	// A lost reply to the placeholder leaves a second one, and one answer.
	const resent = `mikan_deliveries_resent_total{part="first",platform="telegram"}`
	before := in.counted(resent)
	in.telegram.Fail(telegramtest.Fault{Method: "sendMessage", Chat: forum, Kind: telegramtest.LoseReply})
	topic := in.telegram.AddTopic(forum, bob, "deploys")
	in.telegram.Say(telegramtest.Said{Chat: forum, From: bob, Topic: topic, Text: me + " hello"})
	in.answered(forum, "Thinking…", "re: hello")
	if n := in.counted(resent) - before; n != 1 {
		t.Errorf("%v messages are counted as sent again", n)
	}
	for _, m := range in.telegram.FromBot(forum) {
		if m.Topic != topic {
			t.Errorf("%+v is not in the topic", m)
		}
	}
}
