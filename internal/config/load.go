package config

import (
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/run"
)

// Error lists everything that is wrong with a configuration, so that an operator mends it in one go. Its code is
// fault.Invalid. It holds no secret.
type Error struct {
	Problems []string // sentences: the variable, what is wrong with it, what to do
}

func (e *Error) Error() string { return strings.Join(e.Problems, "\n") }

// Unwrap gives the error its code.
func (e *Error) Unwrap() error { return fault.New(fault.Invalid, "the configuration is refused") }

// Load reads the configuration for every process and command but dev. getenv is os.Getenv outside tests; an empty
// dataDir is the default one. The error is an *Error that lists all problems; the Config is then incomplete.
func Load(getenv func(string) string, dataDir string) (Config, error) {
	return load(reader{getenv: getenv}, dataDir)
}

// LoadForDev reads the configuration for dev itself. It takes no addresses from dev.env, which it is about to write,
// and none from Temporal's configuration file unless that or a profile is named. With no model key the model is
// demo/demo, as it is for every process that uses the addresses of a dev.
func LoadForDev(getenv func(string) string, dataDir string) (Config, error) {
	return load(reader{getenv: getenv, local: true}, dataDir)
}

func load(env reader, dir string) (Config, error) {
	var problems []string
	if dir == "" {
		found, err := DefaultDataDir(env.getenv)
		if err != nil {
			return Config{}, &Error{[]string{err.Error() + "."}}
		}
		dir = found
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Config{}, &Error{[]string{"The data directory has no absolute path: " + err.Error() + "."}}
	}
	c := Config{DataDir: dir}
	if !env.local {
		path := filepath.Join(dir, DevEnvFile)
		if err := env.adoptDev(path); err != nil {
			problems = append(problems, fmt.Sprintf("%s cannot be read (%v); start `mikan dev` again, which writes it anew.", path, err))
		}
		if env.dev != nil {
			c.DevEnv = path
		}
	}

	p := &parser{env: env, problems: problems}
	c.fromEnvironment(p)
	temporal, secrets, err := loadTemporal(p.env)
	if err != nil {
		p.problem("Temporal's configuration (the TEMPORAL_ variables and temporal.toml) cannot be used: %v.", err)
	}
	c.Temporal = temporal
	c.remember(secrets)
	c.remember(exporterSecrets(p.env))

	settings, err := readSettings(env.get("MIKAN_CONFIG"))
	if err != nil {
		p.problem("%v.", err)
	}
	c.Settings = settings.Settings
	if env.local && settings.DrainSeconds == nil {
		c.Settings.Drain = DevDrain
	}
	if c.Model == (llm.Ref{}) && settings.Model != "" {
		c.Model = p.model("model in "+env.get("MIKAN_CONFIG"), settings.Model)
	}
	if c.Model == (llm.Ref{}) {
		c.Model = c.defaultModel()
	}
	if c.Model == (llm.Ref{}) && p.env.local {
		c.Model = demoModel
	}
	p.problems = append(p.problems, c.problems()...)
	if len(p.problems) > 0 {
		return c, &Error{p.problems}
	}
	return c, nil
}

func (c *Config) fromEnvironment(p *parser) {
	c.DatabaseURL = p.secret("MIKAN_DATABASE_URL")
	c.Workspace = p.text("MIKAN_WORKSPACE", filepath.Join(c.DataDir, "workspace"))
	if absolute, err := filepath.Abs(c.Workspace); err == nil {
		c.Workspace = absolute
	}
	c.Model = p.model("MIKAN_MODEL", p.env.get("MIKAN_MODEL"))
	c.JevModel = p.model("MIKAN_JEV_MODEL", p.env.get("MIKAN_JEV_MODEL"))
	c.Anthropic = ProviderConfig{p.secret("ANTHROPIC_API_KEY"), p.url("ANTHROPIC_BASE_URL")}
	c.OpenAI = ProviderConfig{p.secret("OPENAI_API_KEY"), p.url("OPENAI_BASE_URL")}
	c.OpenRouter = ProviderConfig{p.secret("OPENROUTER_API_KEY"), p.url("OPENROUTER_BASE_URL")}

	c.Sandbox = p.sandbox("MIKAN_SANDBOX")
	c.Listen = p.text("MIKAN_LISTEN", DefaultListen)
	c.WorkerListen = p.text("MIKAN_WORKER_LISTEN", DefaultWorkerListen)
	c.PublicURL = strings.TrimRight(p.url("MIKAN_PUBLIC_URL"), "/")
	c.TaskQueue = p.text("MIKAN_TASK_QUEUE", run.DefaultQueue)
	c.ServeQueues = Queues(p.text("MIKAN_SERVE_QUEUES", string(QueuesAll)))
	c.CodecKey = p.key("MIKAN_CODEC_KEY")
	c.remember(map[string]string{"MIKAN_CODEC_KEY": p.env.get("MIKAN_CODEC_KEY")})
	c.Deployment = p.text("MIKAN_DEPLOYMENT", "")
	c.BuildID = p.text("MIKAN_BUILD_ID", "")
	c.LogLevel = p.level("MIKAN_LOG_LEVEL")

	c.Slack = SlackConfig{p.secret("SLACK_APP_TOKEN"), p.secret("SLACK_BOT_TOKEN"), p.secret("SLACK_SIGNING_SECRET"), p.url("SLACK_API_URL")}
	if c.Slack.APIURL != "" && !strings.HasSuffix(c.Slack.APIURL, "/") {
		c.Slack.APIURL += "/" // slack-go appends method names as they are
	}
	c.Discord = DiscordConfig{p.secret("DISCORD_BOT_TOKEN"), p.url("DISCORD_API_URL")}
	c.Telegram = TelegramConfig{BotToken: p.secret("TELEGRAM_BOT_TOKEN"), WebhookSecret: p.secret("TELEGRAM_WEBHOOK_SECRET"), APIURL: p.url("TELEGRAM_API_URL")}
	if c.Telegram.WebhookSecret != "" && c.PublicURL != "" {
		c.Telegram.WebhookURL = c.PublicURL + TelegramWebhookPath
	}
	c.GitHub = GitHubConfig{p.secret("GITHUB_AGENT_TOKEN"), p.secret("GITHUB_WEBHOOK_SECRET"), p.url("GITHUB_API_URL")}
}

// reader looks a variable up in the environment, then in an adopted dev.env.
type reader struct {
	getenv func(string) string
	dev    map[string]string // nil when not adopted
	local  bool              // for dev itself, or with its addresses: no credentials of another installation
}

func (r reader) get(name string) string {
	if value := strings.TrimSpace(r.getenv(name)); value != "" {
		return value
	}
	return r.dev[name]
}

// adoptDev takes the values of a dev.env when the environment names neither a database nor Temporal, or the very ones
// that dev uses. Never in part: one installation's database with another's Temporal would be worse than none.
func (r *reader) adoptDev(path string) error {
	if r.get("TEMPORAL_PROFILE") != "" || r.get("TEMPORAL_CONFIG_FILE") != "" {
		return nil
	}
	dev, err := readDevEnv(path)
	if dev == nil || err != nil {
		return err
	}
	for _, name := range []string{"MIKAN_DATABASE_URL", "TEMPORAL_ADDRESS"} {
		if own := r.get(name); own != "" && own != dev[name] {
			return nil
		}
	}
	r.dev, r.local = dev, true
	return nil
}

// parser reads typed values and gathers what is wrong with them.
type parser struct {
	env      reader
	problems []string
}

func (p *parser) problem(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

func (p *parser) text(name, fallback string) string {
	if value := p.env.get(name); value != "" {
		return value
	}
	return fallback
}

func (p *parser) secret(name string) Secret {
	value := p.env.get(name)
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		p.problem("%s holds a line break or another control character; set it to the bare value.", name)
	}
	return Secret(value)
}

func (p *parser) url(name string) string {
	value := p.env.get(name)
	if value == "" {
		return ""
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		p.problem("%s is not an http or https address; set it to something like https://host/path.", name)
	case u.User != nil:
		p.problem("%s holds a user name or password, which would be logged; leave them out.", name)
	case u.RawQuery != "" || u.Fragment != "":
		p.problem("%s ends in a query or fragment, to which no path can be added; leave it out.", name)
	}
	return value
}

func (p *parser) key(name string) Key {
	value := p.env.get(name)
	if value == "" {
		return Key{}
	}
	key, err := ParseKey(value)
	if err != nil {
		p.problem("%s %v; make one with `openssl rand -base64 32`.", name, err)
	}
	return key
}

func (p *parser) model(name, value string) llm.Ref {
	if value == "" {
		return llm.Ref{}
	}
	ref, err := llm.ParseRef(value)
	if err != nil {
		p.problem("%s is refused: %v.", name, err)
	}
	return ref
}

func (p *parser) sandbox(name string) Sandbox {
	value := p.env.get(name)
	kind, image, hasImage := strings.Cut(value, ":")
	s := Sandbox{Kind: SandboxKind(kind), Image: image}
	known := slices.Contains([]SandboxKind{SandboxAuto, SandboxBwrap, SandboxBwrapNet, SandboxDocker, SandboxDockerNet, SandboxHost}, s.Kind)
	if !known || hasImage != s.Kind.hasImage() || hasImage && (image == "" || strings.HasPrefix(image, "-")) {
		p.problem("%s is %q, which is none of bwrap, docker:<image>, host, bwrap+net and docker+net:<image>; set it to one of them.", name, value)
		return Sandbox{}
	}
	return s
}

func (p *parser) level(name string) slog.Level {
	switch value := p.env.get(name); strings.ToLower(value) {
	case "", "info":
		return slog.LevelInfo
	case "debug":
		return slog.LevelDebug
	case "warn", "warning":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	default:
		p.problem("%s is %q, which is none of debug, info, warn and error; set it to one of them.", name, value)
		return slog.LevelInfo
	}
}

// exporterSecrets are the header values with which OpenTelemetry's exporter authenticates; it reads them by itself.
func exporterSecrets(env reader) map[string]string {
	secrets := map[string]string{}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for pair := range strings.SplitSeq(env.get(name), ",") {
			if header, value, found := strings.Cut(pair, "="); found {
				secrets[name+"_"+strings.TrimSpace(header)] = strings.TrimSpace(value)
			}
		}
	}
	return secrets
}
