package slacktest

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Manifest is an app's manifest, as far as it is checked here.
// https://docs.slack.dev/reference/app-manifest
type Manifest struct {
	Display struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
		Long        string `yaml:"long_description"`
		Background  string `yaml:"background_color"`
	} `yaml:"display_information"`
	Features struct {
		Home struct {
			Home     bool `yaml:"home_tab_enabled"`
			Messages bool `yaml:"messages_tab_enabled"`
			ReadOnly bool `yaml:"messages_tab_read_only_enabled"`
		} `yaml:"app_home"`
		Bot struct {
			Name   string `yaml:"display_name"`
			Online bool   `yaml:"always_online"`
		} `yaml:"bot_user"`
		Commands []struct {
			Command string `yaml:"command"`
			Text    string `yaml:"description"`
			Hint    string `yaml:"usage_hint"`
			Escape  bool   `yaml:"should_escape"`
			URL     string `yaml:"url"`
		} `yaml:"slash_commands"`
		Assistant *struct {
			Text    string `yaml:"assistant_description"`
			Prompts []struct {
				Title   string `yaml:"title"`
				Message string `yaml:"message"`
			} `yaml:"suggested_prompts"`
		} `yaml:"assistant_view"`
	} `yaml:"features"`
	OAuth struct {
		Scopes struct {
			Bot  []string `yaml:"bot"`
			User []string `yaml:"user"`
		} `yaml:"scopes"`
		Redirects []string `yaml:"redirect_urls"`
	} `yaml:"oauth_config"`
	Settings struct {
		Events struct {
			URL  string   `yaml:"request_url"`
			Bot  []string `yaml:"bot_events"`
			User []string `yaml:"user_events"`
		} `yaml:"event_subscriptions"`
		Interactivity struct {
			On      bool   `yaml:"is_enabled"`
			URL     string `yaml:"request_url"`
			Options string `yaml:"message_menu_options_url"`
		} `yaml:"interactivity"`
		OrgDeploy bool `yaml:"org_deploy_enabled"`
		Socket    bool `yaml:"socket_mode_enabled"`
		Rotation  bool `yaml:"token_rotation_enabled"`
	} `yaml:"settings"`
	Metadata map[string]any `yaml:"_metadata"`
}

// ParseManifest reads a manifest in YAML or JSON. Fields that it does not know are errors.
func ParseManifest(data []byte) (Manifest, error) {
	var m Manifest
	d := yaml.NewDecoder(strings.NewReader(string(data)))
	d.KnownFields(true)
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("manifest: %w", err)
	}
	return m, nil
}

// Uses is what an app makes use of.
type Uses struct {
	Methods   []string // rows of the table
	Events    []string // subscriptions
	Commands  []string // with the slash
	Kinds     []ChannelKind
	Downloads bool // of files
	Buttons   bool
	Home      bool
	Assistant bool
}

// AllKinds are all kinds of conversation.
var AllKinds = []ChannelKind{PublicChannel, PrivateChannel, DirectMessage, GroupDM}

// eventScopes are the scopes that subscriptions need. https://docs.slack.dev/reference/events
var eventScopes = map[string][]string{
	"app_home_opened":                  nil,
	"app_mention":                      {"app_mentions:read"},
	"assistant_thread_started":         {"assistant:write"},
	"assistant_thread_context_changed": {"assistant:write"},
	"channel_archive":                  {"channels:read"},
	"channel_rename":                   {"channels:read"},
	"channel_unarchive":                {"channels:read"},
	"group_archive":                    {"groups:read"},
	"group_rename":                     {"groups:read"},
	"group_unarchive":                  {"groups:read"},
	"member_joined_channel":            {"channels:read", "groups:read"},
	"member_left_channel":              {"channels:read", "groups:read"},
	"message.channels":                 {"channels:history"},
	"message.groups":                   {"groups:history"},
	"message.im":                       {"im:history"},
	"message.mpim":                     {"mpim:history"},
	"reaction_added":                   {"reactions:read"},
	"reaction_removed":                 {"reactions:read"},
	"team_join":                        {"users:read"},
	"user_change":                      {"users:read"},
	"app_uninstalled":                  nil,
	"tokens_revoked":                   nil,
}

// Scopes are the bot scopes that the uses need: the first of several that would do.
func (u Uses) Scopes() ([]string, error) {
	var out []string
	for _, name := range u.Methods {
		m, ok := MethodNamed(name)
		if !ok {
			return nil, fmt.Errorf("manifest: %s is not in the table of methods", name)
		}
		if m.Token == AppToken {
			continue // on the app-level token, which no manifest names
		}
		if len(m.Scopes.Any) > 0 {
			out = append(out, m.Scopes.Any[0])
		}
		for kind, scope := range m.Scopes.ByKind {
			if len(u.Kinds) == 0 || slices.Contains(u.Kinds, kind) {
				out = append(out, scope)
			}
		}
	}
	for _, e := range u.Events {
		scopes, ok := eventScopes[e]
		if !ok {
			return nil, fmt.Errorf("manifest: no event %s", e)
		}
		out = append(out, scopes...)
	}
	if len(u.Commands) > 0 {
		out = append(out, "commands")
	}
	if u.Downloads {
		out = append(out, "files:read")
	}
	if u.Assistant {
		out = append(out, "assistant:write")
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Problems tells what a manifest lacks for the uses, what it asks for without use, and what Slack would not take.
func (m Manifest) Problems(u Uses) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	needed, err := u.Scopes()
	if err != nil {
		say("%v", err)
	}
	compare("scope", m.OAuth.Scopes.Bot, needed, say)
	compare("event", m.Settings.Events.Bot, u.Events, say)
	var commands []string
	for _, c := range m.Features.Commands {
		commands = append(commands, c.Command)
		limit("slash_commands: command", c.Command, 2, 32, say)
		limit("slash_commands: description of "+c.Command, c.Text, 1, 2000, say)
		limit("slash_commands: usage_hint of "+c.Command, c.Hint, 0, 1000, say)
		if !strings.HasPrefix(c.Command, "/") || strings.ContainsAny(c.Command, " ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			say("slash_commands: %q must begin with / and have neither capitals nor spaces", c.Command)
		}
		if !m.Settings.Socket && c.URL == "" {
			say("slash_commands: %s needs a url without Socket Mode", c.Command)
		}
	}
	compare("command", commands, u.Commands, say)
	if len(commands) > 50 {
		say("%d commands, at most 50", len(commands))
	}
	if len(m.OAuth.Scopes.User)+len(m.Settings.Events.User) > 0 {
		say("user scopes and user events are not used")
	}
	limit("display_information: name", m.Display.Name, 1, 35, say)
	limit("display_information: description", m.Display.Description, 0, 140, say)
	if m.Display.Long != "" {
		limit("display_information: long_description", m.Display.Long, 175, 4000, say)
	}
	limit("bot_user: display_name", m.Features.Bot.Name, 1, 80, say)
	if !m.Settings.Socket && m.Settings.Events.URL == "" && len(u.Events) > 0 {
		say("events need socket_mode_enabled or a request_url")
	}
	if u.Buttons != m.Settings.Interactivity.On {
		say("interactivity is_enabled is %v", m.Settings.Interactivity.On)
	}
	if u.Home != m.Features.Home.Home {
		say("app_home home_tab_enabled is %v", m.Features.Home.Home)
	}
	if slices.Contains(u.Events, "message.im") && (!m.Features.Home.Messages || m.Features.Home.ReadOnly) {
		say("direct messages need messages_tab_enabled, and not messages_tab_read_only_enabled")
	}
	if u.Assistant != (m.Features.Assistant != nil) {
		say("features.assistant_view is there: %v", m.Features.Assistant != nil)
	}
	return out
}

func limit(what, s string, least, most int, say func(string, ...any)) {
	if n := utf8.RuneCountInString(s); n < least || n > most {
		say("%s has %d characters, %d to %d are allowed", what, n, least, most)
	}
}

func compare(what string, have, need []string, say func(string, ...any)) {
	for _, n := range need {
		if !slices.Contains(have, n) {
			say("%s %s is missing", what, n)
		}
	}
	seen := map[string]bool{}
	for _, h := range have {
		if !slices.Contains(need, h) {
			say("%s %s has no use", what, h)
		}
		if seen[h] {
			say("%s %s stands there twice", what, h)
		}
		seen[h] = true
	}
}

// BotScopes are the scopes that the whole table needs, with those of BotEvents, commands and downloads.
func BotScopes() []string {
	u := Uses{Events: BotEvents(), Commands: []string{"/"}, Downloads: true, Assistant: true}
	for _, m := range Methods {
		u.Methods = append(u.Methods, m.Name)
	}
	scopes, err := u.Scopes()
	if err != nil {
		panic(err) // a row of the table names an unknown event or method
	}
	return scopes
}

// Uses returns what the app was seen to make use of. Whether events are used cannot be seen: they are the
// subscriptions.
func (s *Server) Uses() Uses {
	u := Uses{}
	for _, name := range s.UsedMethods() {
		if _, ok := MethodNamed(name); ok {
			u.Methods = append(u.Methods, name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u.Events = slices.Sorted(slices.Values(s.app.Events))
	u.Downloads = s.downloads > 0
	u.Home = len(s.views) > 0
	u.Assistant = slices.ContainsFunc(u.Methods, func(m string) bool {
		return m == "assistant.threads.setSuggestedPrompts" || m == "assistant.threads.setTitle"
	})
	for _, d := range s.deliveries {
		switch {
		case d.kind == "slash_commands" && d.acked:
			u.Commands = append(u.Commands, d.name)
		case d.kind == "interactive" && d.acked:
			u.Buttons = true
		}
	}
	slices.Sort(u.Commands)
	u.Commands = slices.Compact(u.Commands)
	return u
}
