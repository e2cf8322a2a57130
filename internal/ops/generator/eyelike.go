package generator

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// EyeLike makes a matrix with ones on a diagonal, of the shape of its operand:
// https://onnx.ai/onnx/operators/onnx__EyeLike.html
var EyeLike = ops.Op{
	Name: "EyeLike", Since: 22, Doc: "Y[i,j] = j == i + k ? 1 : 0", Form: kit.SinceTypes(9, 22, ndarray.BFloat16),
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("dtype"), ops.IntAttr("k", 0)},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferEyeLike), Eval: kit.Kernel(evalEyeLike),
}

func inferEyeLike(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if t.Ranked && len(t.Shape) != 2 {
		kit.Failf("operand of rank %d, it must be a matrix", len(t.Shape))
	}
	dt := kit.Try(kit.DtypeAttr(n, "dtype", t.DType))
	if !t.Ranked {
		return ops.One(kit.TensorOfRank(dt, 2))
	}
	return ops.One(kit.Retyped(t, dt))
}

func evalEyeLike(c *ops.Call) {
	a := kit.Tensor(c, 0)
	if len(a.Shape) != 2 {
		kit.Failf("operand of rank %d, it must be a matrix", len(a.Shape))
	}
	dt := kit.Try(kit.DtypeAttr(c.Node, "dtype", a.DType))
	if dt == ndarray.String {
		kit.Check(kit.UnsupportedType(dt))
	}
	out := kit.Result(c, 0, dt, a.Shape...)
	kit.ClearSlice(c, out.Data)
	rows, cols := a.Shape[0], a.Shape[1]
	k := max(-int64(rows), min(ops.Int(c.Node, "k"), int64(cols))) // beyond that there is no diagonal
	w := kit.Watching(c)
	for i := range rows {
		w.Did(1)
		if j := i + int(k); j >= 0 && j < cols {
			out.SetInt(i*cols+j, 1)
		}
	}
}
