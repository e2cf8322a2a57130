package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// EyeLike makes a matrix with ones on a diagonal, of the shape of its operand:
// https://onnx.ai/onnx/operators/onnx__EyeLike.html
var EyeLike = Op{
	Name: "EyeLike", Since: 22, Doc: "Y[i,j] = j == i + k ? 1 : 0", Form: eyeLikeForm,
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("dtype"), intAttr("k", 0)},
	Facts: Facts{Traits: general}, Infer: rule(inferEyeLike), Eval: kernel(evalEyeLike),
}

func eyeLikeForm(n *ssa.Node) int {
	if usesType(n, ndarray.BFloat16) {
		return 22
	}
	return 9
}

func inferEyeLike(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if t.Ranked && len(t.Shape) != 2 {
		failf("operand of rank %d, it must be a matrix", len(t.Shape))
	}
	dt := try(dtypeAttr(n, "dtype", t.DType))
	t.Kind, t.DType = ssa.KindTensor, dt
	if !t.Ranked {
		t = tensorOfRank(dt, 2)
	}
	return One(t)
}

func evalEyeLike(c *Call) {
	a := tensor(c, 0)
	if len(a.Shape) != 2 {
		failf("operand of rank %d, it must be a matrix", len(a.Shape))
	}
	dt := try(dtypeAttr(c.Node, "dtype", a.DType))
	if dt == ndarray.String {
		check(unsupportedType(dt))
	}
	out := result(c, 0, dt, a.Shape...)
	clear(out.Data)
	rows, cols := a.Shape[0], a.Shape[1]
	k := Int(c.Node, "k")
	if k <= -int64(rows) || k >= int64(cols) {
		return
	}
	for i := range rows {
		if j := i + int(k); j >= 0 && j < cols {
			out.SetInt(i*cols+j, 1)
		}
	}
}
