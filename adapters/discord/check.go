package discord

import (
	"context"
	"fmt"
	"slices"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// Flags of an application that tell whether it may read messages:
// https://discord.com/developers/docs/resources/application#application-object-application-flags.
const (
	flagMessageContent        = 1 << 18
	flagMessageContentLimited = 1 << 19
)

// Check tells what works, for an operator.
func (a *Adapter) Check(ctx context.Context) []adapters.Finding {
	self, err := a.me(ctx)
	if err != nil {
		return []adapters.Finding{{What: "bot token", Err: err}}
	}
	findings := []adapters.Finding{{What: "bot token", Note: "@" + self.Username + " (" + self.ID + ")"}}
	content, application := a.checkContent(ctx)
	if application == "" {
		application = self.ID
	}
	findings = append(findings, content)
	guilds, err := a.ownGuilds(ctx)
	switch {
	case err != nil:
		findings = append(findings, adapters.Finding{What: "guilds", Err: err})
	case len(guilds) == 0:
		findings = append(findings, adapters.Finding{What: "guilds", Err: fault.New(fault.NotFound,
			"the bot is in no guild; invite it: https://discord.com/oauth2/authorize?client_id=%s&scope=bot+applications.commands&permissions=%d", self.ID, permissions)})
	default:
		findings = append(findings, adapters.Finding{What: "guilds", Note: fmt.Sprintf("the bot is in %d", len(guilds))}, a.checkAccess(ctx, guilds))
	}
	return append(findings, a.checkCommands(ctx, application))
}

// permissions that an invitation asks for: view channels, send messages, also in threads, attach files, read the
// history, add reactions (https://discord.com/developers/docs/topics/permissions).
const permissions = 1<<10 | 1<<11 | 1<<38 | 1<<15 | 1<<16 | 1<<6

func (a *Adapter) checkContent(ctx context.Context) (f adapters.Finding, application string) {
	f = adapters.Finding{What: "Message Content Intent", Note: "on"}
	var app struct {
		ID    string `json:"id"`
		Flags int    `json:"flags"`
	}
	if f.Err = a.api.do(ctx, call{what: "application", method: "GET", path: "applications/@me"}, &app); f.Err != nil {
		return f, ""
	}
	if app.Flags&(flagMessageContent|flagMessageContentLimited) == 0 {
		f.Err = fault.New(fault.Forbidden, "it is off: switch it on at discord.com/developers/applications, under Bot, Privileged Gateway Intents")
	}
	return f, app.ID
}

// checkAccess tells whether anybody may talk to mikan at all.
func (a *Adapter) checkAccess(ctx context.Context, guilds []string) adapters.Finding {
	f := adapters.Finding{What: "access"}
	rules, err := a.rules(ctx, office.Discord)
	if err != nil {
		f.Err = err
		return f
	}
	listed, elsewhere := 0, ""
	for _, r := range rules {
		switch {
		case r.Effect != store.Allow:
		case r.Kind == store.PrincipalGuild && !slices.Contains(guilds, r.Principal):
			elsewhere = r.Principal
		default:
			listed++
		}
	}
	switch {
	case listed > 0:
		f.Note = fmt.Sprintf("%d rules allow somebody", listed)
	case elsewhere != "":
		f.Err = fault.New(fault.Forbidden, "the bot is not in guild %s, which is allowed; nobody else is", elsewhere)
	default:
		f.Err = fault.New(fault.Forbidden, "nobody may talk to mikan: let the members of a guild in with `mikan access allow discord guild %s`", guilds[0])
	}
	return f
}

func (a *Adapter) checkCommands(ctx context.Context, app string) adapters.Finding {
	f := adapters.Finding{What: "slash commands"}
	var known []command
	if f.Err = a.api.do(ctx, call{what: "commands.list", method: "GET", path: "applications/" + app + "/commands"}, &known); f.Err != nil {
		return f
	}
	f.Note = fmt.Sprintf("%d are registered", len(known))
	if len(known) == 0 {
		f.Note = "none are registered yet; the gateway registers them when it connects"
	}
	return f
}
