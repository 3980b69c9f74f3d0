package slack

import (
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
)

// Scopes are what the bot token must carry: those of deployments/slack/manifest.yaml.
func Scopes() []string {
	return []string{
		"app_mentions:read", "assistant:write", "channels:history", "channels:read", "chat:write", "commands", "files:read", "files:write",
		"groups:history", "groups:read", "im:history", "im:read", "mpim:history", "mpim:read", "reactions:write", "users:read",
	}
}

// Events are the bot events that the app subscribes to.
func Events() []string {
	return []string{
		"app_home_opened", "app_mention", "assistant_thread_started", "channel_rename", "group_rename", "member_joined_channel",
		"message.channels", "message.groups", "message.im", "message.mpim",
	}
}

// Check tells what works and what does not.
func (a *Adapter) Check(ctx context.Context) []adapters.Finding {
	bot := adapters.Finding{What: "bot token"}
	var answer *sdk.AuthTestResponse
	bot.Err = a.call(ctx, "", authTest, "", func(ctx context.Context) error {
		var err error
		answer, err = a.api.AuthTestContext(ctx)
		return err
	})
	if bot.Err != nil {
		bot.Err = mend(bot.Err, "SLACK_BOT_TOKEN", "OAuth & Permissions: Bot User OAuth Token (xoxb-…)")
		return []adapters.Finding{bot}
	}
	bot.Note = fmt.Sprintf("@%s in %s (%s)", answer.User, answer.Team, answer.TeamID)
	findings := []adapters.Finding{bot, checkScopes(answer.Header.Get("X-Oauth-Scopes"))}
	switch {
	case a.config.AppToken != "":
		app := adapters.Finding{What: "app token", Note: "Socket Mode"}
		app.Err = a.call(ctx, "", openSocket, "", func(ctx context.Context) error {
			_, _, err := a.api.StartSocketModeContext(ctx)
			return err
		})
		app.Err = mend(app.Err, "SLACK_APP_TOKEN", "Basic Information, App-Level Tokens: one with connections:write (xapp-…); Socket Mode must be on")
		findings = append(findings, app)
	default:
		findings = append(findings, adapters.Finding{What: "signing secret", Note: "HTTP Events API at " + eventsPath + "; only an event shows whether the secret is right"})
	}
	return findings
}

// checkScopes compares what a token carries, as the header of every answer says, with what mikan needs.
func checkScopes(header string) adapters.Finding {
	f := adapters.Finding{What: "scopes"}
	if header == "" { // slack.com always says
		f.Note = "the server does not tell what the token carries"
		return f
	}
	var has, missing []string
	for scope := range strings.SplitSeq(header, ",") {
		if scope = strings.TrimSpace(scope); scope != "" {
			has = append(has, scope)
		}
	}
	for _, scope := range Scopes() {
		if !slices.Contains(has, scope) {
			missing = append(missing, scope)
		}
	}
	if len(missing) > 0 {
		f.Err = fault.New(fault.Forbidden, "the bot token lacks %s; put deployments/slack/manifest.yaml into the app's manifest and install the app again", strings.Join(missing, ", "))
		return f
	}
	f.Note = fmt.Sprintf("all %d", len(Scopes()))
	return f
}

// mend says what to do about a refused token.
func mend(err error, variable, where string) error {
	if fault.CodeOf(err) != fault.Forbidden {
		return err
	}
	return fault.Wrap(fault.Forbidden, err, "%s is refused; set it to the one under %s", variable, where)
}
