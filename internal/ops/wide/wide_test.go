package wide

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/ssa"
)

// TestProducts: products in blocks are the sums of plain loops, on one thread as on several.
func TestProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return x
	}
	for _, c := range [][3]int{{1, 1, 1}, {2, 3, 4}, {33, 129, 257}, {70, 300, 600}, {5, 0, 3}, {0, 5, 3}, {3, 4, 0}, {7, 5, 3}} {
		m, n, k := c[0], c[1], c[2]
		a, b, before := draw(m*k), draw(k*n), draw(m*n)
		want := append([]float64(nil), before...)
		for i := range m {
			for j := range n {
				for p := range k {
					want[i*n+j] += a[i*k+p] * b[p*n+j]
				}
			}
		}
		for _, threads := range []int{1, 3} {
			got := append([]float64(nil), before...)
			kit.Product64(&ops.Call{Ctx: t.Context(), Threads: threads}, m, n, k, a, k, b, n, got, n)
			assert.InDeltaSlice(t, want, got, 1e-12, "%v", c)
		}
	}
}

// TestLinked: kernels compute float64 in blocks and float32 as before; both add up the same products.
func TestLinked(t *testing.T) {
	for _, c := range []struct {
		graph string
		x, w  []int
	}{
		{`%y = Conv(%x, %w) [pads=[1, 0, 0, 1]]`, []int{1, 2, 3, 3}, []int{5, 2, 2, 2}},
		{`%y = MatMul(%x, %w)`, []int{3, 1, 4, 5}, []int{2, 5, 6}},
		{`%y = MatMul(%x, %w)`, []int{5}, []int{2, 5, 6}},
		{`%y = MatMul(%x, %w)`, []int{2, 4, 5}, []int{5}},
		{`const %b: TYPE[3] = [1, 2, 3] %y = Gemm(%x, %w, %b) [transB=1]`, []int{4, 5}, []int{3, 5}},
		{`const %b: TYPE[3] = [1, 2, 3] %y = Gemm(%x, %w, %b)`, []int{4, 5}, []int{5, 3}},
		{`%y = Gemm(%x, %w) [transA=1, alpha=2]`, []int{5, 4}, []int{5, 3}},
	} {
		t.Run(c.graph, func(t *testing.T) { sameInBoth(t, c.graph, c.x, c.w) })
	}
}

func sameInBoth(t *testing.T, nodes string, xs, ws []int) {
	graph := `graph "g" { in %x: TYPE[...] in %w: TYPE[...] ` + strings.Replace(nodes, "%y =", "%y: TYPE[...] =", 1) + ` out %y }`
	var got [2]*ndarray.Array
	for i, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float64} {
		text := map[ndarray.DType]string{ndarray.Float32: "float32", ndarray.Float64: "float64"}[dt]
		g, err := ssa.ParseGraph(strings.ReplaceAll(graph, "TYPE", text))
		require.NoError(t, err)
		x, w := ndarray.Must(dt, xs...), ndarray.Must(dt, ws...)
		for _, a := range []*ndarray.Array{x, w} {
			for j := range a.Len() {
				a.SetFloat(j, float64(j%7-3))
			}
		}
		out, err := ops.Interpret(t.Context(), g, []ndarray.Value{x, w}, nil)
		require.NoError(t, err)
		got[i] = out[0].(*ndarray.Array)
	}
	assert.Equal(t, got[0].Shape, got[1].Shape)
	for j := range got[0].Len() {
		assert.Equal(t, got[0].Float(j), got[1].Float(j))
	}
	bad := ndarray.Must(ndarray.Float64, 4, 7, 9)
	g, err := ssa.ParseGraph(strings.ReplaceAll(graph, "TYPE", "float64"))
	require.NoError(t, err)
	_, err = ops.Interpret(t.Context(), g, []ndarray.Value{bad, bad}, nil)
	require.Error(t, err)
}
