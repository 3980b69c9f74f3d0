package store

import "context"

// Alias records that a conversation has got another id. Where the old id is an alias itself, the new one belongs to the
// first. It may be repeated.
func (s *Store) Alias(ctx context.Context, platform, from, to string) error {
	_, err := s.exec(ctx, "alias", `
		INSERT INTO conversation_aliases (platform, alias, conversation_id)
		VALUES ($1, $3, coalesce((SELECT conversation_id FROM conversation_aliases WHERE platform = $1 AND alias = $2), $2))
		ON CONFLICT (platform, alias) DO NOTHING`, platform, from, to)
	return translate(err)
}

// FirstID is the first id of a conversation: the id itself unless it is an alias.
func (s *Store) FirstID(ctx context.Context, platform, id string) (string, error) {
	first := id
	err := s.pool.QueryRow(ctx, `SELECT conversation_id FROM conversation_aliases WHERE platform = $1 AND alias = $2`, platform, id).Scan(&first)
	_, err = found(err)
	return first, err
}

// NewestID is the id by which the platform knows the conversation of the given first id now.
func (s *Store) NewestID(ctx context.Context, platform, first string) (string, error) {
	newest := first
	err := s.pool.QueryRow(ctx, `
		SELECT alias FROM conversation_aliases WHERE platform = $1 AND conversation_id = $2
		ORDER BY created_at DESC LIMIT 1`, platform, first).Scan(&newest)
	_, err = found(err)
	return newest, err
}
