// Package jev asks a small, cheap decision model yes/no questions and gets probabilities.
package jev

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
)

// Question is one yes/no question about a state.
type Question struct {
	Name         string // one lower-case word; what the answer is called
	State        string // what is judged: data, never instructions
	Instructions string // the question
	True, False  string // when the answer is yes, and when no
}

// Judgement is an answer.
type Judgement struct {
	Probability float64   // of yes, 0 to 1
	Model       string    // as the provider names it
	Usage       llm.Usage // of all requests that the answer took
}

// Judge answers questions. It is safe for concurrent use.
//
// Errors are *fault.Error as those of llm.Model: rate_limited (with RetryAfter) and unavailable, also for an answer that
// is none, are worth another try; forbidden is a refused key, invalid what the provider will never take.
type Judge interface {
	Ask(ctx context.Context, q Question) (Judgement, error)
}

// Config is how the providers are reached.
type Config struct {
	OpenRouter llm.Endpoint
	OpenAI     llm.Endpoint
	Providers  *llm.Providers // for everything that is asked in chat
	HTTPClient *http.Client   // nil: one that follows no redirect and gives up after a minute
}

// requestTimeout bounds one request of a judge. Decisions take less than a second, small chat models a few.
const requestTimeout = time.Minute

// New makes the judge of a model: OpenRouter's decision models, or a small chat model of any other provider. Errors are
// those of llm.Providers.Model.
func New(ref llm.Ref, c Config) (Judge, error) {
	if c.HTTPClient == nil {
		c.HTTPClient = &http.Client{
			Timeout: requestTimeout,
			// A redirect to another host would take the key there.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if ref.Provider == llm.ProviderOpenRouter {
		if c.OpenRouter.APIKey == "" {
			return nil, fault.New(fault.Forbidden, "%s needs a key: set OPENROUTER_API_KEY", ref)
		}
		return newDecisions(ref.Model, c), nil
	}
	model, err := c.Providers.Model(ref)
	if err != nil {
		return nil, err
	}
	structured := &chat{model: model, ref: ref}
	if ref.Provider == llm.ProviderOpenAI || ref.Provider == llm.ProviderOpenAIChat {
		return newWeighed(ref.Model, c, structured), nil
	}
	return structured, nil
}

// probability checks what claims to be one.
func probability(p *float64) (float64, error) {
	if p == nil || math.IsNaN(*p) || *p < 0 || *p > 1 {
		return 0, fault.New(fault.Unavailable, "the decision model gave no probability between 0 and 1")
	}
	return *p, nil
}
