package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/secret"
	"github.com/geminixiang/mikan/internal/text"
)

// Registry is the set of tools of a process. It is immutable and safe for concurrent use.
type Registry struct {
	tools map[string]Tool
	specs []llm.ToolSpec
}

// toolName is what every provider takes as a tool's name.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// NewRegistry makes a Registry. Whatever a tool returns, what comes out of the registry is bounded, storable, never
// empty and without the redactor's secrets, and a panic is an error result. A name that a provider would refuse, a name
// used twice and a schema that is no JSON object are refused.
func NewRegistry(redactor *secret.Redactor, tools ...Tool) (*Registry, error) {
	r := &Registry{tools: map[string]Tool{}}
	for _, t := range tools {
		spec := t.Spec()
		var schema map[string]any
		switch {
		case !toolName.MatchString(spec.Name):
			return nil, fault.New(fault.Invalid, "tool name %q: a name has 1 to 64 letters, digits, _ or -", spec.Name)
		case r.tools[spec.Name] != nil:
			return nil, fault.New(fault.Conflict, "two tools are named %q", spec.Name)
		case json.Unmarshal(spec.Schema, &schema) != nil || schema["type"] != "object":
			return nil, fault.New(fault.Invalid, "the schema of tool %q is not a JSON Schema of an object", spec.Name)
		}
		r.tools[spec.Name] = &guarded{Tool: t, redactor: redactor}
		r.specs = append(r.specs, spec)
	}
	// Sorted, so that the prompt prefix that providers cache does not depend on the order of construction.
	slices.SortFunc(r.specs, func(a, b llm.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	return r, nil
}

// Specs returns what the model is told of all tools, sorted by name. The same registry always returns the same.
func (r *Registry) Specs() []llm.ToolSpec { return slices.Clone(r.specs) }

// Get returns the tool of that name.
func (r *Registry) Get(name string) (Tool, bool) {
	t, ok := r.tools[name]
	return t, ok
}

// Offers tells whether there is a tool of that name for the conversations of a platform.
func (r *Registry) Offers(name string, p office.Platform) bool {
	t, ok := r.tools[name].(*guarded)
	if !ok {
		return false
	}
	placed, is := t.Tool.(Placed)
	return !is || placed.Platform() == p
}

// Unknown is the result of a call to a tool that does not exist.
func (r *Registry) Unknown(name string) Result {
	names := make([]string, 0, len(r.specs))
	for _, spec := range r.specs {
		names = append(names, spec.Name)
	}
	return failed("There is no tool %q. The tools are: %s.", text.Clip(text.Storable(name), 64), strings.Join(names, ", "))
}

// guarded holds a tool to the contract of Result.
type guarded struct {
	Tool
	redactor *secret.Redactor
}

func (g *guarded) Run(ctx context.Context, call Call) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			// The value may hold the call's text: the stack says where, which is enough.
			slog.ErrorContext(ctx, "a tool panicked", "tool", g.Spec().Name, "stack", string(debug.Stack()))
			result, err = failed("The tool failed because of an error of its own. It may have had effects."), nil
		}
	}()
	result, err = g.Tool.Run(ctx, call)
	result.Text = bounded(g.redactor.String(text.Storable(result.Text)))
	if result.Text == "" {
		result.Text = "(no output)"
	}
	return result, err
}

// bounded keeps the beginning of a text that is over the bounds. The built-in tools do better by themselves.
func bounded(s string) string {
	const note = "\n[Cut: the result is longer than a tool's result may be.]"
	if len(s) <= MaxBytes && lines(s) <= MaxLines {
		return s
	}
	return text.Head(headLines(s, MaxLines-1), MaxBytes-len(note)) + note
}

// lines counts the lines of s; a last line without a line feed counts too.
func lines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

func headLines(s string, n int) string {
	for end := 0; ; n-- {
		i := strings.IndexByte(s[end:], '\n')
		if i < 0 {
			return s
		}
		end += i
		if n <= 1 {
			return s[:end]
		}
		end++
	}
}

// failed is a result that tells the model what went wrong.
func failed(format string, args ...any) Result {
	return Result{Text: fmt.Sprintf(format, args...), IsError: true}
}
