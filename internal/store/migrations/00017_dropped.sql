-- +goose Up
ALTER TABLE inbox ADD COLUMN dropped jsonb;
COMMENT ON COLUMN inbox.dropped IS 'Of the word that empties a queue: the rows that it has dropped, so that carried out again it says and unmarks the same. Null before it has.';

-- +goose Down
ALTER TABLE inbox DROP COLUMN dropped;
