package rare

import (
	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ops"
)

// BiasSoftmax is the softmax of data + bias over the dimensions from axis on, of
// the com.microsoft domain. The bias broadcasts; is_inner_broadcast only says
// along which dimensions.
var BiasSoftmax = ops.Op{
	Domain: contrib.Microsoft, Name: "BiasSoftmax", Since: 1, Doc: "output = softmax(data + bias) over the dimensions from axis on",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", 1), ops.IntAttr("is_inner_broadcast").Mandatory()},
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst},
	Eval: kit.FloatKernel(evalBiasSoftmax[float32], evalBiasSoftmax[float64]),
}

func evalBiasSoftmax[T float32 | float64](c *ops.Call) {
	x := kit.Tensor(c, 0)
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), x.Rank()))
	bias := kit.Spread[T](c, "bias", kit.Tensor(c, 1), x.Shape)
	y := kit.NewResult[T](c, 0, x.DType, x.Shape...)
	copy(y.V, kit.Elements[T](c, x))
	nn.ScaleShift(c, y.V, nil, bias)
	kit.SoftmaxRows(c, y.V, kit.SizeOf(x.Shape[axis:]))
	y.Store()
}
