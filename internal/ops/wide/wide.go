// Package wide has the reference kernels of convolutions and matrix products compute float64 in blocks and on several threads, for programs that run
// whole models in it. Linking it is all; programs without it have plain loops, which are smaller.
package wide

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

func init() {
	kit.MatMulAdd64 = kit.Product64
	plain := nn.Conv.Eval
	nn.Conv.Eval = func(c *ops.Call) error {
		if x := c.Array(0); x == nil || x.DType != ndarray.Float64 {
			return plain(c)
		}
		return nn.EvalConv64(c)
	}
}
