package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Concat joins tensors along an axis: https://onnx.ai/onnx/operators/onnx__Concat.html
var Concat = Op{
	Name: "Concat", Since: 13, Form: concatForm, Doc: "concat_result = inputs one after the other along axis",
	MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis").until(4), intAttr("axis").required().since(4)},
	Infer: rule(inferConcat), Eval: kernel(evalConcat),
	Facts: Facts{Traits: passing.but(FailsNever), Alias: concatAlias, Cost: moveCost},
	Upgrades: []Upgrade{{Below: 4, Source: "https://onnx.ai/onnx/operators/onnx__Concat.html#concat-4",
		Apply: func(_ *Upgrader, n *ssa.Node) error {
			if !n.Has("axis") {
				n.SetAttr(ssa.IntAttr("axis", 1))
			}
			return nil
		}}},
}

func concatForm(n *ssa.Node) int {
	base := 4
	if Int(n, "axis") < 0 {
		base = 11
	}
	return typeForm(base, 13)(n)
}

func inferConcat(n *ssa.Node) []Inferred {
	out := ssa.Type{Kind: ssa.KindTensor}
	axis := -1
	for i := range n.In {
		t := InType(n, i)
		if out.DType == ndarray.Undefined {
			out.DType = t.DType
		} else if t.DType != ndarray.Undefined && t.DType != out.DType {
			failf("operands are %s and %s; they must have one element type", out.DType, t.DType)
		}
		if !t.Ranked {
			continue
		}
		if !out.Ranked {
			k := try(NormAxis(Int(n, "axis"), len(t.Shape)))
			axis = k
			out.Ranked, out.Shape = true, append([]ssa.Dim(nil), t.Shape...)
			out.Shape[axis] = ssa.D(0)
		}
		if len(t.Shape) != len(out.Shape) {
			failf("operand %d is %s, the ones before have rank %d", i, t, len(out.Shape))
		}
		if err := joinDims(out.Shape, t.Shape, axis); err != nil {
			failf("operand %d: %w", i, err)
		}
	}
	if !out.Ranked {
		return One(out)
	}
	out.Shape[axis] = ssa.D(0)
	for i := range n.In {
		if t := InType(n, i); t.Ranked {
			out.Shape[axis] = out.Shape[axis].Add(t.Shape[axis])
		} else {
			out.Shape[axis] = ssa.Dim{}
		}
	}
	return factOf(out, concatContent(n))
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
		part := known(n, i)
		if part == nil {
			k := lenOf(n, i)
			if k < 0 || k > ssa.MaxContent {
				return nil
			}
			part = unknownDims(k)
		}
		if all = append(all, part...); len(all) > ssa.MaxContent {
			return nil
		}
	}
	return all
}

// concatAlias says that below leading 1-dimensions every operand is a window of
// the result.
func concatAlias(n *ssa.Node) []Alias {
	t := n.Out[0].Type
	axis, err := NormAxis(Int(n, "axis"), t.Rank())
	if err != nil || !isPlainTensor(n.Out[0]) || !t.IsStatic() || !onesBefore(t, axis) {
		return nil
	}
	var out []Alias
	at := int64(0)
	for i, v := range n.In {
		out = append(out, Alias{In: i, Out: 0, Offset: at, Concat: true})
		b, ok := v.Type.ByteSize()
		if !ok {
			return nil
		}
		at += int64(b)
	}
	return out
}

func evalConcat(c *Call) {
	parts := make([]*ndarray.Array, len(c.In))
	for i := range parts {
		a := tensor(c, i)
		parts[i] = a
	}
	concatArrays(c, parts, Int(c.Node, "axis"))
}
