package store

import (
	"context"
	"strings"

	"github.com/geminixiang/mikan/internal/fault"
)

// shortestPrefix is how much of a session's id must be given. Shorter ones would name another session tomorrow.
const shortestPrefix = 8

// OfficeSession finds a session of one office by its id or a prefix of at least 8 characters. A session of another
// office is not found.
func (s *Store) OfficeSession(ctx context.Context, officeKey, idOrPrefix string) (Session, error) {
	if len(idOrPrefix) < shortestPrefix {
		return Session{}, fault.New(fault.Invalid, "%q is too short for a session id; give at least %d characters", idOrPrefix, shortestPrefix)
	}
	rows, err := s.pool.Query(ctx, `
		SELECT `+sessionColumns+` FROM sessions WHERE office_key = $1 AND starts_with(id, $2)
		ORDER BY (id = $2) DESC, updated_at DESC, id LIMIT 3`, officeKey, idOrPrefix)
	sessions, err := collect(rows, err, scanCollectedSession)
	switch {
	case err != nil:
		return Session{}, err
	case len(sessions) == 0:
		return Session{}, fault.New(fault.NotFound, "this conversation has no session %s", idOrPrefix)
	case len(sessions) > 1 && sessions[0].ID != idOrPrefix:
		var ids []string
		for _, session := range sessions {
			ids = append(ids, session.ID)
		}
		return Session{}, fault.New(fault.Invalid, "several sessions begin with %s (%s …); give more of the id", idOrPrefix, strings.Join(ids, ", "))
	}
	return sessions[0], nil
}

// ReadSession returns a page of the entries that a session owns, oldest first, and whether there are older ones.
// Resets and compactions hide nothing here.
func (s *Store) ReadSession(ctx context.Context, session Session, page Page) (entries []Remembered, more bool, err error) {
	last := session.NextSeq - 1 - int64(page.Skip)
	rows, err := s.pool.Query(ctx, `
		SELECT id FROM entries WHERE session_id = $1 AND seq <= $2 ORDER BY seq DESC LIMIT $3`, session.ID, last, page.Limit+1)
	ids, err := collect(rows, err, scanID)
	if err != nil {
		return nil, false, err
	}
	if more = len(ids) > page.Limit; more {
		ids = ids[:page.Limit]
	}
	reverse(ids)
	err = rememberedByID(ctx, s.pool, ids, func(_ int64, r Remembered) error {
		entries = append(entries, r)
		return nil
	})
	return entries, more, translate(err)
}

// ReadChat returns a page of an office's chat log as it reads now, oldest first, and whether there are older messages.
func (s *Store) ReadChat(ctx context.Context, officeKey string, page Page) (messages []ChatMessage, more bool, err error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+chatColumns+` FROM chat_log WHERE office_key = $1 AND newest AND NOT deleted
		ORDER BY sent_at DESC, id DESC LIMIT $2 OFFSET $3`, officeKey, page.Limit+1, page.Skip)
	messages, err = collect(rows, err, scanCollectedChat)
	if err != nil {
		return nil, false, err
	}
	if more = len(messages) > page.Limit; more {
		messages = messages[:page.Limit]
	}
	reverse(messages)
	return messages, more, nil
}
