package tool_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/secret"
	"github.com/geminixiang/mikan/internal/tool"
)

// bench is an office and all built-in tools, behind a registry as in the product.
type bench struct {
	t        *testing.T
	dir      string
	registry *tool.Registry
	started  []sandbox.Group
}

func newBench(t *testing.T, spec string, secrets map[string]string) *bench {
	t.Helper()
	box, err := sandbox.Parse(sandbox.Config{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	if spec != "host" {
		if err := box.Probe(t.Context()); err != nil {
			t.Skip(err)
		}
	}
	redactor := secret.NewRedactor(secrets)
	registry, err := tool.NewRegistry(redactor,
		&tool.Write{}, &tool.Bash{Sandbox: box, Redactor: redactor}, &tool.Read{Redactor: redactor}, &tool.Edit{})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, dir: filepath.Join(t.TempDir(), "workspace", "v1-slack-c1-0000000000000000"), registry: registry}
}

func (b *bench) run(ctx context.Context, name string, arguments any) (tool.Result, error) {
	b.t.Helper()
	raw, ok := arguments.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(arguments); err != nil {
			b.t.Fatal(err)
		}
	}
	found, ok := b.registry.Get(name)
	if !ok {
		b.t.Fatalf("there is no tool %s", name)
	}
	result, err := found.Run(ctx, tool.Call{
		Key: "key", Arguments: raw, Place: tool.Place{Dir: b.dir},
		Started: func(g sandbox.Group) { b.started = append(b.started, g) },
	})
	if !utf8.ValidString(result.Text) || strings.ContainsRune(result.Text, 0) {
		b.t.Errorf("%s returned text that cannot be stored", name)
	}
	if lines := strings.Count(result.Text, "\n") + 1; len(result.Text) > tool.MaxBytes || lines > tool.MaxLines+1 {
		b.t.Errorf("%s returned %d lines and %d bytes", name, lines, len(result.Text))
	}
	return result, err
}

// call expects a result and no error, and returns the result.
func (b *bench) call(name string, arguments any) tool.Result {
	b.t.Helper()
	result, err := b.run(b.t.Context(), name, arguments)
	if err != nil {
		b.t.Fatalf("%s %v: %v", name, arguments, err)
	}
	return result
}

func (b *bench) write(name, content string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) content(name string) string {
	b.t.Helper()
	content, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(content)
}

type args = map[string]any

func TestTheRegistryIsStableAndComplete(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	var names []string
	for _, spec := range b.registry.Specs() {
		names = append(names, spec.Name)
		var schema struct {
			Properties map[string]struct{ Type, Description string }
			Required   []string
		}
		if err := json.Unmarshal(spec.Schema, &schema); err != nil {
			t.Fatalf("%s: %v", spec.Name, err)
		}
		for _, name := range schema.Required {
			if schema.Properties[name].Type == "" {
				t.Errorf("%s requires %q and does not describe it", spec.Name, name)
			}
		}
		if _, ok := b.registry.Get(spec.Name); !ok || spec.Description == "" {
			t.Errorf("%s is incomplete", spec.Name)
		}
	}
	if strings.Join(names, " ") != "bash edit read write" {
		t.Errorf("the tools are %v", names)
	}
	for name, want := range map[string]tool.Replay{"bash": tool.Unsafe, "write": tool.Unsafe, "edit": tool.Unsafe, "read": tool.Safe} {
		if found, _ := b.registry.Get(name); found.Replay() != want {
			t.Errorf("%s may be replayed: %v", name, found.Replay())
		}
	}
	if r := b.registry.Unknown("b\x00sh"); !r.IsError || !strings.Contains(r.Text, "bash, edit, read, write") {
		t.Errorf("an unknown tool: %+v", r)
	}
}

// odd is a tool that breaks its contract as asked.
type odd struct {
	name   string
	schema string
	run    func() tool.Result
}

func (o odd) Spec() llm.ToolSpec {
	return llm.ToolSpec{Name: o.name, Description: "d", Schema: json.RawMessage(o.schema)}
}
func (o odd) Replay() tool.Replay                                 { return tool.Safe }
func (o odd) Run(context.Context, tool.Call) (tool.Result, error) { return o.run(), nil }

func TestTheRegistryRefusesWhatProvidersWould(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object"}`
	for name, tools := range map[string][]tool.Tool{
		"a name twice":  {odd{"a", schema, nil}, odd{"a", schema, nil}},
		"an empty name": {odd{"", schema, nil}},
		"a space":       {odd{"a b", schema, nil}},
		"a long name":   {odd{strings.Repeat("a", 65), schema, nil}},
		"no schema":     {odd{"a", ``, nil}},
		"a list schema": {odd{"a", `{"type":"array"}`, nil}},
	} {
		_, err := tool.NewRegistry(nil, tools...)
		if code := fault.CodeOf(err); code != fault.Invalid && code != fault.Conflict {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheRegistryHoldsToolsToTheirContract(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		run  func() tool.Result
		want string
		fail bool
	}{
		{"nothing", func() tool.Result { return tool.Result{} }, "(no output)", false},
		{"bytes that cannot be stored", func() tool.Result { return tool.Result{Text: "a\x00\xFF"} }, "a\uFFFD\uFFFD", false},
		{"a secret", func() tool.Result { return tool.Result{Text: "k=canary-0123"} }, "k=[SECRET:KEY]", false},
		{"a panic", func() tool.Result { panic("canary-0123") }, "The tool failed", true},
		{"too many bytes", func() tool.Result { return tool.Result{Text: strings.Repeat("😀", 100_000)} }, "😀", false},
		{"too many lines", func() tool.Result { return tool.Result{Text: strings.Repeat("x\n", 10_000)} }, "x", false},
	} {
		registry, err := tool.NewRegistry(secret.NewRedactor(map[string]string{"KEY": "canary-0123"}), odd{"odd", `{"type":"object"}`, test.run})
		if err != nil {
			t.Fatal(err)
		}
		found, _ := registry.Get("odd")
		got, err := found.Run(t.Context(), tool.Call{})
		if err != nil || !strings.HasPrefix(got.Text, test.want) || got.IsError != test.fail || strings.Contains(got.Text, "canary") {
			t.Errorf("%s: %.80q, error result %v, error %v", test.name, got.Text, got.IsError, err)
		}
		if len(got.Text) > tool.MaxBytes || strings.Count(got.Text, "\n") >= tool.MaxLines || !utf8.ValidString(got.Text) {
			t.Errorf("%s: %d bytes, %d lines", test.name, len(got.Text), strings.Count(got.Text, "\n")+1)
		}
	}
}

func TestBadArgumentsAreToldInASentence(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	b.write("f", "text")
	for _, test := range []struct{ tool, arguments, want string }{
		{"bash", `{}`, `"command" is missing`},
		{"bash", `{"command":null}`, `"command" is missing`},
		{"bash", `{"command":7}`, `"command" must be a string, not a number`},
		{"bash", `{"command":"true","timeout":0}`, `"timeout" is 0; it must be from 1 to 600`},
		{"bash", `{"command":"true","timeout":601}`, `from 1 to 600`},
		{"bash", `{"command":"true","timeout":1.5}`, `"timeout" must be a whole number`},
		{"bash", `{"command":"true","timeout":"5"}`, `"timeout" must be a whole number, not a string`},
		{"bash", `{"command":"echo \u0000"}`, `NUL`},
		{"bash", `[]`, `must be a JSON object`},
		{"bash", `{"command":"` + strings.Repeat("x", sandbox.MaxScript+1) + `"}`, `write tool`},
		{"read", `{"offset":1}`, `"path" is missing`},
		{"read", `{"path":"f","offset":2932809024865746956}`, `"offset" is 2932809024865746956;`},
		{"read", `{"path":"f","limit":-1}`, `"limit" is -1`},
		{"write", `{"path":"f"}`, `"content" is missing`},
		{"edit", `{"path":"f"}`, `"edits" is missing`},
		{"edit", `{"path":"f","edits":"[]"}`, `"edits" must be a list, not a string`},
		{"edit", `{"path":"f","edits":[{"old":"a"}]}`, `edit 1 lacks`},
		{"edit", `{"path":"f","edits":[{"old":"","new":"a"}]}`, `is empty`},
		{"edit", `{"path":"f","edits":[{"old":"a","new":"a"}]}`, `are the same`},
	} {
		result := b.call(test.tool, json.RawMessage(test.arguments))
		if !result.IsError || !strings.Contains(result.Text, test.want) {
			t.Errorf("%s %.60s: %+v, want %q", test.tool, test.arguments, result, test.want)
		}
	}
	if len(b.started) != 0 || b.content("f") != "text" {
		t.Error("a refused call had effects")
	}
	if r := b.call("bash", json.RawMessage(`{"command":"echo ok","unknown":{"x":1}}`)); r.IsError || r.Text != "ok\n" {
		t.Errorf("an argument that is not known: %+v", r)
	}
}
