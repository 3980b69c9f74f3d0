package activities

import (
	"context"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/store"
)

// Schedules starts the runs of scheduled tasks.
type Schedules struct {
	Store *store.Store
	Waker adapters.Waker
}

// FireInput names a firing: a task and when it was due.
type FireInput struct {
	ScheduleID string    `json:"schedule"`
	Due        time.Time `json:"due"`
}

// Fired is the run that a firing caused; RunID is empty when the task is paused, ended or gone.
type Fired struct {
	RunID string `json:"run,omitempty"`
}

// Fire puts the task's trigger into the inbox and wakes its session. It may be repeated.
func (s *Schedules) Fire(ctx context.Context, in FireInput) (Fired, error) {
	at, runID, fired, err := s.Store.FireSchedule(ctx, in.ScheduleID, in.Due)
	if err != nil {
		return Fired{}, toTemporal(err, in.ScheduleID)
	}
	if !fired {
		return Fired{}, nil
	}
	// Were this lost, the sweeper would wake the session.
	return Fired{RunID: runID}, toTemporal(s.Waker.Wake(ctx, at.OfficeKey, at.SessionKey), in.ScheduleID)
}

// RunIsSettled tells whether a scheduled run is over.
func (s *Schedules) RunIsSettled(ctx context.Context, runID string) (bool, error) {
	settled, err := s.Store.RunSettled(ctx, runID)
	return settled, toTemporal(err, runID)
}
