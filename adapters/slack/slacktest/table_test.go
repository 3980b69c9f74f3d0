package slacktest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
)

func TestTheTableOfMethodsIsConsistent(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range slacktest.Methods {
		if seen[m.Name] {
			t.Errorf("%s stands there twice", m.Name)
		}
		seen[m.Name] = true
		if !slacktest.Handled(m.Name) {
			t.Errorf("%s has a row and is not served", m.Name)
		}
		if m.Rate.PerMinute == 0 || len(m.Verbs) == 0 || m.Encodings&slacktest.Form == 0 {
			t.Errorf("%s lacks a rate, a verb or an encoding", m.Name)
		}
		if slices.Contains(m.Verbs, "GET") && m.Encodings&slacktest.JSON != 0 {
			t.Errorf("%s is read by GET and takes JSON", m.Name)
		}
		if !strings.HasSuffix(m.Page(), m.Name) {
			t.Errorf("%s: page %s", m.Name, m.Page())
		}
		for _, p := range m.Params {
			if p.Max > 0 && !m.Returns(p.TooLong) {
				t.Errorf("%s: %s beyond %d answers %q, which is not among its errors", m.Name, p.Name, p.Max, p.TooLong)
			}
		}
	}
}

const manifest = `
display_information:
  name: mikan
  description: An agent
features:
  app_home: {home_tab_enabled: true, messages_tab_enabled: true, messages_tab_read_only_enabled: false}
  bot_user: {display_name: mikan, always_online: true}
  slash_commands:
    - {command: /mikan-stop, description: Stop, should_escape: false}
oauth_config:
  scopes:
    bot: ["chat:write", "commands", "im:history", "app_mentions:read"]
settings:
  event_subscriptions:
    bot_events: ["message.im", "app_mention"]
  interactivity: {is_enabled: true}
  socket_mode_enabled: true
`

func TestAManifestHasExactlyWhatIsUsed(t *testing.T) {
	t.Parallel()
	uses := slacktest.Uses{Methods: []string{"auth.test", "chat.postMessage", "apps.connections.open"}, Events: []string{"app_mention", "message.im"},
		Commands: []string{"/mikan-stop"}, Buttons: true, Home: true}
	for _, c := range []struct {
		name     string
		from, to string
		uses     func(*slacktest.Uses)
		want     string // part of the one problem; empty: none
	}{
		{name: "as it is"},
		{"a scope too few", `, "im:history"`, ``, nil, "scope im:history is missing"},
		{"a scope too many", `"chat:write"`, `"chat:write", "users:read"`, nil, "scope users:read has no use"},
		{"an event too few", `"message.im", `, ``, nil, "event message.im is missing"},
		{"an event too many", `"message.im"`, `"message.im", "team_join"`, nil, "event team_join has no use"},
		{"a command too many", `- {command: /mikan-stop`, "- {command: /mikan-new, description: New}\n    - {command: /mikan-stop", nil, "command /mikan-new has no use"},
		{"a method that needs more", ``, ``, func(u *slacktest.Uses) { u.Methods = append(u.Methods, "users.info") }, "scope users:read is missing"},
		{"downloads", ``, ``, func(u *slacktest.Uses) { u.Downloads = true }, "scope files:read is missing"},
		{"no buttons", `is_enabled: true`, `is_enabled: false`, nil, "interactivity"},
		{"no messages", `messages_tab_enabled: true`, `messages_tab_enabled: false`, nil, "messages_tab_enabled"},
		{"no way for events", `socket_mode_enabled: true`, `socket_mode_enabled: false`, nil, "request_url"},
		{"a long name", `name: mikan`, `name: ` + strings.Repeat("x", 36), nil, "name has 36 characters"},
		{"a method outside the table", ``, ``, func(u *slacktest.Uses) { u.Methods = append(u.Methods, "chat.sing") }, "chat.sing is not in the table"},
	} {
		m, err := slacktest.ParseManifest([]byte(strings.Replace(manifest, c.from, c.to, 1)))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		u := uses
		u.Methods = slices.Clone(u.Methods)
		if c.uses != nil {
			c.uses(&u)
		}
		got := m.Problems(u)
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: %q", c.name, got)
		case c.want != "" && !slices.ContainsFunc(got, func(p string) bool { return strings.Contains(p, c.want) }):
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if _, err := slacktest.ParseManifest([]byte(manifest + "\nsurprise: true\n")); err == nil {
		t.Error("an unknown field was accepted")
	}
	if scopes := slacktest.BotScopes(); !slices.Contains(scopes, "files:read") || !slices.Contains(scopes, "chat:write") || slices.Contains(scopes, "connections:write") {
		t.Errorf("scopes of the whole table: %v", scopes)
	}
}
