package cuda

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// with is a tensor with some elements replaced.
func with(a *ndarray.Array, elements map[int]float64) *ndarray.Array {
	for i, v := range elements {
		a.SetFloat(i, v)
	}
	return a
}

// TestInfiniteWindows: not-a-number and infinities go through convolutions and what is fused behind them, in batches of more planes than
// a grid has room for as well.
func TestInfiniteWindows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	numbers := map[int]float64{0: math.NaN(), 7: math.Inf(1), 40: math.Inf(-1), 41: math.Inf(1), 59: math.Copysign(0, -1)}
	group := func(n int64) ssa.Attr { return ssa.IntAttr("group", n) }
	cases := []struct {
		op      string
		x, w    []int
		hasBias bool
		attrs   []ssa.Attr
	}{
		{"Conv", []int{2, 3, 5, 4}, []int{4, 3, 2, 2}, true, nil},
		{"Conv", []int{2, 3, 5, 4}, []int{3, 1, 2, 3}, true, []ssa.Attr{group(3)}},
		{"Conv", []int{1, 4, 5, 4}, []int{6, 2, 2, 2}, false, []ssa.Attr{group(2)}},
		{"ConvTranspose", []int{2, 3, 5, 4}, []int{3, 2, 2, 2}, true, nil},
		{"MaxPool", []int{2, 3, 5, 4}, nil, false, []ssa.Attr{ssa.IntsAttr("kernel_shape", 2, 2)}},
		{"AveragePool", []int{2, 3, 5, 4}, nil, false, []ssa.Attr{ssa.IntsAttr("kernel_shape", 2, 2)}},
		{"Conv", []int{2, 35000, 1, 2}, []int{35000, 1, 1, 2}, true, []ssa.Attr{group(35000)}},
		{"MaxPool", []int{70000, 1, 1, 2}, nil, false, []ssa.Attr{ssa.IntsAttr("kernel_shape", 1, 2)}},
	}
	for _, c := range cases {
		x := with(normal(rng, c.x...), numbers)
		operands := []*ndarray.Array{x}
		if c.w != nil {
			operands = append(operands, normal(rng, c.w...))
		}
		if c.hasBias {
			n := c.w[0]
			if c.op == "ConvTranspose" {
				n = c.w[1]
			}
			operands = append(operands, normal(rng, n))
		}
		t.Run(fmt.Sprint(c.op, c.x, c.w), func(t *testing.T) {
			comparison(t, oneNode(c.op, 1, operands, c.attrs...), x, 1, 2e-6)
			if c.op != "Conv" {
				return
			}
			g := oneNodeGraph(c.op, 1, operands, c.attrs...)
			g.Results = g.NewNode("Relu", g.Results, 1).Out
			g.Results[0].Name = "relu"
			comparison(t, modelOfGraph(g), x, 1, 2e-6)
		})
	}
}

// TestWindowsOfPadding: the mean of a window without an element is 0; the host computes it.
func TestWindowsOfPadding(t *testing.T) {
	x := normal(rand.New(rand.NewPCG(1, 2)), 2, 3, 5, 2)
	comparison(t, oneNode("AveragePool", 1, []*ndarray.Array{x}, ssa.IntsAttr("kernel_shape", 1, 2), ssa.IntsAttr("dilations", 1, 3), ssa.IntsAttr("pads", 0, 1, 0, 1)), x, 0, 0)
}

// TestPlaces: not-a-number is the largest and the smallest element, and equal to itself.
func TestPlaces(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	rows := [][]float64{{1, 3, 2, 3}, {nan, 1, 5, 2}, {1, 5, 2, nan}, {1, nan, nan, 9}, {nan, nan, nan, nan}, {-inf, inf, inf, -inf}, {-inf, nan, inf, 0},
		{0, math.Copysign(0, -1), 0, math.Copysign(0, -1)}}
	x := ndarray.Must(ndarray.Float32, len(rows), 4)
	for i, r := range rows {
		for j, v := range r {
			x.SetFloat(4*i+j, v)
		}
	}
	for _, op := range []string{"ArgMax", "ArgMin"} {
		for last := range int64(2) {
			for axis := range int64(2) {
				comparison(t, oneNode(op, 1, []*ndarray.Array{x}, ssa.IntAttr("axis", axis), ssa.IntAttr("select_last_index", last)), x, 1, 0)
			}
		}
	}
}

// TestSingleZeroPoints: one element of any shape that broadcasts is that of the whole tensor.
func TestSingleZeroPoints(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	one := func(dt ndarray.DType, rank int, v float64) *ndarray.Array {
		shape := make([]int, rank)
		for i := range shape {
			shape[i] = 1
		}
		a := ndarray.Must(dt, shape...)
		a.SetFloat(0, v)
		return a
	}
	for _, shape := range [][]int{{3, 5}, {2, 3, 5}, {2, 2, 3, 5}} {
		for rank := range len(shape) + 1 {
			a, b := randomBytes(rng, ndarray.Uint8, shape...), randomBytes(rng, ndarray.Uint8, 5, 4)
			zeroA, zeroB := one(ndarray.Uint8, rank, 7), one(ndarray.Uint8, rank, 131)
			comparison(t, oneNode("MatMulInteger", 1, []*ndarray.Array{a, b, zeroA, zeroB}), a, 1, 0)
			if rank < 2 || rank == len(shape) {
				scale := one(ndarray.Float32, rank, 0.5)
				comparison(t, oneNode("QLinearMatMul", 1, []*ndarray.Array{a, scale, zeroA, b, scale, zeroB, one(ndarray.Float32, 0, 30), one(ndarray.Uint8, 0, 9)}), a, 1, 0)
			}
		}
	}
}

// TestIndicesOutside: an index outside of its axis is the host's error, in runs piece by piece, recorded and as graphs, and the next run is
// none the worse for it, nor for one that its context has ended before it was told.
func TestIndicesOutside(t *testing.T) {
	d, _ := counting()
	defer func() { d.onWait = nil }()
	m := modelOf(t, `in %x: float32[3,2] in %i: int64[4] in %j: int64[1] %a = Gather(%x, %i) %b = Gather(%x, %j) [axis=1] %y = Neg(%a) %z = Exp(%b) out %y, %z`)
	tests := []struct {
		name string
		i, j []int64
		want string
	}{
		{"all inside", []int64{0, 2, -3, -1}, []int64{1}, ""},
		{"one outside", []int64{0, 9, -3, -1}, []int64{1}, "index 9 is out of range for a dimension of 3"},
		{"of another node", []int64{0, 2, -3, -1}, []int64{-3}, "index -3 is out of range for a dimension of 2"},
		{"beyond 32 bits", []int64{0, 2, 1 << 40, -1}, []int64{1}, "index 1099511627776 is out of range for a dimension of 3"},
		{"not waited for", []int64{0, 2, -3, 3}, []int64{1}, "context canceled"},
		{"inside again", []int64{1, 1, 1, -1}, []int64{-2}, ""},
	}
	for _, name := range []string{SimName, countingName} {
		s := sessionOn(t, m, name)
		for round := range 4 {
			for _, c := range tests {
				step := fmt.Sprint(name, ", round ", round, ", ", c.name)
				in := map[string]ndarray.Value{"x": wave(1, 3, 2), "i": ndarray.Of(c.i, 4), "j": ndarray.Of(c.j, 1)}
				ctx, cancel := context.WithCancel(t.Context())
				if c.want == "context canceled" {
					if name != countingName {
						cancel()
					}
					d.onWait = cancel
				}
				got, err := s.RunValues(ctx, in)
				d.onWait = nil
				cancel()
				if c.want == "" {
					require.NoError(t, err, step)
					equal(t, m, in, got)
					continue
				}
				require.ErrorContains(t, err, c.want, step)
				if c.want == "context canceled" {
					continue
				}
				var at *berth.NodeError
				require.ErrorAs(t, err, &at, step)
				require.Contains(t, at.Node, "Gather", step)
				_, hosts := m.RunValues(t.Context(), in, berth.WithBackend("reference"))
				require.EqualError(t, hosts, err.Error(), step)
			}
		}
	}
}
