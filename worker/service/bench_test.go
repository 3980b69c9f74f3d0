package service_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// BenchmarkPlainAnswer measures what mikan adds to a model that answers at once: from the message to its settled
// answer, worker, Temporal and Postgres on this machine. "1" has one message under way, "32" has 32 at once. A session
// rests for a while between its messages, as with people: one that comes within milliseconds of the answer before meets
// an execution that is about to end.
//
//	go test ./worker/service -run '^$' -bench PlainAnswer -benchtime 200x
func BenchmarkPlainAnswer(b *testing.B) {
	for _, atOnce := range []int{1, 32} {
		b.Run(fmt.Sprint(atOnce), func(b *testing.B) {
			m := start(b, llmtest.Always(llmtest.Say("an answer")))
			for i := range atOnce {
				m.ask(fmt.Sprintf("warm-%d", i), "", "hello")
			}
			heard := m.hear()
			took := make([]time.Duration, b.N)
			next := make(chan int)
			var group sync.WaitGroup
			b.ResetTimer()
			for range atOnce {
				group.Go(func() {
					for i := range next {
						started := time.Now()
						_, receipt := m.send(fmt.Sprintf("bench-%d", i%(8*atOnce)), "", "hello")
						<-heard.of(receipt.RunID)
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

// settlements hears of settled runs through one connection, as a gateway does, so that waiting costs the database
// nothing.
type settlements struct {
	mu      sync.Mutex
	waiting map[string]chan struct{}
}

func (m *mikan) hear() *settlements {
	m.Helper()
	conn, err := pgx.Connect(m.Context(), m.worker.Backend.Config.DatabaseURL.Reveal())
	m.must(err)
	_, err = conn.Exec(m.Context(), `LISTEN mikan_run`)
	m.must(err)
	h := &settlements{waiting: map[string]chan struct{}{}}
	go func() {
		for {
			heard, err := conn.WaitForNotification(m.Context())
			if err != nil {
				return
			}
			close(h.of(heard.Payload))
		}
	}()
	return h
}

// of is closed when the run has settled.
func (h *settlements) of(runID string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[runID] == nil {
		h.waiting[runID] = make(chan struct{})
	}
	return h.waiting[runID]
}
