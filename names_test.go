package berth_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// codeNames are the names that Go files declare and use.
type codeNames struct {
	// declared has "Name" and "Type.Member" by package folder, tests included.
	declared map[string]map[string]bool
	// open has "Type" by package folder: aliases and types that embed others, whose members stand elsewhere.
	open map[string]map[string]bool
	// used has "x.Name" wherever code writes it, so the names of other modules and of examples' variables.
	used    map[string]bool
	folders map[string][]string // by name of the package
	links   []docLink
}

// docLink is a name in brackets in a comment, as go doc links it.
type docLink struct{ at, folder, pkg, name string }

var docLinks = regexp.MustCompile(`\[\*?(?:([a-z]\w*)\.)?([A-Z]\w{3,}(?:\.[A-Z]\w*)?)\]`)

func (c *codeNames) add(name string, f *ast.File, fset *token.FileSet) {
	folder := path.Dir(name)
	if c.declared[folder] == nil {
		c.declared[folder], c.open[folder] = map[string]bool{}, map[string]bool{}
		pkg := strings.TrimSuffix(f.Name.Name, "_test")
		c.folders[pkg] = append(c.folders[pkg], folder)
	}
	imports := map[string]string{}
	for _, i := range f.Imports {
		if i.Name != nil {
			imports[i.Name.Name] = path.Base(strings.Trim(i.Path.Value, `"`))
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			prefix := ""
			if n.Recv != nil {
				prefix = typeName(n.Recv.List[0].Type) + "."
			}
			c.declared[folder][prefix+n.Name.Name] = true
		case *ast.ValueSpec:
			for _, id := range n.Names {
				c.declared[folder][id.Name] = true
			}
		case *ast.TypeSpec:
			c.addType(folder, n)
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				c.used[cmp.Or(imports[x.Name], x.Name)+"."+n.Sel.Name] = true
			}
		}
		return true
	})
	for _, g := range f.Comments {
		for _, line := range strings.Split(g.Text(), "\n") {
			if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, " ") {
				continue // code or a picture
			}
			for _, m := range docLinks.FindAllStringSubmatch(line, -1) {
				c.links = append(c.links, docLink{fset.Position(g.Pos()).String(), folder, m[1], m[2]})
			}
		}
	}
}

// addType notes a type with its fields and the methods of an interface.
func (c *codeNames) addType(folder string, s *ast.TypeSpec) {
	c.declared[folder][s.Name.Name] = true
	var members *ast.FieldList
	switch t := s.Type.(type) {
	case *ast.StructType:
		members = t.Fields
	case *ast.InterfaceType:
		members = t.Methods
	default:
		c.open[folder][s.Name.Name] = s.Assign.IsValid()
		return
	}
	for _, m := range members.List {
		for _, id := range m.Names {
			c.declared[folder][s.Name.Name+"."+id.Name] = true
		}
		c.open[folder][s.Name.Name] = c.open[folder][s.Name.Name] || len(m.Names) == 0
	}
}

// typeName is the name of a receiver's type.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return e.(*ast.Ident).Name
}

// has reports whether a package declares "Name" or "Type.Member".
func (c *codeNames) has(folder, name string) bool {
	typ, _, member := strings.Cut(name, ".")
	return c.declared[folder][name] || member && c.open[folder][typ]
}

func (c *codeNames) hasIn(pkg, name string) bool {
	for _, folder := range c.folders[pkg] {
		if c.has(folder, name) {
			return true
		}
	}
	return false
}

func readNames(t *testing.T) *codeNames {
	t.Helper()
	c := &codeNames{declared: map[string]map[string]bool{}, open: map[string]map[string]bool{}, used: map[string]bool{}, folders: map[string][]string{}}
	for _, name := range readSource(t).files {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		c.add(name, f, fset)
	}
	return c
}

// TestNames looks up the code that comments link to, and the names of this module's packages that documents write as
// code: none is gone.
func TestNames(t *testing.T) {
	c := readNames(t)
	assert.Greater(t, len(c.links), 400)
	for _, l := range c.links {
		switch {
		case l.pkg == "":
			assert.True(t, c.has(l.folder, l.name), "%s: there is no %s", l.at, l.name)
		case c.folders[l.pkg] != nil && !c.used[l.pkg+"."+l.name]:
			assert.True(t, c.hasIn(l.pkg, l.name), "%s: there is no %s.%s", l.at, l.pkg, l.name)
		}
	}

	quoted, name := regexp.MustCompile("(?s)```.*?```|`[^`\n]+`"), regexp.MustCompile(`\b([a-z]\w*)\.([A-Z]\w*(?:\.[A-Z]\w*)?)`)
	found := 0
	for _, doc := range []string{"ARCHITECTURE.md", "CONFORMANCE.md", "DECISIONS.md", "README.md", "STYLE.md", "docs/gorgonia.md"} {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, code := range quoted.FindAllString(string(text), -1) {
			for _, m := range name.FindAllStringSubmatch(code, -1) {
				if c.folders[m[1]] == nil || strings.Contains(code, m[1]+" := ") || strings.Contains(code, m[1]+", err := ") {
					continue // no package of ours, or a variable of an example
				}
				found++
				assert.True(t, c.used[m[0]] || c.hasIn(m[1], m[2]), "%s: there is no %s", doc, m[0])
			}
		}
	}
	assert.Greater(t, found, 100)
}
