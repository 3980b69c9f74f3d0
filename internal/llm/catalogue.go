package llm

import (
	_ "embed"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"sync"
)

// ModelInfo is what mikan knows about a model without asking its provider.
type ModelInfo struct {
	Provider  string
	Model     string
	Known     bool  // false: the figures are careful defaults and the price is unknown
	Window    int64 // most tokens of input
	MaxOutput int64 // most tokens of output
	Thinking  ThinkingStyle
	// ThinkingOff is how the lowest level is written: "disabled" or "between_tools" as a thinking type, "low" where
	// Anthropic's thinking cannot be switched off, an effort for OpenAI; "" = leave the parameter out.
	ThinkingOff string
	// PreservedThinking: the model refuses thinking whose conversation changed unless told to drop it.
	PreservedThinking bool

	price     *Price
	longPrice *Price
	longOver  int64
}

// ThinkingStyle tells which parameter makes a model think.
type ThinkingStyle string

// The styles.
const (
	ThinkingNone     ThinkingStyle = "none"     // it does not think, or nobody knows how to ask
	ThinkingBudget   ThinkingStyle = "budget"   // Anthropic, a budget of tokens
	ThinkingAdaptive ThinkingStyle = "adaptive" // Anthropic, an effort level
	ThinkingEffort   ThinkingStyle = "effort"   // OpenAI and compatible servers, an effort level
)

// Price is US dollars per million tokens.
type Price struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead"`
	CacheWrite float64 `json:"cacheWrite"` // with the shortest retention
}

func (p Price) cost(u Usage) float64 {
	return p.Input*float64(u.Input) + p.Output*float64(u.Output) + p.CacheRead*float64(u.CacheRead) +
		p.CacheWrite*float64(u.CacheWrite)
}

// WithPrices returns the model with the prices that are given, in US dollars per million tokens; nil keeps a price.
func (i ModelInfo) WithPrices(input, output, cacheRead, cacheWrite *float64) ModelInfo {
	if input == nil && output == nil && cacheRead == nil && cacheWrite == nil {
		return i
	}
	var p Price
	if i.price != nil {
		p = *i.price
	}
	for _, change := range []struct{ to, from *float64 }{
		{&p.Input, input}, {&p.Output, output}, {&p.CacheRead, cacheRead}, {&p.CacheWrite, cacheWrite},
	} {
		if change.from != nil {
			*change.to = *change.from
		}
	}
	i.price, i.longPrice = &p, nil
	return i
}

// Cost is what the usage of one call costs in millionths of a US dollar, rounded up. ok is false when the price is
// unknown; tokens are then shown without a price. Long prompts cost more with some models, so sum costs, not usages.
func (i ModelInfo) Cost(u Usage) (microUSD int64, ok bool) {
	price := i.price
	if price == nil {
		return 0, false
	}
	if i.longPrice != nil && u.Input+u.CacheRead+u.CacheWrite > i.longOver {
		price = i.longPrice
	}
	// Dollars per million tokens times tokens is millionths of a dollar. The rounding first hides what the floating
	// point adds behind the sixth decimal.
	return int64(math.Ceil(math.Round(price.cost(u)*1e6) / 1e6)), true
}

// Figures for models that the catalogue does not know.
const (
	defaultWindow    = 128_000
	defaultMaxOutput = 16_384
	// Claude models that appear after this release are at least as large as the last ones.
	newClaudeWindow    = 200_000
	newClaudeMaxOutput = 64_000
)

//go:embed catalogue.json
var catalogueJSON []byte

// catalogueEntry is one line of catalogue.json. Prices and limits are those of the providers' price lists as of
// November 2026. A trailing * of a name stands for a variant.
type catalogueEntry struct {
	Provider          string        `json:"provider"`
	Model             string        `json:"model"`
	OpenRouter        string        `json:"openrouter"` // the same model's name there, at the same price
	Window            int64         `json:"contextWindow"`
	MaxOutput         int64         `json:"maxOutput"`
	Thinking          ThinkingStyle `json:"thinking"`
	ThinkingOff       string        `json:"thinkingOff"`
	PreservedThinking bool          `json:"preservedThinking"`
	Price             *Price        `json:"price"`
	LongPrompt        *struct {
		Over  int64 `json:"over"`
		Price Price `json:"price"`
	} `json:"longPrompt"`
}

var catalogue = sync.OnceValue(func() (entries []catalogueEntry) {
	if err := json.Unmarshal(catalogueJSON, &entries); err != nil {
		panic("internal/llm/catalogue.json: " + err.Error()) // embedded data, covered by a test
	}
	return entries
})

// Lookup tells what is known about a provider's model. It never fails: an unknown model gets defaults that are safe to
// work with, and no price.
func Lookup(provider, model string) ModelInfo {
	info := ModelInfo{Provider: provider, Model: model, Window: defaultWindow, MaxOutput: defaultMaxOutput}
	switch {
	case provider == ProviderDemo:
		info.Known, info.Thinking, info.price = true, ThinkingNone, &Price{}
		return info
	case provider == ProviderAnthropic:
		info.Thinking, info.Window, info.MaxOutput = ThinkingAdaptive, newClaudeWindow, newClaudeMaxOutput
	default:
		info.Thinking = ThinkingEffort
	}
	best := -1
	for _, e := range catalogue() {
		pattern := e.Model
		switch provider {
		case ProviderOpenRouter:
			pattern = e.OpenRouter
		case ProviderOpenAIChat, ProviderOpenAIResponses:
			if e.Provider != ProviderOpenAI {
				continue
			}
		default:
			if e.Provider != provider {
				continue
			}
		}
		if len(pattern) <= best || !matches(pattern, model) {
			continue
		}
		best = len(pattern)
		info.Known, info.Window, info.MaxOutput, info.price = true, e.Window, e.MaxOutput, e.Price
		info.Thinking, info.ThinkingOff, info.PreservedThinking = e.Thinking, e.ThinkingOff, e.PreservedThinking
		info.longPrice = nil
		if e.LongPrompt != nil {
			info.longPrice, info.longOver = &e.LongPrompt.Price, e.LongPrompt.Over
		}
	}
	if provider == ProviderOpenRouter {
		// OpenRouter translates one effort parameter for every vendor.
		info.Thinking, info.ThinkingOff, info.PreservedThinking = ThinkingEffort, "", false
		if strings.HasSuffix(model, ":free") {
			info.price, info.longPrice = &Price{}, nil
		}
	}
	return info
}

// variant is what may follow a name without changing price or limits: a date, an alias, or a routing suffix. It is
// narrow on purpose: a name of a future model (claude-opus-5-6, gpt-5-pro) must not inherit a price.
var variant = regexp.MustCompile(`^(-\d{4}-\d{2}-\d{2}|-\d{8}|(-chat)?-latest|[:@\[].*)?$`)

// matches compares a name with a pattern whose trailing * stands for a variant.
func matches(pattern, name string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	rest, ok := strings.CutPrefix(name, prefix)
	return ok && prefix != "" && (rest == "" || wild && variant.MatchString(rest))
}
