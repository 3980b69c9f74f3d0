package storm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// trouble is a way in which a model call fails.
type trouble string

const (
	overloaded trouble = "overloaded"
	limited    trouble = "rate limited"
	broken     trouble = "server error"
	cut        trouble = "cut in the middle"
	slow       trouble = "slow"
	silent     trouble = "silent"
)

// model does what messages ask for, whatever else is in their context: the same every time that it is asked.
type model struct {
	storm *storm

	mu       sync.Mutex
	troubles []trouble // of the next calls
	strays   []string  // what it was asked without a token
}

func (m *model) trouble(what trouble, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range n {
		m.troubles = append(m.troubles, what)
	}
}

func (m *model) calm() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.troubles = nil
}

func (m *model) answer(r llmtest.Request) llmtest.Reply {
	m.mu.Lock()
	var what trouble
	if len(m.troubles) > 0 {
		what, m.troubles = m.troubles[0], m.troubles[1:]
	}
	m.mu.Unlock()
	reply := m.reply(r)
	switch what {
	case overloaded:
		return llmtest.Fail(529, "overloaded_error", "overloaded")
	case limited:
		fail := llmtest.Fail(http.StatusTooManyRequests, "rate_limit_error", "slow down")
		fail.Header = http.Header{"Retry-After": {"1"}}
		return fail
	case broken:
		return llmtest.Fail(http.StatusInternalServerError, "api_error", "internal error")
	case cut:
		reply.Ending = llmtest.EndCut
	case slow:
		reply.Between = 700 * time.Millisecond
	case silent:
		reply.Ending = llmtest.EndStall
	}
	return reply
}

// reply is what the model says when all is well.
func (m *model) reply(r llmtest.Request) llmtest.Reply {
	if len(r.Tools) == 0 {
		return llmtest.Say("They talked, and all was well.") // a summary is wanted
	}
	results := r.LastResults()
	said, known := m.storm.register.find(asked(r, results))
	if !known {
		m.mu.Lock()
		m.strays = append(m.strays, r.LastUserText())
		m.mu.Unlock()
		return llmtest.Say("I know nothing of it.")
	}
	if len(results) > 0 {
		var texts []string
		for _, result := range results {
			texts = append(texts, strings.TrimSpace(result.Text))
		}
		return llmtest.Say("%s ran: %s", said.token, strings.Join(texts, " and "))
	}
	reply := llmtest.Reply{Between: 15 * time.Millisecond}
	switch said.kind {
	case marked:
		reply.Parts = []llmtest.Part{llmtest.Text("I try."), call(said.token, "a")}
	case paired:
		reply.Parts = []llmtest.Part{call(said.token, "a"), call(said.token, "b")}
	case lengthy:
		reply.Parts = []llmtest.Part{llmtest.Text("%s", strings.Join(lines(said), "\n\n"))}
	case unsaid:
		reply.Parts = []llmtest.Part{llmtest.Text("[SILENT]")}
	case drawnOut:
		reply.Parts, reply.Between = []llmtest.Part{llmtest.Text("%s", plainText(said.token))}, 400*time.Millisecond
	default:
		reply.Parts = []llmtest.Part{llmtest.Text("%s", plainText(said.token))}
	}
	return reply
}

// asked is the token that a request is about.
func asked(r llmtest.Request, results []llmtest.Result) string {
	if len(results) > 0 {
		return tokens.FindString(results[0].CallID)
	}
	text := r.LastUserText()
	if token := tokens.FindString(llmtest.Sentence(text)); token != "" {
		return token
	}
	all := tokens.FindAllString(text, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// call has a tool leave a line behind: that it ran, and which call it was.
func call(token, which string) llmtest.Part {
	mark := token + which
	arguments, err := json.Marshal(map[string]string{"command": fmt.Sprintf("echo %s >> marks && sleep 0.4 && echo done %s", mark, mark)})
	if err != nil {
		panic(err) // a map of strings
	}
	return llmtest.ToolCall("call_"+token+"_"+which, "bash", string(arguments))
}

func plainText(token string) string { return token + " is answered, and all is well with it." }

// lines are those of a long answer, in order.
func lines(m *message) []string {
	var all []string
	for size := 0; size < m.room.town.Features().Long*2/3; size += len(all[len(all)-1]) {
		all = append(all, fmt.Sprintf("%s line %d says as much as a line can say without being of any interest to anybody.", m.token, len(all)+1))
	}
	return all
}

// asSaid tells whether texts, put together, are what the model says to a message.
func asSaid(m *message, texts []string) bool {
	whole := strings.Join(strings.Fields(strings.Join(texts, " ")), " ")
	switch m.kind {
	case marked, paired:
		return strings.Contains(whole, m.token+" ran: ") && strings.Count(whole, m.token+" ran: ") == 1
	case lengthy:
		return slices.Equal(strings.Fields(whole), strings.Fields(strings.Join(lines(m), " ")))
	}
	return whole == plainText(m.token)
}
