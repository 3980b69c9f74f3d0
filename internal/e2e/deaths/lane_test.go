package deaths

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/geminixiang/mikan/adapters/adaptertest"
	"github.com/geminixiang/mikan/adapters/github/githubtest"
	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/jev/jevtest"
	"github.com/geminixiang/mikan/internal/office"
)

func TestMain(m *testing.M) { e2etest.Main(m) }

// lane is an installation before a platform in which one death follows the other, each with processes and a room of its
// own.
type lane struct {
	*e2etest.World
	platform adaptertest.Platform
	db       *pgxpool.Pool
	address  string // where the platform reaches whichever gateway is alive

	mu      sync.Mutex
	gateway *e2etest.Process
}

func newLane(t *testing.T, name office.Platform) *lane {
	t.Helper()
	l := &lane{platform: adaptertest.All[name](t)}
	l.World = e2etest.New(t, script(name))
	l.db = l.DB()
	judge := jevtest.NewServer(t, judgement)
	for setting, value := range l.platform.Env() {
		l.Env[setting] = value
	}
	l.Env["OPENROUTER_API_KEY"], l.Env["OPENROUTER_BASE_URL"] = "key-of-the-judge", judge.OpenRouterURL()
	l.Env["MIKAN_CONFIG"] = filepath.Join(l.DataDir, "mikan.yaml")
	lines := append(l.platform.Lines(), "auto_reply: jev", fmt.Sprintf("admins: {%s: ['%s']}", name, l.platform.Person(adaptertest.Ann)))
	if err := os.WriteFile(l.Env["MIKAN_CONFIG"], []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	l.unlimited(t)
	front := httptest.NewServer(l)
	t.Cleanup(front.Close)
	l.address = front.URL
	l.platform.Serve(l)
	return l
}

// unlimited has the local server count no rates: a lane does in minutes what people do in hours, and mikan's own
// accounts are emptied after each death.
func (l *lane) unlimited(t testing.TB) {
	t.Helper()
	switch p := l.platform.(type) {
	case interface {
		SetRates(slacktest.RateMode, float64) error
	}:
		if err := p.SetRates(slacktest.RatesOff, 1); err != nil {
			t.Fatal(err)
		}
	case interface{ Limit(githubtest.Limits) }:
		const much = 1_000_000
		p.Limit(githubtest.Limits{Primary: much, Window: time.Hour, ContentMinute: much, ContentHour: much, PointsMinute: much})
	}
}

var listening = regexp.MustCompile(`the gateway is ready.*address"?[=:]"?(http://[0-9.:]+)`)

// ServeHTTP hands what the platform sends to the gateway that is alive.
func (l *lane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	p := l.gateway
	l.mu.Unlock()
	if p != nil && p.Alive() {
		if found := listening.FindStringSubmatch(p.Output()); found != nil {
			if to, err := url.Parse(found[1]); err == nil {
				proxy := httputil.NewSingleHostReverseProxy(to)
				proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
				proxy.ServeHTTP(w, r)
				return
			}
		}
	}
	w.WriteHeader(http.StatusBadGateway)
}

// cast are the processes of one death.
type cast struct {
	mu     sync.Mutex
	deaths []string // names of those who died where they were armed to
	all    []*e2etest.Process
	ended  map[*e2etest.Process]bool // by the test
	over   bool
	wait   sync.WaitGroup
}

// raise starts a process and, whenever it has ended, another one in its place: unarmed when it died where it was armed to.
func (c *cast) raise(start func(settings ...string) *e2etest.Process, settings ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	p := start(settings...)
	c.all = append(c.all, p)
	c.wait.Go(func() {
		<-p.Ended
		c.mu.Lock()
		next := settings
		if !c.ended[p] && !c.over {
			if p.Killed() && strings.HasPrefix(settings[0], arming) {
				c.deaths = append(c.deaths, p.Name)
			}
			next = append([]string{arming}, settings[1:]...)
		}
		c.mu.Unlock()
		c.raise(start, next...)
	})
}

// arming is the setting that names a point to die at.
const arming = "MIKAN_FAILPOINT="

// kill ends a process from outside: whoever takes its place is armed as it was.
func (c *cast) kill(p *e2etest.Process) {
	c.mu.Lock()
	c.ended[p] = true
	c.mu.Unlock()
	p.Kill()
}

func (c *cast) died() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.deaths) > 0
}

// end ends all processes.
func (c *cast) end() {
	c.mu.Lock()
	c.over = true
	all := c.all
	c.mu.Unlock()
	for _, p := range all {
		p.Kill()
	}
	c.wait.Wait()
}

// play plays a scene with every process armed to die at a point, and sees that it comes to its end once all the same.
func (l *lane) play(t *testing.T, sc scene, point string) {
	t.Helper()
	began := time.Now()
	l.T = t
	l.clear()
	settings := append([]string{arming + point}, sc.settings(l)...)
	s := &stage{lane: l, TB: t, word: adaptertest.Word() + "x", scene: sc, armed: settings[0], cast: &cast{ended: map[*e2etest.Process]bool{}}}
	defer s.cast.end()
	if sc.before != nil {
		sc.before(s)
	}
	s.cast.raise(l.LaunchWorker, settings...)
	s.cast.raise(func(settings ...string) *e2etest.Process {
		p := l.Gateway(settings...)
		l.mu.Lock()
		l.gateway = p
		l.mu.Unlock()
		return p
	}, settings...)
	s.connected()
	s.room = l.platform.Room(t)
	sc.play(s)
	if point != "" && !s.cast.died() && !s.commanded {
		s.eventually("a process dies at "+point, func(context.Context) error {
			if !s.cast.died() {
				return fmt.Errorf("none has come to this point")
			}
			return nil
		})
	}
	l.Settled()
	l.WellFormed()
	l.RanOnce("marks")
	for _, holds := range s.promised {
		if err := holds(l.seen(s.room)); err != nil {
			t.Errorf("after all has settled: %v", err)
		}
	}
	for _, v := range l.platform.Violations() {
		t.Errorf("%s was misused: %s", l.platform.Name(), v)
	}
	s.cast.end()
	e2etest.Took(t, fmt.Sprintf("the death of %v", s.cast.deaths), began)
}

// clear takes away what one death would make the next one wait for: leases of dead processes, and what was counted
// against the platform's rates.
func (l *lane) clear() {
	l.T.Helper()
	for _, statement := range []string{`DELETE FROM leases`, `DELETE FROM rate_buckets`} {
		if _, err := l.db.Exec(l.T.Context(), statement); err != nil {
			l.T.Fatal(err)
		}
	}
}
