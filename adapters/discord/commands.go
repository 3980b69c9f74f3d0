package discord

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/bwmarrin/discordgo"

	"github.com/geminixiang/mikan/internal/fault"
)

// command is a slash command:
// https://discord.com/developers/docs/interactions/application-commands#application-command-object.
type command struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Options     []option `json:"options,omitempty"`
}

type option struct {
	Type        discordgo.ApplicationCommandOptionType `json:"type"`
	Name        string                                 `json:"name"`
	Description string                                 `json:"description"`
	Choices     []choice                               `json:"choices,omitempty"`
}

type choice struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func text(name, description string, choices ...choice) option {
	return option{Type: discordgo.ApplicationCommandOptionString, Name: name, Description: description, Choices: choices}
}

// commands are the words that mikan carries out, as Discord offers them.
func commands() []command {
	return []command{
		{"stop", "Stop what mikan is doing here", []option{text("what", "Also drop what waits", choice{"all", "all"})}},
		{"new", "Start an empty session here", nil},
		{"compact", "Let mikan make a summary of this session for itself", nil},
		{"model", "Show or choose the model for this conversation", []option{text("model", "provider/model, or provider/model:thinking")}},
		{"auto-reply", "Whether mikan answers here without being mentioned", []option{
			text("mode", "The mode", choice{"off", "off"}, choice{"on", "on"}, choice{"jev", "jev"}),
		}},
		{"session", "A private link to everything in this session", nil},
		{"memory", "What mikan remembers here", nil},
		{"events", "Scheduled runs here", nil},
		{"help", "What mikan understands", nil},
	}
}

// Discord's limits: https://discord.com/developers/docs/interactions/application-commands#application-command-object.
const (
	maxCommandName        = 32
	maxCommandDescription = 100
	maxCommands           = 100
)

// fitting cuts descriptions to what Discord takes and leaves out what has no acceptable name, so that one command cannot
// keep the others from being registered.
func fitting(all []command) (fit []command, left []string) {
	for _, c := range all {
		if !acceptable(c.Name) || len(fit) == maxCommands {
			left = append(left, c.Name)
			continue
		}
		c.Description = cut(c.Description, c.Name)
		var options []option
		for _, o := range c.Options {
			if acceptable(o.Name) {
				o.Description = cut(o.Description, o.Name)
				options = append(options, o)
			}
		}
		c.Options = options
		fit = append(fit, c)
	}
	return fit, left
}

func acceptable(name string) bool {
	return name != "" && utf8.RuneCountInString(name) <= maxCommandName && name == strings.ToLower(name) &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

func cut(description, fallback string) string {
	runes := []rune(strings.TrimSpace(description))
	switch {
	case len(runes) == 0:
		return fallback
	case len(runes) > maxCommandDescription:
		return string(runes[:maxCommandDescription-1]) + "…"
	}
	return string(runes)
}

// register offers the commands to people, as those of the application, whose id is the bot's own but for the oldest
// applications. Without them, the same words work as messages.
func (c *connection) register(ctx context.Context, application string) {
	if application == "" {
		application = c.self
	}
	fit, left := fitting(commands())
	for _, name := range left {
		c.log.Warn("Discord would not take a command's name", "command", name)
	}
	err := c.persist(ctx, func() error { return c.overwrite(ctx, application, fit) })
	if err != nil && ctx.Err() == nil {
		c.log.Warn("the commands could not be registered", "code", fault.CodeOf(err), "error", err)
	}
}

// overwrite registers all commands at once, or, where Discord refuses them as a whole, one by one.
func (a *Adapter) overwrite(ctx context.Context, application string, all []command) error {
	path := "applications/" + application + "/commands"
	err := a.api.do(ctx, call{what: "commands", method: "PUT", path: path, body: all}, nil)
	if code := fault.CodeOf(err); code != fault.Invalid && code != fault.TooLarge {
		return err
	}
	for _, one := range all {
		err := a.api.do(ctx, call{what: "command", method: "POST", path: path, body: one}, nil)
		switch code := fault.CodeOf(err); {
		case code == fault.Invalid || code == fault.TooLarge:
			a.log.Warn("Discord refuses a command", "command", one.Name, "error", err)
		case err != nil:
			return err
		}
	}
	return nil
}
