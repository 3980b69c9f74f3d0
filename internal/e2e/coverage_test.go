package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
)

// parsed reads the sources of packages of the module, without their tests.
func parsed(t *testing.T, dirs ...string) (*token.FileSet, []*ast.File) {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	for _, dir := range dirs {
		paths, err := filepath.Glob(filepath.Join(e2etest.ModuleRoot(t), dir, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no sources in %s (%v)", dir, err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
	}
	return set, files
}

// writes matches a statement that changes something.
var writes = regexp.MustCompile(`^\s*(INSERT|UPDATE|DELETE)\b|^\s*WITH\b[\s\S]*\b(INSERT INTO|DELETE FROM|UPDATE \w+ SET)\b`)

// leading is the text that an expression begins with; false when it begins otherwise.
func leading(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		return leading(e.X)
	}
	return "", false
}

// TestEveryCommitHasFailPoints looks at every statement of the store that changes something: it runs in a transaction
// that has fail points, or through the functions that have them.
func TestEveryCommitHasFailPoints(t *testing.T) {
	t.Parallel()
	set, files := parsed(t, "internal/store")
	found := 0
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok && isPool(selector.X) && (strings.HasPrefix(selector.Sel.Name, "Begin") || selector.Sel.Name == "SendBatch" || selector.Sel.Name == "CopyFrom") {
				if !between(file, call) {
					t.Errorf("%s: a commit without fail points; use tx", set.Position(call.Pos()))
				}
			}
			for _, argument := range call.Args {
				text, ok := leading(argument)
				if !ok || !writes.MatchString(text) {
					continue
				}
				found++
				selector, ok := call.Fun.(*ast.SelectorExpr)
				if ok && (isPool(selector.X) || selector.Sel.Name == "listRuns") {
					t.Errorf("%s: a statement that commits by itself without fail points; use exec or execRow", set.Position(call.Pos()))
				}
			}
			return true
		})
	}
	if found < 40 {
		t.Errorf("only %d statements that change something are found", found)
	}
}

// isPool tells whether an expression is a store's pool.
func isPool(e ast.Expr) bool {
	selector, ok := e.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "pool"
}

// external are the methods by which anything outside the process is called, by the packages that call them.
var external = map[string][]string{
	"adapters":          {"Post", "Edit", "Delete", "FindDelivery", "Upload", "Standing"},
	"activities":        {"Complete", "Run", "Fetch"},
	"internal/dispatch": {"SignalWithStartWorkflow", "StartWorkflow", "ExecuteWorkflow", "SignalWorkflow", "CancelWorkflow", "TerminateWorkflow"},
}

// inside are calls of the same names that stay in the process.
var inside = []string{"Store", "s", "Delivery"}

// TestEveryExternalCallHasFailPoints finds a call to a platform, a model, a tool or Temporal that no fail point precedes
// and follows: nobody would die there in a test.
func TestEveryExternalCallHasFailPoints(t *testing.T) {
	t.Parallel()
	for dir, methods := range external {
		set, files := parsed(t, dir)
		found := 0
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				selector, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !slices.Contains(methods, selector.Sel.Name) || slices.Contains(inside, last(selector.X)) {
					return true
				}
				found++
				if !between(file, call) && !handed(file, call) {
					t.Errorf("%s: %s.%s is called without a fail point before and after it", set.Position(call.Pos()), last(selector.X), selector.Sel.Name)
				}
				return true
			})
		}
		if found == 0 {
			t.Errorf("no external call is found in %s: their names have changed", dir)
		}
	}
}

// last is the last name of an expression: "outbound" of p.outbound.
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// between tells whether the function around a call passes a fail point before it and one after it.
func between(file *ast.File, call ast.Node) bool {
	before, after := false, false
	for _, declaration := range file.Decls {
		if declaration.Pos() > call.Pos() || declaration.End() < call.End() {
			continue
		}
		ast.Inspect(declaration, func(n ast.Node) bool {
			if hit, ok := n.(*ast.CallExpr); ok && hits(hit) {
				before = before || hit.End() < call.Pos()
				after = after || hit.Pos() > call.End()
			}
			return true
		})
	}
	return before && after
}

// hits tells whether a call is one of failpoint.Hit.
func hits(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "Hit" && last(selector.X) == "failpoint"
}

// handed tells whether a call is within a function that is handed to "call", which has the fail points.
func handed(file *ast.File, call ast.Node) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		outer, ok := n.(*ast.CallExpr)
		if !ok || outer == call || outer.Pos() > call.Pos() || outer.End() < call.End() {
			return true
		}
		if selector, ok := outer.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "call" {
			found = true
		}
		return true
	})
	return found
}
