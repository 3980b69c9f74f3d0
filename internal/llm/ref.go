package llm

import (
	"strings"

	"github.com/geminixiang/mikan/internal/fault"
)

// The providers, as they are written before the first slash of a model reference.
const (
	ProviderAnthropic       = "anthropic"
	ProviderOpenAI          = "openai"           // Responses at OpenAI, chat completions at any other base URL
	ProviderOpenAIChat      = "openai-chat"      // chat completions wherever the base URL points
	ProviderOpenAIResponses = "openai-responses" // Responses wherever the base URL points
	ProviderOpenRouter      = "openrouter"
	ProviderDemo            = "demo"
)

// providerNames is in the order an operator should see them.
var providerNames = []string{ProviderAnthropic, ProviderOpenAI, ProviderOpenAIChat, ProviderOpenAIResponses,
	ProviderOpenRouter, ProviderDemo}

// Ref names a model, how to reach it and how hard it thinks.
type Ref struct {
	Provider string
	Model    string
	Thinking Thinking
}

func (r Ref) String() string {
	s := r.Provider + "/" + r.Model
	if r.Thinking != "" && r.Thinking != ThinkingOff {
		s += ":" + string(r.Thinking)
	}
	return s
}

// ParseRef reads provider/model[:thinking]. Everything after the first slash is the model's name, slashes and colons
// included (openrouter/vendor/name:free, openai/llama3:8b); only a final :off, :low, :medium or :high is a thinking
// level. Errors are fault.Invalid and say what to write.
func ParseRef(s string) (Ref, error) {
	s = strings.TrimSpace(s)
	provider, model, ok := strings.Cut(s, "/")
	if !ok || provider == "" {
		return Ref{}, fault.New(fault.Invalid,
			"%q names no model: write provider/model, for example anthropic/claude-sonnet-5-5", s)
	}
	known := false
	for _, name := range providerNames {
		known = known || name == provider
	}
	if !known {
		return Ref{}, fault.New(fault.Invalid, "%q is no provider: write one of %s before the slash", provider,
			strings.Join(providerNames, ", "))
	}
	thinking := ThinkingOff
	if i := strings.LastIndexByte(model, ':'); i >= 0 {
		switch level := Thinking(model[i+1:]); level {
		case ThinkingOff, ThinkingLow, ThinkingMedium, ThinkingHigh:
			model, thinking = model[:i], level
		default:
			// No model of these providers has a colon in its name, so this is a misspelt level.
			if provider == ProviderAnthropic || provider == ProviderDemo {
				return Ref{}, fault.New(fault.Invalid, "%q is no thinking level: write :off, :low, :medium or :high", level)
			}
		}
	}
	if model == "" || strings.ContainsAny(model, " \t\r\n") {
		return Ref{}, fault.New(fault.Invalid, "%q names no model: write its name after %s/, without spaces", s, provider)
	}
	return Ref{Provider: provider, Model: model, Thinking: thinking}, nil
}
