package llm_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"net/http"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// argumentsOf sends arguments through a provider's stream and returns the call that comes out.
func argumentsOf(t *testing.T, arguments string) llm.Block {
	t.Helper()
	server := llmtest.New(llmtest.Always(llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall("c", "bash", arguments)}}))
	d := dialects[0]
	m := d.opens("http://provider.test", &http.Client{Transport: direct{server}}, 0)
	made := calls(complete(t, m, d.request(userSays("Hi"))))
	if len(made) != 1 {
		t.Fatalf("%d calls", len(made))
	}
	return made[0]
}

func FuzzToolArguments(f *testing.F) {
	for _, s := range []string{"", "{}", `{"a":2932809024865746956}`, `{"a":1.10e5}`, `{"a":"\ud83d"}`, `{"a":"\u0000"}`,
		`{"a":"\ud83c\udf4a"}`, `{"a":"\\u0000"}`, `{"a`, "[1]", "null", "\xff", `{"a":"\uD8`, `{"a":"\ud800\u0041"}`, "{\"a\":\"\x00\"}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arguments string) {
		b := argumentsOf(t, arguments)
		if !utf8.ValidString(b.Arguments) || strings.ContainsRune(b.Arguments, 0) {
			t.Fatalf("cannot be stored: %q", b.Arguments)
		}
		if b.Invalid != "" {
			return
		}
		var o map[string]json.RawMessage
		if err := json.Unmarshal([]byte(b.Arguments), &o); err != nil {
			t.Fatalf("called good: %q: %v", b.Arguments, err)
		}
		if clean := strings.TrimSpace(arguments); utf8.ValidString(clean) && !strings.ContainsAny(clean, "\\\x00") && clean != "" && b.Arguments != clean {
			t.Fatalf("%q became %q", clean, b.Arguments)
		}
	})
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		messages []llm.Message
		min, max int64
	}{
		{"nothing", nil, 0, 0},
		{"English", userSays(strings.Repeat("The quick brown fox. ", 100)), 420, 700},
		{"Chinese", userSays(strings.Repeat("漢字", 500)), 1000, 1100},
		{"Russian", userSays(strings.Repeat("привет", 100)), 300, 400},
		{"a picture", []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{{Kind: llm.BlockImage}}}}, 1500, 1600},
		{"a picture in a result", []llm.Message{{Role: llm.RoleTool, Blocks: []llm.Block{{Kind: llm.BlockToolResult, Images: []llm.Block{{}}}}}}, 1500, 1600},
		{"encrypted thinking", []llm.Message{{Role: llm.RoleAssistant, Blocks: []llm.Block{{Kind: llm.BlockThinking, Signature: strings.Repeat("x", 6000)}}}}, 1000, 1100},
	}
	for _, tt := range tests {
		if n := llm.Estimate(tt.messages); n < tt.min || n > tt.max {
			t.Errorf("%s: %d tokens, want %d to %d", tt.name, n, tt.min, tt.max)
		}
	}
}
