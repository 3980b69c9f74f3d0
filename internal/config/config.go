// Package config reads what an operator configures: the environment first, one optional YAML file for what does not
// fit there, and the addresses of a running dev when the environment names neither database nor Temporal.
package config

import (
	"log/slog"
	"time"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
)

// Config is everything that is configured for one process. It prints without its secrets, in whatever format.
// An empty environment variable counts as unset, and space around a value is dropped.
type Config struct {
	// DataDir is where dev keeps everything. Default: see DefaultDataDir.
	DataDir string
	// DevEnv is the dev.env file whose values are in use; "" when none is. A refused connection then means that the
	// dev of this data directory is not running.
	DevEnv string

	// DatabaseURL is MIKAN_DATABASE_URL: a Postgres URL, or key=value pairs as libpq takes them. No default; dev
	// starts a Postgres of its own when it is empty.
	DatabaseURL Secret
	// Temporal is what the TEMPORAL_* variables say; see there.
	Temporal Temporal
	// Workspace is MIKAN_WORKSPACE, an absolute path: what tools see. Default: workspace in DataDir.
	Workspace string

	// Model is MIKAN_MODEL, or the file's model, or that of the first provider with a key: anthropic, openai,
	// openrouter. Zero when no provider has one, except in and beside a dev, where it is then demo/demo. An office can override it.
	Model llm.Ref
	// JevModel is MIKAN_JEV_MODEL; zero when unset. Use the method Jev, which knows the default.
	JevModel llm.Ref
	// The providers: <NAME>_API_KEY and <NAME>_BASE_URL. An empty base URL is the provider's own.
	Anthropic, OpenAI, OpenRouter ProviderConfig

	// Sandbox is MIKAN_SANDBOX. The zero value leaves the choice to the sandbox: bwrap where it works.
	Sandbox Sandbox
	// Listen is MIKAN_LISTEN, where the gateway serves webhooks, views and metrics. Default 127.0.0.1:8181; port 0
	// takes a free one.
	Listen string
	// WorkerListen is MIKAN_WORKER_LISTEN, where the worker serves health and metrics. Default 127.0.0.1:9090.
	WorkerListen string
	// PublicURL is MIKAN_PUBLIC_URL without a slash at its end: where people reach the gateway. "" means
	// http://<the gateway's address>, which only people on this machine can open.
	PublicURL string
	// TaskQueue is MIKAN_TASK_QUEUE. Default mikan. The queue for tools has "-tools" after it.
	TaskQueue string
	// ServeQueues is MIKAN_SERVE_QUEUES: which of the two a worker serves. Default all.
	ServeQueues Queues
	// CodecKey is MIKAN_CODEC_KEY: encrypts Temporal payloads. Unset leaves them readable; they hold no content.
	CodecKey Key
	// Deployment and BuildID are MIKAN_DEPLOYMENT and MIKAN_BUILD_ID. Both turn worker versioning on; neither, off.
	Deployment, BuildID string
	// LogLevel is MIKAN_LOG_LEVEL: debug, info, warn or error. Default info.
	LogLevel slog.Level

	// The platforms. One is served when its token is set. The URLs redirect all traffic of its SDK.
	Slack    SlackConfig
	Discord  DiscordConfig
	Telegram TelegramConfig
	GitHub   GitHubConfig

	// Settings come from the file named by MIKAN_CONFIG.
	Settings Settings

	// OtherSecrets are those that have no field of their own, by variable: what Temporal's profile and OpenTelemetry's
	// exporter authenticate with, and the text of the keys. It is exported because package fmt prints unexported fields
	// without asking their types.
	OtherSecrets map[string]Secret
}

// ProviderConfig is how to reach a model provider.
type ProviderConfig struct {
	APIKey  Secret
	BaseURL string
}

// SlackConfig: SLACK_APP_TOKEN with SLACK_BOT_TOKEN is Socket Mode, SLACK_SIGNING_SECRET with SLACK_BOT_TOKEN the HTTP
// Events API; with both secrets, Socket Mode is used. SLACK_API_URL ends in a slash, like https://slack.com/api/.
type SlackConfig struct {
	AppToken, BotToken, SigningSecret Secret
	APIURL                            string
}

// DiscordConfig is DISCORD_BOT_TOKEN and DISCORD_API_URL.
type DiscordConfig struct {
	BotToken Secret
	APIURL   string
}

// TelegramConfig: TELEGRAM_BOT_TOKEN alone fetches messages by long polling; with TELEGRAM_WEBHOOK_SECRET Telegram
// posts them to WebhookURL, which is TelegramWebhookPath at MIKAN_PUBLIC_URL. TELEGRAM_API_URL replaces
// https://api.telegram.org.
type TelegramConfig struct {
	BotToken, WebhookSecret Secret
	APIURL                  string
	WebhookURL              string
}

// TelegramWebhookPath is where the gateway takes Telegram's webhook.
const TelegramWebhookPath = "/telegram/webhook"

// GitHubConfig is GITHUB_AGENT_TOKEN, GITHUB_WEBHOOK_SECRET and GITHUB_API_URL.
type GitHubConfig struct {
	AgentToken, WebhookSecret Secret
	APIURL                    string
}

// Queues says which task queues a worker serves.
type Queues string

// The choices: everything, all but tools, tools only.
const (
	QueuesAll   Queues = "all"
	QueuesMain  Queues = "main"
	QueuesTools Queues = "tools"
)

// SandboxKind says what isolates tools from the machine.
type SandboxKind string

// The kinds. SandboxAuto is the zero value: bwrap where it works; else dev takes host and says so, and everything else
// refuses to start.
const (
	SandboxAuto      SandboxKind = ""
	SandboxBwrap     SandboxKind = "bwrap"
	SandboxBwrapNet  SandboxKind = "bwrap+net" // with the machine's network
	SandboxDocker    SandboxKind = "docker"
	SandboxDockerNet SandboxKind = "docker+net"
	SandboxHost      SandboxKind = "host"
)

// Sandbox is MIKAN_SANDBOX: bwrap, docker:<image> or host; the first two also with +net.
type Sandbox struct {
	Kind  SandboxKind
	Image string // of docker only
}

func (k SandboxKind) hasImage() bool { return k == SandboxDocker || k == SandboxDockerNet }

// String is the form that MIKAN_SANDBOX takes.
func (s Sandbox) String() string {
	if s.Kind.hasImage() {
		return string(s.Kind) + ":" + s.Image
	}
	return string(s.Kind)
}

// The defaults.
const (
	DefaultListen       = "127.0.0.1:8181"
	DefaultWorkerListen = "127.0.0.1:9090"
	DefaultDrain        = 5 * time.Minute
	DevDrain            = 20 * time.Second
	DefaultAnswerAge    = 24 * time.Hour
	DefaultRetention    = 30 * 24 * time.Hour
	LeastRetention      = 24 * time.Hour
)

// Platforms lists the platforms whose tokens are set. The terminal, which has no token, is not among them.
func (c Config) Platforms() []office.Platform {
	var set []office.Platform
	for _, p := range []struct {
		platform office.Platform
		token    Secret
	}{
		{office.Slack, c.Slack.BotToken}, {office.Discord, c.Discord.BotToken},
		{office.Telegram, c.Telegram.BotToken}, {office.GitHub, c.GitHub.AgentToken},
	} {
		if p.token != "" {
			set = append(set, p.platform)
		}
	}
	return set
}

// Secrets returns every configured secret by the name of its variable: what has to be taken out of logs, stored text
// and everything the model sees. The database's password is there beside the URL that holds it, as it is and as it is
// written when the two differ.
func (c Config) Secrets() map[string]string {
	all := map[string]string{}
	add := func(name, value string) {
		if value != "" {
			all[name] = value
		}
	}
	for name, value := range c.OtherSecrets {
		add(name, value.Reveal())
	}
	add("MIKAN_DATABASE_URL", c.DatabaseURL.Reveal())
	if c.DatabaseURL != "" {
		plain, written := databasePasswords(c.DatabaseURL.Reveal())
		add("MIKAN_DATABASE_PASSWORD", plain)
		if written != plain {
			add("MIKAN_DATABASE_PASSWORD_ENCODED", written)
		}
	}
	for name, value := range map[string]Secret{
		"ANTHROPIC_API_KEY": c.Anthropic.APIKey, "OPENAI_API_KEY": c.OpenAI.APIKey, "OPENROUTER_API_KEY": c.OpenRouter.APIKey,
		"SLACK_APP_TOKEN": c.Slack.AppToken, "SLACK_BOT_TOKEN": c.Slack.BotToken, "SLACK_SIGNING_SECRET": c.Slack.SigningSecret,
		"DISCORD_BOT_TOKEN": c.Discord.BotToken, "TELEGRAM_BOT_TOKEN": c.Telegram.BotToken,
		"TELEGRAM_WEBHOOK_SECRET": c.Telegram.WebhookSecret,
		"GITHUB_AGENT_TOKEN":      c.GitHub.AgentToken, "GITHUB_WEBHOOK_SECRET": c.GitHub.WebhookSecret,
		"TEMPORAL_API_KEY": c.Temporal.APIKey,
	} {
		add(name, value.Reveal())
	}
	return all
}

// LogValue logs what tells one installation from another, and no secret.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("database", c.DatabaseTarget()),
		slog.String("temporal", c.Temporal.Address),
		slog.String("namespace", c.Temporal.Namespace),
		slog.String("queue", c.TaskQueue),
		slog.String("model", c.modelName()),
		slog.String("sandbox", c.Sandbox.String()),
		slog.String("workspace", c.Workspace),
		slog.Any("platforms", c.Platforms()),
	)
}

func (c Config) modelName() string {
	if c.Model == (llm.Ref{}) {
		return ""
	}
	return c.Model.String()
}

// remember adds to OtherSecrets.
func (c *Config) remember(secrets map[string]string) {
	if c.OtherSecrets == nil {
		c.OtherSecrets = map[string]Secret{}
	}
	for name, value := range secrets {
		c.OtherSecrets[name] = Secret(value)
	}
}
