package movement

import (
	"fmt"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Split cuts a tensor along an axis: https://onnx.ai/onnx/operators/onnx__Split.html
//
// The lengths come from operand split, or num_outputs asks for equal parts of
// which the last may be shorter.
var Split = ops.Op{
	Name: "Split", Since: 18, Form: splitForm, Doc: "outputs = consecutive parts of input along axis",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: -1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis").Before(2), ops.IntAttr("axis", 0).From(2), ops.IntAttr("num_outputs").From(18),
		ops.IntsAttr("split").Before(13)},
	Infer: kit.Rule(inferSplit), Eval: kit.Kernel(evalSplit),
	Facts: ops.Facts{Traits: ops.PassingTraits, Alias: splitAlias, Cost: kit.MoveCost},
	Upgrades: []ops.Upgrade{
		kit.AttrToOperand("Split", 13, "split", 1),
		{Below: 18, Source: kit.Changelog("Split", 18), Apply: func(_ *ops.Upgrader, n *ssa.Node) error {
			if n.Input(1) == nil {
				n.SetAttr(ssa.IntAttr("num_outputs", int64(len(n.Out))))
			}
			return nil
		}},
	},
	Downgrades: []ops.Downgrade{{Below: 18, Form: kit.TypeForm(2, 13), Apply: downgradeSplit},
		kit.OperandToAttr(13, "split", 1, kit.TypeForm(2, 13)), kit.PositiveAxes(0, kit.TypeForm(2, 13))},
}

// downgradeSplit writes the lengths of parts that are not equal. Where the length of the
// axis is not known, an older Split fails if the parts can not be equal.
func downgradeSplit(u *ops.Upgrader, n *ssa.Node) error {
	n.DropAttr("num_outputs")
	t := ops.InType(n, 0)
	if n.Input(1) != nil || !t.Ranked {
		return nil
	}
	axis, err := ops.NormAxis(ops.Int(n, "axis"), len(t.Shape))
	if err != nil {
		return err
	}
	if k, ok := t.Shape[axis].Const(); ok && k%int64(len(n.Out)) != 0 {
		parts, _ := ssa.TensorOf(0, splitEvenly(t.Shape[axis], len(n.Out))...).Static()
		u.SetOperand(n, 1, u.Const("split", ssa.Int64s(ints64(parts)...)))
	}
	return nil
}

func splitForm(n *ssa.Node) int {
	if n.Input(1) != nil {
		return 13
	}
	return 18
}

// splitEvenly returns the lengths of k equal parts of dim; the last ones may be
// shorter.
func splitEvenly(dim ssa.Dim, k int) []ssa.Dim {
	part := dim.CeilDiv(ssa.D(int64(k)))
	exact := part.MulN(int64(k)).Equal(dim)
	out := make([]ssa.Dim, k)
	for i := range out {
		out[i] = part
		if !exact {
			out[i] = kit.SymMax(kit.SymMin(part, dim.Sub(part.MulN(int64(i)))), ssa.D(0))
		}
	}
	return out
}

// splitLengths returns the length of every part as far as known.
func splitLengths(n *ssa.Node, dim ssa.Dim) ([]ssa.Dim, error) {
	k := len(n.Out)
	if n.Input(1) == nil {
		if want := ops.IntOr(n, "num_outputs", int64(k)); want != int64(k) {
			return nil, fmt.Errorf("num_outputs is %d, the node has %d results", want, k)
		}
		return splitEvenly(dim, k), nil
	}
	part := ops.ContentOf(n, 1)
	if ints, ok := ops.ConstInts(n, 1); ok {
		part = kit.DimsOf(ints)
	}
	if part == nil {
		return kit.UnknownDims(k), nil
	}
	return part, checkParts(part, k, dim)
}

// checkParts fails unless there are k parts whose known lengths can add up to dim.
func checkParts(part []ssa.Dim, k int, dim ssa.Dim) error {
	if len(part) != k {
		return fmt.Errorf("split has %d elements, the node has %d results", len(part), k)
	}
	sum := ssa.D(0)
	for _, p := range part {
		if k, ok := p.Const(); ok && k < 0 {
			return fmt.Errorf("split holds the negative length %d", k)
		}
		sum = sum.Add(p)
	}
	a, ac := sum.Const()
	b, bc := dim.Const()
	if ac && bc && a != b {
		return fmt.Errorf("the parts add up to %d, the axis has %d", a, b)
	}
	return nil
}

func inferSplit(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	out := make([]ops.Inferred, len(n.Out))
	if !t.Ranked {
		for i := range out {
			out[i].Type = t
		}
		return out
	}
	axis := kit.Try(ops.NormAxis(ops.Int(n, "axis"), len(t.Shape)))
	parts := kit.Try(splitLengths(n, t.Shape[axis]))
	content, at := kit.Known(n, 0), int64(0)
	for i, p := range parts {
		if i > 0 && p.Equal(parts[i-1]) {
			out[i].Type = out[i-1].Type // a node may have a million equal parts
		} else {
			out[i].Type = ssa.TensorOf(t.DType, kit.WithDim(t.Shape, axis, p)...)
		}
		k, ok := p.Const()
		if content == nil || len(t.Shape) != 1 || !ok || at+k > int64(len(content)) {
			content = nil
			continue
		}
		out[i].Content = kit.ContentFor(out[i].Type, content[at:at+k])
		at += k
	}
	return out
}

// splitAlias says that below leading 1-dimensions every part is a window of the
// operand.
func splitAlias(n *ssa.Node) []ops.Alias {
	t := ops.InType(n, 0)
	axis, err := ops.NormAxis(ops.Int(n, "axis"), t.Rank())
	if err != nil || !kit.IsPlainTensor(n.In[0]) || !onesBefore(t, axis) {
		return nil
	}
	parts, err := splitLengths(n, t.Shape[axis])
	if err != nil {
		return nil
	}
	step, at := bytesAfter(t, axis), int64(0)
	var out []ops.Alias
	for i, p := range parts {
		k, ok := p.Const()
		if !ok {
			return nil
		}
		if n.Out[i] != nil && k > 0 {
			out = append(out, ops.Alias{In: 0, Out: i, Offset: at * step})
		}
		at += k
	}
	return out
}

// splitCall returns the length of every part at run time.
func splitCall(c *ops.Call, dim int) []int {
	k := len(c.Node.Out)
	if !c.Has(1) {
		shape, _ := ssa.TensorOf(0, splitEvenly(ssa.D(int64(dim)), k)...).Static()
		return shape
	}
	lengths := kit.Ints(c, 1)
	kit.Check(checkParts(kit.DimsOf(lengths), k, ssa.D(int64(dim))))
	return kit.ShapeOfInts(lengths)
}

func evalSplit(c *ops.Call) {
	a := kit.Tensor(c, 0)
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), a.Rank()))
	at := 0
	for i, p := range splitCall(c, a.Shape[axis]) {
		if c.Wants(i) {
			kit.CopyPart(c, kit.Result(c, i, a.DType, kit.WithDim(a.Shape, axis, p)...), a, axis, at)
		}
		at += p
	}
}
