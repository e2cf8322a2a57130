package cpu

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// prepareProduct prepares rows×8 · w with a backend.
func prepareProduct(t *testing.T, b *Backend, w *ssa.Constant, rows int) *product {
	g := ssa.NewGraph("g")
	n := g.NewNode("MatMul", []*ssa.Value{g.AddParam("x", ssa.StaticTensor(ndarray.Float32, rows, 8)), g.AddConst("w", w)}, 1)
	require.NoError(t, ops.Infer(n))
	p, err := b.Prepare(n, 1)
	require.NoError(t, err)
	return p.Kernel.(*product)
}

func TestPackedWeightsAreShared(t *testing.T) {
	b := New()
	w := ssa.NewConstant(ndarray.Must(ndarray.Float32, 8, 5))
	first, second := prepareProduct(t, b, w, 3), prepareProduct(t, b, w, 7)
	assert.Same(t, first.packedB, second.packedB, "one constant, two batch sizes")
	other := prepareProduct(t, b, ssa.NewConstant(ndarray.Must(ndarray.Float32, 8, 5)), 3)
	assert.NotSame(t, first.packedB, other.packedB, "another constant")
	assert.NotSame(t, first.packedB, prepareProduct(t, New(), w, 3).packedB, "another backend")
	runtime.KeepAlive(second)
}

func TestPackedWeightsAreForgotten(t *testing.T) {
	b := New()
	for range 200 {
		prepareProduct(t, b, ssa.NewConstant(ndarray.Must(ndarray.Float32, 8, 5)), 3)
		if len(b.packs.made) == 63 {
			runtime.GC()
		}
	}
	assert.Less(t, len(b.packs.made), 200, "what nobody holds is swept out")
}
