-- +goose Up
CREATE TABLE conversation_aliases (
    platform        text NOT NULL,
    alias           text NOT NULL,
    conversation_id text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (platform, alias)
);
CREATE INDEX conversation_aliases_of ON conversation_aliases (platform, conversation_id, created_at DESC);
COMMENT ON TABLE conversation_aliases IS 'Conversations that the platform has given another id: a Telegram group that became a supergroup. Their office stays that of the first id.';
COMMENT ON COLUMN conversation_aliases.platform IS 'The platform.';
COMMENT ON COLUMN conversation_aliases.alias IS 'A later id of the conversation.';
COMMENT ON COLUMN conversation_aliases.conversation_id IS 'Its first id, which its office and its session keys are made of.';
COMMENT ON COLUMN conversation_aliases.created_at IS 'When mikan learned of it; the newest is where messages go.';

-- +goose Down
DROP TABLE conversation_aliases;
