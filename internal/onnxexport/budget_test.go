package onnxexport

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestCopyLacksMemory: a model that can not be read again for lack of memory is not copied without its data file.
func TestCopyLacksMemory(t *testing.T) {
	a, err := ndarray.New(ndarray.Float32, 1<<10)
	require.NoError(t, err)
	g := ssa.NewGraph("g")
	g.Results = []*ssa.Value{g.AddConst(strings.Repeat("w", 1<<20), ssa.NewConstant(a))}
	from, to := filepath.Join(t.TempDir(), "model.onnx"), filepath.Join(t.TempDir(), "model.onnx")
	require.NoError(t, Save(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 21}}}, from, Options{Context: t.Context(), External: 1, Splat: -1}))
	var full *ops.MemoryError
	_, err = Copy(ndarray.Budget(256<<10).In(t.Context()), from, to)
	require.ErrorAs(t, err, &full)
	assert.NoFileExists(t, to)
	data, err := Copy(ndarray.Budget(4<<30).In(t.Context()), from, to)
	require.NoError(t, err)
	require.Len(t, data, 1)
	assert.FileExists(t, data[0])
}

// TestSavingAsks: what saving makes beside the model itself comes out of the budget, and nothing is written where it
// does not suffice.
func TestSavingAsks(t *testing.T) {
	narrow, err := ndarray.New(ndarray.Int4, 1<<20)
	require.NoError(t, err)
	text := &ndarray.Array{DType: ndarray.String, Shape: []int{2}, Str: []string{strings.Repeat("a", 1<<19), "b"}}
	for name, c := range map[string]struct {
		a    *ndarray.Array
		what string
	}{
		"elements of four bits": {narrow, "a packed constant"},
		"strings":               {text, "a constant of strings"},
	} {
		t.Run(name, func(t *testing.T) {
			g := ssa.NewGraph("g")
			g.Results = []*ssa.Value{g.AddConst("w", ssa.NewConstant(c.a))}
			m := &ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 21}}}
			path := filepath.Join(t.TempDir(), "model.onnx")
			var full *ops.MemoryError
			require.ErrorAs(t, Save(m, path, Options{Context: ndarray.Budget(256 << 10).In(t.Context()), Splat: -1}), &full)
			assert.Equal(t, c.what, full.What)
			assert.NoFileExists(t, path)
			require.NoError(t, Save(m, path, Options{Context: ndarray.Budget(4 << 30).In(t.Context()), Splat: -1}))
		})
	}
}
