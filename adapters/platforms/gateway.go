package platforms

import (
	"context"
	"net/http"
	"sync"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// Gateway is the receiving side of every platform in one process.
type Gateway struct {
	platforms *Platforms
	sides     []side
}

// side is the receiving side of one platform.
type side struct {
	platform office.Platform
	inbound  adapters.Inbound
	state    *state
}

// state is how a platform's connection is, as /readyz shows it.
type state struct {
	mu  sync.Mutex
	err error
}

func (s *state) set(err error) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = (s.err == nil) != (err == nil)
	s.err = err
	return changed
}

func (s *state) probe(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Gateway makes the receiving sides. Their webhooks are on the mux when it returns, and health knows how each connection
// is: a platform that cannot be reached makes the process degraded, not unready, since the others go on.
func (p *Platforms) Gateway(mux *http.ServeMux, health *telemetry.Health) *Gateway {
	g := &Gateway{platforms: p}
	for _, a := range p.Adapters {
		s := side{platform: a.Platform(), state: &state{err: fault.New(fault.Unavailable, "not connected yet")}}
		s.inbound = a.Inbound(adapters.Gateway{
			Receive: p.Intake.Receive, Mux: mux,
			Ready: func(err error) {
				if s.state.set(err) && err != nil {
					p.log.Warn("a platform is not connected", "platform", s.platform, "error", err)
				} else if err == nil {
					p.log.Debug("a platform is connected", "platform", s.platform)
				}
			},
		})
		health.Watch(telemetry.Check{Name: string(s.platform), Weight: telemetry.Advisory, Probe: s.state.probe})
		g.sides = append(g.sides, s)
	}
	return g
}

// Run takes events in until ctx ends. A platform that cannot go on ends alone, and the log says what to mend.
func (g *Gateway) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range g.sides {
		all.Go(func() {
			if err := s.inbound.Run(ctx); err != nil && ctx.Err() == nil {
				s.state.set(err)
				g.platforms.log.Error("a platform is given up until this process is started again", "platform", s.platform, "error", err)
			}
		})
	}
	all.Wait()
}
