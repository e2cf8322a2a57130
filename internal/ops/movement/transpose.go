package movement

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Transpose permutes dimensions: https://onnx.ai/onnx/operators/onnx__Transpose.html
var Transpose = ops.Op{
	Name: "Transpose", Since: 25, Form: kit.TypeForm(1, 13, 21, 23, 24, 25), Doc: "dimension i of transposed is dimension perm[i] of data",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntsAttr("perm")},
	Infer: kit.Rule(inferTranspose), Eval: kit.Kernel(evalTranspose),
	Facts: ops.Facts{Traits: ops.MovementTraits.But(ops.FailsNever), Alias: transposeAlias, Cost: kit.MoveCost},
}

func inferTranspose(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		if n.Has("perm") {
			return ops.One(kit.TensorOfRank(t.DType, len(ops.Ints(n, "perm"))))
		}
		return ops.One(t)
	}
	perm := kit.Try(kit.TransposePerm(n, len(t.Shape)))
	dims := make([]ssa.Dim, len(perm))
	for i, p := range perm {
		dims[i] = t.Shape[p]
	}
	return kit.FactOf(ssa.TensorOf(t.DType, dims...), kit.Known(n, 0))
}

// transposeAlias finds a view where only dimensions of length 1 change places.
func transposeAlias(n *ssa.Node) []ops.Alias {
	t := ops.InType(n, 0)
	perm, err := kit.TransposePerm(n, t.Rank())
	if err != nil {
		return nil
	}
	last := -1
	for _, p := range perm {
		if t.Shape[p].Is(1) {
			continue
		}
		if p < last {
			return nil
		}
		last = p
	}
	return kit.WholeView(n)
}

func evalTranspose(c *ops.Call) {
	a := kit.Tensor(c, 0)
	perm := kit.Try(kit.TransposePerm(c.Node, a.Rank()))
	strides := ops.Strides(a.Shape)
	shape, from := make([]int, len(perm)), make([]int, len(perm))
	for i, p := range perm {
		shape[i], from[i] = a.Shape[p], strides[p]
	}
	out := kit.Result(c, 0, a.DType, shape...)
	b := kit.Block{Shape: shape, Dstr: ops.Strides(shape), Sstr: from}
	if last := len(shape) - 1; last >= 0 && from[last] != 1 {
		moveStrips(c, out, a, b, shape[last])
		return
	}
	kit.MoveBlock(c, out, a, b)
}

// stripLen is how many elements of rows are moved before the next row, so that the cache lines read are read whole.
const stripLen = 64

// moveStrips moves a block whose rows, of n elements, lie across those of the source.
func moveStrips(c *ops.Call, out, a *ndarray.Array, b kit.Block, n int) {
	last := len(b.Shape) - 1
	b.Shape = slices.Clone(b.Shape)
	for at := 0; at < n; at += stripLen {
		b.Shape[last], b.Dst, b.Src = min(stripLen, n-at), at, at*b.Sstr[last]
		kit.MoveBlock(c, out, a, b)
	}
}
