package e2e

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

// elsewhere are the fail points that nobody on the terminal can reach, each with the reason.
var elsewhere = map[string]string{
	"revise.":          "a terminal line is never edited",
	"continued.":       "needs a run of hundreds of steps",
	"gate.":            "needs a decision model; see TestACaptureSurvivesADeathAtEachOfItsSteps",
	"extract.":         "the same",
	"capture_":         "the same",
	"forgo.":           "needs a platform that limits rates",
	"rate.":            "the same",
	"platform.find.":   "needs a platform that shows a repeated post again",
	"people.":          "needs a platform that tells who people are",
	"vet.":             "the same",
	"judge.":           "needs a platform with shared conversations",
	"admit.":           "the same",
	"turn_away.":       "the same",
	"intend_first.":    "needs a stranger, whom a platform with shared conversations tells once",
	"fire_schedule.":   "needs a task that is due; internal/schedule has its own tests of firing twice",
	"queue_late.":      "needs a platform where edits mention",
	"mark.":            "needs a platform with signs on messages",
	"fetch.":           "needs a platform with attached files",
	"files.":           "the same",
	"platform.upload.": "needs the tool that attaches files; see the platforms' tests",
	"alias.":           "needs a platform whose conversations change their ids",
	"cursor.":          "needs a platform whose stream has a position",
	"access.":          "one statement of an operator's command, which says whether it was carried out",
	"setting.":         "the same",
	"revoke.":          "the same",
	"schedule":         "the same",
	"import":           "belongs to the import, which has its own suite",
}

func TestADeathAtEachNamedPointLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	points := failpoints(t)
	if len(points) < 30 {
		t.Fatalf("only %d fail points are found: %v", len(points), points)
	}
	for _, point := range points {
		if slices.ContainsFunc(slices.Collect(keys(elsewhere)), func(prefix string) bool { return strings.HasPrefix(point, prefix) }) {
			continue
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, dramatic())
			died := w.dieAt(point)
			w.Settled()
			w.WellFormed()
			w.RanOnce("marks")
			if !died {
				t.Errorf("no process came to this point; extend the play (or elsewhere, with the reason)")
			}
		})
	}
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// dramatic is a model for the play: it streams slowly enough for drafts, calls tools and falls silent.
func dramatic() llmtest.Script {
	echo := llmtest.Echo(llmtest.EchoOptions{Between: 100 * time.Millisecond})
	return func(r llmtest.Request) llmtest.Reply {
		switch text := llmtest.Sentence(r.LastUserText()); {
		case strings.HasPrefix(text, "write"):
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall("w1", "write", `{"path":"note","content":"noted"}`)}}
		case strings.HasPrefix(text, "silent"):
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.Text("[SILENT]")}, Between: 250 * time.Millisecond}
		case strings.HasPrefix(text, "hang"):
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.Text("wait")}, Ending: llmtest.EndStall}
		case strings.HasPrefix(text, "fail"):
			return llmtest.Fail(401, "authentication_error", "no")
		case strings.HasPrefix(text, "talk"):
			return llmtest.Say("%s", strings.Repeat("plums and more plums ", 100))
		case len(r.Tools) == 0:
			return llmtest.Say("They talked about plums.")
		}
		return echo(r)
	}
}

// dieAt plays everything that a conversation can come to, with every process armed to die at a point, until one has
// died. A worker that died is replaced.
func (w *world) dieAt(point string) bool {
	w.T.Helper()
	armed := "MIKAN_FAILPOINT=" + point
	first := w.LaunchWorker(armed)
	w.T.Cleanup(first.Kill)
	replaced := make(chan struct{})
	go func() {
		defer close(replaced)
		<-first.Ended
	}()
	died := false
	acts := []func(){
		func() { died = w.line(armed, e2etest.Mark("act", 0.1)) || died },
		func() { died = w.line(armed, "write") || died },
		func() { died = w.line(armed, "silent") || died },
		func() { died = w.hangAnd(armed, "stop all") || died },
		func() { died = w.hangAnd(armed, "/new") || died },
		func() { died = w.line(armed, "/help") || died },
		func() { died = w.line(armed, "/session") || died },
		func() {
			for range 3 {
				w.line("MIKAN_FAILPOINT=", "talk")
			}
			died = w.line(armed, "/compact") || died
		},
		func() { died = w.failAndRetry(armed) || died },
		// A message that Temporal never heard of: an armed worker finds it.
		func() { w.line("MIKAN_FAILPOINT=wake.before", "unheard"); w.taken() },
	}
	// The acts that the point's name suggests come first; most points lie in the first.
	for prefix, act := range map[string]int{"file.": 1, "platform.delete": 2, "cancel.": 3, "empty_queue.": 3, "reset.": 4, "link.": 6, "compact.": 7, "summary.": 7, "retry.": 8, "note.": 8, "woken.": 9} {
		if strings.HasPrefix(point, prefix) {
			acts = append([]func(){acts[act]}, acts...)
		}
	}
	var second *e2etest.Process
	for _, act := range acts {
		done := make(chan struct{})
		go func() { defer close(done); act() }()
		select {
		case <-done:
		case <-replaced:
		}
		if !first.Alive() && second == nil {
			died = died || first.Killed()
			second = w.LaunchWorker()
		}
		<-done
		if died {
			break
		}
	}
	if second == nil {
		first.Kill()
		w.LaunchWorker()
	}
	return died
}

// failAndRetry has an operator run a failed message again, and tells whether the operator's command died.
func (w *world) failAndRetry(armed string) bool {
	failed := w.AskWith(w.T.Context(), nil, "fail")
	if failed.RunID == "" {
		return false // it found nobody to run it
	}
	out := e2etest.Command(w.T, e2etest.MikanPath(w.T), w.Environ(armed), "run", "retry", failed.RunID, "--data-dir", w.DataDir)
	return out.Code == -1
}

// taken waits until nothing waits in the inbox, or nobody is left to take it.
func (w *world) taken() {
	db := w.DB()
	e2etest.Eventually(w.T, "what waits is taken", func(ctx context.Context) error {
		waits, err := e2etest.Rows(ctx, db, `SELECT message_id FROM inbox`)
		if err == nil && len(waits) > 0 {
			err = errors.New("not yet")
		}
		return err
	})
}

// line says something through an armed gateway and tells whether that died.
func (w *world) line(armed, text string) bool {
	ctx, cancel := context.WithTimeout(w.T.Context(), e2etest.Patience)
	defer cancel()
	return w.AskWith(ctx, []string{armed}, text).Exited.Code == -1 && ctx.Err() == nil
}

// hangAnd says a control word while a model call hangs.
func (w *world) hangAnd(armed, word string) bool {
	hanging := make(chan bool, 1)
	go func() { hanging <- w.line(armed, "hang") }()
	db := w.DB()
	e2etest.Eventually(w.T, "the model hangs, or nobody is left to call it", func(ctx context.Context) error {
		if w.openStreams() > 0 {
			return nil
		}
		select {
		case died := <-hanging:
			hanging <- died
			return nil
		default:
		}
		if _, err := e2etest.Rows(ctx, db, `SELECT 'x'`); err != nil {
			return err
		}
		return errors.New("not yet")
	})
	died := w.line(armed, word)
	if died || w.openStreams() > 0 {
		w.line("MIKAN_FAILPOINT=", "stop")
	}
	return <-hanging || died
}

// ownSuites are directories whose fail points are the business of their own tests: those of the single platforms, and of
// the import.
var ownSuites = []string{"deployments", "adapters/slack", "adapters/discord", "adapters/telegram", "adapters/github", "internal/migrate"}

// failpoints reads the names of all fail points out of the module's sources: those written out, and those put together
// of a function's parameter and a rest, for each text that the function is called with.
func failpoints(t testing.TB) []string {
	t.Helper()
	packages := map[string][]*ast.File{}
	err := filepath.WalkDir(e2etest.ModuleRoot(t), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != e2etest.ModuleRoot(t) || slices.Contains(ownSuites, filepath.ToSlash(strings.TrimPrefix(path, e2etest.ModuleRoot(t)+"/")))):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for dir, files := range packages {
		for _, file := range files {
			for _, declaration := range file.Decls {
				if function, ok := declaration.(*ast.FuncDecl); ok && function.Body != nil {
					names = append(names, hits(t, dir, function, files)...)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func hits(t testing.TB, dir string, function *ast.FuncDecl, files []*ast.File) []string {
	var names []string
	ast.Inspect(function.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !selects(call, "failpoint", "Hit") {
			return true
		}
		before, parameter, after := pieces(t, call.Args[0])
		if parameter == "" {
			names = append(names, before+after)
			return true
		}
		index := position(function, parameter)
		if index < 0 {
			t.Errorf("%s: %s makes the name of a fail point of %s, which is not its parameter", dir, function.Name.Name, parameter)
			return true
		}
		for _, text := range calledWith(files, function.Name.Name, index) {
			names = append(names, before+text+after)
		}
		return true
	})
	return names
}

func selects(call *ast.CallExpr, pkg, name string) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	at, ok := selector.X.(*ast.Ident)
	return pkg == "" || ok && at.Name == pkg
}

// pieces takes a sum of texts and at most one name apart.
func pieces(t testing.TB, e ast.Expr) (before, parameter, after string) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		return text, "", ""
	case *ast.Ident:
		return "", e.Name, ""
	case *ast.BinaryExpr:
		b1, p1, a1 := pieces(t, e.X)
		b2, p2, a2 := pieces(t, e.Y)
		if p1 != "" {
			return b1, p1, a1 + b2 + p2 + a2
		}
		return b1 + b2, p2, a2
	}
	t.Errorf("the name of a fail point is made of %T", e)
	return "", "", ""
}

func position(function *ast.FuncDecl, parameter string) int {
	index := 0
	for _, field := range function.Type.Params.List {
		for _, name := range field.Names {
			if name.Name == parameter {
				return index
			}
			index++
		}
	}
	return -1
}

// calledWith lists the texts that a package calls one of its functions with, also through functions that pass their own
// parameter on.
func calledWith(files []*ast.File, function string, index int) []string {
	var texts []string
	for _, file := range files {
		for _, declaration := range file.Decls {
			caller, ok := declaration.(*ast.FuncDecl)
			if !ok || caller.Body == nil {
				continue
			}
			ast.Inspect(caller.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !selects(call, "", function) || len(call.Args) <= index {
					return true
				}
				switch argument := call.Args[index].(type) {
				case *ast.BasicLit:
					if text, err := strconv.Unquote(argument.Value); err == nil {
						texts = append(texts, text)
					}
				case *ast.Ident:
					if at := position(caller, argument.Name); at >= 0 {
						texts = append(texts, calledWith(files, caller.Name.Name, at)...)
					}
				}
				return true
			})
		}
	}
	return texts
}
