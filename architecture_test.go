package berth_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// room is a package of the module, as the code has it or as ARCHITECTURE.md says.
type room struct {
	dir     string // "." for the module's root
	imports []string
}

const modulePath = "github.com/berth-onnx/berth"

// roomsOf reads the table of rooms, from the bottom up.
func roomsOf(t *testing.T, doc string) []room {
	t.Helper()
	quoted := regexp.MustCompile("`([^`]+)`")
	var out []room
	_, table, found := strings.Cut(doc, "| package | holds | takes → gives | imports |\n")
	require.True(t, found, "there is no table of rooms")
	for _, line := range strings.Split(table, "\n")[1:] {
		cells := strings.Split(line, "|")
		if len(cells) < 6 {
			break
		}
		r := room{dir: strings.TrimSuffix(quoted.FindStringSubmatch(cells[1])[1], "/"), imports: []string{}}
		for _, m := range quoted.FindAllStringSubmatch(cells[4], -1) {
			r.imports = append(r.imports, m[1])
		}
		out = append(out, r)
	}
	return out
}

// source is what the Go files of the module say.
type source struct {
	imports map[string]map[string]bool // by package folder: other packages of the module
	files   []string
	funcs   map[string]bool // names of test functions and benchmarks; package.Function, package.Type.Method and package.Type
}

// readSource parses all Go files of the module, for every system.
func readSource(t *testing.T) source {
	t.Helper()
	s := source{imports: map[string]map[string]bool{}, funcs: map[string]bool{}}
	err := filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if _, err := os.Stat(filepath.Join(name, "go.mod")); name != "." && err == nil || e.Name() == "testdata" || name != "." && strings.HasPrefix(e.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			s.add(t, filepath.ToSlash(name))
		}
		return nil
	})
	require.NoError(t, err)
	return s
}

func (s *source) add(t *testing.T, name string) {
	t.Helper()
	s.files = append(s.files, name)
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	if strings.HasSuffix(name, "_test.go") {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				s.funcs[fn.Name.Name] = true
			}
		}
		return
	}
	s.declare(f)
	dir := path.Dir(name)
	if s.imports[dir] == nil {
		s.imports[dir] = map[string]bool{}
	}
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		require.NoError(t, err)
		if p == modulePath {
			s.imports[dir]["."] = true
		} else if sub, ok := strings.CutPrefix(p, modulePath+"/"); ok {
			s.imports[dir][sub] = true
		}
	}
}

// declare notes the functions, methods and types of a file.
func (s *source) declare(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*") + "." + name
			}
			s.funcs[f.Name.Name+"."+name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					s.funcs[f.Name.Name+"."+t.Name.Name] = true
				}
			}
		}
	}
}

// TestWalk looks up the functions, methods and types that the walk of ARCHITECTURE.md names.
func TestWalk(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	_, walk, found := strings.Cut(string(text), "\n## Two values from the file to the kernel\n")
	require.True(t, found)
	walk, _, _ = strings.Cut(walk, "\n## ")
	src := readSource(t)
	names := regexp.MustCompile("`([a-z0-9]+(?:\\.\\w+)+)`").FindAllStringSubmatch(walk, -1)
	assert.Greater(t, len(names), 50)
	for _, n := range names {
		assert.True(t, src.funcs[n[1]], "there is no %s", n[1])
	}
}

// TestArchitecture holds ARCHITECTURE.md against the code: it names every package
// and no other, says what each imports, from the bottom up, and the files and tests
// that it points to exist.
func TestArchitecture(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	src := readSource(t)

	var below []string
	for _, r := range roomsOf(t, string(text)) {
		got, exists := src.imports[r.dir]
		if !assert.True(t, exists, "%s is in the table and not in the code", r.dir) {
			continue
		}
		assert.ElementsMatch(t, slices.Collect(maps.Keys(got)), r.imports, "imports of %s", r.dir)
		for _, i := range r.imports {
			assert.Contains(t, below, i, "%s imports what the table has above it", r.dir)
		}
		below = append(below, r.dir)
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(src.imports)), below, "packages of the code, packages of the table")

	for _, m := range regexp.MustCompile("`((?:[a-z0-9_]+/)*[a-z0-9_]+\\.go)`").FindAllStringSubmatch(string(text), -1) {
		named := func(f string) bool { return f == m[1] || strings.HasSuffix(f, "/"+m[1]) }
		assert.True(t, slices.ContainsFunc(src.files, named), "the file %s is nowhere", m[1])
	}
	for _, m := range regexp.MustCompile(`\b(?:Test|Benchmark)[A-Z]\w+`).FindAllString(string(text), -1) {
		assert.True(t, src.funcs[m], "there is no %s", m)
	}
}

// TestExamples holds the Go code of ARCHITECTURE.md against the files that its first
// lines name: a block that begins with a package clause is the whole file.
func TestExamples(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n// (\\S+)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		file, err := os.ReadFile(b[1])
		require.NoError(t, err)
		if strings.HasPrefix(b[2], "package ") {
			assert.Equal(t, string(file), b[2], b[1])
		} else {
			assert.Contains(t, string(file), b[2], b[1])
		}
	}
}

// TestSizesOfPackages holds what STYLE.md says of folders and packages, generated files aside.
func TestSizesOfPackages(t *testing.T) {
	const mostFiles, mostLines = 60, 12_000
	files, lines := map[string]int{}, map[string]int{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		dir := filepath.Dir(path)
		files[dir]++
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_amd64.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		lines[dir] += bytes.Count(text, []byte("\n"))
		return err
	}))
	require.NotEmpty(t, files)
	for dir := range files {
		assert.LessOrEqual(t, files[dir], mostFiles, "files of %s", dir)
		assert.LessOrEqual(t, lines[dir], mostLines, "lines of %s", dir)
	}
}
