package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
)

// LinkLifetime is how long a link to the session view is in force unless it is revoked.
const LinkLifetime = 24 * time.Hour

// linkTokenBytes of randomness make a token: guessing one is hopeless, so guesses need no counting.
const linkTokenBytes = 32

// LinkToken is the bearer's secret part of a link to the session view. It prints as "[link token]"; the value comes
// out by Reveal only, for the one reader it is meant for.
type LinkToken struct{ value string }

// Reveal returns the token as it stands in the link.
func (t LinkToken) Reveal() string { return t.value }

// String hides the token from logs and error texts.
func (LinkToken) String() string { return "[link token]" }

// GoString hides the token from %#v.
func (LinkToken) GoString() string { return "[link token]" }

// LinkHash is what is kept of a token, and what a request's token is looked up by: whoever measures how long a lookup
// takes learns about hashes, not about tokens.
type LinkHash [sha256.Size]byte

// HashLink hashes a token as it came in. Any text is a token; most are of no link.
func HashLink(token string) LinkHash { return sha256.Sum256([]byte(token)) }

// CreateLink makes a link that opens a session, and forgets the links that have expired. The token is returned once
// and kept nowhere. Errors: not_found when there is no such session.
func (s *Store) CreateLink(ctx context.Context, sessionID string, lifetime time.Duration) (LinkToken, time.Time, error) {
	raw := make([]byte, linkTokenBytes)
	_, _ = rand.Read(raw) // never fails: crypto/rand ends the process instead
	token := LinkToken{base64.RawURLEncoding.EncodeToString(raw)}
	hash := HashLink(token.value)
	var expires time.Time
	err := s.tx(ctx, "link", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM view_links WHERE expires_at <= clock_timestamp()`); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `
			INSERT INTO view_links (token_hash, office_key, session_id, expires_at)
			SELECT $1, office_key, id, clock_timestamp() + make_interval(secs => $3) FROM sessions WHERE id = $2
			RETURNING expires_at`, hash[:], sessionID, lifetime.Seconds()).Scan(&expires)
		if ok, err := found(err); !ok && err == nil {
			return fault.New(fault.NotFound, "there is no session %s", sessionID)
		}
		return err
	})
	if err != nil {
		return LinkToken{}, time.Time{}, err
	}
	return token, expires, nil
}

// Link is a link to the session view that is in force.
type Link struct {
	OfficeKey string
	SessionID string
	ExpiresAt time.Time
}

// Link finds the link of a token; false when it never was, has expired, was revoked, or its office is gone: nobody can
// tell these apart.
func (s *Store) Link(ctx context.Context, hash LinkHash) (Link, bool, error) {
	var l Link
	err := s.pool.QueryRow(ctx, `
		SELECT office_key, session_id, expires_at FROM view_links
		WHERE token_hash = $1 AND expires_at > clock_timestamp()`, hash[:]).Scan(&l.OfficeKey, &l.SessionID, &l.ExpiresAt)
	ok, err := found(err)
	return l, ok, err
}

// RevokeLinks ends all links that open a session, and tells how many were in force.
func (s *Store) RevokeLinks(ctx context.Context, sessionID string) (int64, error) {
	var live int64
	err := s.execRow(ctx, "revoke", `
		WITH gone AS (DELETE FROM view_links WHERE session_id = $1 RETURNING expires_at)
		SELECT count(*) FROM gone WHERE expires_at > clock_timestamp()`, []any{sessionID}, &live)
	return live, translate(err)
}
