package deaths

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/adaptertest"
	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/office"
)

// scene is something that people do, with the fail points that it brings mikan to.
type scene struct {
	name string
	on   []office.Platform // empty: on all of them
	// reaches are the points' names without ".before" and ".after"; behind an "@" stand the only platforms that come there.
	reaches []string
	// with are settings of all processes besides what the lane has. front stands for the address at which the platform
	// finds the gateway.
	with   []string
	before func(*stage) // any process is there
	play   func(*stage)
}

// front stands for the address at which the platform finds the gateway.
const front = "{front}"

func (sc scene) settings(l *lane) []string {
	var all []string
	for _, setting := range sc.with {
		all = append(all, strings.ReplaceAll(setting, front, l.address))
	}
	return all
}

// stage is one playing of a scene.
type stage struct {
	*lane
	testing.TB
	scene    scene
	room     adaptertest.Room
	cast     *cast
	word     string // nobody has said it before
	armed    string // the setting that arms a process
	promised []func([]adaptertest.Shown) error
	// commanded tells that the process that had to die was a command.
	commanded bool
}

func (s *stage) eventually(what string, holds func(context.Context) error) {
	s.Helper()
	e2etest.Eventually(s.TB, what, holds)
}

// connected waits until a gateway takes events in.
func (s *stage) connected() {
	s.Helper()
	s.eventually("a gateway is connected", func(context.Context) error {
		s.lane.mu.Lock()
		p := s.gateway
		s.lane.mu.Unlock()
		if !p.Alive() || !listening.MatchString(p.Output()) || !s.platform.Connected(1) {
			return errors.New("not yet")
		}
		return nil
	})
}

func (s *stage) ask(text string) string {
	s.Helper()
	return s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: text})
}

// seen lists what mikan shows in a room, but for what Telegram cannot tell from a message that never came about: at most
// one placeholder of an attempt whose process died before it knew the message's number.
func (l *lane) seen(room adaptertest.Room) []adaptertest.Shown {
	shown := room.Seen(l.T)
	if l.platform.Name() == office.Telegram && len(shown) > 1 {
		if i := slices.IndexFunc(shown, func(m adaptertest.Shown) bool { return m.Text == "Thinking…" }); i >= 0 {
			shown = slices.Delete(shown, i, i+1)
		}
	}
	return shown
}

// promise waits until something holds of what mikan shows, which must then hold until the end.
func (s *stage) promise(what string, holds func([]adaptertest.Shown) error) {
	s.Helper()
	s.eventually(what, func(context.Context) error { return holds(s.seen(s.room)) })
	s.promised = append(s.promised, holds)
}

// shows promises that the room has exactly one message with each of the texts, and no other.
func (s *stage) shows(texts ...string) {
	s.Helper()
	s.promised = nil // of the room as it was before
	s.promise(fmt.Sprintf("the room shows %q", texts), func(shown []adaptertest.Shown) error {
		for _, text := range texts {
			if n := holding(shown, text); n != 1 {
				return fmt.Errorf("%d messages say %q: %q", n, text, shown)
			}
		}
		if len(shown) != len(texts) {
			return fmt.Errorf("%d messages, want %d: %q", len(shown), len(texts), shown)
		}
		return nil
	})
}

// greeted has mikan answer something first.
func (s *stage) greeted() {
	s.Helper()
	s.ask("hello " + s.word)
	s.shows("echo: hello " + s.word)
	s.promised = nil // more is to come
}

func holding(shown []adaptertest.Shown, text string) (n int) {
	for _, m := range shown {
		if strings.Contains(m.Text, text) {
			n++
		}
	}
	return n
}

// hangs waits until the model is called about something and does not answer.
func (s *stage) hangs(text string) {
	s.Helper()
	s.eventually("the model hangs", func(context.Context) error {
		for _, r := range s.Model.Requests() {
			if asked(r) == text && !r.Canceled {
				return nil
			}
		}
		return errors.New("not yet")
	})
}

// rows reads one column of text.
func (s *stage) rows(statement string, arguments ...any) []string {
	s.Helper()
	found, err := e2etest.Rows(s.TB.Context(), s.db, statement, arguments...)
	if err != nil {
		s.Fatal(err)
	}
	return found
}

func (s *stage) within(d time.Duration, holds func() bool) bool {
	for deadline := time.Now().Add(d); time.Now().Before(deadline); time.Sleep(30 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}
