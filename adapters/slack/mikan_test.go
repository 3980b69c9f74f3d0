package slack_test

import (
	"slices"
	"testing"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/worker/service/servicetest"
)

// installation is mikan before a local Slack. Nothing runs until Worker and gateway are called.
type installation struct {
	*rig
	*servicetest.Installation
	connected int // sockets of the gateways that run
}

// install makes the parts. lines are those of the MIKAN_CONFIG file.
func install(t testing.TB, o slacktest.Options, script llmtest.Script, lines ...string) *installation {
	t.Helper()
	server := newSlack(t, o)
	mikan := servicetest.New(t, servicetest.Options{Script: script, Lines: lines, Env: map[string]string{
		"SLACK_BOT_TOKEN": server.Team().BotToken, "SLACK_APP_TOKEN": server.App().AppToken, "SLACK_API_URL": server.APIURL(),
	}})
	return &installation{rig: populate(t, server, mikan.Store), Installation: mikan}
}

// gateway starts a gateway and waits until it is connected.
func (in *installation) gateway() *servicetest.Process {
	in.Helper()
	in.connected += 2
	p := in.Gateway()
	in.eventually("the gateway is connected", func() bool { return in.slack.Sockets() == in.connected })
	return p
}

// quit ends a gateway and waits until Slack has heard of it.
func (in *installation) quit(p *servicetest.Process) {
	in.Helper()
	p.Quit()
	in.connected -= 2
	in.eventually("the gateway has left", func() bool { return in.slack.Sockets() == in.connected })
}

// mention says something to mikan in a channel.
func (in *installation) mention(channel, thread, text string) slacktest.Message {
	in.Helper()
	return in.say(slacktest.Saying{Channel: channel, User: in.ann.ID, Thread: thread, Text: "<@" + in.slack.Team().BotUser + "> " + text})
}

// settle waits until every event is acknowledged, and nothing waits or runs.
func (in *installation) settle() {
	in.Helper()
	in.eventually("everything is settled", func() bool { return in.acknowledged() && in.Settled() })
}

func (in *installation) acknowledged() bool {
	return !slices.ContainsFunc(in.slack.Deliveries(), func(d slacktest.Delivery) bool { return !d.Acked && !d.Lost })
}

// said lists what mikan shows in a channel.
func (in *installation) said(channel string) []string {
	var all []string
	for _, v := range in.slack.Messages(slacktest.Which{Channel: channel, ByApp: true}) {
		all = append(all, v.Shown)
	}
	return all
}

// answered waits until mikan's messages in a channel are just these, whatever their order, and every event has been
// taken in.
func (in *installation) answered(channel string, want ...string) {
	in.Helper()
	sorted := func() []string { return slices.Sorted(slices.Values(in.said(channel))) }
	want = slices.Sorted(slices.Values(want))
	in.Shows(in, sorted, want...)
	in.settle()
	in.Shows(in, sorted, want...)
}
