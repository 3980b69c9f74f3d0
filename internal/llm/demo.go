package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
)

// demoNotice ends every answer of the demo model, so that nobody takes it for a real one.
const demoNotice = "This is mikan's built-in demo model; set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY " +
	"for a real one. Say `help` for what it understands."

const demoHelp = "I understand a few sentences:\n" +
	"- `run: <command>` runs a command with the bash tool and reports what it printed\n" +
	"- `read <path>` and `write <path>: <text>` use the file tools\n" +
	"- `remember <something>` answers kindly\n" +
	"- `what did <name> say` and `earlier` quote this conversation\n" +
	"- `slow <n>` answers over n seconds (at most 600)\n" +
	"- `broken json`, `unknown tool` and `nothing` show what happens when a model misbehaves\n" +
	"- `help` shows this list"

// NewDemo makes the model that answers when no key is set. It calls nobody, understands the sentences its help lists,
// and gives the same answer for the same conversation.
func NewDemo() Model { return demoModel{} }

type demoModel struct{}

// Complete implements Model.
func (demoModel) Complete(ctx context.Context, req Request, on func(Event)) (Response, error) {
	drafts, pause, err := demoAnswer(req)
	if err != nil {
		return Response{}, err
	}
	output := int64(0)
	for _, d := range drafts {
		d.complete = true
		output += EstimateText(d.text.String()) + EstimateText(d.arguments.String())
		if d.kind != BlockText {
			continue
		}
		for _, piece := range demoPieces(d.text.String(), pause > 0) {
			if err := demoWait(ctx, pause); err != nil {
				return Response{}, err
			}
			emit(on, EventText, piece)
		}
	}
	resp := finish(req, drafts, StopEnd)
	resp.Model = "demo"
	resp.Usage = Usage{Input: EstimateText(req.System) + Estimate(req.Messages), Output: output}
	return resp, nil
}

func demoWait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		if ctx.Err() == nil {
			return nil
		}
	}
	if fault.CodeOf(ctx.Err()) == fault.Interrupted {
		return fault.Wrap(fault.Interrupted, ctx.Err(), "the call to demo was stopped")
	}
	return fault.Wrap(fault.Unavailable, ctx.Err(), "the call to demo took too long")
}

// demoPieces cuts a text into the pieces it streams in: lines for a slow answer, else a few.
func demoPieces(text string, slow bool) []string {
	if slow {
		return strings.SplitAfter(text, "\n")
	}
	words := strings.SplitAfter(text, " ")
	size := max(1, (len(words)+3)/4)
	var pieces []string
	for len(words) > 0 {
		n := min(size, len(words))
		pieces = append(pieces, strings.Join(words[:n], ""))
		words = words[n:]
	}
	return pieces
}

var (
	demoRun      = regexp.MustCompile("(?is)^run(?::\\s*|\\s+`)(.+?)`?$")
	demoRead     = regexp.MustCompile(`(?is)^read\s+(\S+)$`)
	demoWrite    = regexp.MustCompile(`(?is)^write\s+(\S+?):\s*(.*)$`)
	demoSlow     = regexp.MustCompile(`(?i)^slow\s+(\d{1,4})$`)
	demoSay      = regexp.MustCompile(`(?is)^what\s+did\s+(.+?)\s+say\b`)
	demoRemember = regexp.MustCompile(`(?is)^(?:please\s+)?remember\b[:,]?\s*(?:that\s+)?(.*)$`)
	// A line that a user wrote: [timestamp] [name]: text.
	demoLine = regexp.MustCompile(`(?m)^\[[^\]\n]*\] \[([^\]\n]*)\]: ?`)
)

// demoAnswer decides what to say. pause is how long to wait before each piece of a slow answer.
func demoAnswer(req Request) (drafts []*draft, pause time.Duration, err error) {
	if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == RoleTool {
		return []*draft{demoText(demoReport(req))}, 0, nil
	}
	said := demoSentence(req.Messages)
	lower := strings.ToLower(strings.TrimRight(said, ".!? "))
	switch {
	case lower == "nothing":
		return nil, 0, nil
	case lower == "broken json":
		return []*draft{demoCall("bash", `{"command": "echo half`)}, 0, nil
	case lower == "unknown tool":
		return []*draft{demoCall("teleport", `{"to": "the moon"}`)}, 0, nil
	case lower == "help":
		return []*draft{demoText(demoHelp)}, 0, nil
	}
	if m := demoSlow.FindStringSubmatch(lower); m != nil {
		n, _ := strconv.Atoi(m[1])
		n = min(n, 600)
		var text strings.Builder
		for i := 1; i <= n; i++ {
			fmt.Fprintf(&text, "%d of %d\n", i, n)
		}
		return []*draft{demoText(text.String())}, time.Second, nil
	}
	if m := demoRun.FindStringSubmatch(said); m != nil {
		return demoUse(req, "bash", demoArgument{strings.TrimSpace(m[1]), []string{"command", "cmd"}}), 0, nil
	}
	if m := demoRead.FindStringSubmatch(said); m != nil {
		return demoUse(req, "read", demoArgument{m[1], demoPathNames}), 0, nil
	}
	if m := demoWrite.FindStringSubmatch(said); m != nil {
		return demoUse(req, "write", demoArgument{m[1], demoPathNames},
			demoArgument{m[2], []string{"content", "text"}}), 0, nil
	}
	if m := demoSay.FindStringSubmatch(said); m != nil {
		return []*draft{demoText(demoQuote(req.Messages, strings.Trim(m[1], "@` ")))}, 0, nil
	}
	if strings.Contains(lower, "earlier") {
		return []*draft{demoText(demoQuote(req.Messages, ""))}, 0, nil
	}
	if m := demoRemember.FindStringSubmatch(said); m != nil {
		return []*draft{demoText("Noted, I will keep that in mind: " + strings.TrimSpace(m[1]))}, 0, nil
	}
	if said == "" {
		return []*draft{demoText("Hello! What can I do for you?")}, 0, nil
	}
	return []*draft{demoText("You said: " + said)}, 0, nil
}

func demoText(text string) *draft {
	d := &draft{kind: BlockText}
	d.text.WriteString(strings.TrimRight(text, "\n") + "\n\n" + demoNotice)
	return d
}

func demoCall(name, arguments string) *draft {
	d := &draft{kind: BlockToolCall, name: name}
	d.arguments.WriteString(arguments)
	return d
}

// demoArgument is a value for a tool, under the first of the names that the tool's schema has.
type demoArgument struct {
	value string
	names []string
}

var demoPathNames = []string{"path", "file_path", "file"}

// demoUse calls a tool when the request offers it.
func demoUse(req Request, tool string, values ...demoArgument) []*draft {
	for _, t := range req.Tools {
		if t.Name != tool {
			continue
		}
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		_ = json.Unmarshal(t.Schema, &schema) // an unreadable schema leaves the first names
		arguments := make(map[string]string, len(values))
		for _, v := range values {
			name := v.names[0]
			for _, candidate := range v.names {
				if _, ok := schema.Properties[candidate]; ok {
					name = candidate
					break
				}
			}
			arguments[name] = v.value
		}
		encoded, err := json.Marshal(arguments)
		if err != nil {
			break
		}
		return []*draft{demoCall(tool, string(encoded))}
	}
	return []*draft{demoText("The " + tool + " tool is not available here.")}
}

// demoSentence is what the last user turn asks: the text behind the last [timestamp] [name]: of it, without a mention in
// front.
func demoSentence(messages []Message) string {
	var text string
	for _, m := range messages {
		if m.Role != RoleUser {
			continue
		}
		text = ""
		for _, b := range m.Blocks {
			if b.Kind == BlockText {
				text += b.Text + "\n"
			}
		}
	}
	if at := demoLine.FindAllStringIndex(text, -1); len(at) > 0 {
		text = text[at[len(at)-1][1]:]
	} else if i := strings.LastIndex(text, "]: "); i >= 0 {
		text = text[i+len("]: "):]
	}
	text = strings.TrimSpace(text)
	for {
		first, rest, ok := strings.Cut(text, " ")
		if !ok || !strings.HasPrefix(first, "@") && !(strings.HasPrefix(first, "<@") && strings.HasSuffix(first, ">")) {
			return text
		}
		text = strings.TrimSpace(rest)
	}
}

// demoReport tells what the tools of the last turn gave.
func demoReport(req Request) string {
	names := make(map[string]string)
	for _, m := range req.Messages {
		for _, b := range m.Blocks {
			if b.Kind == BlockToolCall {
				names[b.CallID] = b.Name
			}
		}
	}
	var parts []string
	for _, b := range req.Messages[len(req.Messages)-1].Blocks {
		verb := "gave"
		if b.IsError {
			verb = "failed"
		}
		fence := "```"
		for strings.Contains(b.Text, fence) {
			fence += "`"
		}
		parts = append(parts, fmt.Sprintf("The %s tool %s:\n%s\n%s\n%s", names[b.CallID], verb, fence, strings.TrimRight(b.Text, "\n"), fence))
	}
	return strings.Join(parts, "\n\n")
}

// demoQuote quotes what somebody said before, or, without a name, what was said at all: the last ten lines.
func demoQuote(messages []Message, name string) string {
	var lines []string
	keep := func(who, text string) {
		text = strings.TrimSpace(text)
		if text != "" && (name == "" || strings.EqualFold(who, name) || strings.EqualFold(name, "i") && who != "mikan" ||
			strings.EqualFold(name, "you") && who == "mikan") {
			lines = append(lines, fmt.Sprintf("> %s: %s", who, strings.ReplaceAll(text, "\n", "\n> ")))
		}
	}
	for _, m := range messages {
		for _, b := range m.Blocks {
			switch {
			case b.Kind != BlockText:
			case m.Role == RoleAssistant:
				keep("mikan", strings.TrimSuffix(strings.TrimSpace(b.Text), demoNotice))
			case m.Role == RoleUser:
				at := demoLine.FindAllStringSubmatchIndex(b.Text, -1)
				if len(at) == 0 {
					keep("somebody", b.Text)
				}
				for i, span := range at {
					end := len(b.Text)
					if i+1 < len(at) {
						end = at[i+1][0]
					}
					keep(b.Text[span[2]:span[3]], b.Text[span[1]:end])
				}
			}
		}
	}
	if len(lines) > 0 && name == "" || strings.EqualFold(name, "i") {
		lines = lines[:max(0, len(lines)-1)] // the question itself
	}
	if len(lines) == 0 {
		if name == "" {
			return "Nothing was said earlier in this conversation."
		}
		return name + " said nothing in this conversation."
	}
	return "Earlier in this conversation:\n" + strings.Join(lines[max(0, len(lines)-10):], "\n")
}
