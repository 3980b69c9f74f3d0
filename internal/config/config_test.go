package config_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
)

// environment is a getenv over a map.
func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func load(t *testing.T, values map[string]string) (config.Config, error) {
	t.Helper()
	return config.Load(environment(values), t.TempDir())
}

func mustLoad(t *testing.T, values map[string]string) config.Config {
	t.Helper()
	c, err := load(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const aKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

func TestDefaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, err := config.Load(environment(nil), dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2]any{
		"listen":        {c.Listen, "127.0.0.1:8181"},
		"worker listen": {c.WorkerListen, "127.0.0.1:9090"},
		"queue":         {c.TaskQueue, "mikan"},
		"served queues": {c.ServeQueues, config.QueuesAll},
		"workspace":     {c.Workspace, filepath.Join(dir, "workspace")},
		"sandbox":       {c.Sandbox.Kind, config.SandboxAuto},
		"namespace":     {c.Temporal.Namespace, "default"},
		"log level":     {c.LogLevel, slog.LevelInfo},
		"drain":         {c.Settings.Drain, 5 * time.Minute},
		"retention":     {c.Settings.Retention, 30 * 24 * time.Hour},
		"answer age":    {c.Settings.AnswerAge, 24 * time.Hour},
		"silence":       {c.Settings.ModelSilence, 2 * time.Minute},
		"platforms":     {len(c.Platforms()), 0},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
}

func TestEverythingFromTheEnvironment(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, map[string]string{
		"MIKAN_DATABASE_URL": "postgres://u:p@db:5433/mikan", "MIKAN_WORKSPACE": "/srv/w", "MIKAN_MODEL": "openai/llama3:8b",
		"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1", "MIKAN_SANDBOX": "docker:debian:13", "MIKAN_LISTEN": ":80",
		"MIKAN_WORKER_LISTEN": "[::1]:0", "MIKAN_PUBLIC_URL": "https://mikan.example/", "MIKAN_TASK_QUEUE": " q ",
		"MIKAN_SERVE_QUEUES": "tools", "MIKAN_CODEC_KEY": strings.Repeat("0f", 32),
		"MIKAN_DEPLOYMENT": "mikan", "MIKAN_BUILD_ID": "b1", "MIKAN_LOG_LEVEL": "debug",
		"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1", "SLACK_API_URL": "http://127.0.0.1:1/api",
		"DISCORD_BOT_TOKEN": "d", "TELEGRAM_BOT_TOKEN": "t", "GITHUB_AGENT_TOKEN": "g", "GITHUB_WEBHOOK_SECRET": "s",
		"TEMPORAL_ADDRESS": "temporal:7233", "TEMPORAL_NAMESPACE": "ns",
	})
	options, err := c.Temporal.ClientOptions()
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2]any{
		"database":      {c.DatabaseTarget(), "mikan at db:5433"},
		"workspace":     {c.Workspace, "/srv/w"},
		"model":         {c.Model.String(), "openai/llama3:8b"},
		"sandbox":       {c.Sandbox, config.Sandbox{Kind: config.SandboxDocker, Image: "debian:13"}},
		"public URL":    {c.PublicURL, "https://mikan.example"},
		"queue":         {c.TaskQueue, "q"},
		"served queues": {c.ServeQueues, config.QueuesTools},
		"codec key":     {hex.EncodeToString(c.CodecKey.Bytes()), strings.Repeat("0f", 32)},
		"log level":     {c.LogLevel, slog.LevelDebug},
		"Slack's URL":   {c.Slack.APIURL, "http://127.0.0.1:1/api/"},
		"address":       {options.HostPort, "temporal:7233"},
		"namespace":     {options.Namespace, "ns"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	want := []office.Platform{office.Slack, office.Discord, office.Telegram, office.GitHub}
	if !slices.Equal(c.Platforms(), want) {
		t.Errorf("platforms are %v", c.Platforms())
	}
}

func TestProblemsAreSentencesThatNameTheVariable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env   map[string]string
		wants []string // every one stands in the error
	}{
		"a listen address without a port": {map[string]string{"MIKAN_LISTEN": "localhost"}, []string{"MIKAN_LISTEN", "host:port"}},
		"a port out of range":             {map[string]string{"MIKAN_WORKER_LISTEN": "a:70000"}, []string{"MIKAN_WORKER_LISTEN"}},
		"an unknown queue choice":         {map[string]string{"MIKAN_SERVE_QUEUES": "both"}, []string{"MIKAN_SERVE_QUEUES", "all, main and tools"}},
		"an unknown sandbox":              {map[string]string{"MIKAN_SANDBOX": "chroot"}, []string{"MIKAN_SANDBOX", "docker:<image>"}},
		"docker without an image":         {map[string]string{"MIKAN_SANDBOX": "docker:"}, []string{"MIKAN_SANDBOX"}},
		"docker without an image, net":    {map[string]string{"MIKAN_SANDBOX": "docker+net:"}, []string{"MIKAN_SANDBOX"}},
		"a network of the host":           {map[string]string{"MIKAN_SANDBOX": "host+net"}, []string{"MIKAN_SANDBOX", "bwrap+net"}},
		"bwrap with an image":             {map[string]string{"MIKAN_SANDBOX": "bwrap:x"}, []string{"MIKAN_SANDBOX"}},
		"a short key":                     {map[string]string{"MIKAN_CODEC_KEY": "c2hvcnQ="}, []string{"MIKAN_CODEC_KEY", "openssl rand -base64 32"}},
		"a key that is no base64":         {map[string]string{"MIKAN_CODEC_KEY": "%%%"}, []string{"MIKAN_CODEC_KEY", "openssl rand -base64 32"}},
		"a model without its key":         {map[string]string{"MIKAN_MODEL": "anthropic/claude-sonnet-5-5"}, []string{"MIKAN_MODEL", "ANTHROPIC_API_KEY"}},
		"a decision model without a key":  {map[string]string{"MIKAN_JEV_MODEL": "openai-chat/x"}, []string{"MIKAN_JEV_MODEL", "OPENAI_API_KEY"}},
		"an unknown provider":             {map[string]string{"MIKAN_MODEL": "acme/x"}, []string{"MIKAN_MODEL", "acme"}},
		"a model without a provider":      {map[string]string{"MIKAN_MODEL": "gpt"}, []string{"MIKAN_MODEL", "provider/model"}},
		"a build id alone":                {map[string]string{"MIKAN_BUILD_ID": "1"}, []string{"MIKAN_DEPLOYMENT", "MIKAN_BUILD_ID"}},
		"a log level":                     {map[string]string{"MIKAN_LOG_LEVEL": "loud"}, []string{"MIKAN_LOG_LEVEL", "loud"}},
		"an address without a scheme":     {map[string]string{"TELEGRAM_API_URL": "127.0.0.1:80"}, []string{"TELEGRAM_API_URL", "http"}},
		"a Slack app without a bot":       {map[string]string{"SLACK_APP_TOKEN": "xapp-1"}, []string{"SLACK_BOT_TOKEN"}},
		"a Slack bot that hears nothing":  {map[string]string{"SLACK_BOT_TOKEN": "xoxb-1"}, []string{"SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET"}},
		"exchanged Slack tokens":          {map[string]string{"SLACK_BOT_TOKEN": "xapp-1", "SLACK_APP_TOKEN": "xoxb-1"}, []string{"exchanged"}},
		"a webhook without an address":    {map[string]string{"TELEGRAM_BOT_TOKEN": "1:t", "TELEGRAM_WEBHOOK_SECRET": "s"}, []string{"TELEGRAM_WEBHOOK_SECRET", "MIKAN_PUBLIC_URL"}},
		"a webhook without encryption":    {map[string]string{"TELEGRAM_BOT_TOKEN": "1:t", "TELEGRAM_WEBHOOK_SECRET": "s", "MIKAN_PUBLIC_URL": "http://m.example"}, []string{"MIKAN_PUBLIC_URL", "https"}},
		"a secret that Telegram refuses":  {map[string]string{"TELEGRAM_BOT_TOKEN": "1:t", "TELEGRAM_WEBHOOK_SECRET": "a b", "MIKAN_PUBLIC_URL": "https://m.example"}, []string{"TELEGRAM_WEBHOOK_SECRET", "A-Z"}},
		"a webhook without a bot":         {map[string]string{"TELEGRAM_WEBHOOK_SECRET": "s", "MIKAN_PUBLIC_URL": "https://m.example"}, []string{"TELEGRAM_BOT_TOKEN"}},
		"GitHub without its secret":       {map[string]string{"GITHUB_AGENT_TOKEN": "g"}, []string{"GITHUB_WEBHOOK_SECRET"}},
		"Temporal without a port":         {map[string]string{"TEMPORAL_ADDRESS": "temporal"}, []string{"TEMPORAL_ADDRESS"}},
		"another database":                {map[string]string{"MIKAN_DATABASE_URL": "mysql://h/d"}, []string{"MIKAN_DATABASE_URL", "Postgres"}},
		"a settings file that is missing": {map[string]string{"MIKAN_CONFIG": "/nonexistent/x.yaml"}, []string{"MIKAN_CONFIG", "/nonexistent/x.yaml"}},
		"several at once": {map[string]string{"MIKAN_LISTEN": "x", "MIKAN_SANDBOX": "y", "MIKAN_CODEC_KEY": "z"},
			[]string{"MIKAN_LISTEN", "MIKAN_SANDBOX", "MIKAN_CODEC_KEY"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, c.env)
			var refused *config.Error
			if !errors.As(err, &refused) || fault.CodeOf(err) != fault.Invalid {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %s", err, want)
				}
			}
			for _, problem := range refused.Problems {
				if !strings.HasSuffix(problem, ".") || strings.Contains(problem, "\n\n") {
					t.Errorf("%q is no sentence", problem)
				}
			}
		})
	}
}

func TestPasswordsFullOfMetacharactersWorkWhenEncoded(t *testing.T) {
	t.Parallel()
	const password = `p@:/#?%&=+ "'\$[]{}|^~é`
	for name, dsn := range map[string]string{
		"by net/url":      (&url.URL{Scheme: "postgres", User: url.UserPassword("mikan", password), Host: "db:5432", Path: "/mikan"}).String(),
		"by query escape": "postgres://mikan:" + strings.ReplaceAll(url.QueryEscape(password), "+", "%20") + "@db:5432/mikan",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustLoad(t, map[string]string{"MIKAN_DATABASE_URL": dsn})
			if c.DatabaseTarget() != "mikan at db:5432" {
				t.Errorf("the database is %q", c.DatabaseTarget())
			}
			if got := c.Secrets()["MIKAN_DATABASE_PASSWORD"]; got != password {
				t.Errorf("the password to hide is %q", got)
			}
			if written := c.Secrets()["MIKAN_DATABASE_PASSWORD_ENCODED"]; written == "" || !strings.Contains(dsn, written) {
				t.Errorf("the encoded password to hide is %q", written)
			}
		})
	}
}

func TestABadDatabaseURLIsRefusedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://u:hun#ter2@db/mikan", "postgres://u:hun/ter2@db/mikan", "postgres://u:hun?ter2@db/mikan",
		"postgres://u:hun%ter2@db/mikan", "postgres://u:123/ter2@db/mikan", "postgres://u:hunter2@db:port/mikan",
		"postgres://u:hunter2@db/mikan?sslmode=maybe", "host=db password=hunter2 port=x",
		"postgres://u:hunter2@db/mikan?sslmode=verify-ca&sslrootcert=/nonexistent/ca.pem", "postgres://u:hunter2@",
		"postgres://u:hunter2@db/mikan\x7f",
	} {
		_, err := load(t, map[string]string{"MIKAN_DATABASE_URL": dsn})
		if dsn == "postgres://u:hunter2@" && err == nil {
			continue // libpq takes its own defaults for what is missing
		}
		if err == nil {
			t.Errorf("%q passes", dsn)
			continue
		}
		for _, part := range []string{"hun", "ter2", "123"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("the sentence about %q tells the password: %v", dsn, err)
			}
		}
		if !strings.Contains(err.Error(), "MIKAN_DATABASE_URL") {
			t.Errorf("the sentence does not name the variable: %v", err)
		}
	}
}

func TestTheDefaultModelFollowsTheKeys(t *testing.T) {
	t.Parallel()
	anthropic, openai, router := "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"
	for name, c := range map[string]struct {
		env  map[string]string
		want string // provider
	}{
		"all three":       {map[string]string{anthropic: "a", openai: "b", router: "c"}, "anthropic"},
		"two":             {map[string]string{openai: "b", router: "c"}, "openai"},
		"OpenRouter only": {map[string]string{router: "c"}, "openrouter"},
		"a named model":   {map[string]string{anthropic: "a", openai: "b", "MIKAN_MODEL": "openai/gpt-x:high"}, "openai"},
		"none":            {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := mustLoad(t, c.env)
			if got.Model.Provider != c.want {
				t.Errorf("the model is %v", got.Model)
			}
			err := got.Require(config.NeedModel)
			if (err == nil) != (c.want != "") {
				t.Errorf("Require says %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "ANTHROPIC_API_KEY") {
				t.Errorf("the refusal names no variable: %v", err)
			}
		})
	}
	dev, err := config.LoadForDev(environment(nil), t.TempDir())
	if err != nil || dev.Model.String() != "demo/demo" {
		t.Errorf("dev without keys uses %v, %v", dev.Model, err)
	}
}

func TestCaptureIsNeverTurnedOnByAChatProvidersKey(t *testing.T) {
	t.Parallel()
	if ref, on := mustLoad(t, map[string]string{"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b"}).Jev(); on {
		t.Errorf("the decision model is %v", ref)
	}
	if ref, on := mustLoad(t, map[string]string{"OPENROUTER_API_KEY": "c"}).Jev(); !on || ref.String() != "openrouter/~typesafe/jev-latest" {
		t.Errorf("the decision model is %v (%v)", ref, on)
	}
	if ref, on := mustLoad(t, map[string]string{"ANTHROPIC_API_KEY": "a", "MIKAN_JEV_MODEL": "anthropic/small"}).Jev(); !on || ref.Model != "small" {
		t.Errorf("the decision model is %v (%v)", ref, on)
	}
}

func TestRequireSaysWhatToSet(t *testing.T) {
	t.Parallel()
	err := mustLoad(t, nil).Require(config.NeedDatabase, config.NeedPlatform, config.NeedModel)
	for _, want := range []string{"MIKAN_DATABASE_URL", "mikan dev", "SLACK_BOT_TOKEN", "OPENAI_API_KEY"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// secretEnvironment sets every variable that holds a secret, to values that end in "-hidden".
func secretEnvironment() map[string]string {
	env := map[string]string{
		"MIKAN_DATABASE_URL":         "postgres://u:pa%40ss-hidden@db/mikan",
		"MIKAN_CODEC_KEY":            aKey,
		"SLACK_APP_TOKEN":            "xapp-hidden",
		"SLACK_BOT_TOKEN":            "xoxb-hidden",
		"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic otlp-hidden,x=y",
		"MIKAN_PUBLIC_URL":           "https://mikan.example",
	}
	for _, name := range []string{
		"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "SLACK_SIGNING_SECRET", "DISCORD_BOT_TOKEN",
		"TELEGRAM_BOT_TOKEN", "TELEGRAM_WEBHOOK_SECRET", "GITHUB_AGENT_TOKEN", "GITHUB_WEBHOOK_SECRET", "TEMPORAL_API_KEY", "TEMPORAL_CODEC_AUTH",
	} {
		env[name] = strings.ToLower(name) + "-hidden"
	}
	return env
}

func TestEverySecretIsListedForRedaction(t *testing.T) {
	t.Parallel()
	env := secretEnvironment()
	secrets := mustLoad(t, env).Secrets()
	values := map[string]bool{}
	for _, value := range secrets {
		values[value] = true
	}
	for name, value := range env {
		if name != "OTEL_EXPORTER_OTLP_HEADERS" && name != "MIKAN_PUBLIC_URL" && secrets[name] != value {
			t.Errorf("%s is listed as %q", name, secrets[name])
		}
	}
	for _, value := range []string{"pa@ss-hidden", "pa%40ss-hidden", "Basic otlp-hidden"} {
		if !values[value] {
			t.Errorf("%q is not listed", value)
		}
	}
}

func TestAConfigPrintsWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, secretEnvironment())
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("configured", "config", c, "token", c.Slack.BotToken, "key", c.CodecKey)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("configured", "config", c, "slack", c.Slack, "key", c.CodecKey)
	asJSON, err := json.Marshal(struct {
		S any
		K any
	}{c.Slack, c.CodecKey})
	if err != nil {
		t.Fatal(err)
	}
	hexKey := hex.EncodeToString(c.CodecKey.Bytes())
	for name, printed := range map[string]string{
		"%v": fmt.Sprint(c), "%+v": fmt.Sprintf("%+v", c), "%#v": fmt.Sprintf("%#v", c), "%s": fmt.Sprintf("%s", c.Slack),
		"%q": fmt.Sprintf("%q", c.GitHub), "%x": fmt.Sprintf("%x", c.CodecKey), "%d": fmt.Sprintf("%d", c.CodecKey),
		"pointer": fmt.Sprintf("%+v", &c), "slog": logged.String(), "json": string(asJSON),
	} {
		if strings.Contains(printed, "hidden") || strings.Contains(printed, aKey) || strings.Contains(printed, hexKey) ||
			strings.Contains(printed, "[0 1 2 3") {
			t.Errorf("%s shows a secret: %s", name, printed)
		}
	}
	if !strings.Contains(fmt.Sprint(c.Slack), "[set]") {
		t.Error("a set secret does not show as set")
	}
}

func TestKeysComeInEitherEncoding(t *testing.T) {
	t.Parallel()
	for _, s := range []string{aKey, strings.TrimRight(aKey, "="), hex.EncodeToString(bytes.Repeat([]byte{0xfb}, 32)),
		"-_-_" + strings.Repeat("A", 39) + "="} {
		key, err := config.ParseKey(s)
		if err != nil || !key.IsSet() || len(key.Bytes()) != 32 {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"", "x", strings.Repeat("0", 63), strings.Repeat("0", 66), strings.Repeat("A", 64)} {
		if key, err := config.ParseKey(s); (err == nil) != (s == strings.Repeat("A", 64)) {
			t.Errorf("%q: %v, %v", s, key.IsSet(), err)
		} else if err != nil && strings.Contains(err.Error(), s) && s != "" && s != "x" {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheSettingsFile(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "mikan.yaml", `
instructions: |
  Answer in Traditional Chinese.
model: openai/gpt-x:low
models:
  openai/gpt-x: {context_window: 200000, max_output: 32000, input_usd: 1.5, output_usd: 6}
access:
  slack: {channels: [C1]}
  telegram: {users: [12345], chats: [-1001234567890]}
  github: {repositories: [acme/web, "acme/*"]}
admins:
  slack: [U1]
tools: {bash: off, read: on, attach: false}
spend_limit_usd_per_day: 2.5
auto_reply: off
slack: {reply_mode: thread}
github: {triggers: [mention, follow_up], capabilities: [pr]}
drain_seconds: 45
answer_age_hours: 0.5
retention_days: 90
model_silence_seconds: 600
`)
	c := mustLoad(t, map[string]string{"MIKAN_CONFIG": path, "OPENAI_API_KEY": "k"})
	s := c.Settings
	for name, pair := range map[string][2]any{
		"instructions": {s.Instructions, "Answer in Traditional Chinese.\n"},
		"model":        {c.Model.String(), "openai/gpt-x:low"},
		"window":       {s.Models["openai/gpt-x"].ContextWindow, 200000},
		"price":        {*s.Models["openai/gpt-x"].OutputUSD, 6.0},
		"chat":         {s.Access.Telegram.Chats[0], "-1001234567890"},
		"user":         {s.Access.Telegram.Users[0], "12345"},
		"admin":        {s.Admins[office.Slack][0], "U1"},
		"bash":         {s.ToolEnabled("bash"), false},
		"attach":       {s.ToolEnabled("attach"), false},
		"read":         {s.ToolEnabled("read"), true},
		"unnamed tool": {s.ToolEnabled("write"), true},
		"limit":        {s.SpendLimitUSD, 2.5},
		"auto reply":   {s.AutoReply, config.AutoReplyOff},
		"reply mode":   {s.Slack.ReplyMode, config.ReplyInThread},
		"capability":   {s.GitHub.Capabilities[0], config.MayOpenPullRequests},
		"drain":        {s.Drain, 45 * time.Second},
		"answer age":   {s.AnswerAge, 30 * time.Minute},
		"retention":    {s.Retention, 90 * 24 * time.Hour},
		"silence":      {s.ModelSilence, 10 * time.Minute},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	fromEnv := mustLoad(t, map[string]string{"MIKAN_CONFIG": path, "OPENAI_API_KEY": "k", "MIKAN_MODEL": "openai/other"})
	if fromEnv.Model.Model != "other" {
		t.Errorf("the file's model wins over the environment's: %v", fromEnv.Model)
	}
}

func TestBadSettingsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"instuctions: x":                  "instuctions",
		"tools: {bash: maybe}":            "maybe",
		"auto_reply: sometimes":           "auto_reply",
		"slack: {reply_mode: sideways}":   "sideways",
		"slack: {replyMode: sideways}":    "sideways",
		"slack: {reply: thread}":          "field reply not found",
		"spend_limit_usd_per_day: -1":     "spend_limit_usd_per_day",
		"drain_seconds: 7200":             "drain_seconds",
		"answer_age_hours: -1":            "answer_age_hours",
		"retention_days: 0.5":             "retention_days",
		"model_silence_seconds: 0":        "model_silence_seconds",
		"admins: {matrix: [x]}":           "matrix",
		"models: {gpt: {max_output: 1}}":  "gpt",
		"github: {capabilities: [merge]}": "merge",
		"model: nonsense":                 "nonsense",
		"{":                               "MIKAN_CONFIG",
	} {
		_, err := load(t, map[string]string{"MIKAN_CONFIG": writeFile(t, "c.yaml", content)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", content, err)
		}
	}
	mustLoad(t, map[string]string{"MIKAN_CONFIG": writeFile(t, "empty.yaml", "")})
}
