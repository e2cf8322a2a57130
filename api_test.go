package berth_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/api.txt anew")

// TestAPI holds the exported names of all packages that others can import, with their signatures, against testdata/api.txt:
// a change of the public face is seen, and made on purpose with -update. A name that stands for a type of an internal
// package shows that type's fields and methods.
func TestAPI(t *testing.T) {
	const golden = "testdata/api.txt"
	var all []exportedName
	for _, file := range readSource(t).files {
		if !strings.HasSuffix(file, "_test.go") {
			all = append(all, exportsOf(t, file)...)
		}
	}
	lines := map[string]bool{}
	for _, e := range all {
		if slices.Contains(strings.Split(e.dir, "/"), "internal") {
			continue
		}
		lines[e.dir+": "+e.line] = true
		for _, of := range all {
			if e.alias != "" && of.dir+"."+of.typ == e.alias {
				lines[e.dir+": "+e.line+": "+of.line] = true
			}
		}
	}
	got := strings.Join(slices.Sorted(maps.Keys(lines)), "\n") + "\n"
	if *update {
		require.NoError(t, os.MkdirAll(path.Dir(golden), 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	added, gone := difference(got, string(want)), difference(string(want), got)
	assert.True(t, len(added)+len(gone) == 0, "the public API has changed; go test -run TestAPI . -update writes it down.\nnew:\n%s\ngone:\n%s",
		strings.Join(added, "\n"), strings.Join(gone, "\n"))
}

// difference lists the lines of a that b lacks.
func difference(a, b string) []string {
	has := map[string]bool{}
	for line := range strings.Lines(b) {
		has[line] = true
	}
	var out []string
	for line := range strings.Lines(a) {
		if !has[line] {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// exportedName is a function, method, constant, variable, type, field, or method of an interface.
type exportedName struct {
	dir, line string
	typ       string // the type that a field or method, or the line itself, is of
	alias     string // of a type that is another name of one in this module: folder and name of that
}

// exportsOf lists what a file exports; nothing of a command.
func exportsOf(t *testing.T, file string) (out []exportedName) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, 0)
	require.NoError(t, err)
	if f.Name.Name == "main" {
		return nil
	}
	ast.FileExports(f) // takes away what is not exported, fields and methods too
	text := func(n any) string {
		var b bytes.Buffer
		_ = printer.Fprint(&b, fset, n)
		return strings.Join(strings.Fields(b.String()), " ")
	}
	add := func(typ string, lines ...string) {
		for _, line := range lines {
			out = append(out, exportedName{dir: path.Dir(file), line: line, typ: typ})
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			d.Body = nil
			if d.Recv == nil {
				add("", text(d))
			} else if typ := receiver(d.Recv.List[0].Type); ast.IsExported(typ) {
				add(typ, text(d))
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					add(s.Name.Name, typeLines(s, text)...)
					if sel, ok := s.Type.(*ast.SelectorExpr); ok && s.Assign != 0 {
						out[len(out)-1].alias = importedAs(f, sel.X.(*ast.Ident).Name) + "." + sel.Sel.Name
					}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						line := d.Tok.String() + " " + n.Name
						if s.Type != nil {
							line += " " + text(s.Type)
						}
						add("", line)
					}
				}
			}
		}
	}
	return out
}

// importedAs is the folder of a package of this module that a file imports.
func importedAs(f *ast.File, name string) string {
	for _, i := range f.Imports {
		if p, _ := strconv.Unquote(i.Path.Value); path.Base(p) == name {
			return strings.TrimPrefix(p, modulePath+"/")
		}
	}
	return ""
}

// receiver names the type of a method.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	}
	return e.(*ast.Ident).Name
}

// typeLines lists a type and its fields or methods.
func typeLines(s *ast.TypeSpec, text func(any) string) []string {
	head := "type " + s.Name.Name
	if s.TypeParams != nil {
		var params []string
		for _, p := range s.TypeParams.List {
			for _, n := range p.Names {
				params = append(params, n.Name+" "+text(p.Type))
			}
		}
		head += "[" + strings.Join(params, ", ") + "]"
	}
	var list *ast.FieldList
	switch e := s.Type.(type) {
	case *ast.StructType:
		head, list = head+" struct", e.Fields
	case *ast.InterfaceType:
		head, list = head+" interface", e.Methods
	default:
		if s.Assign != 0 {
			head += " ="
		}
		return []string{head + " " + text(s.Type)}
	}
	out := []string{head}
	for _, f := range list.List {
		kind := text(f.Type)
		if len(f.Names) == 0 {
			out = append(out, head+", "+kind)
		}
		for _, n := range f.Names {
			out = append(out, head+", "+n.Name+" "+kind)
		}
	}
	return out
}
