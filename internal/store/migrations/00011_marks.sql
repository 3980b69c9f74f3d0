-- +goose Up
ALTER TABLE inbox ADD COLUMN marked boolean NOT NULL DEFAULT false;
ALTER TABLE runs ADD COLUMN marked boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN inbox.marked IS 'The message carries a sign that it waits.';
COMMENT ON COLUMN runs.marked IS 'The message carried a sign that it waits, which the run takes off.';

-- +goose Down
ALTER TABLE runs DROP COLUMN marked;
ALTER TABLE inbox DROP COLUMN marked;
