-- +goose Up
CREATE INDEX runs_signed ON runs (checked_at) WHERE marked AND state = 'settled';
COMMENT ON INDEX runs_signed IS 'Runs that have ended and whose messages still carry the sign that they wait: each sweeper looks for them every few seconds.';

-- +goose Down
DROP INDEX runs_signed;
