package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/text"
)

// What a provider rejected, as causes inside a *fault.Error.
var (
	errContextTooLong   = errors.New("the conversation is longer than the model's context window")
	errImageRejected    = errors.New("the provider rejected an image")
	errThinkingRejected = errors.New("the provider rejected earlier thinking")
)

// IsContextTooLong tells whether err means that the request must shrink: compact the session, then try once more.
func IsContextTooLong(err error) bool { return errors.Is(err, errContextTooLong) }

// WithoutRejected returns a copy of messages without what err says the provider rejected — images become a text note,
// earlier thinking is left out — and whether that is worth one more call. Sending the same request again would fail for
// ever, and with it the session.
func WithoutRejected(messages []Message, err error) ([]Message, bool) {
	switch {
	case errors.Is(err, errImageRejected):
		return mapBlocks(messages, func(b Block) Block {
			if b.Kind == BlockImage {
				return Block{Kind: BlockText, Text: imageNote("the provider could not read it")}
			}
			if len(b.Images) > 0 {
				b.Images = nil
				b.Text = joinNote(b.Text, imageNote("the provider could not read it"))
			}
			return b
		})
	case errors.Is(err, errThinkingRejected):
		return mapBlocks(messages, func(b Block) Block {
			if b.Kind == BlockThinking {
				return Block{}
			}
			return b
		})
	}
	return messages, false
}

// mapBlocks applies f to every block, drops those that become empty, and tells whether anything changed.
func mapBlocks(messages []Message, f func(Block) Block) (out []Message, changed bool) {
	out = make([]Message, 0, len(messages))
	for _, m := range messages {
		blocks := make([]Block, 0, len(m.Blocks))
		for _, b := range m.Blocks {
			c := f(b)
			if c.Kind != b.Kind || len(c.Images) != len(b.Images) {
				changed = true
			}
			if c.Kind != "" {
				blocks = append(blocks, c)
			}
		}
		out = append(out, Message{Role: m.Role, Blocks: blocks})
	}
	return out, changed
}

// refusal is what a provider said against a request: an HTTP error, or an error event inside a 200 stream.
type refusal struct {
	status  int // the HTTP status, or its twin for an error event; 0 = unknown
	kind    string
	message string
}

func (r *refusal) Error() string { return "refused: " + r.kind }

// parseRefusal reads the error shapes of Anthropic, OpenAI, OpenRouter, vLLM, llama.cpp and plain gateways.
func parseRefusal(status int, body []byte) *refusal {
	r := &refusal{status: status}
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"` // FastAPI
	}
	if json.Unmarshal(body, &outer) != nil {
		return r // an HTML page of some gateway says nothing worth repeating
	}
	type inner struct {
		Type     string          `json:"type"`
		Code     json.RawMessage `json:"code"`
		Message  string          `json:"message"`
		Metadata struct {
			Raw json.RawMessage `json:"raw"`
		} `json:"metadata"`
		Details struct {
			Code string `json:"error_code"`
		} `json:"details"`
	}
	in := inner{Type: outer.Type, Code: outer.Code, Message: outer.Message}
	var text string
	switch {
	case json.Unmarshal(outer.Error, &text) == nil && text != "":
		in.Message = text
	case len(outer.Error) > 0 && json.Unmarshal(outer.Error, &in) == nil:
	case in.Message == "" && json.Unmarshal(outer.Detail, &text) == nil:
		in.Message = text
	}
	r.message = in.Message
	code := strings.Trim(string(in.Code), `"`)
	switch {
	case in.Details.Code != "":
		r.kind = in.Details.Code
	case code != "" && code != "null":
		r.kind = code
	default:
		r.kind = in.Type
	}
	if n, err := strconv.Atoi(code); err == nil {
		// OpenRouter and vLLM put the status into the code.
		if r.status == 0 || r.status == http.StatusOK {
			r.status = n
		}
		r.kind = in.Type
	}
	if r.status == 0 || r.status == http.StatusOK {
		r.status = statusOf(in.Type, r.kind)
	}
	// OpenRouter says only "Provider returned error" and keeps the cause aside.
	if raw := string(in.Metadata.Raw); raw != "" && contextTooLong(raw) {
		r.message = strings.TrimSpace(r.message + " (context length exceeded)")
	}
	return r
}

// statusOf maps the names of error events to the HTTP status they have outside a stream.
func statusOf(names ...string) int {
	for _, name := range names {
		switch name {
		case "invalid_request_error", "invalid_prompt", "context_length_exceeded", "invalid_image",
			"invalid_encrypted_content", "image_parse_error":
			return http.StatusBadRequest
		case "authentication_error", "invalid_api_key":
			return http.StatusUnauthorized
		case "billing_error":
			return http.StatusPaymentRequired
		case "permission_error":
			return http.StatusForbidden
		case "not_found_error", "model_not_found":
			return http.StatusNotFound
		case "request_too_large":
			return http.StatusRequestEntityTooLarge
		case "rate_limit_error", "rate_limit_exceeded", "insufficient_quota":
			return http.StatusTooManyRequests
		case "overloaded_error":
			return 529
		case "timeout_error":
			return http.StatusGatewayTimeout
		}
	}
	return http.StatusInternalServerError
}

var tooLongPhrases = []string{
	"context_length_exceeded", "exceed_context_size", "prompt is too long", "input is too long", "context length",
	"context window", "context size", "maximum context", "exceed context limit", "exceeds the context",
	"maximum model length", "max_model_len", "longer than the model", "input token count", "too many input tokens",
	"maximum number of tokens", "reduce the length of the", "request too large for", "prompt too long",
}

func contextTooLong(s string) bool { return containsAny(strings.ToLower(s), tooLongPhrases) }

func containsAny(s string, phrases []string) bool {
	for _, p := range phrases {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

func imageRejected(kind, message string) bool {
	s := strings.ToLower(kind + " " + message)
	return strings.Contains(s, "image") && containsAny(s, []string{
		"could not process", "does not match", "exceed", "too large", "dimension", "invalid", "unsupported",
		"not support", "support image", "parse", "failed to", "cannot identify", "unable to",
	})
}

func thinkingRejected(kind, message string) bool {
	s := strings.ToLower(kind + " " + message)
	switch {
	case strings.Contains(s, "thinking"):
		return containsAny(s, []string{"signature", "expected `thinking`", "cannot be modified", "must remain", "redacted_thinking"})
	case strings.Contains(s, "invalid_encrypted_content"), strings.Contains(s, "encrypted content"):
		return true
	}
	return strings.Contains(s, "type 'reasoning'") || strings.Contains(s, "reasoning_details")
}

// client is what the classification of failures needs to know about a provider.
type client struct {
	name    string // for texts: "anthropic", "openai", "openrouter"
	keyName string // the environment variable an operator sets
	apiKey  string
}

// failure turns whatever ended a call into a *fault.Error.
func (c client) failure(ctx context.Context, x *exchange, req Request, err error) error {
	if ctx.Err() != nil && context.Cause(ctx) == errStalled {
		return fault.New(fault.Unavailable, "%s sent nothing for %s, the call was given up", c.name, x.idle)
	}
	var r *refusal
	switch {
	case errors.As(err, &r):
	case x.status >= 300 || x.status != 0 && !x.eventStream:
		r = parseRefusal(x.status, x.errorBody)
		if x.status < 300 && r.kind == "" && r.message == "" {
			return fault.New(fault.Invalid, "%s did not answer with an event stream; check the base URL", c.name)
		}
	case errors.Is(ctx.Err(), context.Canceled):
		return fault.Wrap(fault.Interrupted, context.Canceled, "the call to %s was stopped", c.name)
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(fault.Unavailable, context.DeadlineExceeded, "the call to %s took too long", c.name)
	case x.status == 0:
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the URL itself adds nothing and may hold a password
		}
		return fault.New(fault.Unavailable, "%s cannot be reached: %s", c.name, c.quote(req, err.Error()))
	default:
		return fault.New(fault.Unavailable, "the answer of %s broke off", c.name)
	}
	return c.refused(x, req, r)
}

// refused classifies what a provider said. 408, 409, 425, 429, 5xx and 529 may succeed later; nothing else does.
func (c client) refused(x *exchange, req Request, r *refusal) error {
	label := fmt.Sprintf("HTTP %d", r.status)
	if r.kind != "" {
		label += ", " + c.quote(req, r.kind)
	}
	say := func(code fault.Code, cause error, sentence string) *fault.Error {
		text := fmt.Sprintf("%s %s (%s)", c.name, sentence, label)
		if message := c.quote(req, r.message); message != "" && code != fault.Forbidden {
			text += ": " + message
		}
		if cause != nil {
			return fault.Wrap(code, cause, "%s", text)
		}
		return fault.New(code, "%s", text)
	}
	switch s := r.status; {
	case s == http.StatusUnauthorized:
		return say(fault.Forbidden, nil, "refused the key, check "+c.keyName)
	case s == http.StatusPaymentRequired:
		return say(fault.Forbidden, nil, "wants payment, the account has no credit left")
	case s == http.StatusForbidden:
		return say(fault.Forbidden, nil, "does not allow this with the key in "+c.keyName)
	case s == http.StatusNotFound && !imageRejected(r.kind, r.message): // OpenRouter: "No endpoints found that support image input"
		return say(fault.Invalid, nil, fmt.Sprintf("does not know the model %q or the address", req.Model))
	case s == http.StatusRequestEntityTooLarge, contextTooLong(r.kind + " " + r.message):
		return say(fault.TooLarge, errContextTooLong, "takes no request of this size")
	case s == http.StatusTooManyRequests:
		return say(fault.RateLimited, nil, "limits the rate").After(retryAfter(x.header, time.Now()))
	case s == http.StatusRequestTimeout, s == http.StatusConflict, s == http.StatusTooEarly, s >= 500:
		return say(fault.Unavailable, nil, "is overloaded or failing").After(retryAfter(x.header, time.Now()))
	case s >= 300 && s < 400:
		return say(fault.Invalid, nil, "redirects, check the base URL")
	case imageRejected(r.kind, r.message):
		return say(fault.Invalid, errImageRejected, "refused the request")
	case thinkingRejected(r.kind, r.message):
		return say(fault.Invalid, errThinkingRejected, "refused the request")
	default:
		return say(fault.Invalid, nil, "refused the request")
	}
}

// retryAfter reads how long a provider asks to wait: retry-after-ms, or Retry-After in seconds or as an HTTP date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		return time.Duration(s * float64(time.Second))
	}
	if t, err := http.ParseTime(v); err == nil && t.After(now) {
		return t.Sub(now)
	}
	return 0
}

// Most runes of a provider's own words in an error text.
const maxQuote = 200

var keyLike = regexp.MustCompile(`\b(sk|key|pk|xai|gsk)[-_][A-Za-z0-9*_-]{6,}`)

// quote makes a provider's words fit for an operator: one short line, without keys, and not at all when they quote the
// conversation.
func (c client) quote(req Request, s string) string {
	s = strings.Join(strings.Fields(text.Storable(s)), " ")
	if s == "" {
		return ""
	}
	if c.apiKey != "" {
		s = strings.ReplaceAll(s, c.apiKey, "[key]")
	}
	s = keyLike.ReplaceAllString(s, "[key]")
	if utf8.RuneCountInString(s) > maxQuote {
		s = string([]rune(s)[:maxQuote]) + "…"
	}
	if quotesConversation(req, s) {
		return "(its message quotes the conversation and is left out)"
	}
	return s
}

// quotesConversation tells whether s holds a passage of 24 runes or more of the request.
func quotesConversation(req Request, s string) bool {
	const window, stride = 16, 8 // every passage of 23 runes or more holds one aligned window
	runes := []rune(s)
	for i := 0; i+window <= len(runes); i += stride {
		passage := string(runes[i : i+window])
		for _, m := range req.Messages {
			for _, b := range m.Blocks {
				if strings.Contains(b.Text, passage) || strings.Contains(b.Arguments, passage) {
					return true
				}
			}
		}
		if strings.Contains(req.System, passage) {
			return true
		}
	}
	return false
}
