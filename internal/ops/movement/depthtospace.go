package movement

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// DepthToSpace moves blocks of channels into the plane:
// https://onnx.ai/onnx/operators/onnx__DepthToSpace.html
//
//	DCR  [N, b, b, C/b², H, W]     CRD  [N, C/b², b, b, H, W]
//	         y  x                                 y  x
//	both become  [N, C/b², H, y, W, x] = [N, C/b², H*b, W*b]
var DepthToSpace = blockOp("DepthToSpace", "output = input with blocksize² channels spread over the plane", 11, inferDepthToSpace, evalDepthToSpace)

// SpaceToDepth is the inverse of [DepthToSpace]:
// https://onnx.ai/onnx/operators/onnx__SpaceToDepth.html
var SpaceToDepth = blockOp("SpaceToDepth", "output = input with blocks of the plane moved to channels", 28, inferSpaceToDepth, evalSpaceToDepth)

// blockOp fills in what both have in common. mode is the version that brought that
// attribute.
func blockOp(name, doc string, mode int, infer func(d []ssa.Dim, b int64) []ssa.Dim, eval func(c *ops.Call, a *ndarray.Array, b int)) ops.Op {
	return ops.Op{
		Name: name, Since: 28, Form: kit.TypeForm(1, 13), Doc: doc,
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.IntAttr("blocksize").Mandatory().Between(1, 1<<15), ops.StrAttr("mode", "DCR", "CRD").From(mode)},
		Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
			t := ops.InType(n, 0)
			if !t.Ranked {
				return ops.One(kit.TensorOfRank(t.DType, 4))
			}
			checkImages(t.Rank())
			return ops.One(ssa.TensorOf(t.DType, infer(t.Shape, ops.Int(n, "blocksize"))...))
		}),
		Eval: kit.Kernel(func(c *ops.Call) {
			a := kit.Tensor(c, 0)
			checkImages(a.Rank())
			eval(c, a, int(ops.Int(c.Node, "blocksize")))
		}),
		Facts: ops.Facts{Traits: ops.MovementTraits, Cost: kit.MoveCost},
	}
}

func checkImages(rank int) {
	if rank != 4 {
		kit.Failf("the operand has rank %d, it must be 4", rank)
	}
}

func inferDepthToSpace(d []ssa.Dim, b int64) []ssa.Dim {
	return []ssa.Dim{d[0], d[1].FloorDiv(ssa.D(b * b)), d[2].MulN(b), d[3].MulN(b)}
}

func inferSpaceToDepth(d []ssa.Dim, b int64) []ssa.Dim {
	return []ssa.Dim{d[0], d[1].MulN(b * b), d[2].FloorDiv(ssa.D(b)), d[3].FloorDiv(ssa.D(b))}
}

// blockStrides returns the strides of [N, C, H, y, W, x] in a tensor of shape
// [N, C*b*b, H, W] whose channels hold the blocks.
func blockStrides(deep []int, b int, mode string) []int {
	n, plane := deep[1]*deep[2]*deep[3], deep[2]*deep[3]
	c := deep[1] / (b * b)
	if mode == "CRD" {
		return []int{n, b * b * plane, deep[3], b * plane, 1, plane}
	}
	return []int{n, plane, deep[3], b * c * plane, 1, c * plane}
}

// spreadStrides returns the strides of [N, C, H, y, W, x] in [N, C, H*b, W*b].
func spreadStrides(wide []int, b int) []int {
	w := wide[3]
	return []int{wide[1] * wide[2] * w, wide[2] * w, b * w, w, b, 1}
}

func evalDepthToSpace(c *ops.Call, a *ndarray.Array, b int) {
	d := a.Shape
	if d[1]%(b*b) != 0 {
		kit.Failf("%d channels are no multiple of the squared block size %d", d[1], b*b)
	}
	out := kit.Result(c, 0, a.DType, d[0], d[1]/(b*b), d[2]*b, d[3]*b)
	kit.MoveBlock(c, out, a, kit.Block{Shape: []int{d[0], d[1] / (b * b), d[2], b, d[3], b},
		Dstr: spreadStrides(out.Shape, b), Sstr: blockStrides(d, b, ops.Str(c.Node, "mode"))})
}

func evalSpaceToDepth(c *ops.Call, a *ndarray.Array, b int) {
	d := a.Shape
	if d[2]%b != 0 || d[3]%b != 0 {
		kit.Failf("a plane of %dx%d does not divide into blocks of %d", d[2], d[3], b)
	}
	out := kit.Result(c, 0, a.DType, d[0], d[1]*b*b, d[2]/b, d[3]/b)
	kit.MoveBlock(c, out, a, kit.Block{Shape: []int{d[0], d[1], d[2] / b, b, d[3] / b, b},
		Dstr: blockStrides(out.Shape, b, ops.Str(c.Node, "mode")), Sstr: spreadStrides(d, b)})
}
