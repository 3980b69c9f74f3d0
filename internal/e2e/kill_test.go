package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/devstack"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// kills is how many random kills a test makes.
func kills(t testing.TB) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("MIKAN_KILLS"))
	if err != nil {
		return 8
	}
	return n
}

// moments is the source of random moments. Its seed is printed, and MIKAN_SEED repeats it.
func moments(t testing.TB) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("MIKAN_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("MIKAN_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// talkative is a model that takes its time, so that a random moment is likely to fall into its answer.
func talkative() llmtest.Script {
	return llmtest.Echo(llmtest.EchoOptions{Between: 40 * time.Millisecond})
}

// unreliable is talkative, but for one call in seven: it is overloaded, limits the rate, or loses the connection in the
// middle of its answer.
func unreliable() llmtest.Script {
	talk := talkative()
	return func(r llmtest.Request) llmtest.Reply {
		switch r.Number % 21 {
		case 5:
			return llmtest.Fail(529, "overloaded_error", "overloaded")
		case 12:
			reply := llmtest.Fail(429, "rate_limit_error", "slow down")
			reply.Header = http.Header{"Retry-After": {"1"}}
			return reply
		case 19:
			reply := talk(r)
			reply.Ending = llmtest.EndCut
			return reply
		}
		return talk(r)
	}
}

// traffic keeps conversations busy until it is told to stop.
type traffic struct {
	w        *world
	stop     chan struct{}
	asks     sync.WaitGroup
	mu       sync.Mutex
	answered int
	wrong    []string
}

// converse starts n conversations, in each of which one message follows the other, some with tools.
func (w *world) converse(n int) *traffic {
	tr := &traffic{w: w, stop: make(chan struct{})}
	for c := range n {
		tr.asks.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-tr.stop:
					return
				default:
				}
				tr.one(fmt.Sprintf("c%d", c), fmt.Sprintf("t%d-%d", c, i), i)
			}
		})
	}
	return tr
}

func (tr *traffic) one(conversation, token string, i int) {
	text, want := "say "+token, "echo: say "+token
	if i%3 != 2 {
		text, want = mark(token, 0.7), "ran: "
	}
	ctx, cancel := context.WithTimeout(tr.w.t.Context(), patience)
	defer cancel()
	a := tr.w.askWith(ctx, nil, text, "--conversation", conversation)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if a.exited.code == 0 {
		tr.answered++
	}
	// An ask whose database or Temporal is down may say so; what it must not do is to print a wrong answer.
	if a.exited.code == 0 && !strings.HasPrefix(a.Answer, want) {
		tr.wrong = append(tr.wrong, fmt.Sprintf("%q got %q (%s)", text, a.Answer, a.Outcome))
	}
	if a.exited.code != 0 {
		tr.w.t.Logf("ask %s: exit %d: %s%s", token, a.exited.code, a.Answer, a.exited.stderr)
	}
}

func (tr *traffic) end() {
	close(tr.stop)
	tr.asks.Wait()
	tr.w.t.Logf("%d messages answered", tr.answered)
	for _, wrong := range tr.wrong {
		tr.w.t.Errorf("%s", wrong)
	}
}

func (tr *traffic) busy() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.answered
}

// progress waits until some more messages have come through: the last kill is survived before the next one falls.
func (tr *traffic) progress(t testing.TB) {
	t.Helper()
	before := tr.busy()
	eventually(t, "messages are answered again", func(context.Context) error {
		if tr.busy() == before {
			return errors.New("none is")
		}
		return nil
	})
}

// stackPID finds a server of a data directory.
func stackPID(dir, service string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "run", service+".pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func killServer(t testing.TB, dir, service string) {
	t.Helper()
	pid, err := stackPID(dir, service)
	if errors.Is(err, fs.ErrNotExist) {
		return // it is being started again
	}
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Errorf("kill %s: %v", service, err)
	}
}

// ownStack starts servers that the test may kill.
func (w *world) ownStack() string {
	w.t.Helper()
	return w.stackWith(devstack.Disposable)
}

// stackWith starts servers of this world's own.
func (w *world) stackWith(durability devstack.Durability) string {
	w.t.Helper()
	dir := w.t.TempDir()
	stack, err := devstack.Start(w.t.Context(), devstack.Options{
		DataDir: dir, Durability: durability, Log: discard, Getenv: func(name string) string {
			if strings.HasPrefix(name, "MIKAN_") || strings.HasPrefix(name, "TEMPORAL_") {
				return ""
			}
			return os.Getenv(name)
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := errors.Join(stack.Close(), devstack.Remove(dir)); err != nil {
			w.t.Errorf("the test's servers: %v", err)
		}
	})
	for name, value := range stack.Env() {
		w.env[name] = value
	}
	return dir
}

func TestKillsOfSeparateProcessesLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	w := bareWorld(t, unreliable())
	random := moments(t)
	servers := w.ownStack()
	w.migrate()
	workers := []*process{w.worker(), w.worker()}
	gateways := []*process{w.gateway(), w.gateway()}
	tr := w.converse(3)
	began := time.Now()
	for n := range kills(t) {
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second)))) // a random moment
		killed := time.Now()
		what := []string{"worker", "worker", "gateway", "temporal", "postgres", "both workers", "freeze"}[random.IntN(7)]
		which := random.IntN(2)
		switch what {
		case "worker":
			workers[which].kill()
			workers[which] = w.launchWorker()
		case "both workers":
			for i := range workers {
				workers[i].kill()
			}
			for i := range workers {
				workers[i] = w.launchWorker()
			}
		case "gateway":
			gateways[which].kill()
			gateways[which] = w.gateway()
		case "freeze": // for less or more than its heartbeats may stay away
			workers[which].signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(random.Int64N(int64(10 * time.Second))))
			workers[which].signal(syscall.SIGCONT)
		default:
			killServer(t, servers, what)
		}
		// A process that finds no database at its start says so and ends: whoever runs it starts it again.
		for i := range workers {
			if !workers[i].alive() {
				workers[i] = w.launchWorker()
			}
		}
		tr.progress(t)
		took(t, fmt.Sprintf("kill %d: %s, next answer", n+1, what), killed)
	}
	tr.end()
	w.revive(workers, gateways)
	w.settled()
	took(t, "all settled", began)
	w.wellFormed()
	w.ranOnce("marks")
}

// revive starts what has ended, so that everything left can settle.
func (w *world) revive(workers, gateways []*process) {
	w.t.Helper()
	for i := range workers {
		if !workers[i].alive() {
			workers[i] = w.worker()
		}
	}
	for i := range gateways {
		if !gateways[i].alive() {
			gateways[i] = w.gateway()
		}
	}
}

// dev runs everything in one process on the world's data directory.
func (w *world) dev(settings ...string) *process {
	w.t.Helper()
	p := start(w.t, "dev", mikan(w.t), w.environ(settings...), "dev", "--no-prompt", "--data-dir", w.dataDir)
	p.says(w.t, "ready\n")
	return p
}

// devWorld is a world that a dev serves.
func devWorld(t *testing.T, script llmtest.Script) *world {
	t.Helper()
	w := bareWorld(t, script)
	t.Cleanup(func() {
		if err := devstack.Remove(w.dataDir); err != nil {
			t.Errorf("the dev's data: %v", err)
		}
	})
	return w
}

// adopt reads where a dev has its servers.
func (w *world) adopt() {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dataDir, config.DevEnvFile))
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && (name == "MIKAN_DATABASE_URL" || strings.HasPrefix(name, "TEMPORAL_")) {
			w.env[name] = strings.Trim(value, `"'`)
		}
	}
}

func TestKillsOfDevLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	w := devWorld(t, talkative())
	random := moments(t)
	dev := w.dev()
	tr := w.converse(3)
	for n := range kills(t) {
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second)))) // a random moment
		killed := time.Now()
		what := []string{"dev", "dev", "temporal", "postgres"}[random.IntN(4)]
		if what == "dev" {
			dev.kill()
			dev = w.dev()
		} else {
			killServer(t, w.dataDir, what)
		}
		tr.progress(t)
		took(t, fmt.Sprintf("kill %d: %s, next answer", n+1, what), killed)
	}
	tr.end()
	w.adopt()
	w.settled()
	w.wellFormed()
	w.ranOnce("marks")
	dev.end(t)
}
