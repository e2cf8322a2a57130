package movement

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Concat joins tensors along an axis: https://onnx.ai/onnx/operators/onnx__Concat.html
var Concat = ops.Op{
	Name: "Concat", Since: 13, Form: concatForm, Doc: "concat_result = inputs one after the other along axis",
	MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis").Before(4), ops.IntAttr("axis").Mandatory().From(4)},
	Infer: kit.Rule(inferConcat), Eval: kit.Kernel(evalConcat),
	Facts: ops.Facts{Traits: ops.PassingTraits.But(ops.FailsNever), Alias: concatAlias, Cost: kit.MoveCost},
	Upgrades: []ops.Upgrade{{Below: 4, Source: kit.Changelog("Concat", 4),
		Apply: func(_ *ops.Upgrader, n *ssa.Node) error {
			if !n.Has("axis") {
				n.SetAttr(ssa.IntAttr("axis", 1))
			}
			return nil
		}}},
	Downgrades: []ops.Downgrade{kit.PositiveAxes(0, kit.TypeForm(4, 13)),
		{Below: 4, Form: kit.FormBy(kit.From(1, kit.FloatTypes), kit.From(4, kit.AnyType))}},
}

func concatForm(n *ssa.Node) int {
	base := 4
	if ops.Int(n, "axis") < 0 {
		base = 11
	}
	return kit.TypeForm(base, 13)(n)
}

func inferConcat(n *ssa.Node) []ops.Inferred {
	out := ssa.UnrankedTensor(kit.SameDType(n, kit.Positions(len(n.In))...))
	axis, length := -1, ssa.D(0)
	for i := range n.In {
		t := ops.InType(n, i)
		if !t.Ranked {
			length = ssa.Dim{}
			continue
		}
		if !out.Ranked {
			axis = kit.Try(ops.NormAxis(ops.Int(n, "axis"), len(t.Shape)))
			out = ssa.TensorOf(out.DType, slices.Clone(t.Shape)...)
		}
		if len(t.Shape) != len(out.Shape) {
			kit.Failf("operand %d is %s, the ones before have rank %d", i, t, len(out.Shape))
		}
		if err := joinDims(out.Shape, t.Shape, axis); err != nil {
			kit.Failf("operand %d: %w", i, err)
		}
		length = length.Add(t.Shape[axis])
	}
	if !out.Ranked {
		return ops.One(out)
	}
	out.Shape[axis] = length
	return kit.FactOf(out, concatContent(n))
}

// joinDims merges the dimensions of an operand, except axis, into those found so far.
func joinDims(out, dims []ssa.Dim, axis int) error {
	for i, d := range dims {
		if i == axis {
			continue
		}
		x, xc := out[i].Const()
		y, yc := d.Const()
		switch {
		case xc && yc && x != y:
			return fmt.Errorf("dimension %d is %d and %d", i, x, y)
		case yc, !out[i].Known():
			out[i] = d
		}
	}
	return nil
}

// concatContent joins what is known of the operands' elements; an operand of
// known length and unknown elements contributes unknown ones.
func concatContent(n *ssa.Node) []ssa.Dim {
	all := []ssa.Dim{}
	for i := range n.In {
		part, k := kit.Known(n, i), kit.LenOf(n, i)
		if part == nil {
			if k < 0 || k > ssa.MaxContent {
				return nil
			}
			part = kit.UnknownDims(k)
		}
		if all = append(all, part...); len(all) > ssa.MaxContent {
			return nil
		}
	}
	return all
}

// concatAlias says that below leading 1-dimensions every operand is a window of
// the result.
func concatAlias(n *ssa.Node) []ops.Alias {
	t := n.Out[0].Type
	axis, err := ops.NormAxis(ops.Int(n, "axis"), t.Rank())
	if err != nil || !kit.IsPlainTensor(n.Out[0]) || !t.IsStatic() || !onesBefore(t, axis) {
		return nil
	}
	var out []ops.Alias
	at := int64(0)
	for i, v := range n.In {
		out = append(out, ops.Alias{In: i, Out: 0, Offset: at, Concat: true})
		b, ok := v.Type.ByteSize()
		if !ok {
			return nil
		}
		at += int64(b)
	}
	return out
}

func evalConcat(c *ops.Call) {
	parts, _ := kit.SameTensors(c)
	kit.ConcatArrays(c, parts, ops.Int(c.Node, "axis"))
}
