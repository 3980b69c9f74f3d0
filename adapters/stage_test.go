package adapters_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// stage is a platform where everything that can happen to a message is scripted.
type stage struct {
	can adapters.Capabilities

	mu       sync.Mutex
	count    int
	messages map[string]adapters.Outgoing // what people see, by id
	order    []string
	edits    []string // texts, in order
	signs    []string
	refuse   error // of each sign that a message waits
	standing func(adapters.Applicant) (adapters.Standing, error)
	fail     func(call string, m adapters.Outgoing) error // before a call has its effect
	lose     func(call string, m adapters.Outgoing) error // after it
	limit    int                                          // characters of a part; 0 = any
}

func newStage() *stage { return &stage{messages: map[string]adapters.Outgoing{}} }

func (s *stage) Platform() office.Platform { return office.Slack }

func (s *stage) Capabilities(office.Address) adapters.Capabilities { return s.can }

func (s *stage) Split(markdown string) []string {
	var parts []string
	for s.limit > 0 && len(markdown) > s.limit {
		parts, markdown = append(parts, markdown[:s.limit]), markdown[s.limit:]
	}
	return append(parts, markdown)
}

func (s *stage) around(call string, m adapters.Outgoing, do func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(call, m); err != nil {
			return err
		}
	}
	do()
	if s.lose != nil {
		return s.lose(call, m)
	}
	return nil
}

func (s *stage) Post(_ context.Context, m adapters.Outgoing) (id string, err error) {
	err = s.around("post", m, func() {
		s.count++
		id = fmt.Sprintf("p%d", s.count)
		s.messages[id] = m
		s.order = append(s.order, id)
	})
	return id, err
}

func (s *stage) Edit(_ context.Context, id string, m adapters.Outgoing) error {
	var gone error
	err := s.around("edit", m, func() {
		if _, there := s.messages[id]; !there {
			gone = fault.New(fault.NotFound, "no such message")
			return
		}
		s.messages[id] = m
		s.edits = append(s.edits, m.Markdown)
	})
	if gone != nil {
		return gone
	}
	return err
}

func (s *stage) Delete(_ context.Context, id string, m adapters.Outgoing) error {
	return s.around("delete", m, func() { delete(s.messages, id) })
}

func (s *stage) FindDelivery(_ context.Context, m adapters.Outgoing, _ time.Time) (string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, there := range s.messages {
		if there.Key == m.Key {
			return id, true, nil
		}
	}
	return "", false, nil
}

func (s *stage) Mark(_ context.Context, m adapters.Outgoing, mark adapters.Mark) error {
	err := s.sign("+" + string(mark) + " " + m.Cause)
	if mark == adapters.MarkQueued {
		err = s.refuse
	}
	return err
}

func (s *stage) Unmark(_ context.Context, m adapters.Outgoing, mark adapters.Mark) error {
	return s.sign("-" + string(mark) + " " + m.Cause)
}

func (s *stage) sign(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signs = append(s.signs, what)
	return nil
}

func (s *stage) Standing(_ context.Context, a adapters.Applicant) (adapters.Standing, error) {
	if s.standing == nil {
		return adapters.Unknown, fault.New(fault.Unavailable, "not scripted")
	}
	return s.standing(a)
}

// seen is what people see now, in the order it was posted.
func (s *stage) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var texts []string
	for _, id := range s.order {
		if m, there := s.messages[id]; there {
			texts = append(texts, m.Markdown)
		}
	}
	return texts
}

func (s *stage) signed(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sign := range s.signs {
		if strings.HasPrefix(sign, what) {
			return true
		}
	}
	return false
}

// onStage puts the pipelines on a scripted platform.
func onStage(t testing.TB) (*pipelines, *stage) {
	t.Helper()
	p, s := newPipelines(t), newStage()
	p.delivery.Outbounds[office.Slack] = s
	return p, s
}

// says makes a message in a shared channel.
func (p *pipelines) says(author, text string, why adapters.Reason) adapters.Message {
	p.Helper()
	m := p.message("C1", "C1", text)
	m.Address.Platform, m.Audience, m.Addressed = office.Slack, store.Shared, why
	m.Author.ID, m.Standing, m.Installation = author, adapters.Member, "T1"
	return m
}

func (p *pipelines) eventually(what string, true func() bool) {
	p.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if true() {
			return
		}
	}
	p.Errorf("it did not come true that %s", what)
}
