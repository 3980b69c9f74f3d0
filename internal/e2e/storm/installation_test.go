package storm

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/geminixiang/mikan/adapters/adaptertest"
	"github.com/geminixiang/mikan/internal/e2e/e2etest"
)

// begin starts an installation before all platforms.
func begin(t testing.TB, random *rand.Rand) *storm {
	t.Helper()
	s := &storm{began: time.Now(), length: length(t), over: make(chan struct{}), slots: map[string]*slot{}, faults: map[string]int{}}
	s.model = &model{storm: s}
	s.World = e2etest.Bare(t, s.model.answer)
	s.Model.Remember = 100
	t.Cleanup(s.explain)
	s.disk = newDisk(t, s.Workspace)
	servers := s.OwnStack()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(adaptertest.All)) {
		w := &town{Platform: adaptertest.All[name](t)}
		w.Strict(t)
		maps.Copy(s.Env, w.Env())
		lines = append(lines, w.Lines()...)
		s.towns = append(s.towns, w)
	}
	if random.IntN(2) == 0 {
		s.Env["MIKAN_MODEL"], s.Env["OPENAI_API_KEY"], s.Env["OPENAI_BASE_URL"] = "openai-chat/gpt-test", s.Env["ANTHROPIC_API_KEY"], s.Model.OpenAIURL()
	}
	s.Env["MIKAN_CONFIG"] = filepath.Join(t.TempDir(), "mikan.yaml")
	must(t, os.WriteFile(s.Env["MIKAN_CONFIG"], append(merged(t, lines), "model_silence_seconds: 4\n"...), 0o600))
	s.Migrate()
	for _, name := range []string{"worker 1", "worker 2"} {
		s.slots[name] = &slot{start: func() *e2etest.Process { return s.LaunchWorker() }}
	}
	for _, name := range []string{"gateway 1", "gateway 2"} {
		address := freeAddress(t)
		s.slots[name] = &slot{address: address, start: func() *e2etest.Process { return s.Gateway("MIKAN_LISTEN=" + address) }}
	}
	for _, where := range s.slots {
		where.run()
	}
	for _, name := range []string{"worker 1", "worker 2"} {
		s.slots[name].process().Says(t, "the worker is ready")
	}
	for _, w := range s.towns {
		w.Serve(http.HandlerFunc(s.webhook))
		e2etest.Eventually(t, "the gateways are connected to "+string(w.Name()), func(context.Context) error {
			if !w.Connected(2) {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		for range rooms {
			w.rooms = append(w.rooms, &room{Room: w.Room(t), town: w})
		}
	}
	stop := s.supervise()
	t.Cleanup(stop)
	s.servers = servers
	s.began = time.Now()
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// merged makes one configuration of those of each platform.
func merged(t testing.TB, lines []string) []byte {
	t.Helper()
	all := map[string]any{}
	for _, line := range lines {
		var one map[string]map[string]any
		must(t, yaml.Unmarshal([]byte(line), &one))
		for name, value := range one {
			if all[name] == nil {
				all[name] = map[string]any{}
			}
			maps.Copy(all[name].(map[string]any), value)
		}
	}
	text, err := yaml.Marshal(all)
	must(t, err)
	return text
}

// freeAddress is one that nobody listens at, for a gateway that keeps it when it is started again.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// slot is where a process of mikan runs, one after the other.
type slot struct {
	start   func() *e2etest.Process
	address string // of a gateway

	mu  sync.Mutex
	now *e2etest.Process
	all []*e2etest.Process
}

func (p *slot) run() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.start()
	p.all = append(p.all, p.now)
}

func (p *slot) process() *e2etest.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// supervise starts again what has ended, as whoever runs mikan has it done. The function that it returns ends that.
func (s *storm) supervise() func() {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ended:
				return
			}
			for name, where := range s.slots {
				if p := where.process(); !p.Alive() {
					if !p.Killed() {
						s.note("%s ended by itself: %s", name, p.Cmd.ProcessState)
					}
					where.run()
				}
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-done
	})
}

// webhook is the balancer before the gateways: it knows which of them run.
func (s *storm) webhook(w http.ResponseWriter, r *http.Request) {
	for _, name := range []string{"gateway 1", "gateway 2"} {
		where := s.slots[name]
		if !where.process().Alive() {
			continue
		}
		address := &url.URL{Scheme: "http", Host: where.address}
		proxy := &httputil.ReverseProxy{
			Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(address) },
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		}
		proxy.ServeHTTP(w, r)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

// calm ends the storm and waits until all that was said has come through.
func (s *storm) calm() {
	for _, w := range s.towns {
		w.Calm(s.T)
	}
	s.model.calm()
	s.note("calm")
	if s.length < long {
		// GitHub is read every few minutes, and at a gateway's start.
		for _, name := range []string{"gateway 1", "gateway 2"} {
			s.slots[name].process().End(s.T)
		}
	}
	if !s.eventually("all that was said is answered", s.unanswered) {
		s.T.FailNow() // what is open would be waited for once more
	}
	s.Settled()
	s.eventually("nothing tells any more that mikan is at work", func() []string {
		var left []string
		for _, w := range s.towns {
			for _, what := range w.Left(s.T) {
				left = append(left, string(w.Name())+": "+what)
			}
		}
		return left
	})
	s.note("settled")
}

// eventually waits until nothing is left.
func (s *storm) eventually(what string, left func() []string) bool {
	fewest := 0
	for deadline := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		still := left()
		if fewest == 0 || len(still) < fewest { // it goes on
			fewest, deadline = len(still), time.Now().Add(e2etest.Patience)
		}
		if len(still) == 0 {
			return true
		}
		if time.Now().After(deadline) {
			for _, one := range still {
				s.T.Errorf("in vain: %s: %s\n%s", what, one, s.about(one))
			}
			return false
		}
	}
}

// town is a platform with its rooms.
type town struct {
	adaptertest.Platform
	rooms []*room
}

// freeze has a process stand still for a while.
func (s *storm) freeze(name string, d time.Duration) {
	p := s.slots[name].process()
	p.Signal(syscall.SIGSTOP)
	s.under.Go(func() {
		time.Sleep(d)
		p.Signal(syscall.SIGCONT)
		s.note("%s goes on", name)
	})
}
