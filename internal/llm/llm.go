// Package llm is mikan's model interface: one call in provider-neutral form, and one implementation per provider.
//
// Messages are what sessions store (as JSON), so their field names are a storage format: add, never rename.
package llm

import (
	"context"
	"encoding/json"
)

// Role of a message.
type Role string

// The roles. A tool result is a user-role message of BlockToolResult blocks for Anthropic and a tool-role message for
// OpenAI; here it is always RoleTool.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one turn of a conversation.
type Message struct {
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`
}

// BlockKind tells which fields of a Block are meant.
type BlockKind string

// The kinds of block.
const (
	BlockText       BlockKind = "text"        // Text
	BlockThinking   BlockKind = "thinking"    // Text, Signature, Opaque
	BlockToolCall   BlockKind = "tool_call"   // CallID, Name, Arguments
	BlockToolResult BlockKind = "tool_result" // CallID, Text, IsError, Images
	BlockImage      BlockKind = "image"       // MediaType, Data or File
)

// Block is one part of a message.
type Block struct {
	Kind BlockKind `json:"kind"`
	Text string    `json:"text,omitempty"`

	// Thinking: what the provider needs back verbatim to go on (Anthropic's signature or redacted data, OpenAI's
	// encrypted reasoning item). Provider names the API dialect that made it ("anthropic", "openai-responses");
	// other dialects leave the block out.
	Provider  string `json:"provider,omitempty"`
	Signature string `json:"signature,omitempty"`
	Opaque    string `json:"opaque,omitempty"`

	// Tool call and result. Arguments is the JSON text the model wrote, byte for byte (numbers keep their digits).
	// Invalid tells why a call cannot be executed (broken JSON, cut off); it is then answered with that text.
	CallID    string `json:"callId,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
	Invalid   string `json:"invalid,omitempty"`
	IsError   bool   `json:"isError,omitempty"`

	// Images (PNG, JPEG, GIF, WebP only), on BlockImage and inside tool results.
	MediaType string  `json:"mediaType,omitempty"`
	Data      []byte  `json:"data,omitempty"`
	Images    []Block `json:"images,omitempty"`
}

// Thinking is how hard the model should think before it answers.
type Thinking string

// The levels; each provider maps them to its own parameters. ThinkingOff is the default.
const (
	ThinkingOff    Thinking = "off"
	ThinkingLow    Thinking = "low"
	ThinkingMedium Thinking = "medium"
	ThinkingHigh   Thinking = "high"
)

// ToolSpec describes a tool to the model. Schema is a JSON Schema object.
type ToolSpec struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Request is one model call. Messages must be well-formed (see Repair).
type Request struct {
	Model     string // the provider's model name, without the provider
	System    string
	Messages  []Message
	Tools     []ToolSpec
	Thinking  Thinking
	MaxTokens int    // most output tokens; 0 = the model's own maximum from the catalogue
	CacheKey  string // stable per session, for providers that route by it; content-free
	// Schema, when set, makes the answer's text JSON of this JSON Schema: an object that requires all its properties and
	// allows no others, which is what every provider takes. Servers without structured output may ignore it or refuse it
	// as invalid, so the answer must be checked.
	Schema json.RawMessage
}

// Event is a piece of an answer while it streams.
type Event struct {
	Kind EventKind
	Text string // the new piece, for EventText and EventThinking
}

// EventKind tells what a piece belongs to.
type EventKind string

// The kinds of event. EventActivity carries nothing but proves that the stream is alive.
const (
	EventText     EventKind = "text"
	EventThinking EventKind = "thinking"
	EventActivity EventKind = "activity"
)

// StopReason tells why the model stopped.
type StopReason string

// The reasons. After StopLength no tool call of the response may be executed: it can be cut off.
const (
	StopEnd     StopReason = "end"
	StopTools   StopReason = "tools"
	StopLength  StopReason = "length"
	StopRefused StopReason = "refused"
)

// Usage counts tokens of one call. Input excludes what was read from or written to the provider's cache.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead,omitempty"`
	CacheWrite int64 `json:"cacheWrite,omitempty"`
}

// Add sums two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite}
}

// Response is a finished call. Blocks are in the model's order and hold no empty text.
type Response struct {
	Blocks []Block
	Stop   StopReason
	Usage  Usage
	Model  string // the model that answered, as the provider names it
}

// Model calls one provider.
//
// Complete streams the answer: on is called in order from one goroutine, and never after Complete returned. It makes
// exactly one HTTP request (retries belong to the activity). Errors are *fault.Error: rate_limited (with RetryAfter),
// unavailable (5xx, 529, 408, timeouts, half a stream), too_large when the context is longer than the model's window
// (IsContextTooLong), forbidden for a refused key, invalid for what the provider will never take.
type Model interface {
	Complete(ctx context.Context, req Request, on func(Event)) (Response, error)
}
