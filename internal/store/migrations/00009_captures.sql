-- +goose Up
CREATE TABLE captures (
    run_id        text PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    office_key    text NOT NULL REFERENCES offices (key) ON DELETE CASCADE,
    message_id    text NOT NULL,
    state         text NOT NULL DEFAULT 'gate' CHECK (state IN ('gate', 'extract', 'apply', 'ended')),
    outcome       text CHECK (outcome IN ('skipped', 'below', 'nothing', 'refused', 'unchanged', 'full', 'blocked', 'written', 'failed')),
    gate_model    text NOT NULL DEFAULT '',
    probability   double precision CHECK (probability BETWEEN 0 AND 1),
    threshold     double precision,
    memory        text,
    forgotten     jsonb NOT NULL DEFAULT '[]',
    operations    jsonb,
    effects       jsonb NOT NULL DEFAULT '[]',
    input_tokens  bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    error_code    text,
    error_text    text,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    reverted_at   timestamptz,
    undone        jsonb,
    CHECK ((state = 'ended') = (outcome IS NOT NULL))
);
CREATE INDEX captures_office ON captures (office_key, created_at DESC);
COMMENT ON TABLE captures IS 'One row per memory capture: what was judged, what the model asked for, and what became of it.';
COMMENT ON COLUMN captures.run_id IS 'The run whose exchange it looked at; also the capture''s id.';
COMMENT ON COLUMN captures.office_key IS 'The office whose MEMORY.md it may change.';
COMMENT ON COLUMN captures.message_id IS 'The message that every line it wrote names.';
COMMENT ON COLUMN captures.state IS 'The step that is to be taken next.';
COMMENT ON COLUMN captures.outcome IS 'skipped: nothing to judge; below: the gate said no; nothing: the model found nothing; refused: its answer broke the rules; unchanged: no operation was needed or allowed; full: the section is at its limit; blocked: the file may not be written; written; failed.';
COMMENT ON COLUMN captures.gate_model IS 'The decision model that judged.';
COMMENT ON COLUMN captures.probability IS 'How likely the user established durable knowledge, as the gate sees it; null before it has judged.';
COMMENT ON COLUMN captures.threshold IS 'The probability that was asked for.';
COMMENT ON COLUMN captures.memory IS 'MEMORY.md as extraction reads it, while it works; null otherwise.';
COMMENT ON COLUMN captures.forgotten IS 'Statements that left the file since the run began, while extraction works: they must not come back.';
COMMENT ON COLUMN captures.operations IS 'What the model asked for and may be done, secrets replaced: [{op, text, line}].';
COMMENT ON COLUMN captures.effects IS 'What became of each operation: [{op, text, line, effect, now, was}]. Before the file is replaced it is the intent, by which a repeated attempt knows its own lines.';
COMMENT ON COLUMN captures.input_tokens IS 'Input tokens of gate and extraction.';
COMMENT ON COLUMN captures.output_tokens IS 'Output tokens of gate and extraction.';
COMMENT ON COLUMN captures.error_code IS 'Why it ended otherwise than written, as a domain error code.';
COMMENT ON COLUMN captures.error_text IS 'The same for an operator; never crosses into Temporal.';
COMMENT ON COLUMN captures.created_at IS 'When it began, by the database''s clock; the day that its lines name.';
COMMENT ON COLUMN captures.ended_at IS 'When its outcome was recorded.';
COMMENT ON COLUMN captures.reverted_at IS 'When an operator took it back.';
COMMENT ON COLUMN captures.undone IS 'What became of its lines then: [{line, undone, back}].';

-- +goose Down
DROP TABLE captures;
