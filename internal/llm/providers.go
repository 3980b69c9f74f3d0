package llm

import (
	"net/http"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
)

// Endpoint is how a provider is reached.
type Endpoint struct {
	APIKey  string
	BaseURL string // "" = the official address
}

// ProvidersConfig is what NewProviders needs. Which environment variable fills which field is the configuration's affair;
// the names in the errors are ANTHROPIC_API_KEY, OPENAI_API_KEY and OPENROUTER_API_KEY.
type ProvidersConfig struct {
	Anthropic  Endpoint
	OpenAI     Endpoint // a base URL of its own needs no key (Ollama, vLLM)
	OpenRouter Endpoint

	HTTPClient  *http.Client  // for all; nil = http.DefaultTransport without an overall time-out
	IdleTimeout time.Duration // 0 = DefaultIdleTimeout
}

// Providers makes models. It is safe for concurrent use.
type Providers struct {
	config ProvidersConfig
	models map[string]Model // by provider; those that cannot be used are missing
}

// NewProviders makes the models that the configuration allows; the demo model is always among them.
func NewProviders(c ProvidersConfig) *Providers {
	p := &Providers{config: c, models: map[string]Model{ProviderDemo: NewDemo()}}
	if c.Anthropic.APIKey != "" || custom(c.Anthropic.BaseURL, AnthropicURL) {
		p.models[ProviderAnthropic] = NewAnthropic(AnthropicOptions{
			APIKey: c.Anthropic.APIKey, BaseURL: c.Anthropic.BaseURL, HTTPClient: c.HTTPClient, IdleTimeout: c.IdleTimeout,
		})
	}
	if c.OpenAI.APIKey != "" || custom(c.OpenAI.BaseURL, OpenAIURL) {
		o := OpenAIOptions{Provider: ProviderOpenAI, APIKey: c.OpenAI.APIKey, BaseURL: c.OpenAI.BaseURL,
			HTTPClient: c.HTTPClient, IdleTimeout: c.IdleTimeout}
		p.models[ProviderOpenAIChat] = NewOpenAIChat(o)
		p.models[ProviderOpenAIResponses] = NewOpenAIResponses(o)
		p.models[ProviderOpenAI] = p.models[ProviderOpenAIResponses]
		if custom(c.OpenAI.BaseURL, OpenAIURL) {
			p.models[ProviderOpenAI] = p.models[ProviderOpenAIChat]
		}
	}
	if c.OpenRouter.APIKey != "" || custom(c.OpenRouter.BaseURL, OpenRouterURL) {
		p.models[ProviderOpenRouter] = NewOpenAIChat(OpenAIOptions{Provider: ProviderOpenRouter,
			APIKey: c.OpenRouter.APIKey, BaseURL: c.OpenRouter.BaseURL, HTTPClient: c.HTTPClient, IdleTimeout: c.IdleTimeout})
	}
	return p
}

func custom(baseURL, official string) bool {
	baseURL = strings.TrimSuffix(strings.TrimRight(baseURL, "/"), "/v1")
	return baseURL != "" && baseURL != strings.TrimSuffix(official, "/v1")
}

// Model makes the model of a reference. A provider without a key is fault.Forbidden and says which variable to set.
func (p *Providers) Model(ref Ref) (Model, error) {
	if m, ok := p.models[ref.Provider]; ok {
		return m, nil
	}
	switch ref.Provider {
	case ProviderAnthropic:
		return nil, fault.New(fault.Forbidden, "%s needs a key: set ANTHROPIC_API_KEY", ref)
	case ProviderOpenAI, ProviderOpenAIChat, ProviderOpenAIResponses:
		return nil, fault.New(fault.Forbidden,
			"%s needs a key or a server: set OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server", ref)
	case ProviderOpenRouter:
		return nil, fault.New(fault.Forbidden, "%s needs a key: set OPENROUTER_API_KEY", ref)
	default:
		return nil, fault.New(fault.Invalid, "%q is no provider: write one of %s", ref.Provider, strings.Join(providerNames, ", "))
	}
}

// Default is the model to use when nobody named one: of the first provider with a key, else the demo model. A
// compatible server alone gives no default, since nobody can know what it serves.
func (p *Providers) Default() Ref {
	switch {
	case p.config.Anthropic.APIKey != "":
		return Ref{Provider: ProviderAnthropic, Model: "claude-sonnet-5-5", Thinking: ThinkingOff}
	case p.config.OpenAI.APIKey != "" && !custom(p.config.OpenAI.BaseURL, OpenAIURL):
		return Ref{Provider: ProviderOpenAI, Model: "gpt-6.1-terra", Thinking: ThinkingOff}
	case p.config.OpenRouter.APIKey != "":
		return Ref{Provider: ProviderOpenRouter, Model: "anthropic/claude-sonnet-5.5", Thinking: ThinkingOff}
	default:
		return Ref{Provider: ProviderDemo, Model: "demo", Thinking: ThinkingOff}
	}
}
