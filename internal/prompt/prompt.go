// Package prompt makes what the model is told about itself. The system part is the same from run to run, so that
// providers' caches stay warm; what changes rides on the user's turn.
package prompt

import (
	"bytes"
	_ "embed"
	"strings"
	"text/template"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

//go:embed system.md.tmpl
var systemText string

var system = template.Must(template.New("system").Parse(systemText))

// maxMemory is how many characters of a memory file the model sees; the whole file is there for its tools.
const maxMemory = 24_000

// System makes the system prompt. instructions are the operator's, for the installation and the office.
func System(instructions string) string {
	var b bytes.Buffer
	// The template and its one field are fixed: executing it cannot fail.
	_ = system.Execute(&b, struct{ Instructions string }{strings.TrimSpace(instructions)})
	return strings.TrimSpace(b.String())
}

// Messages turns a session's context into a valid request: the summary, the entries in order, and the memory beside
// the newest user turn, where it may change without disturbing the prefix.
func Messages(c store.Context, memory store.Memory) ([]llm.Message, []string) {
	var messages []llm.Message
	if c.Summary != "" {
		messages = append(messages, llm.Message{Role: llm.RoleUser, Blocks: []llm.Block{{
			Kind: llm.BlockText, Text: "Summary of the conversation before this point:\n" + c.Summary,
		}}})
	}
	last := -1
	for _, e := range c.Entries {
		m := llm.Message{Role: roleOf(e.Kind), Blocks: e.Body.Blocks}
		if e.Kind == store.EntryPrompt {
			last = len(messages)
		}
		messages = append(messages, m)
	}
	if note := memoryNote(memory); note != "" && last >= 0 {
		// A copy: the entry's own blocks stay as they are stored.
		blocks := append([]llm.Block{{Kind: llm.BlockText, Text: note}}, messages[last].Blocks...)
		messages[last].Blocks = blocks
	}
	return llm.Repair(messages)
}

// MemoryTokens estimates what the memory adds to a request.
func MemoryTokens(m store.Memory) int64 { return llm.EstimateText(memoryNote(m)) }

func roleOf(kind store.EntryKind) llm.Role {
	switch kind {
	case store.EntryAssistant:
		return llm.RoleAssistant
	case store.EntryToolResult:
		return llm.RoleTool
	default:
		return llm.RoleUser
	}
}

// memoryNote shows the memory as data: every line is quoted, so nothing in it can end its section.
func memoryNote(m store.Memory) string {
	var b strings.Builder
	quote := func(title, content string) {
		content = strings.TrimSpace(content)
		if content == "" {
			return
		}
		shown := text.Head(content, maxMemory)
		b.WriteString(title + "\n")
		for line := range strings.Lines(shown) {
			b.WriteString("> " + strings.TrimRight(line, "\r\n") + "\n")
		}
		if len(shown) < len(content) {
			b.WriteString("(only the beginning is shown; read the file for the rest)\n")
		}
	}
	quote("MEMORY.md of this conversation (orientation, may be out of date):", m.Office)
	quote("MEMORY.md of the whole workspace (orientation, may be out of date):", m.Workspace)
	return b.String()
}
