-- +goose Up
CREATE TABLE access_rules (
    platform   text NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('user', 'group', 'workspace', 'guild', 'role', 'chat', 'repository')),
    principal  text NOT NULL,
    effect     text NOT NULL CHECK (effect IN ('allow', 'deny')),
    note       text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (platform, kind, principal)
);
COMMENT ON TABLE access_rules IS 'Who may talk to mikan beyond or against what each platform''s default says.';
COMMENT ON COLUMN access_rules.platform IS 'The platform.';
COMMENT ON COLUMN access_rules.kind IS 'What the principal is there.';
COMMENT ON COLUMN access_rules.principal IS 'The platform''s id of it.';
COMMENT ON COLUMN access_rules.effect IS 'allow or deny. A rule about the user comes before one about something the user belongs to; deny before allow.';
COMMENT ON COLUMN access_rules.note IS 'What the operator wrote about it.';
COMMENT ON COLUMN access_rules.created_at IS 'When the rule was made.';

ALTER TABLE inbox ADD COLUMN doubt jsonb;
COMMENT ON COLUMN inbox.doubt IS 'Of an undecided row: what is still to be found out, and about whom.';
CREATE INDEX inbox_undecided ON inbox (id) WHERE state = 'undecided';

CREATE TABLE people (
    platform     text NOT NULL,
    installation text NOT NULL,
    id           text NOT NULL,
    handle       text NOT NULL DEFAULT '',
    name         text NOT NULL DEFAULT '',
    standing     text NOT NULL DEFAULT 'unknown' CHECK (standing IN ('member', 'stranger', 'unknown')),
    bot          boolean NOT NULL DEFAULT false,
    known_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (platform, installation, id)
);
CREATE INDEX people_handle ON people (platform, installation, lower(handle));
CREATE INDEX people_name ON people (platform, installation, lower(name));
COMMENT ON TABLE people IS 'What platforms have told about people: a cache, so that a message needs no call to know its author.';
COMMENT ON COLUMN people.platform IS 'The platform.';
COMMENT ON COLUMN people.installation IS 'Workspace, bot or account that knows the person by this id.';
COMMENT ON COLUMN people.id IS 'The platform''s id.';
COMMENT ON COLUMN people.handle IS 'What is written after @.';
COMMENT ON COLUMN people.name IS 'What people read.';
COMMENT ON COLUMN people.standing IS 'What the platform''s default says about the person.';
COMMENT ON COLUMN people.bot IS 'Whether it is a program.';
COMMENT ON COLUMN people.known_at IS 'When the platform said so.';

CREATE UNLOGGED TABLE rate_buckets (
    name          text PRIMARY KEY,
    tokens        double precision NOT NULL,
    filled_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    blocked_until timestamptz NOT NULL DEFAULT '-infinity'
);
COMMENT ON TABLE rate_buckets IS 'What is left of the platforms'' rate limits, shared by all processes. A crash of the database may empty it.';
COMMENT ON COLUMN rate_buckets.name IS 'Platform, installation and method.';
COMMENT ON COLUMN rate_buckets.tokens IS 'Calls that may be made at once, as of filled_at.';
COMMENT ON COLUMN rate_buckets.filled_at IS 'When tokens was computed.';
COMMENT ON COLUMN rate_buckets.blocked_until IS 'The platform asked for silence until then.';

-- +goose Down
DROP TABLE rate_buckets;
DROP TABLE people;
DELETE FROM inbox WHERE state = 'undecided';
ALTER TABLE inbox DROP COLUMN doubt;
DROP TABLE access_rules;
