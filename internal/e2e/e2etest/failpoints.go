package e2etest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// onPlatforms are the beginnings of the fail points that nobody on the terminal can bring mikan to: what concerns edits,
// files, signs, strangers, rates and the like, and what has a suite of its own. Package deaths knows which platforms do.
var onPlatforms = []string{
	"access.", "admit.", "alias.", "capture_", "continued.", "cursor.", "extract.", "fetch.", "files.", "fire_schedule.", "forgo.", "gate.",
	"import", "intend_first.", "judge.", "mark.", "people.", "platform.find.", "platform.upload.", "queue_late.", "rate.", "revise.", "revoke.",
	"schedule.", "setting.", "turn_away.", "vet.",
	"slack.", "discord.", "telegram.", "github.",
}

// OnPlatforms tells whether a fail point is left to package deaths: the terminal's suite kills at all others.
func OnPlatforms(point string) bool {
	return slices.ContainsFunc(onPlatforms, func(prefix string) bool { return strings.HasPrefix(point, prefix) })
}

// Failpoints reads the names of all fail points out of the module's sources: those written out, and those put together
// of a rest and a function's parameter, or a field of a parameter, for each text that is given for it.
func Failpoints(t testing.TB) []string {
	t.Helper()
	packages := map[string]sources{}
	root := ModuleRoot(t)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root:
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
		files.functions(func(function *ast.FuncDecl) { names = append(names, hits(t, dir, function, files)...) })
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sources are the files of one package.
type sources []*ast.File

func (s sources) functions(visit func(*ast.FuncDecl)) {
	for _, file := range s {
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Body != nil {
				visit(function)
			}
		}
	}
}

// inspect visits all of a package, each node with the function that it is in; nil outside of one.
func (s sources) inspect(visit func(*ast.FuncDecl, ast.Node)) {
	for _, file := range s {
		for _, declaration := range file.Decls {
			function, _ := declaration.(*ast.FuncDecl)
			ast.Inspect(declaration, func(n ast.Node) bool {
				visit(function, n)
				return true
			})
		}
	}
}

func hits(t testing.TB, dir string, function *ast.FuncDecl, files sources) []string {
	t.Helper()
	var names []string
	ast.Inspect(function.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !selects(call, "failpoint", "Hit") {
			return true
		}
		before, variable, after := pieces(t, call.Args[0])
		if variable == nil {
			names = append(names, before+after)
			return true
		}
		texts := files.given(function, variable)
		if len(texts) == 0 {
			t.Errorf("%s: it is not known which names %s makes of fail points", dir, function.Name.Name)
		}
		for _, text := range texts {
			names = append(names, before+text+after)
		}
		return true
	})
	return names
}

func selects(call *ast.CallExpr, pkg, name string) bool {
	switch called := call.Fun.(type) {
	case *ast.Ident:
		return pkg == "" && called.Name == name
	case *ast.SelectorExpr:
		at, ok := called.X.(*ast.Ident)
		return called.Sel.Name == name && (pkg == "" || ok && at.Name == pkg)
	}
	return false
}

// pieces takes a sum of texts and at most one variable apart.
func pieces(t testing.TB, e ast.Expr) (before string, variable ast.Expr, after string) {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		return literal(e), nil, ""
	case *ast.Ident, *ast.SelectorExpr:
		return "", e, ""
	case *ast.BinaryExpr:
		b1, v1, a1 := pieces(t, e.X)
		b2, v2, a2 := pieces(t, e.Y)
		if v1 != nil {
			return b1, v1, a1 + b2 + a2
		}
		return b1 + b2, v2, a2
	}
	t.Errorf("the name of a fail point is made of %T", e)
	return "", nil, ""
}

func literal(l *ast.BasicLit) string {
	text, err := strconv.Unquote(l.Value)
	if err != nil {
		return "" // a number
	}
	return text
}

// given lists the texts that an expression of a function can be: a text, a parameter, or a field of one.
func (s sources) given(function *ast.FuncDecl, e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.BasicLit:
		return []string{literal(e)}
	case *ast.Ident:
		if index, _ := parameter(function, e.Name); index >= 0 {
			return s.calledWith(function.Name.Name, index)
		}
	case *ast.SelectorExpr:
		if of, ok := e.X.(*ast.Ident); ok {
			if _, kind := parameter(function, of.Name); kind != "" {
				return s.madeWith(kind, e.Sel.Name)
			}
		}
	}
	return nil
}

// parameter finds a function's parameter: its place, and its type where that is of the same package.
func parameter(function *ast.FuncDecl, name string) (index int, kind string) {
	if function == nil {
		return -1, ""
	}
	for _, field := range function.Type.Params.List {
		for _, at := range field.Names {
			if at.Name == name {
				if of, ok := field.Type.(*ast.Ident); ok {
					kind = of.Name
				}
				return index, kind
			}
			index++
		}
	}
	return -1, ""
}

// calledWith lists the texts that a package calls one of its functions with, also through functions that pass their own
// parameter on, and through variables that hold the function.
func (s sources) calledWith(name string, index int) []string {
	var texts []string
	holders := map[*ast.FuncDecl]map[string]bool{}
	s.inspect(func(in *ast.FuncDecl, n ast.Node) {
		if set, ok := n.(*ast.AssignStmt); ok && len(set.Lhs) == 1 && len(set.Rhs) == 1 {
			to, named := set.Lhs[0].(*ast.Ident)
			if from, ok := set.Rhs[0].(*ast.SelectorExpr); ok && named && from.Sel.Name == name {
				if holders[in] == nil {
					holders[in] = map[string]bool{}
				}
				holders[in][to.Name] = true
			}
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) <= index {
			return
		}
		called, plain := call.Fun.(*ast.Ident)
		if selects(call, "", name) || plain && holders[in][called.Name] {
			texts = append(texts, s.given(in, call.Args[index])...)
		}
	})
	return texts
}

// madeWith lists the texts that a package gives a field of one of its types.
func (s sources) madeWith(kind, field string) []string {
	var texts []string
	s.inspect(func(in *ast.FuncDecl, n ast.Node) {
		made, ok := n.(*ast.CompositeLit)
		if !ok {
			return
		}
		if of, ok := made.Type.(*ast.Ident); !ok || of.Name != kind {
			return
		}
		for _, element := range made.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				if key, ok := pair.Key.(*ast.Ident); ok && key.Name == field {
					texts = append(texts, s.given(in, pair.Value)...)
				}
			}
		}
	})
	return texts
}
