package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/terminal"
	"github.com/geminixiang/mikan/internal/devstack"
	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/office"
)

// The load: as many sessions in as many conversations, with so many runs at once, of a model that takes its time.
const (
	loadConversations = 100
	loadSessions      = 10_000
	loadAtOnce        = 200
	loadModel         = 300 * time.Millisecond
)

// BenchmarkLoad keeps 200 runs going at once over 10,000 sessions, for as long as MIKAN_LOAD says (default 1m), against
// Postgres and Temporal of its own that keep what they are told, one worker process and one gateway process. It reports
// throughput, what mikan adds to the model's time, and what each process needs.
//
//	MIKAN_LOAD=5m go test ./internal/e2e -run '^$' -bench Load -benchtime 1x
func BenchmarkLoad(b *testing.B) {
	lasts, err := time.ParseDuration(os.Getenv("MIKAN_LOAD"))
	if err != nil {
		lasts = time.Minute
	}
	w := bareWorld(b, func(llmtest.Request) llmtest.Reply {
		return llmtest.Reply{Parts: []llmtest.Part{llmtest.Text("an answer of some words")}, Delay: loadModel}
	})
	dir := w.StackWith(devstack.Durable)
	w.Migrate()
	processes := map[string]*e2etest.Process{"worker": w.Worker(), "gateway": w.Gateway()}
	intake, listen := w.intake(), w.listen()
	w.seed(b)
	l := &load{intake: intake, waiting: map[string]chan struct{}{}}
	go l.hear(b.Context(), listen)
	before := w.spent(dir, processes)
	b.ResetTimer()
	began := time.Now()
	var senders sync.WaitGroup
	for range loadAtOnce {
		senders.Go(func() {
			for time.Since(began) < lasts && b.Context().Err() == nil {
				l.one(b)
			}
		})
	}
	senders.Wait()
	took := time.Since(began)
	b.StopTimer()
	w.report(b, took, before, w.spent(dir, processes))
	w.Settled()
	w.WellFormed()
}

// load sends messages and hears of the runs that they caused.
type load struct {
	intake  *adapters.Intake
	next    atomic.Int64
	mu      sync.Mutex
	waiting map[string]chan struct{}
}

// of is closed when a run has settled.
func (l *load) of(runID string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[runID] == nil {
		l.waiting[runID] = make(chan struct{})
	}
	return l.waiting[runID]
}

func (l *load) hear(ctx context.Context, conn *pgx.Conn) {
	for {
		heard, err := conn.WaitForNotification(ctx)
		if err != nil {
			return
		}
		close(l.of(heard.Payload))
	}
}

// place names a session by its number.
func place(n int64) (conversation, thread string) {
	return fmt.Sprintf("load-%d", n%loadConversations), fmt.Sprintf("t%d", n/loadConversations%(loadSessions/loadConversations))
}

// one sends one message to the next session and waits for its run.
func (l *load) one(b *testing.B) {
	conversation, thread := place(l.next.Add(1))
	m, err := terminal.Message(terminal.Input{Conversation: conversation, Thread: thread, User: "ann", Text: "hello there"})
	if err != nil {
		b.Error(err)
		return
	}
	receipt, err := l.intake.Receive(b.Context(), m)
	if err != nil {
		b.Error(err)
		return
	}
	select {
	case <-l.of(receipt.RunID):
	case <-time.After(e2etest.Patience):
		b.Errorf("run %s does not settle", receipt.RunID)
	case <-b.Context().Done():
	}
}

// seed makes the sessions, so that each of them is there already when its first message comes.
func (w *world) seed(b *testing.B) {
	b.Helper()
	db := w.DB()
	for c := range loadConversations {
		conversation, _ := place(int64(c))
		key, err := office.Address{Platform: office.Terminal, ConversationID: conversation}.Key()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := db.Exec(b.Context(), `
			INSERT INTO offices (key, platform, conversation_id, audience) VALUES ($1, 'terminal', $2, 'private')`, string(key), conversation); err != nil {
			b.Fatal(err)
		}
		if _, err := db.Exec(b.Context(), `
			INSERT INTO sessions (id, office_key, session_key, window_session)
			SELECT $2 || '-' || n, $1, $2 || ':t' || n, $2 || '-' || n FROM generate_series(0, $3 - 1) n`,
			string(key), conversation, loadSessions/loadConversations); err != nil {
			b.Fatal(err)
		}
	}
}

// usage is what a process has used so far.
type usage struct {
	cpu    time.Duration
	memory int64 // bytes, its share of what it shares included
}

// spent looks at each process; those of Postgres and Temporal with all their children.
func (w *world) spent(dir string, processes map[string]*e2etest.Process) map[string]usage {
	w.T.Helper()
	roots := map[string]int{"test": os.Getpid()}
	for name, p := range processes {
		roots[name] = p.Cmd.Process.Pid
	}
	for _, service := range []string{"postgres", "temporal"} {
		pid, err := e2etest.StackPID(dir, service)
		if err != nil {
			w.T.Fatal(err)
		}
		roots[service] = pid
	}
	parents := map[int]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		w.T.Fatal(err)
	}
	used := map[int]usage{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		_, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after)
		parents[pid], _ = strconv.Atoi(fields[1])
		var ticks int64
		for _, field := range []int{11, 12, 13, 14} { // user, system, and those of children that have ended
			n, _ := strconv.ParseInt(fields[field], 10, 64)
			ticks += n
		}
		u := usage{cpu: time.Duration(ticks) * 10 * time.Millisecond}
		if rollup, err := os.ReadFile(filepath.Join(filepath.Dir(path), "smaps_rollup")); err == nil {
			for line := range strings.Lines(string(rollup)) {
				if kb, found := strings.CutPrefix(line, "Pss:"); found {
					n, _ := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
					u.memory = n << 10
				}
			}
		}
		used[pid] = u
	}
	names := map[int]string{}
	for name, pid := range roots {
		names[pid] = name
	}
	sums := map[string]usage{}
	for pid, u := range used {
		at := pid
		for at > 1 && names[at] == "" {
			at = parents[at]
		}
		if name := names[at]; name != "" {
			sums[name] = usage{cpu: sums[name].cpu + u.cpu, memory: sums[name].memory + u.memory}
		}
	}
	return sums
}

func (w *world) report(b *testing.B, took time.Duration, before, after map[string]usage) {
	b.Helper()
	var runs int
	var p50, p95, p99, claimed float64
	err := w.DB().QueryRow(b.Context(), `
		SELECT count(*), percentile_disc(0.5) WITHIN GROUP (ORDER BY over), percentile_disc(0.95) WITHIN GROUP (ORDER BY over),
			percentile_disc(0.99) WITHIN GROUP (ORDER BY over), percentile_disc(0.5) WITHIN GROUP (ORDER BY waited)
		FROM (SELECT extract(epoch FROM settled_at - received_at)::float8 * 1000 - model_ms - tool_ms AS over,
			extract(epoch FROM started_at - received_at)::float8 * 1000 AS waited FROM runs WHERE state = 'settled') r`).
		Scan(&runs, &p50, &p95, &p99, &claimed)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(runs)/took.Seconds(), "runs/s")
	b.ReportMetric(p50, "p50-ms")
	b.ReportMetric(p95, "p95-ms")
	b.ReportMetric(p99, "p99-ms")
	b.Logf("%d runs in %s: %.1f a second; mikan and its servers add %.0f ms (p50), %.0f (p95), %.0f (p99), of which %.0f until the run has claimed its message",
		runs, took.Round(time.Second), float64(runs)/took.Seconds(), p50, p95, p99, claimed)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		cpu := after[name].cpu - before[name].cpu
		b.Logf("%-9s %4.0f MB, %5.1f ms of CPU a run, %3.0f%% of a core", name, float64(after[name].memory)/(1<<20),
			float64(cpu.Milliseconds())/float64(max(runs, 1)), 100*cpu.Seconds()/took.Seconds())
	}
}
