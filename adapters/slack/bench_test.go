package slack_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/adapters/terminal"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/worker/service/servicetest"
)

// BenchmarkPlainAnswer measures from somebody's message to the post of its answer, with a model that answers at once:
// "instant" with a Slack that does, too, "100ms" with one that takes 100 ms for every call. Between them the terminal is
// asked the same, where nothing is outside of mikan: the machine's mood is then in both figures.
//
//	go test ./adapters/slack -run '^$' -bench PlainAnswer -benchtime 50x
func BenchmarkPlainAnswer(b *testing.B) {
	for name, latency := range map[string]time.Duration{"instant": 0, "100ms": 100 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			in := install(b, slacktest.Options{Rates: slacktest.RatesOff}, llmtest.Always(llmtest.Say("an answer")))
			in.Worker()
			in.gateway()
			asking := in.Process()
			in.eventually("the people are known", func() bool {
				_, known, err := in.store.Person(b.Context(), "slack", in.slack.Team().ID, in.ann.ID)
				return err == nil && known
			})
			if latency > 0 {
				in.inject(slacktest.Fault{Method: "*", Kind: slacktest.Slow, Latency: latency})
			}
			slack, alone := make([]time.Duration, b.N), make([]time.Duration, b.N)
			for i := range b.N {
				c := in.channel(slacktest.NewChannel{Name: fmt.Sprintf("c%d", i), Members: []string{in.ann.ID}, WithBot: true})
				began := time.Now()
				in.mention(c.ID, "", "hello")
				in.must(in.slack.Await(b.Context(), func() bool { return len(in.shown(c.ID)) == 1 }))
				slack[i] = time.Since(began)
				alone[i] = in.askTerminal(asking, fmt.Sprintf("t%d", i))
			}
			slices.Sort(slack)
			slices.Sort(alone)
			b.ReportMetric(float64(slack[b.N/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(slack[b.N*95/100].Microseconds())/1000, "p95-ms")
			b.ReportMetric(float64(alone[b.N/2].Microseconds())/1000, "terminal-p50-ms")
		})
	}
}

// askTerminal says something on the terminal and tells how long it took until the answer was final.
func (in *installation) askTerminal(p *servicetest.Process, conversation string) time.Duration {
	in.Helper()
	began := time.Now()
	_, receipt := p.Send(terminal.Input{Conversation: conversation, User: "ann", Text: "hello"})
	for {
		said, err := in.store.RunDeliveries(in.Context(), receipt.RunID)
		in.must(err)
		if len(said) == 1 && said[0].State == store.Final {
			return time.Since(began)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// BenchmarkBurst says 200 things in 50 channels at once and waits until all are answered.
//
//	go test ./adapters/slack -run '^$' -bench Burst -benchtime 1x
func BenchmarkBurst(b *testing.B) {
	for range b.N {
		in := install(b, slacktest.Options{Rates: slacktest.RatesOff}, llmtest.Always(llmtest.Say("an answer")))
		in.Worker()
		in.gateway()
		var channels []slacktest.Channel
		for i := range 50 {
			channels = append(channels, in.channel(slacktest.NewChannel{Name: fmt.Sprintf("c%d", i), Members: []string{in.ann.ID}, WithBot: true}))
		}
		began := time.Now()
		var group sync.WaitGroup
		for _, c := range channels {
			group.Go(func() {
				for range 4 {
					in.mention(c.ID, "", "hello")
				}
			})
		}
		group.Wait()
		in.must(in.slack.Await(b.Context(), func() bool {
			n := 0
			for _, c := range channels {
				n += len(in.shown(c.ID))
			}
			return n >= 200
		}))
		b.ReportMetric(200/time.Since(began).Seconds(), "answers/s")
	}
}
