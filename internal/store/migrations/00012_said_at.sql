-- +goose Up
ALTER TABLE inbox ADD COLUMN said_at timestamptz;
COMMENT ON COLUMN inbox.said_at IS 'When the message was said, by its platform: runs of a session follow it, since events that come at once may come in another order. Empty: by arrival.';

-- +goose Down
ALTER TABLE inbox DROP COLUMN said_at;
