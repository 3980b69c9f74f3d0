package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/llm"
)

// Validate checks what the fields say of each other, for a Config that was changed after Load. The error is an *Error.
func (c Config) Validate() error {
	if problems := c.problems(); len(problems) > 0 {
		return &Error{problems}
	}
	return nil
}

func (c Config) problems() []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }

	if c.DatabaseURL != "" {
		if problem := checkDatabaseURL(c.DatabaseURL.Reveal()); problem != "" {
			add("%s", problem)
		}
	}
	if c.Temporal.Address != "" && !hasPort(c.Temporal.Address) {
		add("TEMPORAL_ADDRESS is %q, which is not host:port; set it to something like 127.0.0.1:7233.", c.Temporal.Address)
	}
	for name, address := range map[string]string{"MIKAN_LISTEN": c.Listen, "MIKAN_WORKER_LISTEN": c.WorkerListen} {
		if !hasPort(address) {
			add("%s is %q, which is not host:port; set it to something like %s.", name, address, DefaultListen)
		}
	}
	if c.Model != (llm.Ref{}) && !c.Serves(c.Model.Provider) {
		add("MIKAN_MODEL is %s, but %s is not set; set it, or name a model of a provider whose key is set.",
			c.Model, keyVariable(c.Model.Provider))
	}
	if c.JevModel != (llm.Ref{}) && !c.Serves(c.JevModel.Provider) {
		add("MIKAN_JEV_MODEL is %s, but %s is not set; set it, or leave MIKAN_JEV_MODEL out.",
			c.JevModel, keyVariable(c.JevModel.Provider))
	}
	if c.TaskQueue == "" || len(c.TaskQueue) > maxTaskQueue {
		add("MIKAN_TASK_QUEUE must have 1 to %d characters.", maxTaskQueue)
	}
	if !slices.Contains([]Queues{QueuesAll, QueuesMain, QueuesTools}, c.ServeQueues) {
		add("MIKAN_SERVE_QUEUES is %q, which is none of all, main and tools; set it to one of them.", c.ServeQueues)
	}
	if (c.Deployment == "") != (c.BuildID == "") {
		add("MIKAN_DEPLOYMENT and MIKAN_BUILD_ID turn worker versioning on together; set both or neither.")
	}
	all = append(all, c.platformProblems()...)
	all = append(all, c.Settings.problems()...)
	slices.Sort(all) // maps have no order, and people compare two runs
	return all
}

// maxTaskQueue leaves room for "-tools" in the 255 characters that Temporal's SQL stores hold.
const maxTaskQueue = 200

func (c Config) platformProblems() []string {
	var all []string
	if c.Slack.BotToken == "" && (c.Slack.AppToken != "" || c.Slack.SigningSecret != "") {
		all = append(all, "SLACK_BOT_TOKEN is not set, although other SLACK_ variables are; set it to the bot token (xoxb-…) of the Slack app.")
	}
	if c.Slack.BotToken != "" && c.Slack.AppToken == "" && c.Slack.SigningSecret == "" {
		all = append(all, "SLACK_BOT_TOKEN is set, but nothing by which events come in; set SLACK_APP_TOKEN for Socket Mode or "+
			"SLACK_SIGNING_SECRET for the HTTP Events API.")
	}
	if strings.HasPrefix(c.Slack.AppToken.Reveal(), "xoxb-") || strings.HasPrefix(c.Slack.BotToken.Reveal(), "xapp-") {
		all = append(all, "SLACK_APP_TOKEN and SLACK_BOT_TOKEN are exchanged; the app token begins with xapp-, the bot token with xoxb-.")
	}
	all = append(all, c.telegramProblems()...)
	if (c.GitHub.AgentToken == "") != (c.GitHub.WebhookSecret == "") {
		all = append(all, "GITHUB_AGENT_TOKEN and GITHUB_WEBHOOK_SECRET work only together; set the bound account's token and the secret of the webhook.")
	}
	return all
}

// telegramSecret is what Telegram takes as a webhook's secret_token (https://core.telegram.org/bots/api#setwebhook).
var telegramSecret = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)

func (c Config) telegramProblems() []string {
	var all []string
	if c.Telegram.WebhookSecret == "" {
		return nil
	}
	if c.Telegram.BotToken == "" {
		all = append(all, "TELEGRAM_BOT_TOKEN is not set, although TELEGRAM_WEBHOOK_SECRET is; set it to the token that @BotFather gave you.")
	}
	if !telegramSecret.MatchString(c.Telegram.WebhookSecret.Reveal()) {
		all = append(all, "TELEGRAM_WEBHOOK_SECRET is refused by Telegram, which takes 1 to 256 of the characters A-Z, a-z, 0-9, _ and -; "+
			"make one with `openssl rand -hex 32`.")
	}
	if c.PublicURL == "" {
		all = append(all, "TELEGRAM_WEBHOOK_SECRET is set, but MIKAN_PUBLIC_URL is not; set it to the https address at which Telegram "+
			"reaches the gateway, or leave the secret out to fetch messages by long polling.")
	} else if c.Telegram.APIURL == "" && !strings.HasPrefix(c.PublicURL, "https://") {
		all = append(all, "MIKAN_PUBLIC_URL is no https address, and Telegram posts to no other; change it, or leave "+
			"TELEGRAM_WEBHOOK_SECRET out to fetch messages by long polling.")
	}
	return all
}

func hasPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// Need is something without which a process cannot do its work.
type Need string

// The needs. The gateway needs a database and a platform, the worker a database and a model, most commands a database.
const (
	NeedDatabase Need = "database"
	NeedModel    Need = "model"
	NeedPlatform Need = "platform"
)

// Require refuses a configuration that lacks something, in sentences that say what to set. The error is an *Error.
func (c Config) Require(needs ...Need) error {
	var missing []string
	for _, need := range needs {
		switch {
		case need == NeedDatabase && c.DatabaseURL == "":
			missing = append(missing, "MIKAN_DATABASE_URL is not set, and no `mikan dev` has run on "+c.DataDir+
				"; set it to something like "+databaseExample+", or start `mikan dev`.")
		case need == NeedModel && c.Model == (llm.Ref{}):
			missing = append(missing, "No model can be called: none of ANTHROPIC_API_KEY, OPENAI_API_KEY and OPENROUTER_API_KEY is set; "+
				"set one, or MIKAN_MODEL with OPENAI_BASE_URL for a server of your own, or MIKAN_MODEL=demo/demo to try mikan without a model.")
		case need == NeedPlatform && len(c.Platforms()) == 0:
			missing = append(missing, "No platform is configured: none of SLACK_BOT_TOKEN, DISCORD_BOT_TOKEN, TELEGRAM_BOT_TOKEN and "+
				"GITHUB_AGENT_TOKEN is set; set those of the platforms to serve.")
		}
	}
	if len(missing) > 0 {
		return &Error{missing}
	}
	return nil
}

func (s Settings) problems() []string {
	var all []string
	if s.SpendLimitUSD < 0 {
		all = append(all, "spend_limit_usd_per_day is negative; set an amount in US dollars, or leave it out for no limit.")
	}
	if s.Drain < 0 || s.Drain > time.Hour {
		all = append(all, "drain_seconds must lie between 0 and 3600.")
	}
	if s.ModelSilence < time.Second || s.ModelSilence > 10*time.Minute {
		all = append(all, "model_silence_seconds must lie between 1 and 600: a call may take 15 minutes in all.")
	}
	if s.Retention < LeastRetention {
		all = append(all, "retention_days must be at least 1; what is younger may still be needed.")
	}
	if s.AnswerAge < 0 {
		all = append(all, "answer_age_hours is negative; set how old a missed message may be and still be answered.")
	}
	check := func(name, value string, allowed ...string) {
		if value != "" && !slices.Contains(allowed, value) {
			all = append(all, fmt.Sprintf("%s is %q; it must be one of %s.", name, value, strings.Join(allowed, ", ")))
		}
	}
	check("auto_reply", string(s.AutoReply), string(AutoReplyOff), string(AutoReplyOn), string(AutoReplyJev))
	check("slack.reply_mode", string(s.Slack.ReplyMode), string(ReplyTopLevel), string(ReplyInThread))
	for _, trigger := range s.GitHub.Triggers {
		check("github.triggers", string(trigger), string(OnMention), string(OnAssignment), string(OnReviewRequest), string(OnFollowUp))
	}
	for _, capability := range s.GitHub.Capabilities {
		check("github.capabilities", string(capability), string(MayOpenIssues), string(MayOpenPullRequests))
	}
	for name := range s.Models {
		if _, err := llm.ParseRef(name); err != nil {
			all = append(all, fmt.Sprintf("models: %v.", err))
		}
	}
	for platform := range s.Admins {
		check("admins", string(platform), "slack", "discord", "telegram", "github", "terminal")
	}
	return all
}
