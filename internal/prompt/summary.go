package prompt

import (
	_ "embed"

	"github.com/geminixiang/mikan/internal/llm"
)

// Summarise is the system prompt of a compaction.
//
//go:embed summary.md
var Summarise string

// Transcript makes the one message of a summary request: the summary so far and what comes after it.
func Transcript(summary, transcript string) []llm.Message {
	said := "Transcript:\n" + transcript
	if summary != "" {
		said = "Summary so far:\n" + summary + "\n\n" + said
	}
	return []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{{Kind: llm.BlockText, Text: said}}}}
}
