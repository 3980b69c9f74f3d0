-- +goose Up
CREATE TABLE view_links (
    token_hash bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    office_key text NOT NULL REFERENCES offices (key) ON DELETE CASCADE,
    session_id text NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX view_links_session ON view_links (session_id);
CREATE INDEX view_links_expiry ON view_links (expires_at);
COMMENT ON TABLE view_links IS 'Links to the session view that are in force. A revoked link has no row.';
COMMENT ON COLUMN view_links.token_hash IS 'SHA-256 of the token; the token itself is kept nowhere.';
COMMENT ON COLUMN view_links.office_key IS 'The office whose sessions it shows.';
COMMENT ON COLUMN view_links.session_id IS 'The session that it opens. A reset or a fork of it leaves the link in force.';
COMMENT ON COLUMN view_links.created_at IS 'When it was given out.';
COMMENT ON COLUMN view_links.expires_at IS 'When it ends by itself, by the database''s clock.';

-- +goose Down
DROP TABLE view_links;
