package backend

import (
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/jev"
	"github.com/geminixiang/mikan/internal/llm"
)

// Judge makes the configured decision model; providers may be nil. Errors are those of jev.New.
func Judge(c config.Config, providers *llm.Providers) (jev.Judge, error) {
	ref, _ := c.Jev()
	if providers == nil {
		providers = Providers(c)
	}
	return jev.New(ref, jev.Config{
		OpenRouter: llm.Endpoint{APIKey: c.OpenRouter.APIKey.Reveal(), BaseURL: c.OpenRouter.BaseURL},
		OpenAI:     llm.Endpoint{APIKey: c.OpenAI.APIKey.Reveal(), BaseURL: c.OpenAI.BaseURL},
		Providers:  providers,
	})
}

// Providers reaches the configured model providers.
func Providers(c config.Config) *llm.Providers {
	return llm.NewProviders(llm.ProvidersConfig{
		Anthropic:  llm.Endpoint{APIKey: c.Anthropic.APIKey.Reveal(), BaseURL: c.Anthropic.BaseURL},
		OpenAI:     llm.Endpoint{APIKey: c.OpenAI.APIKey.Reveal(), BaseURL: c.OpenAI.BaseURL},
		OpenRouter: llm.Endpoint{APIKey: c.OpenRouter.APIKey.Reveal(), BaseURL: c.OpenRouter.BaseURL},

		IdleTimeout: c.Settings.ModelSilence,
	})
}
