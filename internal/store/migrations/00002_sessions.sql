-- +goose Up
CREATE TABLE sessions (
    id               text PRIMARY KEY,
    office_key       text NOT NULL REFERENCES offices (key),
    session_key      text NOT NULL,
    title            text NOT NULL DEFAULT '',
    epoch            integer NOT NULL DEFAULT 0,
    parent_id        text REFERENCES sessions (id),
    fork_seq         bigint,
    next_seq         bigint NOT NULL DEFAULT 1,
    window_session   text NOT NULL,
    window_seq       bigint NOT NULL DEFAULT 1,
    summary_entry    bigint,
    sync_floor       timestamptz,
    archived_at      timestamptz,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    CHECK ((parent_id IS NULL) = (fork_seq IS NULL))
);
CREATE UNIQUE INDEX sessions_current ON sessions (office_key, session_key) WHERE archived_at IS NULL;
CREATE INDEX sessions_office ON sessions (office_key, updated_at);
CREATE INDEX sessions_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;
COMMENT ON TABLE sessions IS 'Structured context of one session key within one office. A fork is one row: it copies no entries.';
COMMENT ON COLUMN sessions.id IS 'Id shown to people; imported sessions keep theirs.';
COMMENT ON COLUMN sessions.office_key IS 'The office that it belongs to.';
COMMENT ON COLUMN sessions.session_key IS 'conversationId or conversationId:suffix, raw platform values.';
COMMENT ON COLUMN sessions.title IS 'Name for people: "[author]: first line of the root" for scoped sessions.';
COMMENT ON COLUMN sessions.epoch IS 'Counts resets. A run may write only while its own epoch is the session''s.';
COMMENT ON COLUMN sessions.parent_id IS 'The session that it was forked from.';
COMMENT ON COLUMN sessions.fork_seq IS 'The last entry of the parent that was inherited.';
COMMENT ON COLUMN sessions.next_seq IS 'Position of the next entry. Taken and moved by the transaction that appends, under the row''s lock.';
COMMENT ON COLUMN sessions.window_session IS 'Where the model''s context starts: this session or one of its ancestors (with window_seq).';
COMMENT ON COLUMN sessions.window_seq IS 'First entry of the model''s context within window_session.';
COMMENT ON COLUMN sessions.summary_entry IS 'The compaction entry that stands for everything before the window, if any.';
COMMENT ON COLUMN sessions.sync_floor IS 'Chat lines up to this moment are never synced: the last reset, or where an import stopped.';
COMMENT ON COLUMN sessions.archived_at IS 'Set on earlier generations of a session key that were imported; they are read, never continued.';
COMMENT ON COLUMN sessions.created_at IS 'When the session began.';
COMMENT ON COLUMN sessions.updated_at IS 'When its last entry was appended.';

CREATE TABLE entries (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id text NOT NULL REFERENCES sessions (id),
    seq        bigint NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('prompt', 'chat', 'assistant', 'tool_result', 'compaction', 'reset', 'note')),
    run_id     text,
    slot       text,
    message_id text,
    body       jsonb NOT NULL,
    tokens     integer NOT NULL DEFAULT 0,
    in_context boolean NOT NULL DEFAULT true,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (session_id, seq),
    UNIQUE (run_id, slot)
);
CREATE INDEX entries_message ON entries (session_id, message_id) WHERE message_id IS NOT NULL;
CREATE INDEX entries_window ON entries (session_id, seq) WHERE kind IN ('compaction', 'reset');
COMMENT ON TABLE entries IS 'Append-only records of a session, in order.';
COMMENT ON COLUMN entries.id IS 'Reference used outside the database; content never leaves it.';
COMMENT ON COLUMN entries.session_id IS 'The session that owns the entry.';
COMMENT ON COLUMN entries.seq IS 'Position within the session, from 1 without gaps.';
COMMENT ON COLUMN entries.kind IS 'prompt: the trigger of a run; chat: attributed lines of others; note: shown to people, not to the model.';
COMMENT ON COLUMN entries.run_id IS 'The run that wrote it, if a run did.';
COMMENT ON COLUMN entries.slot IS 'What it is within its run ("prompt", "think/2", "tool/2/0"): a retried step finds its own entry by it.';
COMMENT ON COLUMN entries.message_id IS 'Platform message that a prompt or chat line stands for.';
COMMENT ON COLUMN entries.body IS 'The content; its shape is the Body type of the store package.';
COMMENT ON COLUMN entries.tokens IS 'Estimated tokens in a model request.';
COMMENT ON COLUMN entries.in_context IS 'false: kept and searchable, but never part of a model request (imports).';
COMMENT ON COLUMN entries.at IS 'When it was appended, by the database''s clock; imported entries keep their time.';

-- +goose Down
DROP TABLE entries;
DROP TABLE sessions;
