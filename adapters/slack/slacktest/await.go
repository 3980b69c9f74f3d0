package slacktest

import (
	"context"
	"fmt"
)

// tell wakes everybody in Await. Lock held.
func (s *Server) tell() {
	close(s.changes)
	s.changes = make(chan struct{})
}

// Await returns nil once the condition holds. It is asked again after each call that was served and each delivery that
// was acknowledged or given up; it may call the server's methods.
func (s *Server) Await(ctx context.Context, holds func() bool) error {
	for {
		s.mu.Lock()
		changes := s.changes
		s.mu.Unlock()
		if holds() {
			return nil
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return fmt.Errorf("slacktest: the condition does not hold: %w", ctx.Err())
		}
	}
}

// Settled returns nil once every delivery so far is acknowledged or given up.
func (s *Server) Settled(ctx context.Context) error {
	s.mu.Lock()
	all := append([]*delivery(nil), s.deliveries...)
	s.mu.Unlock()
	for _, d := range all {
		select {
		case <-d.settled:
		case <-ctx.Done():
			return fmt.Errorf("slacktest: %s %s is not settled: %w", d.name, d.id, ctx.Err())
		}
	}
	return nil
}
