package store

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
)

// Audience tells who can read a conversation.
type Audience string

// The audiences.
const (
	Private Audience = "private"
	Shared  Audience = "shared"
)

// Office is a conversation's persistent home.
type Office struct {
	Key            string    `json:"key"`
	Platform       string    `json:"platform"`
	ConversationID string    `json:"conversation_id"`
	Audience       Audience  `json:"audience"`
	Name           string    `json:"name"`
	RepoOwner      string    `json:"repo_owner,omitempty"`
	RepoName       string    `json:"repo_name,omitempty"`
	IssueNumber    int64     `json:"issue_number,omitempty"`
	CreatedAt      time.Time `json:"created_at"`
}

const officeColumns = `key, platform, conversation_id, audience, name, coalesce(repo_owner, ''), coalesce(repo_name, ''), coalesce(issue_number, 0), created_at`

func scanOffice(row pgx.Row) (Office, error) {
	var o Office
	err := row.Scan(&o.Key, &o.Platform, &o.ConversationID, &o.Audience, &o.Name, &o.RepoOwner, &o.RepoName, &o.IssueNumber, &o.CreatedAt)
	return o, err
}

// Office finds an office by key; not_found when there is none.
func (s *Store) Office(ctx context.Context, key string) (Office, error) {
	o, err := scanOffice(s.pool.QueryRow(ctx, `SELECT `+officeColumns+` FROM offices WHERE key = $1`, key))
	if ok, err := found(err); !ok {
		if err != nil {
			return Office{}, err
		}
		return Office{}, fault.New(fault.NotFound, "there is no office %s", key)
	}
	return o, nil
}

// Home is where an office is. The key is derived from it, so it never changes.
type Home struct {
	Platform       string
	ConversationID string
}

// homes remembers some homes: every step of a run asks for its own.
type homes struct {
	mu    sync.Mutex
	known map[string]Home
}

const maxHomes = 10_000 // about 2 MB

func (h *homes) get(key string) (Home, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	home, known := h.known[key]
	return home, known
}

func (h *homes) put(key string, home Home) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil || len(h.known) >= maxHomes {
		h.known = map[string]Home{}
	}
	h.known[key] = home
}

// Home tells where an office is; not_found when there is none.
func (s *Store) Home(ctx context.Context, key string) (Home, error) {
	if home, known := s.homes.get(key); known {
		return home, nil
	}
	o, err := s.Office(ctx, key)
	if err != nil {
		return Home{}, err
	}
	home := Home{Platform: o.Platform, ConversationID: o.ConversationID}
	s.homes.put(key, home)
	return home, nil
}

// Offices lists all offices, newest first.
func (s *Store) Offices(ctx context.Context, limit int) ([]Office, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+officeColumns+` FROM offices ORDER BY created_at DESC, key LIMIT $1`, limit)
	if err != nil {
		return nil, translate(err)
	}
	offices, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Office, error) { return scanOffice(row) })
	return offices, translate(err)
}

// ensureOffice creates the office at its first message. A second GitHub repository that would share the id is refused:
// "GH_a_b_c_1" is both a/b_c and a_b/c.
func ensureOffice(ctx context.Context, tx pgx.Tx, o Office) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO offices (key, platform, conversation_id, audience, name, repo_owner, repo_name, issue_number)
		VALUES ($1, $2, $3, $4, $5, nullif($6, ''), nullif($7, ''), nullif($8::bigint, 0))
		ON CONFLICT (key) DO NOTHING`,
		o.Key, o.Platform, o.ConversationID, o.Audience, o.Name, o.RepoOwner, o.RepoName, o.IssueNumber)
	if err != nil || o.RepoOwner == "" {
		return err
	}
	owner, name, err := repositoryOf(ctx, tx, o)
	if errors.Is(err, pgx.ErrNoRows) {
		// The office was there and is gone: the only message it held was refused meanwhile.
		return ensureOffice(ctx, tx, o)
	}
	if err != nil {
		return err
	}
	if owner != o.RepoOwner || name != o.RepoName {
		return fault.New(fault.Conflict, "%s already belongs to %s/%s; %s/%s would share it, so its events are refused",
			o.ConversationID, owner, name, o.RepoOwner, o.RepoName)
	}
	return nil
}

// repositoryOf is the repository that an office is of; the first that is named becomes it. It locks the office.
func repositoryOf(ctx context.Context, tx pgx.Tx, o Office) (owner, name string, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE offices SET repo_owner = coalesce(repo_owner, $2), repo_name = coalesce(repo_name, $3), issue_number = coalesce(issue_number, $4)
		WHERE key = $1 RETURNING repo_owner, repo_name`, o.Key, o.RepoOwner, o.RepoName, o.IssueNumber).Scan(&owner, &name)
	return owner, name, err
}

// Installation is the settings scope that holds where an office says nothing.
const Installation = "installation"

// Settings lists what is set in one scope.
func (s *Store) Settings(ctx context.Context, scope string) (map[string]json.RawMessage, error) {
	rows, err := s.pool.Query(ctx, `SELECT name, value FROM settings WHERE scope = $1 ORDER BY name`, scope)
	if err != nil {
		return nil, translate(err)
	}
	settings := map[string]json.RawMessage{}
	var name string
	var value []byte
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		settings[name] = append(json.RawMessage(nil), value...)
		return nil
	})
	return settings, translate(err)
}

// SettingsOf reads what is set for the installation and for one office.
func (s *Store) SettingsOf(ctx context.Context, officeKey string) (installation, office map[string]json.RawMessage, err error) {
	rows, err := s.pool.Query(ctx, `SELECT scope, name, value FROM settings WHERE scope IN ('installation', $1)`, officeKey)
	if err != nil {
		return nil, nil, translate(err)
	}
	installation, office = map[string]json.RawMessage{}, map[string]json.RawMessage{}
	var scope, name string
	var value []byte
	_, err = pgx.ForEachRow(rows, []any{&scope, &name, &value}, func() error {
		into := office
		if scope == Installation {
			into = installation
		}
		into[name] = append(json.RawMessage(nil), value...)
		return nil
	})
	return installation, office, translate(err)
}

// SetSetting sets one setting; a nil value removes it.
func (s *Store) SetSetting(ctx context.Context, scope, name string, value any) error {
	if value == nil {
		_, err := s.exec(ctx, "setting", `DELETE FROM settings WHERE scope = $1 AND name = $2`, scope, name)
		return translate(err)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "the value of %s cannot be stored", name)
	}
	_, err = s.exec(ctx, "setting", `
		INSERT INTO settings (scope, name, value) VALUES ($1, $2, $3)
		ON CONFLICT (scope, name) DO UPDATE SET value = excluded.value, updated_at = now()`, scope, name, raw)
	return translate(err)
}
