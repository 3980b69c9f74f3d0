package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/session"
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

// UnplacedSchedules lists schedules of which Temporal does not know the newest revision, those that ended included.
func (s *Store) UnplacedSchedules(ctx context.Context, limit int) ([]Schedule, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+scheduleColumns+` FROM schedules WHERE placed < revision ORDER BY id LIMIT $1`, limit)
	return collect(rows, err, scanSchedule)
}

// SchedulePlaced notes that Temporal knows a schedule's revision.
func (s *Store) SchedulePlaced(ctx context.Context, id string, revision int) error {
	_, err := s.exec(ctx, "schedule", `UPDATE schedules SET placed = greatest(placed, $2) WHERE id = $1`, id, revision)
	return translate(err)
}

// OverdueSchedules lists tasks to be done once whose moment passed at least a grace ago: Temporal lost them.
func (s *Store) OverdueSchedules(ctx context.Context, grace time.Duration, limit int) ([]Schedule, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+scheduleColumns+` FROM schedules
		WHERE state = 'active' AND kind = 'once' AND once_at < clock_timestamp() - make_interval(secs => $1) ORDER BY once_at LIMIT $2`,
		grace.Seconds(), limit)
	return collect(rows, err, scanSchedule)
}

// scheduledAuthor is who speaks where nobody does: a scheduled task's trigger.
const scheduledAuthor = "schedule"

// FireSchedule makes a scheduled task's trigger wait in the inbox, in a session of its own that starts empty. The
// message's id is made of the schedule and the moment at which it was due: repeated, it changes nothing. It returns the
// session's address and the id of the run that the trigger becomes; false when the task did not fire: paused, ended or gone.
func (s *Store) FireSchedule(ctx context.Context, id string, due time.Time) (at Address, runID string, fired bool, err error) {
	err = s.tx(ctx, "fire_schedule", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+scheduleColumns+` FROM schedules WHERE id = $1 FOR UPDATE`, id)
		all, err := collect(rows, err, scanSchedule)
		if err != nil || len(all) == 0 {
			return err
		}
		task := all[0]
		o, err := scanOffice(tx.QueryRow(ctx, `SELECT `+officeColumns+` FROM offices WHERE key = $1`, task.OfficeKey))
		if err != nil {
			return err
		}
		message := fmt.Sprintf("%s:%s:%d", scheduledAuthor, id, due.Unix())
		key, err := session.MakeKey(o.ConversationID, message)
		if err != nil {
			return fault.Wrap(fault.Invalid, err, "the schedule's session key is refused")
		}
		at, runID = Address{OfficeKey: task.OfficeKey, SessionKey: string(key)}, run.ID(task.OfficeKey, string(key), message, 1)
		if err := fireOnce(ctx, tx, task, at, message, due); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM chat_log WHERE office_key = $1 AND message_id = $2)`, task.OfficeKey, message).Scan(&fired)
	})
	return at, runID, fired, err
}

// fireOnce logs the trigger and queues it, unless that was done before or the task does not fire.
func fireOnce(ctx context.Context, tx pgx.Tx, task Schedule, at Address, message string, due time.Time) error {
	if task.State != ScheduleActive {
		return nil
	}
	logged, err := logChat(ctx, tx, ChatMessage{
		OfficeKey: task.OfficeKey, MessageID: message, SessionKey: at.SessionKey, AuthorID: scheduledAuthor, AuthorName: scheduledAuthor,
		AuthorKind: AuthorHuman, Kind: ChatMessageKind, Text: triggerText(task), SentAt: due,
	})
	if err != nil || !logged {
		return err
	}
	row := &InboxRow{OfficeKey: task.OfficeKey, SessionKey: at.SessionKey, Kind: InboxTrigger, Trigger: run.Scheduled, MessageID: message}
	if err := queue(ctx, tx, row, nil, due); err != nil {
		return err
	}
	if task.Kind == ScheduleOnce {
		_, err = tx.Exec(ctx, `UPDATE schedules SET state = 'ended' WHERE id = $1`, task.ID)
	}
	return err
}

// triggerText is what the model reads when a task is due.
func triggerText(task Schedule) string {
	if task.Kind == ScheduleOnce {
		return "This was scheduled for now. Do it, or say it, at once and without a greeting.\n\n" + task.Text
	}
	return "This is a task that recurs. Do it now. When there is nothing to report, answer with exactly [SILENT].\n\n" + task.Text
}

// RunSettled tells whether a run that was caused is over; false also while its trigger still waits.
func (s *Store) RunSettled(ctx context.Context, id string) (bool, error) {
	var settled bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM runs WHERE id = $1 AND state = 'settled')`, id).Scan(&settled)
	return settled, translate(err)
}
