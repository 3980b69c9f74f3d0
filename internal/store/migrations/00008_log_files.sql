-- +goose Up
CREATE TABLE log_files (
    office_key text PRIMARY KEY REFERENCES offices (key) ON DELETE CASCADE,
    last_id    bigint NOT NULL,
    messages   bigint NOT NULL,
    bytes      bigint NOT NULL
);
COMMENT ON TABLE log_files IS 'How each office''s log.jsonl was left, so that it is continued without being read.';
COMMENT ON COLUMN log_files.office_key IS 'The office.';
COMMENT ON COLUMN log_files.last_id IS 'The newest row of the chat log that is in it.';
COMMENT ON COLUMN log_files.messages IS 'How many messages are in it. When the log has another number up to last_id, one was edited, deleted or recorded late.';
COMMENT ON COLUMN log_files.bytes IS 'Its length. A file of another length was touched by somebody else and is written anew.';

-- Counts a log up to a row without reading the rows.
CREATE INDEX chat_log_readable ON chat_log (office_key, id) WHERE newest AND NOT deleted;

-- +goose Down
DROP INDEX chat_log_readable;
DROP TABLE log_files;
