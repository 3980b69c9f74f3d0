-- +goose Up
CREATE TABLE entry_search (
    entry_id   bigint PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
    office_key text NOT NULL,
    at         timestamptz NOT NULL,
    keys       smallint[] NOT NULL
);
-- Hashes cannot be compressed: no attempt at it where there are many.
ALTER TABLE entry_search ALTER COLUMN keys SET STORAGE EXTERNAL;
CREATE INDEX entry_search_keys ON entry_search USING gin (keys) WITH (gin_pending_list_limit = 8192);
CREATE INDEX entry_search_recent ON entry_search (office_key, at DESC, entry_id DESC);
COMMENT ON TABLE entry_search IS 'What history search looks through: one row per entry that can match. Filled from entry_unsearched, in the background.';
COMMENT ON COLUMN entry_search.entry_id IS 'The entry.';
COMMENT ON COLUMN entry_search.office_key IS 'The office of its session.';
COMMENT ON COLUMN entry_search.at IS 'The time of the entry: results are newest first.';
COMMENT ON COLUMN entry_search.keys IS 'Hashes of its text''s neighbouring characters and of its place; see package search.';

CREATE TABLE entry_unsearched (
    office_key text NOT NULL,
    entry_id   bigint NOT NULL,
    PRIMARY KEY (office_key, entry_id)
);
COMMENT ON TABLE entry_unsearched IS 'Entries that entry_search does not have yet. A search looks through them one by one.';
COMMENT ON COLUMN entry_unsearched.office_key IS 'The office of its session.';
COMMENT ON COLUMN entry_unsearched.entry_id IS 'The entry.';

CREATE TABLE chat_search (
    chat_id    bigint PRIMARY KEY REFERENCES chat_log (id) ON DELETE CASCADE,
    office_key text NOT NULL,
    at         timestamptz NOT NULL,
    keys       smallint[] NOT NULL
);
ALTER TABLE chat_search ALTER COLUMN keys SET STORAGE EXTERNAL;
CREATE INDEX chat_search_keys ON chat_search USING gin (keys) WITH (gin_pending_list_limit = 8192);
CREATE INDEX chat_search_recent ON chat_search (office_key, at DESC, chat_id DESC);
COMMENT ON TABLE chat_search IS 'entry_search for the chat log. Rows of revisions that are no longer read stay and are passed over.';
COMMENT ON COLUMN chat_search.chat_id IS 'The row of the chat log.';
COMMENT ON COLUMN chat_search.office_key IS 'Its office.';
COMMENT ON COLUMN chat_search.at IS 'When it was said.';
COMMENT ON COLUMN chat_search.keys IS 'Hashes of its text''s neighbouring characters and of its place; see package search.';

CREATE TABLE chat_unsearched (
    office_key text NOT NULL,
    chat_id    bigint NOT NULL,
    PRIMARY KEY (office_key, chat_id)
);
COMMENT ON TABLE chat_unsearched IS 'Rows of the chat log that chat_search does not have yet.';
COMMENT ON COLUMN chat_unsearched.office_key IS 'Its office.';
COMMENT ON COLUMN chat_unsearched.chat_id IS 'The row of the chat log.';

-- By trigger, so that no writer can forget it: runs, resets and imports all append.
-- +goose StatementBegin
CREATE FUNCTION entries_unsearched() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO entry_unsearched (office_key, entry_id)
    SELECT s.office_key, a.id FROM added a JOIN sessions s ON s.id = a.session_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER entries_unsearched AFTER INSERT ON entries REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION entries_unsearched();
-- +goose StatementBegin
CREATE FUNCTION chat_unsearched() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chat_unsearched (office_key, chat_id) SELECT office_key, id FROM added;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER chat_unsearched AFTER INSERT ON chat_log REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION chat_unsearched();

INSERT INTO entry_unsearched (office_key, entry_id)
SELECT s.office_key, e.id FROM entries e JOIN sessions s ON s.id = e.session_id;
INSERT INTO chat_unsearched (office_key, chat_id) SELECT office_key, id FROM chat_log;

-- +goose Down
DROP TRIGGER chat_unsearched ON chat_log;
DROP TRIGGER entries_unsearched ON entries;
DROP FUNCTION chat_unsearched();
DROP FUNCTION entries_unsearched();
DROP TABLE chat_unsearched;
DROP TABLE chat_search;
DROP TABLE entry_unsearched;
DROP TABLE entry_search;
