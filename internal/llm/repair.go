package llm

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/geminixiang/mikan/internal/text"
)

// Texts that Repair puts where something is missing. The model reads them.
const (
	interruptedResult = "The call was interrupted before its result was recorded. It may have had effects; check before repeating it."
	emptyResult       = "(no output)"
	missingStart      = "[The beginning of this conversation is not available.]"
	continueTurn      = "Continue."
)

// Repair makes any sequence of messages valid for every provider and says what it changed, for the session's record:
//
//   - every tool call is answered, directly after its turn and in the order of the calls: a missing result becomes an
//     error result that says so, a result without a call is dropped, a late one is moved;
//   - call ids are unique and match ^[a-zA-Z0-9_-]{1,64}$, and so do tool names;
//   - no empty text, no empty message, no block in a turn that cannot hold it, no character that cannot be stored;
//   - turns of the same role are one turn, the first is the user's, the last is not the assistant's, and no assistant
//     turn ends in thinking;
//   - pictures are PNG, JPEG, GIF or WebP by their header and within the providers' limits; others become a text note.
//
// Joining turns and moving results lose nothing and are not noted. It is pure and deterministic, shares no changed memory with its input, and changes nothing in its own result.
func Repair(messages []Message) (repaired []Message, notes []string) {
	r := &repair{answers: collectResults(messages), calls: collectCalls(messages), usedIDs: make(map[string]bool)}
	for i, m := range messages {
		switch m.Role {
		case RoleAssistant:
			r.assistantTurn(i, m)
		default: // tool results are placed with their calls; an unknown role can only be somebody talking to us
			r.userTurn(i, m)
		}
	}
	r.dropUnusedResults()
	r.edges()
	r.images()
	return r.out, r.notes
}

type repair struct {
	out     []Message
	notes   []string
	answers map[string][]*answer // results by call id as recorded, in order
	calls   map[string][]int     // messages that hold a call of this id, in order
	usedIDs map[string]bool
}

// answer is a recorded tool result and where it stood.
type answer struct {
	message int
	block   Block
	taken   bool
}

func collectResults(messages []Message) map[string][]*answer {
	answers := make(map[string][]*answer)
	for i, m := range messages {
		for _, b := range m.Blocks {
			if b.Kind == BlockToolResult {
				answers[b.CallID] = append(answers[b.CallID], &answer{message: i, block: b})
			}
		}
	}
	return answers
}

func collectCalls(messages []Message) map[string][]int {
	calls := make(map[string][]int)
	for i, m := range messages {
		for _, b := range m.Blocks {
			if b.Kind == BlockToolCall && m.Role == RoleAssistant {
				calls[b.CallID] = append(calls[b.CallID], i)
			}
		}
	}
	return calls
}

func (r *repair) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// add appends blocks to the last message when it has the same role, otherwise as a new one.
func (r *repair) add(role Role, blocks ...Block) {
	if n := len(r.out); n > 0 && r.out[n-1].Role == role {
		r.out[n-1].Blocks = append(r.out[n-1].Blocks, blocks...)
		return
	}
	r.out = append(r.out, Message{Role: role, Blocks: blocks})
}

func (r *repair) userTurn(index int, m Message) {
	var blocks []Block
	for _, b := range m.Blocks {
		switch b.Kind {
		case BlockText:
			if b, ok := r.text(index, b); ok {
				blocks = append(blocks, b)
			}
		case BlockImage:
			blocks = append(blocks, b) // looked at in images
		case BlockToolResult:
		default:
			r.note("message %d: a %s block in a %s turn was left out", index, b.Kind, m.Role)
		}
	}
	if len(blocks) == 0 {
		return
	}
	if m.Role != RoleUser {
		r.note("message %d: a turn of role %q became the user's", index, m.Role)
	}
	r.add(RoleUser, blocks...)
}

func (r *repair) assistantTurn(index int, m Message) {
	var blocks []Block
	var calls []int
	for _, b := range m.Blocks {
		switch b.Kind {
		case BlockText:
			if b, ok := r.text(index, b); ok {
				blocks = append(blocks, b)
			}
		case BlockThinking:
			if b.Text == "" && b.Signature == "" && b.Opaque == "" {
				continue
			}
			blocks = append(blocks, r.storable(index, b))
		case BlockToolCall:
			calls = append(calls, len(blocks))
			blocks = append(blocks, r.storable(index, b))
		case BlockImage:
			r.note("message %d: a picture in an assistant turn became a note", index)
			blocks = append(blocks, Block{Kind: BlockText, Text: imageNote("it stood in an answer")})
		case BlockToolResult:
		default:
			r.note("message %d: a %q block was left out", index, b.Kind)
		}
	}
	for len(blocks) > 0 && blocks[len(blocks)-1].Kind == BlockThinking {
		r.note("message %d: thinking at the end of a turn was left out", index)
		blocks = blocks[:len(blocks)-1]
	}
	if len(blocks) == 0 {
		return
	}
	var results []Block
	for k, at := range calls {
		results = append(results, r.answer(index, &blocks[at], k))
	}
	r.add(RoleAssistant, blocks...)
	if len(results) > 0 {
		r.add(RoleTool, results...)
	}
}

// answer finds the result of a call, makes the call's id good, and returns the result under that id.
func (r *repair) answer(index int, call *Block, ordinal int) Block {
	recorded := call.CallID
	call.CallID = uniqueIdentifier(identifier(recorded, fmt.Sprintf("call_%d_%d", index, ordinal)), r.usedIDs)
	if call.CallID != recorded {
		r.note("message %d: call id %q became %q", index, short(recorded), call.CallID)
	}
	if name := identifier(call.Name, "unnamed"); name != call.Name {
		r.note("message %d: tool name %q became %q", index, short(call.Name), name)
		call.Name = name
	}
	// Some servers count their ids from zero in every turn: a result belongs to the last call of its id before it.
	end := math.MaxInt
	for _, at := range r.calls[recorded] {
		if at > index {
			end = at
			break
		}
	}
	for _, a := range r.answers[recorded] {
		if a.taken || a.message < index || a.message >= end {
			continue
		}
		a.taken = true
		result := r.storable(a.message, a.block)
		result.CallID, result.Kind = call.CallID, BlockToolResult
		if strings.TrimSpace(result.Text) == "" {
			result.Text = ""
			if len(result.Images) == 0 {
				result.Text = emptyResult
			}
		}
		return result
	}
	text := call.Invalid
	if text == "" {
		text = interruptedResult
	}
	r.note("message %d: call %q had no result and was closed with an error", index, call.CallID)
	return Block{Kind: BlockToolResult, CallID: call.CallID, Text: text, IsError: true}
}

func (r *repair) dropUnusedResults() {
	dropped := 0
	for _, answers := range r.answers {
		for _, a := range answers {
			if !a.taken {
				dropped++
			}
		}
	}
	if dropped > 0 {
		r.note("%d tool results without a call were left out", dropped)
	}
}

// text makes a text block good; ok is false for one without visible text.
func (r *repair) text(index int, b Block) (_ Block, ok bool) {
	if strings.TrimSpace(b.Text) == "" {
		return b, false
	}
	return r.storable(index, b), true
}

func (r *repair) storable(index int, b Block) Block {
	said, arguments := text.Storable(b.Text), cleanEscapes(text.Storable(b.Arguments))
	if said != b.Text || arguments != b.Arguments {
		r.note("message %d: characters that cannot be stored were replaced", index)
	}
	b.Text, b.Arguments = said, arguments
	b.Signature, b.Opaque, b.Invalid = text.Storable(b.Signature), text.Storable(b.Opaque), text.Storable(b.Invalid)
	return b
}

// edges makes the first turn the user's and the last one not the assistant's.
func (r *repair) edges() {
	if len(r.out) == 0 || r.out[0].Role != RoleUser {
		r.note("the conversation did not start with the user")
		r.out = slices.Insert(r.out, 0, Message{Role: RoleUser, Blocks: []Block{{Kind: BlockText, Text: missingStart}}})
	}
	if r.out[len(r.out)-1].Role == RoleAssistant {
		r.note("the conversation ended with the assistant")
		r.add(RoleUser, Block{Kind: BlockText, Text: continueTurn})
	}
}

func short(s string) string {
	if r := []rune(text.Storable(s)); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return text.Storable(s)
}
