package ops

import "github.com/berth-onnx/berth/ssa"

// DepthToSpace moves blocks of channels into the plane:
// https://onnx.ai/onnx/operators/onnx__DepthToSpace.html
//
//	DCR  [N, b, b, C/b², H, W]     CRD  [N, C/b², b, b, H, W]
//	         y  x                                 y  x
//	both become  [N, C/b², H, y, W, x] = [N, C/b², H*b, W*b]
var DepthToSpace = Op{
	Name: "DepthToSpace", Since: 28, Form: typeForm(1, 13), Doc: "output = input with blocksize² channels spread over the plane",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("blocksize").required().atLeast(1), strAttr("mode", "DCR", "CRD").since(11)},
	Infer: rule(inferDepthToSpace), Eval: kernel(evalDepthToSpace),
	Facts: Facts{Traits: movement, Cost: moveCost},
}

// SpaceToDepth is the inverse of [DepthToSpace]:
// https://onnx.ai/onnx/operators/onnx__SpaceToDepth.html
var SpaceToDepth = Op{
	Name: "SpaceToDepth", Since: 28, Form: typeForm(1, 13), Doc: "output = input with blocks of the plane moved to channels",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("blocksize").required().atLeast(1), strAttr("mode", "DCR", "CRD").since(28)},
	Infer: rule(inferSpaceToDepth), Eval: kernel(evalSpaceToDepth),
	Facts: Facts{Traits: movement, Cost: moveCost},
}

// blockOf checks the attributes: the block size and whether the mode is CRD.
func blockOf(n *ssa.Node, rank int) (b int64, crd bool) {
	b = Int(n, "blocksize")
	switch {
	case b < 1 || b > 1<<15:
		check(badAttr("blocksize", b, "above 0"))
	case rank != 4:
		failf("the operand has rank %d, it must be 4", rank)
	}
	return b, Str(n, "mode") == "CRD"
}

func inferDepthToSpace(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if !t.Ranked {
		return One(tensorOfRank(t.DType, 4))
	}
	b, _ := blockOf(n, len(t.Shape))
	d := t.Shape
	return One(ssa.TensorOf(t.DType, d[0], d[1].FloorDiv(ssa.D(b*b)), d[2].MulN(b), d[3].MulN(b)))
}

func inferSpaceToDepth(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if !t.Ranked {
		return One(tensorOfRank(t.DType, 4))
	}
	b, _ := blockOf(n, len(t.Shape))
	d := t.Shape
	return One(ssa.TensorOf(t.DType, d[0], d[1].MulN(b*b), d[2].FloorDiv(ssa.D(b)), d[3].FloorDiv(ssa.D(b))))
}

// blockStrides returns the strides of [N, C, H, y, W, x] in a tensor of shape
// [N, C*b*b, H, W] whose channels hold the blocks.
func blockStrides(deep []int, b int, crd bool) []int {
	n, plane := deep[1]*deep[2]*deep[3], deep[2]*deep[3]
	c := deep[1] / (b * b)
	if crd {
		return []int{n, b * b * plane, deep[3], b * plane, 1, plane}
	}
	return []int{n, plane, deep[3], b * c * plane, 1, c * plane}
}

// spreadStrides returns the strides of [N, C, H, y, W, x] in [N, C, H*b, W*b].
func spreadStrides(wide []int, b int) []int {
	w := wide[3]
	return []int{wide[1] * wide[2] * w, wide[2] * w, b * w, w, b, 1}
}

func evalDepthToSpace(c *Call) {
	a := tensor(c, 0)
	b64, crd := blockOf(c.Node, a.Rank())
	b, d := int(b64), a.Shape
	if d[1]%(b*b) != 0 {
		failf("%d channels are no multiple of the squared block size %d", d[1], b*b)
	}
	out := result(c, 0, a.DType, d[0], d[1]/(b*b), d[2]*b, d[3]*b)
	moveBlock(out, a, block{shape: []int{d[0], d[1] / (b * b), d[2], b, d[3], b},
		dstr: spreadStrides(out.Shape, b), sstr: blockStrides(d, b, crd)})
}

func evalSpaceToDepth(c *Call) {
	a := tensor(c, 0)
	b64, crd := blockOf(c.Node, a.Rank())
	b, d := int(b64), a.Shape
	if d[2]%b != 0 || d[3]%b != 0 {
		failf("a plane of %dx%d does not divide into blocks of %d", d[2], d[3], b)
	}
	out := result(c, 0, a.DType, d[0], d[1]*b*b, d[2]/b, d[3]/b)
	moveBlock(out, a, block{shape: []int{d[0], d[1], d[2] / b, b, d[3] / b, b},
		dstr: blockStrides(out.Shape, b, crd), sstr: spreadStrides(d, b)})
}
