package deaths

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/geminixiang/mikan/internal/jev/jevtest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/office"
)

// A poem is an answer that grows for some seconds.
const (
	verses       = 16
	betweenVerse = 300 * time.Millisecond
)

// pixel is a PNG of one pixel, in base64.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="

// actor is the model of one request: what it was asked, and what its tools have said since.
type actor struct {
	platform   office.Platform
	said       string // all of the sentence
	word       string // behind its verb
	results    string // of the newest calls
	hasResults bool
}

// verbs are what the model does, by the first word of what it is asked. Everything else it repeats.
var verbs = map[string]func(actor) llmtest.Reply{
	"run:": func(a actor) llmtest.Reply {
		arguments, _ := json.Marshal(map[string]string{"command": a.word}) // a text cannot fail
		return a.with(call("bash", string(arguments)), "ran: "+a.results)
	},
	"poem": func(a actor) llmtest.Reply {
		reply := llmtest.Reply{Between: betweenVerse}
		for i := range verses {
			reply.Parts = append(reply.Parts, llmtest.Text("verse %d of %s\n\n", i+1, a.word))
		}
		return reply
	},
	"long": func(a actor) llmtest.Reply {
		return llmtest.Say("%s", strings.Join(pages(a.platform, a.word), "\n\n"))
	},
	"attach": func(a actor) llmtest.Reply {
		if strings.Contains(a.results, "note is new") {
			return call("attach", `{"path":"note"}`)
		}
		return a.with(call("write", `{"path":"note","content":"noted"}`), "attached "+a.word)
	},
	"picture": func(a actor) llmtest.Reply {
		if strings.Contains(a.results, "note made") {
			return call("attach", `{"path":"picture.png"}`)
		}
		return a.with(call("bash", `{"command":"echo `+pixel+` | base64 -d > picture.png; echo note made"}`), "attached "+a.word)
	},
	"label": func(a actor) llmtest.Reply {
		word, number, _ := strings.Cut(a.word, " ")
		if a.hasResults && !strings.Contains(a.results, "label") && !strings.Contains(a.results, "interrupted") {
			return call("github_issue", fmt.Sprintf(`{"action":"label","number":%s,"labels":["good"]}`, number))
		}
		return a.with(call("github_read", `{"what":"issue"}`), "labelled "+word)
	},
	"count": func(a actor) llmtest.Reply { return a.with(call("bash", `{"command":"echo note"}`), "counted "+a.word) },
	"silent": func(actor) llmtest.Reply {
		return llmtest.Reply{Parts: []llmtest.Part{llmtest.Text("[SILENT]")}, Between: time.Second}
	},
	"hang": func(actor) llmtest.Reply {
		return llmtest.Reply{Parts: []llmtest.Part{llmtest.Text("wait")}, Ending: llmtest.EndStall}
	},
	"talk": func(a actor) llmtest.Reply {
		return llmtest.Say("%s %s", a.word, strings.Repeat("plums and more plums ", 60))
	},
}

// with makes a call, and says something when it has been made.
func (a actor) with(call llmtest.Reply, answer string) llmtest.Reply {
	if a.hasResults {
		return llmtest.Say("%s", answer)
	}
	return call
}

// calls counts the calls of tools: each has an id of its own.
var calls atomic.Int64

func call(tool, arguments string) llmtest.Reply {
	return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall(fmt.Sprintf("call_%d", calls.Add(1)), tool, arguments)}}
}

// script is the model of all scenes.
func script(platform office.Platform) llmtest.Script {
	return func(r llmtest.Request) llmtest.Reply {
		switch {
		case strings.HasPrefix(r.System, "You keep the memory"):
			return extraction(r.LastUserText())
		case len(r.Tools) == 0:
			return llmtest.Say("They talked about plums.")
		}
		a := actor{platform: platform, said: asked(r)}
		var verb string
		verb, a.word, _ = strings.Cut(a.said, " ")
		for _, result := range r.LastResults() {
			a.results, a.hasResults = a.results+result.Text, true
		}
		if does, ok := verbs[verb]; ok {
			return does(a)
		}
		return llmtest.Say("echo: %s", a.said)
	}
}

// speaker stands in front of what somebody says: when, who, and where. A mention may follow it.
var speaker = regexp.MustCompile(`(?m)^\[[^\]\n]*\] \[[^\]\n]*\](?: \[[^\]\n]*\])*: ?(?:(?:<@[A-Za-z0-9]+>|@\S+) +)?`)

// asked is what was said last in a request, its first line.
func asked(r llmtest.Request) string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if text := r.Messages[i].Text; r.Messages[i].Role == "user" && text != "" {
			if at := speaker.FindAllStringIndex(text, -1); len(at) > 0 {
				text = text[at[len(at)-1][1]:]
			}
			if _, task, scheduled := strings.Cut(text, "greeting.\n\n"); scheduled {
				text = task
			}
			text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
			return text
		}
	}
	return ""
}

// pages are the paragraphs of a text of a few messages.
func pages(platform office.Platform, word string) []string {
	size := map[office.Platform]int{office.Slack: 30_000, office.Discord: 4_500, office.Telegram: 9_000, office.GitHub: 130_000}[platform]
	var all []string
	for n := 0; len(all) == 0 || len(all)*(len(all[0])+2) < size; n++ {
		all = append(all, fmt.Sprintf("page-%04d-of-%s %s", n, word, strings.Repeat("The quick brown fox runs on. ", 15)))
	}
	return all
}

// extraction finds one thing worth remembering in every exchange.
func extraction(text string) llmtest.Reply {
	var evidence struct {
		Message string `json:"user_message"`
	}
	_ = json.Unmarshal([]byte(text), &evidence) // nothing is remembered then, which the scene sees
	answer, _ := json.Marshal(map[string]any{"operations": []any{map[string]string{"op": "add", "text": evidence.Message, "line": ""}}})
	return llmtest.Say("%s", answer)
}

// judgement takes talk for meant where it says so, and an exchange for worth remembering.
func judgement(r jevtest.Request) jevtest.Reply {
	newest := r.State[max(0, strings.LastIndex(r.State, "newest message")):]
	if strings.Contains(newest, "somebody") || strings.Contains(r.State, "remember") {
		return jevtest.Reply{Probability: 0.9}
	}
	return jevtest.Reply{}
}
