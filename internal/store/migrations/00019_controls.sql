-- +goose Up
CREATE INDEX inbox_controls ON inbox (id) WHERE kind = 'control' AND state = 'waiting';
COMMENT ON INDEX inbox_controls IS 'Words that nobody has carried out: each sweeper looks for them every second, however many triggers wait.';

-- +goose Down
DROP INDEX inbox_controls;
