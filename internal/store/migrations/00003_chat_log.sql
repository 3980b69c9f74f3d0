-- +goose Up
CREATE TABLE chat_log (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    office_key       text NOT NULL REFERENCES offices (key),
    message_id       text NOT NULL,
    revision         integer NOT NULL DEFAULT 0,
    newest           boolean NOT NULL DEFAULT true,
    session_key      text NOT NULL,
    thread_id        text NOT NULL DEFAULT '',
    reply_to         text NOT NULL DEFAULT '',
    author_id        text NOT NULL,
    author_name      text NOT NULL,
    author_kind      text NOT NULL CHECK (author_kind IN ('human', 'bot', 'mikan')),
    kind             text NOT NULL CHECK (kind IN ('message', 'answer', 'notice', 'command', 'upload')),
    text             text NOT NULL,
    attachments      jsonb NOT NULL DEFAULT '[]',
    deleted          boolean NOT NULL DEFAULT false,
    cause_message_id text,
    run_id           text,
    sent_at          timestamptz NOT NULL,
    recorded_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (office_key, message_id, revision)
);
CREATE UNIQUE INDEX chat_log_newest ON chat_log (office_key, message_id) WHERE newest;
CREATE INDEX chat_log_scope ON chat_log (office_key, session_key, sent_at DESC, id DESC) WHERE newest;
CREATE INDEX chat_log_office ON chat_log (office_key, sent_at DESC, id DESC) WHERE newest;
COMMENT ON TABLE chat_log IS 'What people can read on the platform, one row per message and revision. Append-only but for the newest mark.';
COMMENT ON COLUMN chat_log.id IS 'Order of recording.';
COMMENT ON COLUMN chat_log.office_key IS 'The office that the message was said in.';
COMMENT ON COLUMN chat_log.message_id IS 'The platform''s id of the message.';
COMMENT ON COLUMN chat_log.revision IS '0 as first seen; every edit or deletion adds one.';
COMMENT ON COLUMN chat_log.newest IS 'True for the revision that is read.';
COMMENT ON COLUMN chat_log.session_key IS 'The scope that the message belongs to.';
COMMENT ON COLUMN chat_log.thread_id IS 'The platform''s thread id, empty at top level.';
COMMENT ON COLUMN chat_log.reply_to IS 'The message that this one replies to, if any.';
COMMENT ON COLUMN chat_log.author_id IS 'The platform''s id of the author.';
COMMENT ON COLUMN chat_log.author_name IS 'The author''s name as shown.';
COMMENT ON COLUMN chat_log.author_kind IS 'human, bot (another one) or mikan.';
COMMENT ON COLUMN chat_log.kind IS 'answer: a run''s answer; notice: anything else mikan said; command: never synced.';
COMMENT ON COLUMN chat_log.text IS 'The text as people read it.';
COMMENT ON COLUMN chat_log.attachments IS 'Attached files: [{name, path, mediaType, size, problem}].';
COMMENT ON COLUMN chat_log.deleted IS 'True when this revision records a deletion.';
COMMENT ON COLUMN chat_log.cause_message_id IS 'For answers: the message that triggered the run.';
COMMENT ON COLUMN chat_log.run_id IS 'For answers and notices: the run that said it.';
COMMENT ON COLUMN chat_log.sent_at IS 'When it was said, by the platform''s clock.';
COMMENT ON COLUMN chat_log.recorded_at IS 'When it was recorded, by the database''s clock.';

-- +goose Down
DROP TABLE chat_log;
