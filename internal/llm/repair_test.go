package llm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

func text(role llm.Role, s string) llm.Message {
	return llm.Message{Role: role, Blocks: []llm.Block{{Kind: llm.BlockText, Text: s}}}
}

func call(ids ...string) llm.Message {
	m := llm.Message{Role: llm.RoleAssistant}
	for _, id := range ids {
		m.Blocks = append(m.Blocks, llm.Block{Kind: llm.BlockToolCall, CallID: id, Name: "bash", Arguments: `{}`})
	}
	return m
}

func result(id, s string) llm.Message {
	return llm.Message{Role: llm.RoleTool, Blocks: []llm.Block{{Kind: llm.BlockToolResult, CallID: id, Text: s}}}
}

// outline prints messages as the tables below write them.
func outline(messages []llm.Message) string {
	var lines []string
	for _, m := range messages {
		var blocks []string
		for _, b := range m.Blocks {
			s := string(b.Kind)
			switch b.Kind {
			case llm.BlockText:
				s = b.Text
			case llm.BlockToolCall:
				s = "call " + b.CallID
			case llm.BlockToolResult:
				s = fmt.Sprintf("%s=%s", b.CallID, b.Text)
				if b.IsError {
					s = b.CallID + "!"
				}
			}
			blocks = append(blocks, s)
		}
		lines = append(lines, string(m.Role)+": "+strings.Join(blocks, ", "))
	}
	return strings.Join(lines, "\n")
}

func TestRepair(t *testing.T) {
	t.Parallel()
	user, assistant := llm.RoleUser, llm.RoleAssistant
	tests := []struct {
		name string
		in   []llm.Message
		want string
	}{
		{"a good conversation stays", []llm.Message{text(user, "a"), call("x", "y"), result("x", "1"), result("y", "2"), text(assistant, "b"), text(user, "c")},
			"user: a\nassistant: call x, call y\ntool: x=1, y=2\nassistant: b\nuser: c"},
		{"a missing result is an error result", []llm.Message{text(user, "a"), call("x"), text(user, "b")},
			"user: a\nassistant: call x\ntool: x!\nuser: b"},
		{"a missing result at the end", []llm.Message{text(user, "a"), call("x", "y"), result("y", "2")},
			"user: a\nassistant: call x, call y\ntool: x!, y=2"},
		{"results in the order of their calls", []llm.Message{text(user, "a"), call("x", "y"), result("y", "2"), result("x", "1")},
			"user: a\nassistant: call x, call y\ntool: x=1, y=2"},
		{"a late result moves to its call", []llm.Message{text(user, "a"), call("x"), text(user, "b"), text(assistant, "c"), result("x", "1"), text(user, "d")},
			"user: a\nassistant: call x\ntool: x=1\nuser: b\nassistant: c\nuser: d"},
		{"a result without a call is dropped", []llm.Message{text(user, "a"), result("z", "9"), text(assistant, "b"), text(user, "c")},
			"user: a\nassistant: b\nuser: c"},
		{"a result before its call is no result", []llm.Message{text(user, "a"), result("x", "9"), call("x"), text(user, "c")},
			"user: a\nassistant: call x\ntool: x!\nuser: c"},
		{"one id in two turns", []llm.Message{text(user, "a"), call("x"), result("x", "1"), call("x"), result("x", "2")},
			"user: a\nassistant: call x\ntool: x=1\nassistant: call x_2\ntool: x_2=2"},
		{"one id in two turns, the first unanswered", []llm.Message{text(user, "a"), call("x"), text(user, "b"), call("x"), result("x", "2")},
			"user: a\nassistant: call x\ntool: x!\nuser: b\nassistant: call x_2\ntool: x_2=2"},
		{"one id twice in a turn", []llm.Message{text(user, "a"), call("x", "x"), result("x", "1"), result("x", "2")},
			"user: a\nassistant: call x, call x_2\ntool: x=1, x_2=2"},
		{"an id that no provider takes", []llm.Message{text(user, "a"), call("functions.bash:0"), result("functions.bash:0", "1")},
			"user: a\nassistant: call functions_bash_0\ntool: functions_bash_0=1"},
		{"user turns in a row are one", []llm.Message{text(user, "a"), text(user, "b")}, "user: a, b"},
		{"assistant turns in a row are one", []llm.Message{text(user, "a"), text(assistant, "b"), text(assistant, "c"), text(user, "d")},
			"user: a\nassistant: b, c\nuser: d"},
		{"blank blocks and empty turns go", []llm.Message{text(user, "a"), text(assistant, " \n"), {Role: assistant}, text(user, "b")}, "user: a, b"},
		{"the assistant does not start", []llm.Message{text(assistant, "b"), text(user, "c")},
			"user: [The beginning of this conversation is not available.]\nassistant: b\nuser: c"},
		{"the assistant is not last", []llm.Message{text(user, "a"), text(assistant, "b")}, "user: a\nassistant: b\nuser: Continue."},
		{"nothing at all", nil, "user: [The beginning of this conversation is not available.]"},
		{"thinking at the end of a turn goes", []llm.Message{text(user, "a"), {Role: assistant, Blocks: []llm.Block{{Kind: llm.BlockThinking, Text: "hm", Signature: "s"}}}, text(user, "b")},
			"user: a, b"},
		{"an unknown role talks to us", []llm.Message{text("system", "a")}, "user: a"},
		{"half a character is replaced", []llm.Message{text(user, "a\xed\xa0\xbdb\x00")}, "user: a\uFFFDb\uFFFD"},
		{"an empty result says so", []llm.Message{text(user, "a"), call("x"), result("x", "")}, "user: a\nassistant: call x\ntool: x=(no output)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			repaired, _ := llm.Repair(tt.in)
			if got := outline(repaired); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestRepairTellsTheModelWhyACallHasNoResult(t *testing.T) {
	t.Parallel()
	broken := call("x")
	broken.Blocks[0].Arguments, broken.Blocks[0].Invalid = `{"a`, "The arguments were broken."
	repaired, notes := llm.Repair([]llm.Message{text(llm.RoleUser, "a"), broken, text(llm.RoleUser, "b"), call("y")})
	if got := repaired[2].Blocks[0].Text; got != "The arguments were broken." {
		t.Errorf("result of a broken call: %q", got)
	}
	if got := repaired[5].Blocks[0].Text; !strings.Contains(got, "interrupted") || !strings.Contains(got, "may have had effects") {
		t.Errorf("result of an interrupted call: %q", got)
	}
	if len(notes) != 2 {
		t.Errorf("notes %q", notes)
	}
}

func TestRepairLooksAtPicturesNotAtTheirNames(t *testing.T) {
	t.Parallel()
	webp := append([]byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f"), make([]byte, 12)...)
	tests := []struct {
		name string
		data []byte
		want string // media type; "" = a note
	}{
		{"a PNG called JPEG", strip(t, 3), "image/png"},
		{"WebP", webp, "image/webp"},
		{"HTML saved as PNG", []byte("<!doctype html><html>not found</html>"), ""},
		{"PDF", []byte("%PDF-1.7 and so on"), ""},
		{"nothing", nil, ""},
		{"too many pixels a side", strip(t, 8001), ""},
		{"too many bytes", append(strip(t, 3), bytes.Repeat([]byte{1}, 4<<20)...), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			picture := llm.Block{Kind: llm.BlockImage, MediaType: "image/jpeg", Data: tt.data}
			in := []llm.Message{
				{Role: llm.RoleUser, Blocks: []llm.Block{picture}}, call("x"),
				{Role: llm.RoleTool, Blocks: []llm.Block{{Kind: llm.BlockToolResult, CallID: "x", Images: []llm.Block{picture}}}},
			}
			repaired, _ := llm.Repair(in)
			own, inResult := repaired[0].Blocks[0], repaired[2].Blocks[0]
			if tt.want == "" {
				if own.Kind != llm.BlockText || len(inResult.Images) != 0 || !strings.Contains(inResult.Text, "left out") {
					t.Errorf("kept: %+v, %+v", own.Kind, inResult.Text)
				}
				return
			}
			if own.MediaType != tt.want || len(inResult.Images) != 1 || inResult.Images[0].MediaType != tt.want {
				t.Errorf("media type %q", own.MediaType)
			}
			if in[0].Blocks[0].MediaType != "image/jpeg" || in[2].Blocks[0].Images[0].MediaType != "image/jpeg" {
				t.Error("the input changed")
			}
		})
	}
}

func TestRepairKeepsOnlyAsManyPicturesAsProvidersTake(t *testing.T) {
	t.Parallel()
	var in []llm.Message
	small, large := strip(t, 2), strip(t, 2001)
	for i := range 130 {
		data := small
		if i%10 == 0 {
			data = large
		}
		in = append(in, llm.Message{Role: llm.RoleUser, Blocks: []llm.Block{{Kind: llm.BlockImage, Data: data}}})
	}
	repaired, _ := llm.Repair(in)
	pictures := 0
	for _, b := range repaired[0].Blocks {
		if b.Kind == llm.BlockImage {
			pictures++
			if len(b.Data) == len(large) {
				t.Fatal("a large picture among many was kept")
			}
		}
	}
	if pictures != 100 {
		t.Errorf("%d pictures", pictures)
	}
	if repaired[0].Blocks[len(in)-1].Kind != llm.BlockImage {
		t.Error("the newest picture is gone")
	}
}

// jumble makes messages that no session should hold, from random choices.
func jumble(r *rand.Rand, picture []byte) []llm.Message {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	texts := []string{"", " ", "\n", "hello", "a\x00b", "\xff\xfe", "emoji 🍊", "half \xed\xa0\xbd", `\ud800`, "漢字"}
	block := func() llm.Block {
		b := llm.Block{Kind: llm.BlockKind(pick("text", "text", "thinking", "tool_call", "tool_call", "tool_result", "tool_result", "image", "", "video"))}
		b.Text = pick(texts...)
		b.CallID = pick("", "a", "a", "b", "c", "weird.id:0", strings.Repeat("long", 30), "é", "a_2")
		b.Name = pick("bash", "", "no such tool!", strings.Repeat("n", 100))
		b.Arguments = pick("", "{}", `{"a":1e400}`, `{"a":"\ud800"}`, `{"a`, "[1]", "null", `"x"`, `{"a":"\u0000"}`, "\xff")
		b.IsError = r.IntN(3) == 0
		b.Provider = pick("", "anthropic", "openai-responses", "openai-chat")
		if b.Provider == "anthropic" {
			b.Signature = pick("", "sig-1")
		}
		if b.Provider == "openai-responses" {
			b.Opaque = pick("", `{"id":"rs_1","encrypted_content":"enc-1"}`, "{broken", `{}`)
		}
		if b.Provider == "openai-chat" {
			b.Opaque = pick("", `[{"type":"reasoning.text","text":"x"}]`, "[broken")
		}
		if b.Kind == llm.BlockText {
			b.Provider, b.Opaque = "", ""
		}
		images := [][]byte{picture, nil, []byte("<html>"), []byte("%PDF")}
		if b.Kind == llm.BlockImage {
			b.Data, b.MediaType = images[r.IntN(len(images))], pick("image/png", "image/jpeg", "text/html")
		}
		if b.Kind == llm.BlockToolResult && r.IntN(3) == 0 {
			b.Images = []llm.Block{{Kind: llm.BlockImage, Data: images[r.IntN(len(images))]}}
		}
		if r.IntN(8) == 0 {
			b.Invalid = "It was broken."
		}
		return b
	}
	var messages []llm.Message
	for range r.IntN(9) {
		m := llm.Message{Role: llm.Role(pick("user", "assistant", "assistant", "tool", "tool", "system"))}
		for range r.IntN(5) {
			m.Blocks = append(m.Blocks, block())
		}
		messages = append(messages, m)
	}
	return messages
}

// strict is every dialect's model on a handler that refuses what the providers refuse.
func strict(t testing.TB) (check func(t testing.TB, messages []llm.Message)) {
	server := llmtest.New(llmtest.Always(llmtest.Say("ok")))
	client := &http.Client{Transport: direct{server}}
	var models []llm.Model
	for _, d := range dialects {
		models = append(models, d.opens("http://provider.test", client, 0))
	}
	thinks := []llm.Thinking{llm.ThinkingOff, llm.ThinkingHigh}
	return func(t testing.TB, messages []llm.Message) {
		t.Helper()
		for i, d := range dialects {
			for _, level := range thinks {
				req := d.request(messages)
				req.Thinking = level
				if _, err := models[i].Complete(t.Context(), req, ignore); err != nil {
					t.Fatalf("%s refused: %v\n%s", d.name, err, outline(messages))
				}
			}
		}
	}
}

func checkRepair(t testing.TB, check func(testing.TB, []llm.Message), seed uint64, picture []byte) {
	t.Helper()
	in := jumble(rand.New(rand.NewPCG(seed, 1)), picture)
	same := jumble(rand.New(rand.NewPCG(seed, 1)), picture)
	repaired, _ := llm.Repair(in)
	if !reflect.DeepEqual(in, same) {
		t.Fatalf("seed %d: Repair changed its input", seed)
	}
	again, notes := llm.Repair(repaired)
	if !reflect.DeepEqual(repaired, again) || len(notes) > 0 {
		t.Fatalf("seed %d: not idempotent: %q\n%s\n---\n%s", seed, notes, outline(repaired), outline(again))
	}
	check(t, repaired)
}

func TestEveryProviderTakesWhatRepairMade(t *testing.T) {
	t.Parallel()
	check, picture := strict(t), strip(t, 2)
	for seed := range uint64(250) {
		checkRepair(t, check, seed, picture)
	}
}

func FuzzRepair(f *testing.F) {
	check, picture := strict(f), strip(f, 2)
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkRepair(t, check, seed, picture) })
}
