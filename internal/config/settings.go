package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
)

// Settings are what the file named by MIKAN_CONFIG says: what is too long or too nested for the environment. Each
// office can override those that concern a conversation. The zero value is that of an installation without a file,
// but for the durations, which Load fills in.
type Settings struct {
	// Instructions are added to the system prompt. Default none.
	Instructions string `yaml:"instructions"`
	// Models changes the model catalogue, by provider/model. Default none.
	Models map[string]ModelOverride `yaml:"models"`
	// Access says who may talk to mikan, beside each platform's default.
	Access Access `yaml:"access"`
	// Admins lists, per platform, the ids of people who administer every office there. Default none.
	Admins map[office.Platform][]string `yaml:"admins"`
	// Tools turns single tools on or off by name; those not named are on.
	Tools map[string]Switch `yaml:"tools"`
	// SpendLimitUSD is what one office may spend on models in a day of its time zone, in US dollars; 0 = no limit.
	SpendLimitUSD float64 `yaml:"spend_limit_usd_per_day"`
	// AutoReply is for shared channels without a mention. Default off.
	AutoReply AutoReply      `yaml:"auto_reply"`
	Slack     SlackSettings  `yaml:"slack"`
	GitHub    GitHubSettings `yaml:"github"`

	// Drain is drain_seconds: how long a stopping process lets work go on that it has begun. Default 5 minutes,
	// 0 to 3600 s. An orchestrator's grace period must be longer. A dev's default is 20 s: somebody sits
	// before it.
	Drain time.Duration `yaml:"-"`
	// AnswerAge is answer_age_hours: how old a message that was missed may be and still be answered. Default 24 h.
	AnswerAge time.Duration `yaml:"-"`
	// Retention is retention_days: how long bookkeeping that has served its purpose is kept before it is pruned. What
	// was said is never pruned. Default 30 days, at least one.
	Retention time.Duration `yaml:"-"`
	// ModelSilence is model_silence_seconds: how long a model may send nothing before its call is ended and made again.
	// Default 2 minutes, 1 to 900 s. Hosted models send signs of life; one of your own may not while it reads a long
	// prompt.
	ModelSilence time.Duration `yaml:"-"`
}

// ModelOverride corrects or adds a model of the catalogue. Absent fields keep the catalogue's value.
type ModelOverride struct {
	ContextWindow int      `yaml:"context_window"` // tokens; 0 = not said
	MaxOutput     int      `yaml:"max_output"`     // tokens; 0 = not said
	InputUSD      *float64 `yaml:"input_usd"`      // prices in US dollars per million tokens
	OutputUSD     *float64 `yaml:"output_usd"`
	CacheReadUSD  *float64 `yaml:"cache_read_usd"`
	CacheWriteUSD *float64 `yaml:"cache_write_usd"`
}

// Access lists who may talk to mikan. Ids are the platforms' own.
type Access struct {
	// Slack: empty lists admit the members of the installed workspace, but no guests and no strangers from shared
	// channels.
	Slack struct {
		Workspaces []string `yaml:"workspaces"`
		Channels   []string `yaml:"channels"`
		Users      []string `yaml:"users"`
	} `yaml:"slack"`
	// Discord: members of the listed guilds, and the listed users. Empty lists admit nobody.
	Discord struct {
		Guilds []string `yaml:"guilds"`
		Users  []string `yaml:"users"`
	} `yaml:"discord"`
	// Telegram: the listed users, and everybody in the listed chats. Empty lists admit nobody.
	Telegram struct {
		Users []string `yaml:"users"`
		Chats []string `yaml:"chats"`
	} `yaml:"telegram"`
	// GitHub: owner/repository, or owner/* for all of one owner's, and logins. Empty lists leave the decision to each
	// sender's permission in the repository alone.
	GitHub struct {
		Repositories []string `yaml:"repositories"`
		Users        []string `yaml:"users"`
	} `yaml:"github"`
}

// Switch is on or off.
type Switch string

// The positions of a Switch.
const (
	On  Switch = "on"
	Off Switch = "off"
)

// UnmarshalYAML takes what people write for on and off, which YAML reads as booleans in some versions.
func (s *Switch) UnmarshalYAML(node *yaml.Node) error {
	switch node.Value {
	case "on", "true", "yes":
		*s = On
	case "off", "false", "no":
		*s = Off
	default:
		return fmt.Errorf("line %d: %q is neither on nor off", node.Line, node.Value)
	}
	return nil
}

// ToolEnabled tells whether a tool is on.
func (s Settings) ToolEnabled(name string) bool { return s.Tools[name] != Off }

// AutoReply says when mikan answers in a shared channel without being mentioned.
type AutoReply string

// The modes. The empty value is AutoReplyOff.
const (
	AutoReplyOff AutoReply = "off"
	AutoReplyOn  AutoReply = "on"
	AutoReplyJev AutoReply = "jev" // the decision model judges whether a message addresses mikan
)

// UnmarshalYAML takes on and off in whatever way YAML spells them, and jev.
func (a *AutoReply) UnmarshalYAML(node *yaml.Node) error {
	if node.Value == string(AutoReplyJev) {
		*a = AutoReplyJev
		return nil
	}
	var s Switch
	if err := s.UnmarshalYAML(node); err != nil {
		return fmt.Errorf("line %d: auto_reply is %q, which is none of off, on and jev", node.Line, node.Value)
	}
	*a = AutoReply(s)
	return nil
}

// ReplyMode says where an answer to a top-level Slack message goes.
type ReplyMode string

// The modes. The empty value is ReplyTopLevel.
const (
	ReplyTopLevel ReplyMode = "top-level"
	ReplyInThread ReplyMode = "thread"
)

// SlackSettings are Slack's own.
type SlackSettings struct {
	// ReplyMode is reply_mode, or replyMode as version 0.5.3 wrote it.
	ReplyMode ReplyMode `yaml:"reply_mode"`
}

// UnmarshalYAML takes both spellings, and refuses other names as the rest of the file does.
func (s *SlackSettings) UnmarshalYAML(node *yaml.Node) error {
	var settings map[string]ReplyMode
	if err := node.Decode(&settings); err != nil {
		return err
	}
	for name, mode := range settings {
		if name != "reply_mode" && name != "replyMode" {
			return fmt.Errorf("line %d: field %s not found in slack", node.Line, name)
		}
		s.ReplyMode = mode
	}
	return nil
}

// GitHubTrigger is an event that starts a run.
type GitHubTrigger string

// The triggers. None listed means all.
const (
	OnMention       GitHubTrigger = "mention"
	OnAssignment    GitHubTrigger = "assignment"
	OnReviewRequest GitHubTrigger = "review_request"
	OnFollowUp      GitHubTrigger = "follow_up" // a comment where mikan already takes part
)

// GitHubCapability is something that the agent may do beyond answering.
type GitHubCapability string

// The capabilities. None is the default.
const (
	MayOpenIssues       GitHubCapability = "issue"
	MayOpenPullRequests GitHubCapability = "pr"
)

// GitHubSettings are GitHub's own.
type GitHubSettings struct {
	Triggers     []GitHubTrigger    `yaml:"triggers"`
	Capabilities []GitHubCapability `yaml:"capabilities"`
}

// settingsFile is the file's form: Settings, and what is kept in another type or place.
type settingsFile struct {
	Settings       `yaml:",inline"`
	Model          string   `yaml:"model"`
	DrainSeconds   *float64 `yaml:"drain_seconds"`
	AnswerAgeHours *float64 `yaml:"answer_age_hours"`
	RetentionDays  *float64 `yaml:"retention_days"`
	ModelSilence   *float64 `yaml:"model_silence_seconds"`
}

// readSettings reads the file; an empty path gives the defaults. Names it does not know are refused, since a misspelt
// setting that is silently ignored is found out too late.
func readSettings(path string) (settingsFile, error) {
	s := settingsFile{Settings: Settings{Drain: DefaultDrain, AnswerAge: DefaultAnswerAge, Retention: DefaultRetention, ModelSilence: llm.DefaultIdleTimeout}}
	if path == "" {
		return s, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return s, fmt.Errorf("MIKAN_CONFIG names a file that cannot be read: %w; correct the path", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return s, fmt.Errorf("MIKAN_CONFIG: %s is refused: %w", path, err)
	}
	if s.DrainSeconds != nil {
		s.Drain = time.Duration(*s.DrainSeconds * float64(time.Second))
	}
	if s.AnswerAgeHours != nil {
		s.AnswerAge = time.Duration(*s.AnswerAgeHours * float64(time.Hour))
	}
	if s.RetentionDays != nil {
		s.Retention = time.Duration(*s.RetentionDays * float64(24*time.Hour))
	}
	if s.ModelSilence != nil {
		s.Settings.ModelSilence = time.Duration(*s.ModelSilence * float64(time.Second))
	}
	return s, nil
}
