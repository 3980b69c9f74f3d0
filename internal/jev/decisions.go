package jev

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/text"
)

// maxAnswer bounds what is read of a response; answers have a few hundred bytes.
const maxAnswer = 1 << 20

// decisions speaks OpenRouter's Decisions API.
type decisions struct {
	model  string
	url    string
	key    string
	client *http.Client
}

func newDecisions(model string, c Config) *decisions {
	return &decisions{model: model, url: decisionsURL(c.OpenRouter.BaseURL), key: c.OpenRouter.APIKey, client: c.HTTPClient}
}

// decisionsURL finds the endpoint beside the chat API's base URL, which ends in /api/v1.
func decisionsURL(base string) string {
	if base == "" {
		base = llm.OpenRouterURL
	}
	base = strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1")
	return strings.TrimSuffix(base, "/api") + "/api/alpha/decisions"
}

type decisionsRequest struct {
	Model     string                       `json:"model"`
	State     string                       `json:"state"`
	Questions map[string]decisionsQuestion `json:"questions"`
}

// decisionsQuestion asks for a "noul", the API's word for a probability of yes.
type decisionsQuestion struct {
	Type         string            `json:"type"`
	Instructions string            `json:"instructions"`
	Criteria     decisionsCriteria `json:"criteria"`
}

type decisionsCriteria struct {
	True  string `json:"true"`
	False string `json:"false"`
}

type decisionsAnswer struct {
	Answers map[string]struct {
		Type string   `json:"type"`
		Noul *float64 `json:"noul"`
	} `json:"answers"`
	Usage struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
	Model string          `json:"model"`
	Error *decisionsError `json:"error"`
}

type decisionsError struct {
	Message string          `json:"message"`
	Code    json.RawMessage `json:"code"`
}

// Ask implements Judge.
func (d *decisions) Ask(ctx context.Context, q Question) (Judgement, error) {
	body, err := json.Marshal(decisionsRequest{Model: d.model, State: q.State, Questions: map[string]decisionsQuestion{
		q.Name: {Type: "noul", Instructions: q.Instructions, Criteria: decisionsCriteria{True: q.True, False: q.False}},
	}})
	if err != nil {
		return Judgement{}, fault.Wrap(fault.Internal, err, "a question cannot be encoded")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body))
	if err != nil {
		return Judgement{}, fault.Wrap(fault.Invalid, err, "OPENROUTER_BASE_URL cannot be used")
	}
	request.Header.Set("Authorization", "Bearer "+d.key)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Title", "mikan")
	failpoint.Hit("gate.before")
	response, err := d.client.Do(request)
	failpoint.Hit("gate.after")
	if err != nil {
		return Judgement{}, unreachable(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return Judgement{}, unreachable(ctx, err)
	}
	var answer decisionsAnswer
	parsed := json.Unmarshal(raw, &answer)
	if response.StatusCode != http.StatusOK || answer.Error != nil {
		return Judgement{}, d.refused(response, answer.Error)
	}
	given, ok := answer.Answers[q.Name]
	if parsed != nil || !ok || given.Type != "noul" {
		return Judgement{}, fault.New(fault.Unavailable, "the decision model's response holds no answer")
	}
	p, err := probability(given.Noul)
	return Judgement{Probability: p, Model: answer.Model, Usage: llm.Usage{Input: answer.Usage.Input, Output: answer.Usage.Output}}, err
}

// refused makes an error of an error response, or of an error inside a normal one.
func (d *decisions) refused(response *http.Response, said *decisionsError) error {
	status, message := response.StatusCode, ""
	if said != nil {
		message = said.Message
		if n, err := strconv.Atoi(strings.Trim(string(said.Code), `"`)); err == nil && status == http.StatusOK {
			status = n
		}
	}
	return statusError(status, response.Header, hide(message, d.key))
}

func hide(message, key string) string {
	if key != "" {
		message = strings.ReplaceAll(message, key, "[key]")
	}
	return text.Clip(text.VisibleLine(message), 300)
}

// statusError is the one place where an HTTP status of a decision model becomes a domain error.
func statusError(status int, header http.Header, message string) error {
	code := fault.Unavailable
	switch {
	case status == http.StatusTooManyRequests:
		code = fault.RateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		code = fault.Forbidden
	case status == http.StatusRequestTimeout:
	case status >= 300 && status < 500:
		code = fault.Invalid
	}
	if message == "" {
		message = http.StatusText(status)
	}
	err := fault.New(code, "the decision model's provider answered %d: %s", status, message)
	if code == fault.RateLimited || code == fault.Unavailable {
		if seconds, parse := strconv.ParseFloat(header.Get("Retry-After"), 64); parse == nil && seconds > 0 {
			return err.After(time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second)))
		}
	}
	return err
}

// maxRetryAfter bounds what a provider can ask for: a capture that comes an hour later is better than none.
const maxRetryAfter = time.Hour

func unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.Wrap(fault.Unavailable, err, "the decision model's provider is not reachable")
}
