package storm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
)

func TestMain(m *testing.M) { e2etest.Main(m) }

// short is how long the storm lasts unless MIKAN_STORM says otherwise; long is from where it is one that somebody runs
// for its own sake.
const (
	short = 65 * time.Second
	long  = 5 * time.Minute
)

func length(t testing.TB) time.Duration {
	t.Helper()
	said := os.Getenv("MIKAN_STORM")
	if said == "" {
		return short
	}
	d, err := time.ParseDuration(said)
	if err != nil {
		t.Fatalf("MIKAN_STORM is a duration, as 2h: %v", err)
	}
	return d
}

// storm is one run of the test.
type storm struct {
	*e2etest.World
	began    time.Time
	length   time.Duration
	over     chan struct{} // closed when nothing more is said and nothing more goes wrong
	disk     disk
	servers  string // where Postgres and Temporal have their data
	slots    map[string]*slot
	towns    []*town
	model    *model
	register register
	under    sync.WaitGroup // faults that end by themselves

	mu      sync.Mutex
	history []string
	faults  map[string]int
}

// note keeps what happened when, for whoever has to find out why.
func (s *storm) note(format string, args ...any) {
	line := fmt.Sprintf("%7.2f s  ", time.Since(s.began).Seconds()) + fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = append(s.history, line)
}

// source makes a stream of random numbers of its own for each who draws: how fast one of them is does not change what
// another one draws.
func source(random *rand.Rand) *rand.Rand {
	return rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
}

// between draws a time.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}

// rest waits, but not beyond the end of the storm; false when it has ended.
func (s *storm) rest(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.over:
		return false
	}
}

func TestAStormLosesAndRepeatsNothing(t *testing.T) {
	random := e2etest.Moments(t)
	since := time.Now()
	s := begin(t, random)
	e2etest.Took(t, "all is started", since)
	var busy sync.WaitGroup
	for _, w := range s.towns {
		for _, r := range w.rooms {
			mine := source(random)
			busy.Go(func() { s.talk(r, mine) })
		}
	}
	for _, deck := range s.decks() {
		mine := source(random)
		busy.Go(func() { s.rage(deck, mine) })
	}
	time.Sleep(s.length)
	close(s.over)
	busy.Wait()
	s.under.Wait()
	s.calm()
	s.judge()
}
