package config

import (
	"strings"

	"github.com/geminixiang/mikan/internal/llm"
)

// The models used when a provider has a key and MIKAN_MODEL is not set.
var (
	defaultAnthropic  = llm.Ref{Provider: llm.ProviderAnthropic, Model: "claude-sonnet-5-5", Thinking: llm.ThinkingOff}
	defaultOpenAI     = llm.Ref{Provider: llm.ProviderOpenAI, Model: "gpt-6.1-sol", Thinking: llm.ThinkingOff}
	defaultOpenRouter = llm.Ref{Provider: llm.ProviderOpenRouter, Model: "anthropic/claude-sonnet-5.5", Thinking: llm.ThinkingOff}
	demoModel         = llm.Ref{Provider: llm.ProviderDemo, Model: "demo", Thinking: llm.ThinkingOff}
	defaultJev        = llm.Ref{Provider: llm.ProviderOpenRouter, Model: "~typesafe/jev-latest", Thinking: llm.ThinkingOff}
)

// defaultModel is that of the first provider that has a key; the zero value when none has.
func (c Config) defaultModel() llm.Ref {
	switch {
	case c.Anthropic.APIKey != "":
		return defaultAnthropic
	case c.OpenAI.APIKey != "":
		return defaultOpenAI
	case c.OpenRouter.APIKey != "":
		return defaultOpenRouter
	default:
		return llm.Ref{}
	}
}

// Serves tells whether a model of this provider can be called as configured. An OpenAI-compatible server of one's own
// may need no key, so its base URL is enough. Check it before a model is taken over from a person, too.
func (c Config) Serves(provider string) bool {
	switch provider {
	case llm.ProviderAnthropic:
		return c.Anthropic.APIKey != ""
	case llm.ProviderOpenAI, llm.ProviderOpenAIChat, llm.ProviderOpenAIResponses:
		return c.OpenAI.APIKey != "" || c.OpenAI.BaseURL != ""
	case llm.ProviderOpenRouter:
		return c.OpenRouter.APIKey != ""
	case llm.ProviderDemo:
		return true
	default:
		return false
	}
}

// keyVariable names the variable that a provider's key is in.
func keyVariable(provider string) string {
	name, _, _ := strings.Cut(provider, "-")
	return strings.ToUpper(name) + "_API_KEY"
}

// JevMend says how to turn capture on.
const JevMend = "Set OPENROUTER_API_KEY, or MIKAN_JEV_MODEL with its provider's key."

// Jev names the decision model; false when there is none, which turns capture off. A chat provider's key alone never
// turns it on: only MIKAN_JEV_MODEL or OpenRouter's key does.
func (c Config) Jev() (llm.Ref, bool) {
	if c.JevModel != (llm.Ref{}) {
		return c.JevModel, true
	}
	return defaultJev, c.OpenRouter.APIKey != ""
}
