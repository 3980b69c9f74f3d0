-- +goose Up
CREATE TABLE offices (
    key             text PRIMARY KEY,
    platform        text NOT NULL CHECK (platform IN ('slack', 'discord', 'telegram', 'github', 'terminal')),
    conversation_id text NOT NULL,
    audience        text NOT NULL CHECK (audience IN ('private', 'shared')),
    name            text NOT NULL DEFAULT '',
    repo_owner      text,
    repo_name       text,
    issue_number    bigint,
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (platform, conversation_id)
);
COMMENT ON TABLE offices IS 'One row per conversation that mikan has seen: its persistent home.';
COMMENT ON COLUMN offices.key IS 'Office key: v1-<platform>-<readable>-<digest>; names the workspace directory.';
COMMENT ON COLUMN offices.platform IS 'The platform of the address.';
COMMENT ON COLUMN offices.conversation_id IS 'The platform''s own id of the conversation, never trimmed or folded.';
COMMENT ON COLUMN offices.audience IS 'private: a direct message; shared: anything with more than one person.';
COMMENT ON COLUMN offices.name IS 'What people call the conversation, for operators; may be empty.';
COMMENT ON COLUMN offices.repo_owner IS 'GitHub only: owner, lower-case. The conversation id alone is ambiguous when names contain "_".';
COMMENT ON COLUMN offices.repo_name IS 'GitHub only: repository, lower-case.';
COMMENT ON COLUMN offices.issue_number IS 'GitHub only: number of the issue or pull request.';
COMMENT ON COLUMN offices.created_at IS 'When mikan first saw the conversation.';

CREATE TABLE settings (
    scope      text NOT NULL,
    name       text NOT NULL,
    value      jsonb NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, name)
);
COMMENT ON TABLE settings IS 'Settings of the installation and of single offices; an office''s value wins.';
COMMENT ON COLUMN settings.scope IS '"installation" or an office key.';
COMMENT ON COLUMN settings.name IS 'Name of the setting, for example "model".';
COMMENT ON COLUMN settings.value IS 'The value as JSON.';
COMMENT ON COLUMN settings.updated_at IS 'When it was last set.';

-- +goose Down
DROP TABLE settings;
DROP TABLE offices;
