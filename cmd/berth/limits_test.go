package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// textModel writes a model given as the inside of a graph in text form.
func textModel(t *testing.T, inside string) string {
	t.Helper()
	g, err := ssa.ParseGraph(`graph "g" {` + inside + `}`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	path := filepath.Join(t.TempDir(), "text.onnx")
	require.NoError(t, onnxexport.Save(&ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 20}}, IR: 9}, path, onnxexport.Options{}))
	return path
}

// TestLimits: what is too large or too long ends with the name of the flag that
// says how much is too much.
func TestLimits(t *testing.T) {
	large := textModel(t, `in %x: float32[1] const %s: int64[1] = [1099511627776] %y = Expand(%x, %s) out %y`)
	fails(t, exitFailed, []string{large, "--max-memory", "beyond the limit of 1073741824"}, "run", large, "--max-memory", "1GiB")
	fails(t, exitFailed, []string{large, "--max-memory"}, "run", large)
	wide := textModel(t, `in %x: float32[1099511627776] %y = Neg(%x) out %y`)
	fails(t, exitFailed, []string{wide, "--max-memory"}, "run", wide)
	endless := textModel(t, `in %x: float32[4] const %n: int64[] = 4611686018427387904 %y = Loop(%n, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4] %q = Neg(%p) out %c, %q } } out %y`)
	fails(t, exitFailed, []string{"stopped after 200ms", "--timeout"}, "run", endless, "--timeout", "200ms")
	small := textModel(t, `in %x: float32[1] %y = Neg(%x) out %y`)
	ok(t, "run", small, "--max-memory", "512 MB", "--timeout", "1m")
	for _, bad := range []string{"much", "-1GiB", "0", "1e30TiB"} {
		fails(t, exitUsage, []string{"--max-memory", bad}, "run", small, "--max-memory", bad)
	}
	fails(t, exitUsage, []string{"--timeout"}, "run", small, "--timeout", "-1s")
}
