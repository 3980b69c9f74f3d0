-- +goose Up
CREATE TABLE imports (
    source      text PRIMARY KEY,
    command     text NOT NULL,
    state       text NOT NULL CHECK (state IN ('begun', 'done')),
    begun_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz
);
COMMENT ON TABLE imports IS 'Installations of mikan 0.5.3 that were moved into this database, or are being moved.';
COMMENT ON COLUMN imports.source IS 'Workspace and state directory, as absolute paths with a newline between.';
COMMENT ON COLUMN imports.command IS 'The command line that goes on with it; gateway and worker name it when they refuse to start.';
COMMENT ON COLUMN imports.state IS 'begun until everything was imported, verified and moved.';
COMMENT ON COLUMN imports.begun_at IS 'When something was first written.';
COMMENT ON COLUMN imports.finished_at IS 'When the last run of it ended without anything left to do.';

CREATE TABLE import_offices (
    office_key text PRIMARY KEY REFERENCES offices (key),
    source     text NOT NULL REFERENCES imports (source),
    directory  text NOT NULL,
    verified   boolean NOT NULL DEFAULT false,
    done       boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE import_offices IS 'Conversations of 0.5.3 whose move was begun. A renamed directory is recognised by it.';
COMMENT ON COLUMN import_offices.office_key IS 'The office that the conversation became.';
COMMENT ON COLUMN import_offices.source IS 'The installation that it came from.';
COMMENT ON COLUMN import_offices.directory IS 'What its directory in the workspace was called; empty when it had none.';
COMMENT ON COLUMN import_offices.verified IS 'What was imported was read again and found equal to the files; the originals may be moved.';
COMMENT ON COLUMN import_offices.done IS 'Everything of it was imported and verified, and its original sessions are in sessions-v3.';

CREATE TABLE import_files (
    office_key text NOT NULL REFERENCES import_offices (office_key),
    kind       text NOT NULL CHECK (kind IN ('session', 'log', 'settings', 'schedule')),
    name       text NOT NULL,
    hash       bytea NOT NULL CHECK (octet_length(hash) = 32),
    session_id text,
    records    bigint NOT NULL,
    PRIMARY KEY (office_key, kind, name)
);
CREATE UNIQUE INDEX import_files_session ON import_files (session_id) WHERE session_id IS NOT NULL;
COMMENT ON TABLE import_files IS 'Files that were imported, each written by the transaction that imported it: a rerun passes them over.';
COMMENT ON COLUMN import_files.office_key IS 'The office.';
COMMENT ON COLUMN import_files.kind IS 'What the file holds.';
COMMENT ON COLUMN import_files.name IS 'Its name below the directory of its kind.';
COMMENT ON COLUMN import_files.hash IS 'SHA-256 of its content.';
COMMENT ON COLUMN import_files.session_id IS 'For session files: the id in the header.';
COMMENT ON COLUMN import_files.records IS 'How many records were read from it, repeated ones counted once.';

ALTER TABLE sessions ADD COLUMN whole boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN sessions.whole IS 'It holds copies of what it inherited (imported forks): its context never reaches into its parent.';

-- +goose Down
ALTER TABLE sessions DROP COLUMN whole;
DROP TABLE import_files;
DROP TABLE import_offices;
DROP TABLE imports;
