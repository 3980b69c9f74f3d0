-- +goose Up
CREATE TABLE schedules (
    id         text PRIMARY KEY,
    office_key text NOT NULL REFERENCES offices (key) ON DELETE CASCADE,
    kind       text NOT NULL CHECK (kind IN ('once', 'cron')),
    cron       text NOT NULL DEFAULT '',
    zone       text NOT NULL DEFAULT 'UTC',
    once_at    timestamptz,
    text       text NOT NULL,
    author_id  text NOT NULL DEFAULT '',
    source     text NOT NULL DEFAULT '',
    state      text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'ended')),
    revision   integer NOT NULL DEFAULT 1,
    placed     integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((kind = 'once') = (once_at IS NOT NULL)),
    CHECK ((kind = 'cron') = (cron <> ''))
);
CREATE INDEX schedules_office ON schedules (office_key, created_at);
CREATE INDEX schedules_open ON schedules (id) WHERE state <> 'ended';
COMMENT ON TABLE schedules IS 'Tasks that mikan starts by itself. What Temporal keeps is made from it, and made again when Temporal has lost it.';
COMMENT ON COLUMN schedules.id IS 'Also names the Temporal Schedule, with "mikan-" before it.';
COMMENT ON COLUMN schedules.office_key IS 'The office that the task belongs to.';
COMMENT ON COLUMN schedules.kind IS 'once: at one moment; cron: whenever the expression says.';
COMMENT ON COLUMN schedules.cron IS 'Five fields (minute, hour, day of month, month, day of week), or six with seconds first.';
COMMENT ON COLUMN schedules.zone IS 'IANA name of the time zone that the expression is read in.';
COMMENT ON COLUMN schedules.once_at IS 'The moment of a task that is done once.';
COMMENT ON COLUMN schedules.text IS 'What is to be done: the text of the run''s trigger. It never crosses into Temporal.';
COMMENT ON COLUMN schedules.author_id IS 'The platform''s id of the person who asked for it; may be empty.';
COMMENT ON COLUMN schedules.source IS 'Where it came from: the event file of an imported installation, or empty.';
COMMENT ON COLUMN schedules.state IS 'ended: done once, or deleted; kept for the record.';
COMMENT ON COLUMN schedules.revision IS 'Grows with every change.';
COMMENT ON COLUMN schedules.placed IS 'The revision that Temporal was told of.';
COMMENT ON COLUMN schedules.created_at IS 'When it was made.';

-- +goose Down
DROP TABLE schedules;
