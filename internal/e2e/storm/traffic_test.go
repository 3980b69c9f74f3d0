package storm

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"time"

	"github.com/geminixiang/mikan/adapters/adaptertest"
	"github.com/geminixiang/mikan/internal/office"
)

// kind is what a message has mikan do.
type kind string

const (
	plain    kind = "plain"
	marked   kind = "marked"   // one tool
	paired   kind = "paired"   // two tools at once
	lengthy  kind = "lengthy"  // an answer of several parts
	unsaid   kind = "unsaid"   // no answer
	drawnOut kind = "drawnout" // a model that takes its time
	changed  kind = "changed"  // edited right after it was said
)

// weights are how often each kind is said.
var weights = []kind{
	plain, plain, plain, plain, plain, plain, plain, plain, marked, marked, marked, marked, marked,
	paired, paired, lengthy, unsaid, unsaid, drawnOut, drawnOut, changed, changed,
}

// rooms is how many a platform has.
const rooms = 4

// pace is the mean time between what is said in one room, within what the platforms allow for the answers: a group on
// Telegram takes 20 posts and edits a minute, GitHub 80 posts a minute and 500 an hour, all rooms taken together.
func (s *storm) pace(p office.Platform) time.Duration {
	switch {
	case p == office.Telegram:
		return 18 * time.Second
	case p == office.GitHub && s.length >= long:
		return 45 * time.Second
	case p == office.GitHub:
		return 10 * time.Second
	case s.length >= long:
		return 12 * time.Second
	}
	return 7 * time.Second
}

// message is one that somebody has said.
type message struct {
	token string // nobody else says it
	kind  kind
	room  *room
	id    string // on the platform; set once it is said
	at    time.Time
}

// room is a conversation.
type room struct {
	adaptertest.Room
	town *town
}

// tokens are words by which messages are known, none of which is part of another one.
var tokens = regexp.MustCompile(`tk\d{6}z`)

// register knows all that was said. The zero value is an empty one.
type register struct {
	mu      sync.Mutex
	said    []*message
	byToken map[string]*message
}

func (g *register) enter(r *room, k kind) *message {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := &message{token: fmt.Sprintf("tk%06dz", len(g.said)+1), kind: k, room: r, at: time.Now()}
	if g.byToken == nil {
		g.byToken = map[string]*message{}
	}
	g.said, g.byToken[m.token] = append(g.said, m), m
	return m
}

func (g *register) find(token string) (*message, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, known := g.byToken[token]
	return m, known
}

// all lists what was said, in order.
func (g *register) all() []*message {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*message(nil), g.said...)
}

// talk has people say things in a room until the storm is over, now and then several at once.
func (s *storm) talk(r *room, random *rand.Rand) {
	for s.rest(min(time.Duration(random.ExpFloat64()*float64(s.pace(r.town.Name()))), time.Minute)) {
		several := 1
		if random.IntN(6) == 0 {
			several = 2
		}
		for range several {
			s.say(r, random)
		}
	}
}

// say says one thing, a third of the time under an answer of mikan's.
func (s *storm) say(r *room, random *rand.Rand) {
	m := s.register.enter(r, weights[random.IntN(len(weights))])
	under := ""
	if seen := r.Seen(s.T); len(seen) > 0 && random.IntN(3) == 0 {
		if one := seen[random.IntN(len(seen))]; tokens.MatchString(one.Text) {
			under = one.ID
		}
	}
	m.id = r.Say(s.T, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Under: under, Text: string(m.kind) + " " + m.token})
	s.note("said on %s: %s %s (%s, under %q)", r.town.Name(), m.kind, m.token, m.id, under)
	if m.kind == changed && s.rest(between(random, 0, 300*time.Millisecond)) {
		r.Edit(s.T, m.id, r.town.Mention()+" it is "+m.token+" that I mean")
	}
}
