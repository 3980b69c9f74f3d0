package slack_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/testenv"
	"github.com/geminixiang/mikan/worker/service"
)

// installation is all of mikan in this process, with a scripted model, before a local Slack: gateways and workers with
// connections of their own to one database and one Temporal.
type installation struct {
	*rig
	model *llmtest.Server
	env   map[string]string
	dir   string
}

// install makes the parts. Nothing runs until gateway and worker are called. lines are those of the MIKAN_CONFIG file.
func install(t testing.TB, o slacktest.Options, script llmtest.Script, lines ...string) *installation {
	t.Helper()
	in := &installation{rig: &rig{TB: t, slack: newSlack(t, o)}, model: llmtest.NewServer(t, script), dir: t.TempDir()}
	address, namespace := testenv.Temporal(t)
	in.env = map[string]string{
		"MIKAN_DATABASE_URL": testenv.PostgresURL(t), "TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": namespace,
		"MIKAN_TASK_QUEUE": testenv.TaskQueue(t), "MIKAN_WORKSPACE": filepath.Join(in.dir, "workspace"), "MIKAN_SANDBOX": "host",
		"ANTHROPIC_API_KEY": "test-key-of-the-model", "ANTHROPIC_BASE_URL": in.model.AnthropicURL(), "MIKAN_MODEL": "anthropic/test-model",
		"SLACK_BOT_TOKEN": in.slack.Team().BotToken, "SLACK_APP_TOKEN": in.slack.App().AppToken, "SLACK_API_URL": in.slack.APIURL(),
	}
	if len(lines) > 0 {
		in.env["MIKAN_CONFIG"] = filepath.Join(in.dir, "mikan.yaml")
		in.must(os.WriteFile(in.env["MIKAN_CONFIG"], []byte(strings.Join(lines, "\n")), 0o600))
	}
	cfg, err := config.Load(in.getenv(nil), in.dir)
	in.must(err)
	s, err := backend.OpenStore(t.Context(), cfg)
	in.must(err)
	t.Cleanup(s.Close)
	_, _, err = s.Migrate(t.Context())
	in.must(err)
	in.store = s
	in.ann = in.user(slacktest.NewUser{Name: "ann"})
	in.general = in.channel(slacktest.NewChannel{Name: "general", Members: []string{in.ann.ID}, WithBot: true})
	return in
}

func (in *installation) getenv(more map[string]string) func(string) string {
	all := maps.Clone(in.env)
	maps.Copy(all, more)
	return func(name string) string { return all[name] }
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
	cfg, err := config.Load(in.getenv(nil), in.dir)
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

// gateway starts a gateway with its sweeper and waits until it is connected; quit ends it.
func (in *installation) gateway() (quit func()) {
	in.Helper()
	p := in.process()
	ctx, cancel := context.WithCancel(in.Context())
	health := telemetry.NewHealth(p.metrics, p.log)
	before := in.slack.Sockets()
	gateway := p.platforms.Gateway(http.NewServeMux(), health)
	ended := make(chan struct{}, 2)
	go func() { gateway.Run(ctx); ended <- struct{}{} }()
	go func() { p.platforms.Sweeper.Run(ctx); ended <- struct{}{} }()
	in.eventually("the gateway is connected", func() bool { return in.slack.Sockets() == before+2 })
	quit = func() {
		cancel()
		<-ended
		<-ended
		ended <- struct{}{}
		ended <- struct{}{}
	}
	in.Cleanup(quit)
	return quit
}

// mention says something to mikan in a channel.
func (in *installation) mention(channel, thread, text string) slacktest.Message {
	in.Helper()
	return in.say(slacktest.Saying{Channel: channel, User: in.ann.ID, Thread: thread, Text: "<@" + in.slack.Team().BotUser + "> " + text})
}

// settle waits until nothing waits or runs, and every event is acknowledged.
func (in *installation) settle() {
	in.Helper()
	in.settleWithin(30 * time.Second)
}

func (in *installation) settleWithin(d time.Duration) {
	in.Helper()
	in.within(d, "everything is settled", func() bool {
		for _, d := range in.slack.Deliveries() {
			if !d.Acked && !d.Lost {
				return false
			}
		}
		var open int
		err := in.store.Pool().QueryRow(in.Context(), `SELECT (SELECT count(*) FROM inbox) + (SELECT count(*) FROM runs WHERE state = 'running')`).Scan(&open)
		return err == nil && open == 0
	})
}

// said lists what mikan shows in a channel.
func (in *installation) said(channel string) []string {
	var all []string
	for _, v := range in.slack.Messages(slacktest.Which{Channel: channel, ByApp: true}) {
		all = append(all, v.Shown)
	}
	return all
}

// answered waits until mikan's messages in a channel are just these, whatever their order.
func (in *installation) answered(channel string, want ...string) {
	in.Helper()
	in.answeredWithin(40*time.Second, channel, want...)
}

func (in *installation) answeredWithin(d time.Duration, channel string, want ...string) {
	in.Helper()
	var got []string
	same := func() bool {
		got = in.said(channel)
		left := map[string]int{}
		for _, w := range want {
			left[w]++
		}
		for _, g := range got {
			left[g]--
		}
		for _, n := range left {
			if n != 0 {
				return false
			}
		}
		return true
	}
	for deadline := time.Now().Add(d); time.Now().Before(deadline) && !same(); time.Sleep(10 * time.Millisecond) {
	}
	in.settleWithin(d)
	if !same() {
		in.Fatalf("mikan shows %q, want %q", got, want)
	}
}

func (in *installation) runs() []store.Run {
	in.Helper()
	runs, err := in.store.Runs(in.Context(), store.RunFilter{Limit: 1000})
	in.must(err)
	return runs
}
