package platforms

import (
	"log/slog"

	"github.com/google/uuid"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/discord"
	"github.com/geminixiang/mikan/adapters/github"
	"github.com/geminixiang/mikan/adapters/slack"
	"github.com/geminixiang/mikan/adapters/telegram"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// Configured makes the adapters of the platforms whose tokens are set, to look at them: nothing is received or posted.
func Configured(c config.Config, s *store.Store, metrics *telemetry.Metrics, log *slog.Logger) ([]adapters.Adapter, error) {
	return configured(c, adapters.Services{Store: s, Process: uuid.NewString(), Metrics: metrics, Log: log})
}

// configured makes the adapters of the platforms whose tokens are set.
func configured(c config.Config, s adapters.Services) ([]adapters.Adapter, error) {
	access := &adapters.Access{Store: s.Store, Listed: adapters.ListedAccess(c.Settings.Access)}
	var all []adapters.Adapter
	for _, one := range []struct {
		token config.Secret
		make  func() (adapters.Adapter, error)
	}{
		{c.Slack.BotToken, func() (adapters.Adapter, error) { return slack.New(c.Slack, c.Settings.Slack, s) }},
		{c.Discord.BotToken, func() (adapters.Adapter, error) { return discord.New(c.Discord, access.Rules, s) }},
		{c.Telegram.BotToken, func() (adapters.Adapter, error) { return telegram.New(c.Telegram, s) }},
		{c.GitHub.AgentToken, func() (adapters.Adapter, error) { return github.New(c.GitHub, c.Settings.GitHub, s) }},
	} {
		if one.token == "" {
			continue
		}
		a, err := one.make()
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}
