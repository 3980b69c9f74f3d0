-- +goose Up
-- What a run has recalled is read while it is open. Whatever settles it forgets it from now on.
UPDATE runs SET memory = NULL WHERE state = 'settled' AND memory IS NOT NULL;
COMMENT ON COLUMN runs.memory IS 'MEMORY.md of office and workspace as read for this run: stable over its steps, forgotten when it settles.';

-- Finds revisions that nobody reads any more without looking at the others.
CREATE INDEX chat_log_superseded ON chat_log (id) WHERE NOT newest;

-- +goose Down
DROP INDEX chat_log_superseded;
