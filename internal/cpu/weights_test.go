package cpu

import (
	"context"
	"math/rand"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/weights"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/ssa"
)

// prepareProduct prepares rows×8 · w with a backend.
func prepareProduct(t *testing.T, b *Backend, w *ssa.Constant, rows int) *product {
	g := ssa.NewGraph("g")
	n := g.NewNode("MatMul", []*ssa.Value{g.AddParam("x", ssa.StaticTensor(ndarray.Float32, rows, 8)), g.AddConst("w", w)}, 1)
	require.NoError(t, ops.Infer(n))
	p, err := b.Prepare(t.Context(), n, 1)
	require.NoError(t, err)
	return p.Kernel.(*product)
}

func TestPackedWeightsAreShared(t *testing.T) {
	b := New()
	r := rand.New(rand.NewSource(2))
	w := randomWeights(r, 8, 5)
	first, second := prepareProduct(t, b, w, 3), prepareProduct(t, b, w, 7)
	assert.Same(t, first.packedB, second.packedB, "one constant, two batch sizes")
	data, err := w.Array()
	require.NoError(t, err)
	assert.Same(t, first.packedB, prepareProduct(t, b, ssa.NewConstant(data.Clone()), 3).packedB, "the same elements")
	assert.NotSame(t, first.packedB, prepareProduct(t, b, randomWeights(r, 8, 5), 3).packedB, "another constant")
	assert.NotSame(t, first.packedB, prepareProduct(t, New(), w, 3).packedB, "another backend")
	runtime.KeepAlive(second)
}

func TestPackedWeightsAreForgotten(t *testing.T) {
	w := weights.New()
	b := NewWith(Options{Weights: w})
	r := rand.New(rand.NewSource(1))
	for range 200 {
		prepareProduct(t, b, randomWeights(r, 8, 5), 3)
	}
	runtime.GC()
	assert.Empty(t, w.Bytes(), "what nobody holds is not counted")
}

// randomWeights is a constant like no other.
func randomWeights(r *rand.Rand, shape ...int) *ssa.Constant {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, r.NormFloat64())
	}
	return ssa.NewConstant(a)
}

// TestPackingEnds: a context that ends while weights are packed ends the preparation.
func TestPackingEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := ssa.NewGraph("g")
	c := randomWeights(rand.New(rand.NewSource(1)), 64, 64)
	n := g.NewNode("MatMul", []*ssa.Value{g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 3, 64)), g.AddConst("w", c)}, 1)
	require.NoError(t, ops.Infer(n))
	_, err := New().Prepare(ctx, n, 1)
	require.ErrorIs(t, err, context.Canceled)
}

// TestSplatsAreNotWrittenOut: a constant of one repeated element takes one panel.
func TestSplatsAreNotWrittenOut(t *testing.T) {
	w := weights.New()
	one := ndarray.Of([]float32{0.5})
	g := ssa.NewGraph("g")
	n := g.NewNode("MatMul", []*ssa.Value{g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 3, 4000)), g.AddConst("w", ssa.NewSplat(one, 4000, 5000))}, 1)
	require.NoError(t, ops.Infer(n))
	p, err := NewWith(Options{Weights: w}).Prepare(t.Context(), n, 1)
	require.NoError(t, err)
	assert.Less(t, w.Bytes()["product columns"], int64(64<<10))
	runtime.KeepAlive(p)
}

// TestTapsAreAskedFor: the lists of taps of windows that differ at the borders come out of the budget.
func TestTapsAreAskedFor(t *testing.T) {
	g := ssa.NewGraph("g")
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 1, 2, 60, 60))
	kernel, pads := ssa.IntsAttr("kernel_shape", 39, 39), ssa.IntsAttr("pads", 19, 19, 19, 19)
	w := g.AddConst("w", randomWeights(rand.New(rand.NewSource(1)), 2, 1, 39, 39))
	for _, n := range []*ssa.Node{
		g.NewNode("Conv", []*ssa.Value{x, w}, 1, kernel, pads, ssa.IntAttr("group", 2)),
		g.NewNode("MaxPool", []*ssa.Value{x}, 1, kernel, pads),
	} {
		require.NoError(t, ops.Infer(n))
		_, err := New().Prepare(ndarray.Budget(1<<30).In(t.Context()), n, 1)
		require.NoError(t, err)
		_, err = New().Prepare(ndarray.Budget(256<<10).In(t.Context()), n, 1)
		var full *ops.MemoryError
		require.ErrorAs(t, err, &full, n.Op)
		assert.Equal(t, tapLists, full.What)
	}
}

// heldNodes are nodes whose kernels hold much beside their operands, or weights in layouts that take many times as much as the
// weights do.
var heldNodes = []struct{ name, what, graph string }{
	{"indices of Pad", "tables of indices", `in %x: uint8[1,1] const %p: int64[4] = [0, 0, 0, 33554431] %y = Pad(%x, %p) out %y`},
	{"indices of Resize", "tables of indices", `in %x: uint8[1,1,1,1] const %s: int64[4] = [1, 1, 1, 33554432] %y = Resize(%x, _, _, %s) out %y`},
	{"taps of Resize", "taps and weights of Resize", `in %x: float32[1,1,1,4] const %s: int64[4] = [1, 1, 1, 8388608] %y = Resize(%x, _, _, %s) [mode="cubic"] out %y`},
	{"taps of a reducing Resize", "taps and weights of Resize", `in %x: float32[1,1,1,8388608] const %s: int64[4] = [1, 1, 1, 1024] %y = Resize(%x, _, _, %s) [mode="linear", antialias=1] out %y`},
	{"taps of pooling", tapLists, `in %x: float32[1,1,1,1400] %y = MaxPool(%x) [kernel_shape=[1,1400], pads=[0,1399,0,1399]] out %y`},
	{"factors of averages", tapLists, `in %x: float32[1,1,200000,1] %y = AveragePool(%x) [kernel_shape=[200000,1], pads=[199999,0,199999,0]] out %y`},
	{"taps of a depthwise convolution", tapLists, `in %x: float32[1,2,1,1400] const %w: float32[2,1,1,1400] = splat 0.5 %y = Conv(%x, %w) [group=2, pads=[0,1399,0,1399]] out %y`},
	{"taps of a depthwise convolution of bytes", tapLists, `in %x: uint8[1,64,1,258] const %w: int8[64,1,1,258] = splat 3 %y = ConvInteger(%x, %w) [group=64, dilations=[1,2], pads=[0,514,0,514]] out %y`},
	{"few columns of bytes", "packed weights", `in %x: uint8[64,1048576] const %w: int8[1048576,1] = splat 3 %y = MatMulInteger(%x, %w) out %y`},
	{"infinities, written out", "packed weights", `in %x: float32[64,4096] const %w: float32[4096,8192] = splat inf %y = MatMul(%x, %w) out %y`},
}

// preparedWithin prepares the last node of a graph within a budget.
func preparedWithin(t *testing.T, text string, b ndarray.Budget) (backend.Prepared, error) {
	g, err := ssa.ParseGraph(`graph "g" {` + text + `}`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	return New().Prepare(b.In(context.Background()), g.Nodes[len(g.Nodes)-1], 1)
}

// TestKernelsAskForWhatTheyHold: packed weights, indices and taps are asked of the budget before they are made, and what a kernel
// holds is known to who keeps it.
func TestKernelsAskForWhatTheyHold(t *testing.T) {
	for _, c := range heldNodes {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, err := preparedWithin(t, c.graph, 0)
			require.NoError(t, err)
			runtime.ReadMemStats(&after)
			held := p.Held + p.Tables
			for _, k := range p.Packs {
				held += k.Bytes
			}
			made := int64(after.TotalAlloc - before.TotalAlloc)
			t.Logf("%d bytes, %d made", held, made)
			if c.what == "taps and weights of Resize" {
				assert.LessOrEqual(t, made, held+held/8+(2<<20), "lists that grow are copied again and again")
			}
			var full *ops.MemoryError
			require.Positive(t, held)
			_, err = preparedWithin(t, c.graph, ndarray.Budget(held-1))
			require.ErrorAs(t, err, &full)
			assert.Equal(t, c.what, full.What)
		})
	}
}

// TestConvolutionsOfOneGeometryAreOne: they differ in their weights; lists of taps are not kept for others.
func TestConvolutionsOfOneGeometryAreOne(t *testing.T) {
	b := New()
	prepared := func(pad int64, groups int) *conv {
		g := ssa.NewGraph("g")
		x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 1, 24, 9, 9))
		w := g.AddConst("w", randomWeights(rand.New(rand.NewSource(pad)), 24, 24/groups, 3, 3))
		n := g.NewNode("Conv", []*ssa.Value{x, w}, 1, ssa.IntsAttr("pads", pad, pad, 1, 1), ssa.IntAttr("group", int64(groups)))
		require.NoError(t, ops.Infer(n))
		p, err := b.Prepare(t.Context(), n, 1)
		require.NoError(t, err)
		return p.Kernel.(*conv)
	}
	first := prepared(1, 1)
	assert.Same(t, first.c, prepared(1, 1).c)
	assert.NotSame(t, first.c, prepared(2, 1).c)
	assert.NotSame(t, first.c, prepared(1, 2).c)
}
