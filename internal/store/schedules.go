package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/text"
)

// ScheduleKind tells when a scheduled task is due.
type ScheduleKind string

// The kinds of schedule.
const (
	ScheduleOnce ScheduleKind = "once"
	ScheduleCron ScheduleKind = "cron"
)

// ScheduleState tells whether a scheduled task fires.
type ScheduleState string

// The states of a schedule.
const (
	ScheduleActive ScheduleState = "active"
	SchedulePaused ScheduleState = "paused"
	ScheduleEnded  ScheduleState = "ended" // done once, or deleted
)

// Schedule is a task that mikan starts by itself.
type Schedule struct {
	ID        string        `json:"id"`
	OfficeKey string        `json:"office_key"`
	Kind      ScheduleKind  `json:"kind"`
	Cron      string        `json:"cron,omitempty"`
	Zone      string        `json:"zone"`
	At        *time.Time    `json:"at,omitempty"`
	Text      string        `json:"text"`
	AuthorID  string        `json:"author_id,omitempty"`
	Source    string        `json:"source,omitempty"`
	State     ScheduleState `json:"state"`
	Revision  int           `json:"revision"`
	Placed    int           `json:"placed"`
	CreatedAt time.Time     `json:"created_at"`
}

const scheduleColumns = `id, office_key, kind, cron, zone, once_at, text, author_id, source, state, revision, placed, created_at`

func scanSchedule(row pgx.CollectableRow) (Schedule, error) {
	var s Schedule
	err := row.Scan(&s.ID, &s.OfficeKey, &s.Kind, &s.Cron, &s.Zone, &s.At, &s.Text, &s.AuthorID, &s.Source, &s.State, &s.Revision, &s.Placed, &s.CreatedAt)
	return s, err
}

// ImportSchedule makes a schedule of an imported event.
func (s *Store) ImportSchedule(ctx context.Context, file ImportFile, made Schedule) error {
	return s.tx(ctx, "import_schedule", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO schedules (id, office_key, kind, cron, zone, once_at, text, author_id, source, state, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`,
			made.ID, made.OfficeKey, made.Kind, made.Cron, made.Zone, made.At, text.Storable(made.Text), made.AuthorID, made.Source, made.State, made.CreatedAt)
		if err != nil {
			return err
		}
		return noteFile(ctx, tx, file)
	})
}

// Schedules lists schedules, oldest first: those of one office, or of all with "". Ended ones are left out.
func (s *Store) Schedules(ctx context.Context, officeKey string) ([]Schedule, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+scheduleColumns+` FROM schedules WHERE state <> 'ended' AND ($1 = '' OR office_key = $1)
		ORDER BY created_at, id`, officeKey)
	return collect(rows, err, scanSchedule)
}

// Schedule finds a schedule; not_found when there is none.
func (s *Store) Schedule(ctx context.Context, id string) (Schedule, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+scheduleColumns+` FROM schedules WHERE id = $1`, id)
	all, err := collect(rows, err, scanSchedule)
	if err != nil {
		return Schedule{}, err
	}
	if len(all) == 0 {
		return Schedule{}, fault.New(fault.NotFound, "there is no schedule %s", id)
	}
	return all[0], nil
}

// SetScheduleState changes whether a schedule fires; conflict when it has ended.
func (s *Store) SetScheduleState(ctx context.Context, id string, state ScheduleState) (Schedule, error) {
	if _, err := s.Schedule(ctx, id); err != nil {
		return Schedule{}, err
	}
	tag, err := s.exec(ctx, "schedule", `
		UPDATE schedules SET state = $2, revision = revision + CASE WHEN state = $2 THEN 0 ELSE 1 END
		WHERE id = $1 AND (state <> 'ended' OR $2 = 'ended')`, id, state)
	if err != nil {
		return Schedule{}, translate(err)
	}
	if tag.RowsAffected() == 0 {
		return Schedule{}, fault.New(fault.Conflict, "the schedule %s has ended", id)
	}
	return s.Schedule(ctx, id)
}
