// Package wide has the reference kernels of convolutions and matrix products compute float64 in blocks and on several threads, for programs that run
// whole models in it. Linking it is all; programs without it have plain loops, which are smaller.
package wide

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/linalg"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

func init() {
	replace(&nn.Conv, nn.EvalConv64)
	replace(&linalg.MatMul, kit.Kernel(matMul))
	replace(&linalg.Gemm, gemmBy(linalg.Gemm.Eval))
}

// replace has another kernel compute an operator where operand 0 is float64.
func replace(op *ops.Op, wide func(c *ops.Call) error) {
	plain := op.Eval
	op.Eval = func(c *ops.Call) error {
		if x := c.Array(0); x == nil || x.DType != ndarray.Float64 {
			return plain(c)
		}
		return wide(c)
	}
}

func matMul(c *ops.Call) {
	dt := kit.SameOperands(c, 2, 2)
	a, b := c.Array(0), c.Array(1)
	p := kit.PlanMatMul(a.Shape, b.Shape)
	y := kit.NewResult[float64](c, 0, dt, p.Shape...)
	kit.ClearSlice(c, y.V)
	x, w, full := kit.Elements[float64](c, a), kit.Elements[float64](c, b), p.Full()
	kit.EachBroadcast(c, full[:len(full)-2], stack(a.Shape), stack(b.Shape), func(o, i, j int) {
		kit.Product64(c, p.M, p.N, p.K, x[i*p.M*p.K:], p.K, w[j*p.K*p.N:], p.N, y.V[o*p.M*p.N:], p.N)
	})
	y.Store()
}

// stack are the leading dimensions of an operand.
func stack(shape []int) []int { return shape[:max(len(shape)-2, 0)] }

// gemmBy has the other kernel compute what is no plain product of a matrix and weights.
func gemmBy(plain func(c *ops.Call) error) func(c *ops.Call) error {
	return func(c *ops.Call) error {
		a, b, bias := c.Array(0), c.Array(1), c.Array(2)
		isPlain := ops.Int(c.Node, "transA") == 0 && ops.Float(c.Node, "alpha") == 1 && (bias == nil || ops.Float(c.Node, "beta") == 1)
		transB := ops.Int(c.Node, "transB") != 0
		if !isPlain || b == nil || b.DType != ndarray.Float64 || len(a.Shape) != 2 || len(b.Shape) != 2 || bias != nil && len(bias.Shape) != 1 {
			return plain(c)
		}
		k, n := b.Shape[0], b.Shape[1]
		if transB {
			k, n = n, k
		}
		m := a.Shape[0]
		if a.Shape[1] != k || bias != nil && bias.Shape[0] != n {
			return plain(c)
		}
		return kit.Attempt(func() {
			y := kit.NewResult[float64](c, 0, ndarray.Float64, m, n)
			kit.ClearSlice(c, y.V)
			w := kit.Elements[float64](c, b)
			if transB {
				w = kit.Transposed(c, n, k, w)
			}
			kit.Product64(c, m, n, k, kit.Elements[float64](c, a), k, w, n, y.V, n)
			if bias != nil {
				for i := range m {
					kit.AddScaled(y.V[i*n:][:n], 1, kit.Elements[float64](c, bias))
				}
			}
			y.Store()
		})
	}
}
