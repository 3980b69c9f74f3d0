package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
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

// talkative is a model that takes its time, so that a random moment is likely to fall into its answer.
func talkative() llmtest.Script {
	return llmtest.Echo(llmtest.EchoOptions{Between: 40 * time.Millisecond})
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
		text, want = e2etest.Mark(token, 0.7), "ran: "
	}
	ctx, cancel := context.WithTimeout(tr.w.T.Context(), e2etest.Patience)
	defer cancel()
	a := tr.w.AskWith(ctx, nil, text, "--conversation", conversation)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if a.Exited.Code == 0 {
		tr.answered++
	}
	// An ask whose database or Temporal is down may say so; what it must not do is to print a wrong answer.
	if a.Exited.Code == 0 && !strings.HasPrefix(a.Answer, want) {
		tr.wrong = append(tr.wrong, fmt.Sprintf("%q got %q (%s)", text, a.Answer, a.Outcome))
	}
	if a.Exited.Code != 0 {
		tr.w.T.Logf("ask %s: exit %d: %s%s", token, a.Exited.Code, a.Answer, a.Exited.Stderr)
	}
}

func (tr *traffic) end() {
	close(tr.stop)
	tr.asks.Wait()
	tr.w.T.Logf("%d messages answered", tr.answered)
	for _, wrong := range tr.wrong {
		tr.w.T.Errorf("%s", wrong)
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
	e2etest.Eventually(t, "messages are answered again", func(context.Context) error {
		if tr.busy() == before {
			return errors.New("none is")
		}
		return nil
	})
}

func TestKillsOfDevLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	w := devWorld(t, talkative())
	random := e2etest.Moments(t)
	dev := w.Dev()
	tr := w.converse(3)
	for n := range kills(t) {
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second)))) // a random moment
		killed := time.Now()
		what := []string{"dev", "dev", "temporal", "postgres"}[random.IntN(4)]
		if what == "dev" {
			dev.Kill()
			dev = w.Dev()
		} else {
			e2etest.KillServer(t, w.DataDir, what)
		}
		tr.progress(t)
		e2etest.Took(t, fmt.Sprintf("kill %d: %s, next answer", n+1, what), killed)
	}
	tr.end()
	w.Adopt()
	w.Settled()
	w.WellFormed()
	w.RanOnce("marks")
	dev.End(t)
}
