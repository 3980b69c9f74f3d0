-- +goose Up
CREATE TABLE inbox (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    office_key   text NOT NULL REFERENCES offices (key),
    session_key  text NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('trigger', 'control')),
    state        text NOT NULL DEFAULT 'waiting' CHECK (state IN ('undecided', 'waiting')),
    trigger      text NOT NULL CHECK (trigger IN ('human', 'command', 'scheduled')),
    word         text NOT NULL DEFAULT '',
    message_id   text NOT NULL,
    attempt      integer NOT NULL DEFAULT 1,
    reply        jsonb NOT NULL DEFAULT '{}',
    received_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    woken_at     timestamptz,
    UNIQUE (office_key, message_id, kind, attempt)
);
CREATE INDEX inbox_session ON inbox (office_key, session_key, id) WHERE kind = 'trigger' AND state = 'waiting';
CREATE INDEX inbox_sweep ON inbox (woken_at NULLS FIRST, id);
COMMENT ON TABLE inbox IS 'What platforms delivered and nobody has run yet: the only queue. A row is deleted by the transaction that turns it into a run.';
COMMENT ON COLUMN inbox.id IS 'Order of arrival; runs of a session follow it.';
COMMENT ON COLUMN inbox.office_key IS 'The office of the message.';
COMMENT ON COLUMN inbox.session_key IS 'The session that the run will belong to.';
COMMENT ON COLUMN inbox.kind IS 'trigger: becomes a run; control: a word such as stop, carried out at once.';
COMMENT ON COLUMN inbox.state IS 'undecided: whether it addresses mikan is still to be found out.';
COMMENT ON COLUMN inbox.trigger IS 'What causes the run.';
COMMENT ON COLUMN inbox.word IS 'The control word or run command, empty for ordinary messages.';
COMMENT ON COLUMN inbox.message_id IS 'The message; its text is read from the chat log when the run starts.';
COMMENT ON COLUMN inbox.attempt IS '1, or higher when an operator had a failed trigger run again.';
COMMENT ON COLUMN inbox.reply IS 'Where the answer goes, in the adapter''s own terms.';
COMMENT ON COLUMN inbox.received_at IS 'When it was committed.';
COMMENT ON COLUMN inbox.woken_at IS 'When its workflow was last signalled; the sweeper repeats it.';

CREATE TABLE runs (
    id                 text PRIMARY KEY,
    office_key         text NOT NULL REFERENCES offices (key),
    session_key        text NOT NULL,
    session_id         text NOT NULL REFERENCES sessions (id),
    epoch              integer NOT NULL,
    trigger            text NOT NULL CHECK (trigger IN ('human', 'command', 'scheduled')),
    word               text NOT NULL DEFAULT '',
    trigger_message_id text NOT NULL,
    attempt            integer NOT NULL DEFAULT 1,
    reply              jsonb NOT NULL DEFAULT '{}',
    workflow_id        text NOT NULL,
    origin_run_id      text NOT NULL,
    temporal_run_id    text NOT NULL,
    state              text NOT NULL CHECK (state IN ('running', 'settled')),
    outcome            text CHECK (outcome IN ('answered', 'silent', 'failed', 'stopped')),
    error_code         text,
    error_text         text,
    model              text NOT NULL DEFAULT '',
    memory             jsonb,
    first_seq          bigint NOT NULL,
    last_seq           bigint NOT NULL,
    steps              integer NOT NULL DEFAULT 0,
    input_tokens       bigint NOT NULL DEFAULT 0,
    output_tokens      bigint NOT NULL DEFAULT 0,
    cache_read_tokens  bigint NOT NULL DEFAULT 0,
    cache_write_tokens bigint NOT NULL DEFAULT 0,
    cost_micros        bigint,
    model_ms           bigint NOT NULL DEFAULT 0,
    tool_ms            bigint NOT NULL DEFAULT 0,
    received_at        timestamptz NOT NULL,
    started_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    settled_at         timestamptz,
    checked_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((state = 'settled') = (outcome IS NOT NULL))
);
CREATE UNIQUE INDEX runs_open ON runs (office_key, session_key) WHERE state = 'running';
CREATE INDEX runs_origin ON runs (office_key, session_key, origin_run_id);
CREATE INDEX runs_trigger ON runs (office_key, trigger_message_id, started_at);
CREATE INDEX runs_office ON runs (office_key, started_at DESC);
CREATE INDEX runs_recent ON runs (started_at DESC);
CREATE INDEX runs_session ON runs (session_id, last_seq);
CREATE INDEX runs_unchecked ON runs (checked_at) WHERE state = 'running';
COMMENT ON TABLE runs IS 'One row per run: one execution caused by one trigger in one session.';
COMMENT ON COLUMN runs.id IS 'Derived from office key, session key, trigger message id and attempt.';
COMMENT ON COLUMN runs.office_key IS 'The office.';
COMMENT ON COLUMN runs.session_key IS 'The session key.';
COMMENT ON COLUMN runs.session_id IS 'The session that it runs in.';
COMMENT ON COLUMN runs.epoch IS 'The session''s epoch when the run began; a reset makes the run unable to write.';
COMMENT ON COLUMN runs.trigger IS 'What caused it.';
COMMENT ON COLUMN runs.word IS 'The run command, empty for ordinary messages.';
COMMENT ON COLUMN runs.trigger_message_id IS 'The message that caused it.';
COMMENT ON COLUMN runs.attempt IS '1, or higher when an operator had the trigger run again.';
COMMENT ON COLUMN runs.reply IS 'Where the answer goes, in the adapter''s own terms.';
COMMENT ON COLUMN runs.workflow_id IS 'Temporal workflow id: <office key>/<session key>.';
COMMENT ON COLUMN runs.origin_run_id IS 'Temporal''s original run id of the execution that claimed it; equal after a reset in the Temporal UI.';
COMMENT ON COLUMN runs.temporal_run_id IS 'The newest Temporal execution that works on it; cancel names it.';
COMMENT ON COLUMN runs.state IS 'running until its outcome is recorded.';
COMMENT ON COLUMN runs.outcome IS 'How it ended.';
COMMENT ON COLUMN runs.error_code IS 'Code of the domain error that ended it, if one did.';
COMMENT ON COLUMN runs.error_text IS 'What the operator reads about it; never crosses into Temporal.';
COMMENT ON COLUMN runs.model IS 'provider/model[:thinking] resolved at the start.';
COMMENT ON COLUMN runs.memory IS 'MEMORY.md of office and workspace as read for this run: stable over its steps.';
COMMENT ON COLUMN runs.first_seq IS 'Position of its trigger in the session.';
COMMENT ON COLUMN runs.last_seq IS 'Position of its last entry: where a fork of this run ends.';
COMMENT ON COLUMN runs.steps IS 'Model calls so far.';
COMMENT ON COLUMN runs.input_tokens IS 'Fresh input tokens.';
COMMENT ON COLUMN runs.output_tokens IS 'Output tokens.';
COMMENT ON COLUMN runs.cache_read_tokens IS 'Input tokens read from the provider''s cache.';
COMMENT ON COLUMN runs.cache_write_tokens IS 'Input tokens written to the provider''s cache.';
COMMENT ON COLUMN runs.cost_micros IS 'Cost in millionths of a US dollar; null when a price is unknown.';
COMMENT ON COLUMN runs.model_ms IS 'Milliseconds spent in model calls.';
COMMENT ON COLUMN runs.tool_ms IS 'Milliseconds spent in tools.';
COMMENT ON COLUMN runs.received_at IS 'When the trigger was committed to the inbox.';
COMMENT ON COLUMN runs.started_at IS 'When the run claimed it.';
COMMENT ON COLUMN runs.settled_at IS 'When its outcome was recorded.';
COMMENT ON COLUMN runs.checked_at IS 'When the reconciler last looked at its workflow.';

CREATE TABLE run_steps (
    run_id     text NOT NULL REFERENCES runs (id),
    slot       text NOT NULL,
    token      bigint NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    process    jsonb,
    PRIMARY KEY (run_id, slot)
);
COMMENT ON TABLE run_steps IS 'The attempt that may write each step: an attempt that outlived its time-out holds an old token and is refused.';
COMMENT ON COLUMN run_steps.run_id IS 'The run.';
COMMENT ON COLUMN run_steps.slot IS 'The step, named like the entry that it will write.';
COMMENT ON COLUMN run_steps.token IS 'Grows by one with every attempt.';
COMMENT ON COLUMN run_steps.started_at IS 'When the newest attempt began.';
COMMENT ON COLUMN run_steps.process IS 'Process group that the attempt started, so that the next worker on that host can kill what a dead one left.';

CREATE TABLE run_waits (
    run_id      text NOT NULL,
    workflow_id text NOT NULL,
    since       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, workflow_id)
);
COMMENT ON TABLE run_waits IS 'Threads whose first run waits for the run that they fork; woken when it settles.';
COMMENT ON COLUMN run_waits.run_id IS 'The run that is waited for; it may itself still wait in the inbox.';
COMMENT ON COLUMN run_waits.workflow_id IS 'The workflow that waits.';
COMMENT ON COLUMN run_waits.since IS 'When the wait began.';

-- +goose Down
DROP TABLE run_waits;
DROP TABLE run_steps;
DROP TABLE runs;
DROP TABLE inbox;
