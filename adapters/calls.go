package adapters

import "strings"

// The state of a tool call, in front of its line in a draft.
const (
	CallRunning = "•"
	CallDone    = "✓"
	CallFailed  = "✗"
)

// lineEnd is a hard line break in Markdown.
const lineEnd = "  \n"

// JoinCalls makes the lines of tool calls the upper part of a draft.
func JoinCalls(lines []string) string { return strings.Join(lines, lineEnd) }

// Draft is what is shown while a run goes on: its tool calls above the text. Either may be empty.
func Draft(calls, text string) string {
	if calls == "" || text == "" {
		return calls + text
	}
	return calls + "\n\n" + text
}

// CutCalls takes a draft apart again.
func CutCalls(draft string) (calls []string, text string) {
	upper, lower, _ := strings.Cut(draft, "\n\n")
	for _, mark := range []string{CallRunning, CallDone, CallFailed} {
		if strings.HasPrefix(upper, mark+" ") {
			return strings.Split(upper, lineEnd), lower
		}
	}
	return nil, draft
}
