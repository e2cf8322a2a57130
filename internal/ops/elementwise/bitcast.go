package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// BitCast reads the same bits as another element type of the same width:
// https://onnx.ai/onnx/operators/onnx__BitCast.html
var BitCast = ops.Op{
	Name: "BitCast", Since: 26, Doc: "Y = bits of X as type to",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("to").Mandatory()},
	Infer: kit.Rule(inferBitCast), Eval: kit.Kernel(evalBitCast),
	Facts: ops.Facts{Traits: ops.ElementwiseTraits.But(ops.ElementwiseInLayout), Alias: bitCastAlias},
}

func bitCastTypes(n *ssa.Node, from ndarray.DType) ndarray.DType {
	to := targetType(n)
	if from != ndarray.Undefined && (from.FileBits() != to.FileBits() || to == ndarray.String || from == ndarray.String) {
		kit.Failf("%s has %d bits, %s has %d; they must be the same", from, from.FileBits(), to, to.FileBits())
	}
	return to
}

func inferBitCast(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	to := bitCastTypes(n, t.DType)
	t.Kind, t.DType = ssa.KindTensor, to
	return ops.One(t)
}

// bitCastAlias: types of whole bytes share their memory; narrower ones are kept
// extended to a byte, which depends on the sign.
func bitCastAlias(n *ssa.Node) []ops.Alias {
	if t := ops.InType(n, 0); t.DType.FileBits() < 8 {
		return nil
	}
	return kit.WholeView(n)
}

func evalBitCast(c *ops.Call) {
	a := kit.Tensor(c, 0)
	to := bitCastTypes(c.Node, a.DType)
	out := kit.Result(c, 0, to, a.Shape...)
	if to.FileBits() >= 8 {
		kit.CopySlice(c, out.Data, a.Data)
		return
	}
	w := kit.Watching(c)
	for i, b := range a.Data {
		w.Did(1)
		if to.IsSigned() {
			out.SetInt(i, int64(b))
		} else {
			out.Data[i] = b & (1<<to.FileBits() - 1)
		}
	}
}
