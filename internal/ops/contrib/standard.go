package contrib

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/generator"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/movement"
	"github.com/berth-onnx/berth/internal/ops/quant"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The com.microsoft domain repeats operators of the standard, from a time when
// the standard had a lesser form of them.

// MSQuantizeLinear is QuantizeLinear, per tensor or per axis.
var MSQuantizeLinear = ops.Op{
	Domain: Microsoft, Name: "QuantizeLinear", Since: 1, Doc: quant.QuantizeLinear.Doc,
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", 1)}, Infer: kit.Rule(quant.InferQuantize), Eval: kit.Kernel(quant.EvalQuantize),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Smaller: kit.NarrowingFirst},
}

// MSDequantizeLinear is DequantizeLinear, per tensor or per axis.
var MSDequantizeLinear = ops.Op{
	Domain: Microsoft, Name: "DequantizeLinear", Since: 1, Doc: quant.DequantizeLinear.Doc,
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", 1)}, Facts: ops.Facts{Traits: ops.GeneralTraits.But(ops.KeepsPacked)}, Infer: quant.DequantizeLinear.Infer, Eval: kit.Kernel(quant.EvalDequantize),
}

// MSTrilu is Trilu.
var MSTrilu = ops.Op{
	Domain: Microsoft, Name: "Trilu", Since: 1, Doc: movement.Trilu.Doc,
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: movement.Trilu.Attrs, Infer: kit.Rule(movement.InferTrilu), Eval: kit.Kernel(movement.EvalTrilu), Facts: movement.Trilu.Facts,
}

// MSPad is Pad over all axes.
var MSPad = ops.Op{
	Domain: Microsoft, Name: "Pad", Since: 1, Doc: movement.Pad.Doc,
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: ops.Newest(movement.Pad.Attrs), Infer: kit.Rule(movement.InferPad), Eval: kit.Kernel(movement.EvalPad), Facts: movement.Pad.Facts,
}

// MSGatherND is GatherND without batch dimensions.
var MSGatherND = ops.Op{
	Domain: Microsoft, Name: "GatherND", Since: 1, Doc: movement.GatherND.Doc,
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(movement.InferGatherND), Eval: kit.Kernel(movement.EvalGatherND), Facts: movement.GatherND.Facts,
}

// MSRange is Range whose delta may be absent and is 1 then.
var MSRange = ops.Op{
	Domain: Microsoft, Name: "Range", Since: 1, Doc: generator.Range.Doc,
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		if n.Input(2) != nil {
			return generator.InferRange(n)
		}
		dt := kit.SameDType(n, 0, 1)
		return ops.One(ssa.TensorOf(dt, generator.RangeLength(kit.SoleKnown(n, 0), kit.SoleKnown(n, 1), 1)))
	}),
	Eval: kit.Kernel(func(c *ops.Call) {
		if c.Has(2) {
			generator.EvalRange(c)
			return
		}
		start := kit.Tensor(c, 0)
		one := kit.Try(ndarray.New(start.DType))
		one.SetInt(0, 1)
		inner := *c
		inner.In = append(slices.Clone(c.In[:2]), one)
		generator.EvalRange(&inner)
		c.Out = inner.Out
	}),
}

// ExpandDims inserts a dimension of 1 at an axis given as an operand.
var ExpandDims = ops.Op{
	Domain: Microsoft, Name: "ExpandDims", Since: 1, Doc: "Y = X with a dimension of 1 at axis",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.GeneralTraits, Alias: kit.WholeView},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		t := ops.InType(n, 0)
		axis, known := ops.ConstInts(n, 1)
		if !t.Ranked || !known || len(axis) != 1 {
			return ops.One(ssa.UnrankedTensor(t.DType))
		}
		at := kit.Try(ops.NormAxis(axis[0], t.Rank()+1))
		return ops.One(ssa.TensorOf(t.DType, slices.Insert(slices.Clone(t.Shape), at, ssa.D(1))...))
	}),
	Eval: kit.Kernel(func(c *ops.Call) {
		x := kit.Tensor(c, 0)
		axis := kit.ScalarInt(c, 1)
		at := kit.Try(ops.NormAxis(axis, x.Rank()+1))
		y := kit.Result(c, 0, x.DType, slices.Insert(slices.Clone(x.Shape), at, 1)...)
		kit.CopyWhole(c, y, x)
	}),
}
