package history

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/geminixiang/mikan/internal/text"
	"github.com/geminixiang/mikan/internal/tool"
)

// Bounds of what is printed, in characters.
const (
	EntryCharacters  = 2_000
	OutputCharacters = 30_000
	// before is how much of a clipped entry is shown in front of a match.
	before = 400
	// reserve is kept for the lines around the entries.
	reserve = 600
	// A tool's result has bounds of its own, which many bytes a character or many short lines would meet first.
	outputBytes = tool.MaxBytes - 4*reserve
	outputLines = tool.MaxLines - 10
)

// Text prints an answer: the newest of its items that fit, oldest first, and how to see the others.
func (a Answer) Text() string {
	var shown []string
	characters, bytes, lines := reserve, 0, 0
	for _, item := range slices.Backward(a.Items) {
		block := item.print()
		characters += utf8.RuneCountInString(block) + 1
		bytes += len(block) + 1
		lines += strings.Count(block, "\n") + 1
		if len(shown) > 0 && (characters > OutputCharacters || bytes > outputBytes || lines > outputLines) {
			break
		}
		shown = append(shown, block)
	}
	slices.Reverse(shown)
	out := text.Clip(a.Title, reserve/2) + ".\n" + strings.Join(shown, "\n")
	if left := len(a.Items) - len(shown); left > 0 || a.More {
		out += fmt.Sprintf("\n[There are older ones. Continue with skip %d.]", a.Skip+int64(len(shown)))
	}
	return out
}

func (i Item) print() string {
	head := text.Clip(i.Head, EntryCharacters)
	if i.Text == "" {
		return head
	}
	total := utf8.RuneCountInString(i.Text)
	if total <= EntryCharacters {
		return head + "\n" + i.Text
	}
	return fmt.Sprintf("%s\n%s\n[Clipped: %d of %d characters. Search for words of the rest to see it.]",
		head, window(i.Text, i.focus, EntryCharacters), EntryCharacters, total)
}

// window shortens s to at most most characters around the one at focus.
func window(s string, focus, most int) string {
	total := utf8.RuneCountInString(s)
	from := min(max(focus-before, 0), total-most+1)
	if from <= 0 {
		return text.Clip(s, most)
	}
	at := 0
	for range from {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return "…" + text.Clip(text.Tail(s, len(s)-at), most-1)
}
