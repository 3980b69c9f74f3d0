package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
)

// Official addresses.
const (
	OpenAIURL     = "https://api.openai.com/v1"
	OpenRouterURL = "https://openrouter.ai/api/v1"
)

// OpenAIOptions configures NewOpenAIChat and NewOpenAIResponses.
type OpenAIOptions struct {
	Provider    string        // for the catalogue and for texts: ProviderOpenAI (default) or ProviderOpenRouter
	APIKey      string        // may be empty for compatible servers that want none (Ollama, vLLM)
	BaseURL     string        // ends in /v1 with most servers; default is the provider's official address
	HTTPClient  *http.Client  // default: http.DefaultTransport, no overall time-out
	IdleTimeout time.Duration // ends a call after so long without a byte; 0 = DefaultIdleTimeout
}

// NewOpenAIChat makes a Model on the chat completions protocol, which every compatible server speaks. It reads nothing
// from the environment.
func NewOpenAIChat(o OpenAIOptions) Model {
	o, options := o.prepare()
	return &chatModel{
		openAIModel: o.model(),
		completions: openai.NewChatCompletionService(options...),
		official:    o.BaseURL == OpenAIURL,
	}
}

// NewOpenAIResponses makes a Model on OpenAI's Responses API. Nothing is stored there: earlier reasoning travels with
// the session, encrypted.
func NewOpenAIResponses(o OpenAIOptions) Model {
	o, options := o.prepare()
	return &responsesModel{openAIModel: o.model(), responses: responses.NewResponseService(options...)}
}

func (o OpenAIOptions) prepare() (OpenAIOptions, []option.RequestOption) {
	if o.Provider == "" {
		o.Provider = ProviderOpenAI
	}
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	if o.BaseURL == "" {
		o.BaseURL = OpenAIURL
		if o.Provider == ProviderOpenRouter {
			o.BaseURL = OpenRouterURL
		}
	}
	options := []option.RequestOption{
		option.WithBaseURL(o.BaseURL),
		option.WithHTTPClient(plainClient(o.HTTPClient)),
		option.WithMaxRetries(0), // retries belong to the activity: one call is one request
	}
	if o.APIKey != "" {
		options = append(options, option.WithAPIKey(o.APIKey))
	}
	if o.Provider == ProviderOpenRouter {
		options = append(options, option.WithHeader("X-Title", "mikan"))
	}
	return o, options
}

func (o OpenAIOptions) model() openAIModel {
	keyName := "OPENAI_API_KEY"
	if o.Provider == ProviderOpenRouter {
		keyName = "OPENROUTER_API_KEY"
	}
	return openAIModel{
		client:   client{name: o.Provider, keyName: keyName, apiKey: o.APIKey},
		provider: o.Provider,
		idle:     o.IdleTimeout,
	}
}

// openAIModel is what both dialects share.
type openAIModel struct {
	client
	provider string
	idle     time.Duration
}

// streamFailure reads an error event out of a stream's error.
func streamFailure(err error) error {
	var said *ssestream.StreamError
	if errors.As(err, &said) {
		return parseRefusal(http.StatusOK, said.Event.Data)
	}
	return err
}

// schemaName is what OpenAI's dialects want a response format to be called.
const schemaName = "answer"

// cacheKey fits the 64 characters that OpenAI takes.
func cacheKey(req Request) string {
	if len(req.CacheKey) <= 64 {
		return req.CacheKey
	}
	sum := sha256.Sum256([]byte(req.CacheKey))
	return hex.EncodeToString(sum[:])
}

// effort is the reasoning effort for the level; "" leaves the parameter out, as for models that do not reason.
func effort(level Thinking, info ModelInfo) string {
	switch {
	case info.Thinking != ThinkingEffort:
		return ""
	case level == ThinkingOff || level == "":
		return info.ThinkingOff
	default:
		return string(level)
	}
}
