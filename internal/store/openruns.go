package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

// OpenRun is a run that is going on, as somebody sees it who asked for it.
type OpenRun struct {
	ID             string
	OfficeName     string
	ConversationID string
	SessionKey     string
	Asked          string // the trigger's text
	Slot           string // of the step that began last; empty before the first
	Reply          json.RawMessage
	StartedAt      time.Time
}

// OpenRunsOf lists the open runs that somebody's messages on a platform began, newest first.
func (s *Store) OpenRunsOf(ctx context.Context, platform, authorID string, limit int) ([]OpenRun, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT r.id, o.name, o.conversation_id, r.session_key, c.text,
			coalesce((SELECT slot FROM run_steps WHERE run_id = r.id ORDER BY started_at DESC LIMIT 1), ''), r.reply, r.started_at
		FROM runs r
		JOIN offices o ON o.key = r.office_key
		JOIN chat_log c ON c.office_key = r.office_key AND c.message_id = r.trigger_message_id AND c.newest
		WHERE r.state = 'running' AND o.platform = $1 AND c.author_id = $2
		ORDER BY r.started_at DESC LIMIT $3`, platform, authorID, limit)
	if err != nil {
		return nil, translate(err)
	}
	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[OpenRun])
	return open, translate(err)
}

// SchedulesOf lists the schedules that somebody made on a platform and that fire, oldest first.
func (s *Store) SchedulesOf(ctx context.Context, platform, authorID string, limit int) ([]Schedule, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+scheduleColumns+` FROM schedules
		WHERE author_id = $2 AND state = 'active' AND office_key IN (SELECT key FROM offices WHERE platform = $1)
		ORDER BY created_at, id LIMIT $3`, platform, authorID, limit)
	return collect(rows, err, scanSchedule)
}
