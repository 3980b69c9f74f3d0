-- +goose Up
CREATE TABLE deliveries (
    key         text PRIMARY KEY,
    office_key  text NOT NULL REFERENCES offices (key),
    session_key text NOT NULL,
    run_id      text,
    cause_message_id text,
    kind        text NOT NULL CHECK (kind IN ('answer', 'notice')),
    part        integer NOT NULL DEFAULT 0,
    reply       jsonb NOT NULL DEFAULT '{}',
    state       text NOT NULL CHECK (state IN ('intended', 'posted', 'final', 'refused', 'deleted')),
    text        text NOT NULL,
    message_id  text,
    token       bigint NOT NULL DEFAULT 1,
    deadline    timestamptz,
    error_code  text,
    error_text  text,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX deliveries_run ON deliveries (run_id, part);
CREATE INDEX deliveries_message ON deliveries (office_key, message_id);
CREATE INDEX deliveries_cause ON deliveries (office_key, cause_message_id) WHERE cause_message_id IS NOT NULL;
CREATE INDEX deliveries_pending ON deliveries (updated_at) WHERE state IN ('intended', 'posted');
COMMENT ON TABLE deliveries IS 'Every visible message that mikan puts on a platform, from intent to confirmed message id.';
COMMENT ON COLUMN deliveries.key IS 'Opaque idempotency key, equal over attempts.';
COMMENT ON COLUMN deliveries.office_key IS 'Where it goes.';
COMMENT ON COLUMN deliveries.session_key IS 'The scope that it is said in.';
COMMENT ON COLUMN deliveries.run_id IS 'The run that says it, if one does.';
COMMENT ON COLUMN deliveries.cause_message_id IS 'For notices: the message that they answer, a control word for example.';
COMMENT ON COLUMN deliveries.kind IS 'answer: of a run; notice: anything else.';
COMMENT ON COLUMN deliveries.part IS 'Part of an answer that is too long for one message, from 0.';
COMMENT ON COLUMN deliveries.reply IS 'Where exactly it goes, in the adapter''s own terms.';
COMMENT ON COLUMN deliveries.state IS 'intended: may or may not be on the platform; posted: there, not final; final; refused by the platform; deleted.';
COMMENT ON COLUMN deliveries.text IS 'The Markdown that is or will be shown.';
COMMENT ON COLUMN deliveries.message_id IS 'The platform''s id, once confirmed.';
COMMENT ON COLUMN deliveries.token IS 'Grows with every attempt; an old attempt cannot confirm.';
COMMENT ON COLUMN deliveries.deadline IS 'By the database''s clock, the moment after which the attempt in flight cannot post any more.';
COMMENT ON COLUMN deliveries.error_code IS 'Why it was refused, as a domain error code.';
COMMENT ON COLUMN deliveries.error_text IS 'The platform''s reason, for operators.';
COMMENT ON COLUMN deliveries.created_at IS 'When the intent was committed.';
COMMENT ON COLUMN deliveries.updated_at IS 'When the row last changed.';

CREATE TABLE cursors (
    platform     text NOT NULL,
    installation text NOT NULL,
    scope        text NOT NULL,
    position     text NOT NULL,
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (platform, installation, scope)
);
COMMENT ON TABLE cursors IS 'How far each platform stream has been read, so that gaps are filled.';
COMMENT ON COLUMN cursors.platform IS 'The platform.';
COMMENT ON COLUMN cursors.installation IS 'Workspace, bot or account on that platform.';
COMMENT ON COLUMN cursors.scope IS 'Channel, chat or repository; empty for the whole installation.';
COMMENT ON COLUMN cursors.position IS 'The platform''s own position (timestamp, message id, update id).';
COMMENT ON COLUMN cursors.updated_at IS 'When it was last moved.';

CREATE TABLE leases (
    name       text PRIMARY KEY,
    holder     text NOT NULL,
    token      bigint NOT NULL DEFAULT 1,
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE leases IS 'Work that one process at a time may do, with a fencing token.';
COMMENT ON COLUMN leases.name IS 'What is leased.';
COMMENT ON COLUMN leases.holder IS 'The process that holds it.';
COMMENT ON COLUMN leases.token IS 'Grows whenever the holder changes.';
COMMENT ON COLUMN leases.expires_at IS 'By the database''s clock.';

CREATE TABLE installation (
    id                 integer PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    minimum_compatible integer NOT NULL,
    import_state       text NOT NULL DEFAULT 'none' CHECK (import_state IN ('none', 'begun', 'done'))
);
INSERT INTO installation (minimum_compatible) VALUES (1);
COMMENT ON TABLE installation IS 'One row of facts about this database as a whole.';
COMMENT ON COLUMN installation.id IS 'Always 1.';
COMMENT ON COLUMN installation.minimum_compatible IS 'The oldest schema version that binaries must know to work with this database.';
COMMENT ON COLUMN installation.import_state IS 'Whether an import of an earlier installation was begun and not finished.';

-- +goose Down
DROP TABLE installation;
DROP TABLE leases;
DROP TABLE cursors;
DROP TABLE deliveries;
