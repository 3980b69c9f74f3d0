package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// EchoOptions configures Echo.
type EchoOptions struct {
	Delay      time.Duration // before every reply
	Between    time.Duration // before every piece of a reply
	FailEvery  int           // every n-th request fails; 0 = none does
	FailStatus int           // 429 or 529, say; default 529
}

var (
	line    = regexp.MustCompile(`(?m)^\[[^\]\n]*\] \[[^\]\n]*\]: ?`)
	run     = regexp.MustCompile(`(?is)^run:\s*(.+)$`)
	slow    = regexp.MustCompile(`(?i)^slow\s+(\d{1,3})$`)
	long    = regexp.MustCompile(`(?i)^long\s+(\d{1,6})$`)
	mention = regexp.MustCompile(`^(<@!?[A-Za-z0-9]+>|@\S+)\s+`)
)

// Sentence is what the last user turn asks: the text behind the last "[timestamp] [name]: " of it, without mentions in
// front.
func Sentence(text string) string {
	if at := line.FindAllStringIndex(text, -1); len(at) > 0 {
		text = text[at[len(at)-1][1]:]
	}
	text = strings.TrimSpace(text)
	for mention.MatchString(text) {
		text = mention.ReplaceAllString(text, "")
	}
	return text
}

// Echo is the script of the standalone server. It answers "echo: " and what the last user turn asks, except for:
//
//	run: COMMAND  calls the bash tool, then answers "ran: " and its output
//	slow N        answers in N pieces, a second apart
//	long N        answers with N characters, in lines
func Echo(o EchoOptions) Script {
	var count atomic.Int64
	return func(r Request) Reply {
		n := count.Add(1)
		if o.FailEvery > 0 && n%int64(o.FailEvery) == 0 {
			return failure(o)
		}
		reply := echo(r)
		reply.Delay = o.Delay
		if reply.Between == 0 {
			reply.Between = o.Between
		}
		return reply
	}
}

func failure(o EchoOptions) Reply {
	switch o.FailStatus {
	case http.StatusTooManyRequests:
		r := Fail(o.FailStatus, "rate_limit_error", "This request would exceed your rate limit.")
		r.Header = http.Header{"Retry-After": {"1"}}
		return r
	case 0, 529:
		return Fail(529, "overloaded_error", "Overloaded")
	default:
		return Fail(o.FailStatus, "api_error", "Internal server error")
	}
}

func echo(r Request) Reply {
	if results := r.LastResults(); len(results) > 0 {
		var outputs []string
		for _, result := range results {
			outputs = append(outputs, result.Text)
		}
		return Say("ran: %s", strings.Join(outputs, "\n"))
	}
	text := Sentence(r.LastUserText())
	if m := run.FindStringSubmatch(text); m != nil && slices.Contains(r.Tools, "bash") {
		arguments, err := json.Marshal(map[string]string{"command": m[1]})
		if err != nil {
			return Fail(500, "api_error", err.Error())
		}
		return Reply{Parts: []Part{ToolCall(fmt.Sprintf("toolu_%d", r.Number), "bash", string(arguments))}}
	}
	if m := slow.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		reply := Reply{Between: time.Second / 5}
		for i := 1; i <= n; i++ {
			reply.Parts = append(reply.Parts, Text("%d of %d\n", i, n))
		}
		return reply
	}
	if m := long.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		text := strings.Repeat("The quick brown fox jumps over the lazy dog and runs on.\n", n/57+1)
		return Reply{Parts: []Part{Text("%s", text[:n])}}
	}
	return Reply{Parts: []Part{Text("echo: %s", text)}}
}
