package platforms

import (
	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/slack"
	"github.com/geminixiang/mikan/internal/config"
)

// configured makes the adapters of the platforms whose tokens are set.
func configured(c config.Config, s adapters.Services) ([]adapters.Adapter, error) {
	var all []adapters.Adapter
	for _, one := range []struct {
		token config.Secret
		make  func() (adapters.Adapter, error)
	}{
		{c.Slack.BotToken, func() (adapters.Adapter, error) { return slack.New(c.Slack, c.Settings.Slack, s) }},
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
