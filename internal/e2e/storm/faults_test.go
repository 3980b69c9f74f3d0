package storm

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/geminixiang/mikan/adapters/adaptertest"
	"github.com/geminixiang/mikan/internal/e2e/e2etest"
)

// misfortune is something that goes wrong.
type misfortune struct {
	name   string
	befall func(random *rand.Rand)
}

// deck is drawn from at random until none is left, and then anew: everything happens, in any order.
type deck struct {
	cards       []misfortune
	least, most time.Duration // between two draws
}

func (s *storm) rage(d deck, random *rand.Rand) {
	for {
		for _, i := range random.Perm(len(d.cards)) {
			if !s.rest(between(random, d.least, d.most)) {
				return
			}
			one := d.cards[i]
			s.note("! %s", one.name)
			s.mu.Lock()
			s.faults[one.name]++
			s.mu.Unlock()
			one.befall(random)
		}
	}
}

// decks are what goes wrong, each beside the others.
func (s *storm) decks() []deck {
	return []deck{
		{s.ofProcesses(), 1500 * time.Millisecond, 6 * time.Second},
		{append(s.ofPlatforms(), s.ofTheModel()...), 300 * time.Millisecond, 2 * time.Second},
	}
}

func (s *storm) kill(names ...string) func(*rand.Rand) {
	return func(*rand.Rand) {
		for _, name := range names {
			s.slots[name].process().Kill()
		}
	}
}

func (s *storm) killServer(name string) func(*rand.Rand) {
	return func(*rand.Rand) { e2etest.KillServer(s.T, s.servers, name) }
}

func (s *storm) ofProcesses() []misfortune {
	all := []misfortune{
		{"worker 1 killed", s.kill("worker 1")}, {"worker 2 killed", s.kill("worker 2")}, {"both workers killed", s.kill("worker 1", "worker 2")},
		{"gateway 1 killed", s.kill("gateway 1")}, {"gateway 2 killed", s.kill("gateway 2")}, {"both gateways killed", s.kill("gateway 1", "gateway 2")},
		{"Postgres killed", s.killServer("postgres")}, {"Temporal killed", s.killServer("temporal")},
	}
	for _, who := range []string{"worker", "gateway"} {
		all = append(all, misfortune{who + " frozen for less than heartbeats", func(random *rand.Rand) {
			s.freeze(fmt.Sprintf("%s %d", who, 1+random.IntN(2)), between(random, 200*time.Millisecond, 4*time.Second))
		}}, misfortune{who + " frozen for longer than heartbeats", func(random *rand.Rand) {
			s.freeze(fmt.Sprintf("%s %d", who, 1+random.IntN(2)), between(random, 6*time.Second, 12*time.Second))
		}})
	}
	return all
}

func (s *storm) ofPlatforms() []misfortune {
	var all []misfortune
	for _, w := range s.towns {
		name := string(w.Name())
		all = append(all, misfortune{name + ": events again", func(*rand.Rand) { w.Again(s.T) }},
			misfortune{name + ": events lost", func(random *rand.Rand) {
				w.Lose(s.T, func() { s.say(w.rooms[random.IntN(len(w.rooms))], random) })
			}})
		for _, how := range []adaptertest.Fault{adaptertest.LostReply, adaptertest.RateLimited, adaptertest.ServerError} {
			all = append(all, misfortune{fmt.Sprintf("%s: %s on answers", name, how), func(random *rand.Rand) { w.Disturb(s.T, how, 1+random.IntN(3)) }},
				misfortune{fmt.Sprintf("%s: %s on everything", name, how), func(random *rand.Rand) { w.DisturbAll(s.T, how, 1+random.IntN(3)) }})
		}
	}
	if s.disk.small() {
		all = append(all, misfortune{"disk full", func(random *rand.Rand) {
			free := s.disk.fill(s.T)
			d := between(random, 2*time.Second, 6*time.Second)
			s.under.Go(func() {
				time.Sleep(d)
				free()
				s.note("the disk has room again")
			})
		}})
	}
	return all
}

func (s *storm) ofTheModel() []misfortune {
	var all []misfortune
	for _, what := range []trouble{overloaded, limited, broken, cut, slow, silent} {
		one := misfortune{"model: " + string(what), func(random *rand.Rand) { s.model.trouble(what, 1+random.IntN(3)) }}
		all = append(all, one, one)
	}
	return all
}
