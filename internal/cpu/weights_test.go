package cpu

import (
	"context"
	"errors"
	"math/rand"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
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
	w := NewWeights()
	b := NewWith(Options{Weights: w})
	r := rand.New(rand.NewSource(1))
	for range 200 {
		prepareProduct(t, b, randomWeights(r, 8, 5), 3)
		if len(w.made) == 63 {
			runtime.GC()
		}
	}
	assert.Less(t, len(w.made), 200, "what nobody holds is swept out")
	runtime.GC()
	assert.Empty(t, w.Bytes(), "nor is it counted")
}

// randomWeights is a constant like no other.
func randomWeights(r *rand.Rand, shape ...int) *ssa.Constant {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, r.NormFloat64())
	}
	return ssa.NewConstant(a)
}

// TestWeightsArePackedOnce: of several who ask for one constant at once, one packs it;
// who waits stops when its context ends.
func TestWeightsArePackedOnce(t *testing.T) {
	w := NewWeights()
	key := weightKey{layout: gemm.Layout{Kind: "test"}}
	begun, end := make(chan struct{}), make(chan struct{})
	var packed atomic.Int32
	pack := func() (*gemm.Packed, error) {
		if packed.Add(1) == 1 {
			close(begun)
			<-end
		}
		return &gemm.Packed{}, nil
	}
	var wg sync.WaitGroup
	var got [4]*gemm.Packed
	ask := func(i int) {
		p, err := w.of(t.Context(), key, pack)
		assert.NoError(t, err)
		got[i] = p
	}
	wg.Go(func() { ask(0) })
	<-begun
	for i := range 3 {
		wg.Go(func() { ask(i + 1) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.of(ctx, key, pack)
	require.ErrorIs(t, err, context.Canceled)
	close(end)
	wg.Wait()
	assert.EqualValues(t, 1, packed.Load())
	for _, p := range got {
		assert.Same(t, got[0], p)
	}
	_, err = w.of(t.Context(), weightKey{}, func() (*gemm.Packed, error) { return nil, errors.New("no") })
	require.Error(t, err)
	p, err := w.of(t.Context(), weightKey{}, pack)
	require.NoError(t, err, "a failure is not kept")
	assert.NotNil(t, p)
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
	w := NewWeights()
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
