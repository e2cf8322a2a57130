package ops_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// attrReaders are the functions that read an attribute, with the kind they ask for;
// AttrNone is any kind.
var attrReaders = map[string]ssa.AttrKind{
	"Int": ssa.AttrInt, "IntOr": ssa.AttrInt, "dtypeAttr": ssa.AttrInt, "Float": ssa.AttrFloat, "FloatOr": ssa.AttrFloat, "Str": ssa.AttrString,
	"Ints": ssa.AttrInts, "Floats": ssa.AttrFloats, "Strings": ssa.AttrStrings, "Attr": ssa.AttrNone, "Has": ssa.AttrNone, "DropAttr": ssa.AttrNone,
}

// privateAttrs are read from operators that only another runtime has, and from those that no file holds; these tests link
// no schema of them.
var privateAttrs = map[string]bool{"channels": true, "scales": true, "distribution": true, "op": true, "program": true, "windows": true, "function": true, "form": true, "first": true}

// TestAttributeReads finds every attribute that the module's code reads by a literal
// name, and demands that an operator declares it with the kind that is asked for.
func TestAttributeReads(t *testing.T) {
	declared := map[string]map[ssa.AttrKind]bool{}
	for _, o := range ops.All() {
		for _, a := range o.Attrs {
			if declared[a.Name] == nil {
				declared[a.Name] = map[ssa.AttrKind]bool{ssa.AttrNone: true}
			}
			declared[a.Name][a.Kind] = true
		}
	}
	reads := 0
	fset := token.NewFileSet()
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if strings.Contains(filepath.ToSlash(path), "/internal/tools/") { // commands, with flags
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, 0)
		require.NoError(t, err)
		slashed := filepath.ToSlash(path)
		private := strings.Contains(slashed, "/nchwc/") || strings.Contains(slashed, "/gorgonia/internal/lower/") || strings.Contains(slashed, "/ops/fused/") || strings.Contains(slashed, "/ops/window/") ||
			strings.Contains(slashed, "/ops/drawn/") || strings.Contains(slashed, "/internal/batch/")
		ast.Inspect(f, func(n ast.Node) bool {
			name, kind, ok := attrRead(n)
			if !ok {
				return true
			}
			reads++
			if !private || !privateAttrs[name] {
				assert.Truef(t, declared[name][kind], "%s: no operator declares attribute %q as %s", fset.Position(n.Pos()), name, kind)
			}
			return true
		})
		return nil
	}))
	assert.Greater(t, reads, 600)
}

// attrRead recognizes ops.Int(n, "name"), Int(n, "name") and n.Has("name").
func attrRead(n ast.Node) (name string, kind ssa.AttrKind, ok bool) {
	call, isCall := n.(*ast.CallExpr)
	if !isCall {
		return "", 0, false
	}
	at := 1
	var fun *ast.Ident
	switch f := call.Fun.(type) {
	case *ast.Ident:
		fun = f
	case *ast.SelectorExpr:
		fun = f.Sel
		if x, isIdent := f.X.(*ast.Ident); !isIdent || x.Name != "ops" {
			at = 0
		}
	default:
		return "", 0, false
	}
	kind, ok = attrReaders[fun.Name]
	if !ok || len(call.Args) <= at {
		return "", 0, false
	}
	lit, isLit := call.Args[at].(*ast.BasicLit)
	if !isLit || lit.Kind != token.STRING {
		return "", 0, false
	}
	name, err := strconv.Unquote(lit.Value)
	return name, kind, err == nil
}
