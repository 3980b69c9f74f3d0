package store

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/text"
)

// PrincipalKind tells what an access rule is about.
type PrincipalKind string

// The kinds of principal.
const (
	PrincipalUser       PrincipalKind = "user"
	PrincipalGroup      PrincipalKind = "group"
	PrincipalWorkspace  PrincipalKind = "workspace"
	PrincipalGuild      PrincipalKind = "guild"
	PrincipalRole       PrincipalKind = "role"
	PrincipalChat       PrincipalKind = "chat"
	PrincipalRepository PrincipalKind = "repository"
)

// PrincipalKinds lists them all.
func PrincipalKinds() []PrincipalKind {
	return []PrincipalKind{
		PrincipalUser, PrincipalGroup, PrincipalWorkspace, PrincipalGuild, PrincipalRole, PrincipalChat, PrincipalRepository,
	}
}

// Effect of an access rule.
type Effect string

// The effects.
const (
	Allow Effect = "allow"
	Deny  Effect = "deny"
)

// AccessRule tells that somebody, or all who belong to something, may or may not talk to mikan on one platform.
type AccessRule struct {
	Platform  string        `json:"platform"`
	Kind      PrincipalKind `json:"kind"`
	Principal string        `json:"principal"`
	Effect    Effect        `json:"effect"`
	Note      string        `json:"note,omitempty"`
	CreatedAt time.Time     `json:"created_at"`
}

// SetAccess makes a rule, in place of the one about the same principal.
func (s *Store) SetAccess(ctx context.Context, r AccessRule) error {
	_, err := s.exec(ctx, "access", `
		INSERT INTO access_rules (platform, kind, principal, effect, note) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (platform, kind, principal) DO UPDATE SET effect = excluded.effect, note = excluded.note, created_at = clock_timestamp()`,
		r.Platform, r.Kind, r.Principal, r.Effect, text.Storable(r.Note))
	return translate(err)
}

// UnsetAccess removes a rule; not_found when there is none.
func (s *Store) UnsetAccess(ctx context.Context, platform string, kind PrincipalKind, principal string) error {
	tag, err := s.exec(ctx, "access", `DELETE FROM access_rules WHERE platform = $1 AND kind = $2 AND principal = $3`, platform, kind, principal)
	if err == nil && tag.RowsAffected() == 0 {
		return fault.New(fault.NotFound, "there is no rule about %s %s on %s", kind, principal, platform)
	}
	return translate(err)
}

// AccessRules lists the rules of a platform, or of all when it is empty.
func (s *Store) AccessRules(ctx context.Context, platform string) ([]AccessRule, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT platform, kind, principal, effect, note, created_at FROM access_rules
		WHERE $1 = '' OR platform = $1 ORDER BY platform, kind, principal`, platform)
	if err != nil {
		return nil, translate(err)
	}
	rules, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AccessRule])
	return rules, translate(err)
}

// Person is what a platform has told about somebody.
type Person struct {
	Platform     string
	Installation string
	ID           string
	Handle       string
	Name         string
	Standing     string // member, stranger or unknown, as the adapters say
	Bot          bool
	KnownAt      time.Time
}

const personColumns = `platform, installation, id, handle, name, standing, bot, known_at`

// KeepPeople remembers what a platform told, in place of what was known before.
func (s *Store) KeepPeople(ctx context.Context, people ...Person) error {
	batch := &pgx.Batch{}
	for _, p := range people {
		if p.Standing == "" {
			p.Standing = "unknown"
		}
		batch.Queue(`
			INSERT INTO people (platform, installation, id, handle, name, standing, bot) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (platform, installation, id) DO UPDATE SET handle = excluded.handle, name = excluded.name,
				standing = excluded.standing, bot = excluded.bot, known_at = clock_timestamp()`,
			p.Platform, p.Installation, p.ID, text.Storable(p.Handle), text.Storable(p.Name), p.Standing, p.Bot)
	}
	failpoint.Hit("people.commit.before")
	err := s.pool.SendBatch(ctx, batch).Close()
	failpoint.Hit("people.commit.after")
	return translate(err)
}

// Person finds what is known of somebody; false when nothing is.
func (s *Store) Person(ctx context.Context, platform, installation, id string) (Person, bool, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+personColumns+` FROM people WHERE platform = $1 AND installation = $2 AND id = $3`, platform, installation, id)
	if err != nil {
		return Person{}, false, translate(err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Person])
	ok, err := found(err)
	return p, ok, err
}

// PeopleNamed finds who is meant by names, in any case: by handle before by name. A name that several people have means
// nobody. The result is keyed by the lower-case name.
func (s *Store) PeopleNamed(ctx context.Context, platform, installation string, names []string) (map[string]Person, error) {
	lower := make([]string, len(names))
	for i, n := range names {
		lower[i] = strings.ToLower(n)
	}
	rows, err := s.pool.Query(ctx, `
		SELECT `+personColumns+` FROM people
		WHERE platform = $1 AND installation = $2 AND (lower(handle) = ANY ($3) OR lower(name) = ANY ($3)) LIMIT 1000`,
		platform, installation, lower)
	if err != nil {
		return nil, translate(err)
	}
	people, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Person])
	if err != nil {
		return nil, translate(err)
	}
	return meant(lower, people), nil
}

func meant(names []string, people []Person) map[string]Person {
	byName := map[string]Person{}
	for _, spelled := range []func(Person) string{
		func(p Person) string { return p.Handle },
		func(p Person) string { return p.Name },
	} {
		for _, name := range names {
			if _, known := byName[name]; known {
				continue
			}
			var hits []Person
			for _, p := range people {
				if strings.ToLower(spelled(p)) == name {
					hits = append(hits, p)
				}
			}
			if len(hits) == 1 {
				byName[name] = hits[0]
			}
		}
	}
	return byName
}
