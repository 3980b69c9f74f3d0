package memory

import (
	_ "embed"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/geminixiang/mikan/internal/jev"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/text"
)

// Exchange is what capture looks at: one message of a user and the answer to it. No tool output, no history.
type Exchange struct {
	Message string
	Answer  string // empty when mikan stayed silent
}

const (
	// gateMessage and gateAnswer are how many characters the gate sees of the message's beginning and the answer's end.
	gateMessage = 4000
	gateAnswer  = 2000
	// Threshold is the probability from which on an exchange goes to extraction.
	Threshold = 0.4
)

// Question is what the gate asks about an exchange.
func Question(e Exchange) jev.Question {
	state, _ := json.Marshal(struct { // two strings cannot fail
		Message string `json:"user_message"`
		Answer  string `json:"assistant_answer"`
	}{firstCharacters(e.Message, gateMessage), lastCharacters(e.Answer, gateAnswer)})
	return jev.Question{
		Name: "durable", State: string(state),
		Instructions: "Did the user, in this exchange with an assistant, establish durable knowledge that is worth remembering for later conversations?",
		True: "The user states a standing rule or ban, a preference for how things are delivered, a lasting fact about a system, a person, " +
			"a mapping or a workflow, or corrects a lasting misunderstanding.",
		False: "The user gives a one-off instruction, asks a question, reports a state that changes, or chats; the knowledge is generic; only the " +
			"assistant claims it; it stands in quoted, pasted or automated text; or the user asks to forget something.",
	}
}

func firstCharacters(s string, n int) string {
	s = text.Storable(s)
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func lastCharacters(s string, n int) string {
	s = text.Storable(s)
	at := len(s)
	for ; n > 0 && at > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:at])
		at -= size
	}
	return s[at:]
}

//go:embed extract.md
var extractPrompt string

const (
	// extractMessage and extractAnswer bound the exchange, in bytes, as extraction sees it.
	extractMessage = 24_000
	extractAnswer  = 8_000
	// extractMemory bounds the memory outside of the section, in bytes; the section itself fits whole.
	extractMemory = 24_000
	// extractForgotten bounds the list of what was taken out, in statements.
	extractForgotten = 50
	// extractTokens is room for six long sentences in any script, and for a model that cannot help thinking.
	extractTokens = 8192
)

// Extraction is the request that asks the conversation's own model for operations. The evidence is one JSON object, so
// that nothing in it can end it and speak for itself.
func Extraction(ref llm.Ref, e Exchange, content []byte, forgotten []string) llm.Request {
	evidence := struct {
		Memory    string   `json:"memory"`
		Forgotten []string `json:"forgotten,omitempty"`
		Message   string   `json:"user_message"`
		Answer    string   `json:"assistant_answer"`
	}{shown(content), forgotten[:min(len(forgotten), extractForgotten)], text.Head(text.Storable(e.Message), extractMessage), text.Tail(text.Storable(e.Answer), extractAnswer)}
	raw, _ := json.Marshal(evidence) // strings cannot fail
	return llm.Request{
		Model: ref.Model, Thinking: llm.ThinkingOff, MaxTokens: extractTokens, System: strings.TrimSpace(extractPrompt), Schema: Schema,
		Messages: []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{{Kind: llm.BlockText, Text: string(raw)}}}},
	}
}

// shown is what extraction sees of a file: all of a usual one; of a long one its beginning and the section.
func shown(content []byte) string {
	whole := text.Storable(string(content))
	if len(whole) <= extractMemory+MaxSection {
		return whole
	}
	head := text.Head(whole, extractMemory) + "\n(the file goes on)\n"
	if s, ok := findSection(content); ok && s.end > extractMemory {
		head += "\n" + text.Head(text.Storable(string(content[s.start:s.end])), MaxSection)
	}
	return head
}

// Says tells whether a message has text at all: attachments alone establish nothing.
func Says(message string) bool { return strings.TrimSpace(oneLine(message)) != "" }
