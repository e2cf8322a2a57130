package rescue

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ownGoroutines are the files and folders that start goroutines without [Go], and why these meet no mapped memory.
var ownGoroutines = map[string]string{
	"cmd/berth/inspect.go":             "calls the facade, which guards itself",
	"cmd/berth/progress.go":            "prints",
	"internal/livebytes/livebytes.go":  "collects garbage",
	"internal/ptx/launch.go":           "interprets kernels over a device's memory",
	"internal/rescue/rescue.go":        "is Go",
	"internal/safefile/discard.go":     "closes a file",
	"internal/safefile/safefile.go":    "waits for a disk",
	"internal/tools/planstress/run.go": "plans problems",
}

// TestGoroutines checks that every goroutine that may read a mapped file is started by Go.
func TestGoroutines(t *testing.T) {
	root, seen := filepath.Join("..", ".."), map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		name, err := filepath.Rel(root, path)
		require.NoError(t, err)
		name = filepath.ToSlash(name)
		for _, at := range goroutines(t, path) {
			seen[name] = true
			assert.Contains(t, ownGoroutines, name, "%s: start the goroutine with rescue.Go", at)
		}
		return nil
	})
	require.NoError(t, err)
	for name := range ownGoroutines {
		assert.True(t, seen[name], "%s starts no goroutine", name)
	}
}

// goroutines lists where a file starts goroutines, by a statement or a method Go.
func goroutines(t *testing.T, path string) (at []token.Position) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			at = append(at, set.Position(n.Pos()))
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || s.Sel.Name != "Go" {
				break
			}
			if x, ok := s.X.(*ast.Ident); !ok || x.Name != "rescue" {
				at = append(at, set.Position(n.Pos()))
			}
		}
		return true
	})
	return at
}
