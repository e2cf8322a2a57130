package rare

import (
	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// BiasSplitGelu adds a bias and gates the first half of the last dimension by
// the gelu of the second: Y = X1 * gelu(X2), [X1 X2] = X + bias.
var BiasSplitGelu = ops.Op{
	Domain: contrib.Microsoft, Name: "BiasSplitGelu", Since: 1, Doc: "Y = X1 * gelu(X2), [X1 X2] = X + bias",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		x := ops.InType(n, 0)
		if x.Ranked && x.Rank() != 3 {
			kit.Failf("operand %s, expected rank 3", x)
		}
		return ops.One(ssa.TensorOf(x.DType, kit.DimOf(x, 0), kit.DimOf(x, 1), kit.DimOf(x, 2).FloorDiv(ssa.D(2))))
	}),
	Eval: kit.FloatKernel(evalBiasSplitGelu[float32], evalBiasSplitGelu[float64]),
}

func evalBiasSplitGelu[T float32 | float64](c *ops.Call) {
	watch := kit.Watching(c)
	x := c.Array(0)
	kit.WantRank("X", x, 3)
	d := x.Shape[2]
	if d%2 != 0 {
		kit.Failf("X has shape %v, whose last dimension is odd", x.Shape)
	}
	kit.WantShape("bias", c.Array(1), d)
	y := kit.NewResult[T](c, 0, x.DType, x.Shape[0], x.Shape[1], d/2)
	v, b := kit.Elements[T](c, x), kit.Elements[T](c, c.Array(1))
	for i := range y.V {
		watch.Did(1)
		row, j := i/(d/2)*d, i%(d/2)
		y.V[i] = (v[row+j] + b[j]) * T(kit.Gelu(float64(v[row+d/2+j]+b[d/2+j])))
	}
	y.Store()
}
