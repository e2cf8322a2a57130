package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

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
