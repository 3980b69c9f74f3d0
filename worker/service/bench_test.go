package service_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// BenchmarkPlainAnswer measures what mikan adds to a model that answers at once: from the message to its settled
// answer, worker, Temporal and Postgres on this machine. "one" has one message under way, "32" has 32 sessions at once.
//
//	go test ./worker/service -run '^$' -bench PlainAnswer -benchtime 200x
func BenchmarkPlainAnswer(b *testing.B) {
	for _, atOnce := range []int{1, 32} {
		b.Run(fmt.Sprint(atOnce), func(b *testing.B) {
			m := start(b, llmtest.Always(llmtest.Say("an answer")))
			for i := range atOnce {
				m.ask(fmt.Sprintf("warm-%d", i), "", "hello")
			}
			took := make([]time.Duration, b.N)
			next := make(chan int)
			var group sync.WaitGroup
			b.ResetTimer()
			for worker := range atOnce {
				group.Go(func() {
					for i := range next {
						started := time.Now()
						_, receipt := m.send(fmt.Sprintf("bench-%d", worker), "", "hello")
						m.settledAt(receipt.RunID)
						took[i] = time.Since(started)
					}
				})
			}
			for i := range b.N {
				next <- i
			}
			close(next)
			group.Wait()
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(took[b.N/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[b.N*95/100].Microseconds())/1000, "p95-ms")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// settledAt waits for a settlement as ask does: by notification, so that the wait costs the database nothing.
func (m *mikan) settledAt(runID string) {
	m.Helper()
	news, stop := m.backend.Store.Settlements(m.Context())
	defer stop()
	for range 1000 {
		var settled bool
		m.must(m.backend.Store.Pool().QueryRow(m.Context(), `SELECT EXISTS (SELECT 1 FROM runs WHERE id = $1 AND state = 'settled')`, runID).Scan(&settled))
		if settled {
			return
		}
		select {
		case <-news:
		case <-time.After(20 * time.Millisecond):
		}
	}
	m.Fatalf("run %s did not settle", runID)
}
