package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ssa"
)

// Split cuts a tensor along an axis: https://onnx.ai/onnx/operators/onnx__Split.html
//
// The lengths come from operand split, or num_outputs asks for equal parts of
// which the last may be shorter.
var Split = Op{
	Name: "Split", Since: 18, Form: splitForm, Doc: "outputs = consecutive parts of input along axis",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: -1,
	Attrs: []AttrSpec{intAttr("axis").until(2), intAttr("axis", 0).since(2), intAttr("num_outputs").since(18),
		intsAttr("split").until(13)},
	Infer: rule(inferSplit), Eval: kernel(evalSplit),
	Facts: Facts{Traits: passing, Alias: splitAlias, Cost: moveCost},
	Upgrades: []Upgrade{
		{Below: 13, Source: "https://onnx.ai/onnx/operators/onnx__Split.html#split-13", Apply: func(u *Upgrader, n *ssa.Node) error {
			u.AttrToInput(n, "split", 1)
			return nil
		}},
		{Below: 18, Source: "https://onnx.ai/onnx/operators/onnx__Split.html#split-18", Apply: func(_ *Upgrader, n *ssa.Node) error {
			if n.Input(1) == nil {
				n.SetAttr(ssa.IntAttr("num_outputs", int64(len(n.Out))))
			}
			return nil
		}},
	},
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
			out[i] = symMax(symMin(part, dim.Sub(part.MulN(int64(i)))), ssa.D(0))
		}
	}
	return out
}

// splitLengths returns the length of every part as far as known.
func splitLengths(n *ssa.Node, dim ssa.Dim) ([]ssa.Dim, error) {
	k := len(n.Out)
	if n.Input(1) == nil {
		if want := IntOr(n, "num_outputs", int64(k)); want != int64(k) {
			return nil, fmt.Errorf("num_outputs is %d, the node has %d results", want, k)
		}
		return splitEvenly(dim, k), nil
	}
	part := ContentOf(n, 1)
	if ints, ok := ConstInts(n, 1); ok {
		part = make([]ssa.Dim, len(ints))
		for i, x := range ints {
			part[i] = ssa.D(x)
		}
	}
	if part == nil {
		return unknownDims(k), nil
	}
	if len(part) != k {
		return nil, fmt.Errorf("split has %d elements, the node has %d results", len(part), k)
	}
	return part, checkParts(part, dim)
}

// checkParts fails when the known lengths of the parts can not add up to dim.
func checkParts(part []ssa.Dim, dim ssa.Dim) error {
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

func inferSplit(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	out := make([]Inferred, len(n.Out))
	if !t.Ranked {
		for i := range out {
			out[i].Type = t
		}
		return out
	}
	axis := try(NormAxis(Int(n, "axis"), len(t.Shape)))
	parts := try(splitLengths(n, t.Shape[axis]))
	content, at := known(n, 0), int64(0)
	for i, p := range parts {
		dims := append([]ssa.Dim(nil), t.Shape...)
		dims[axis] = p
		out[i].Type = ssa.TensorOf(t.DType, dims...)
		k, ok := p.Const()
		if content == nil || len(t.Shape) != 1 || !ok || at+k > int64(len(content)) {
			content = nil
			continue
		}
		out[i].Content = contentFor(out[i].Type, content[at:at+k])
		at += k
	}
	return out
}

// splitAlias says that below leading 1-dimensions every part is a window of the
// operand.
func splitAlias(n *ssa.Node) []Alias {
	t := InType(n, 0)
	axis, err := NormAxis(Int(n, "axis"), t.Rank())
	if err != nil || !isPlainTensor(n.In[0]) || !onesBefore(t, axis) {
		return nil
	}
	parts, err := splitLengths(n, t.Shape[axis])
	if err != nil {
		return nil
	}
	step, at := bytesAfter(t, axis), int64(0)
	var out []Alias
	for i, p := range parts {
		k, ok := p.Const()
		if !ok {
			return nil
		}
		if n.Out[i] != nil && k > 0 {
			out = append(out, Alias{In: 0, Out: i, Offset: at * step})
		}
		at += k
	}
	return out
}

// splitCall returns the length of every part at run time.
func splitCall(c *Call, dim int) []int {
	var parts []ssa.Dim
	if c.Has(1) {
		ints := ints(c, 1)
		if len(ints) != len(c.Node.Out) {
			failf("split has %d elements, the node has %d results", len(ints), len(c.Node.Out))
		}
		for _, x := range ints {
			parts = append(parts, ssa.D(x))
		}
		check(checkParts(parts, ssa.D(int64(dim))))
	} else {
		parts = splitEvenly(ssa.D(int64(dim)), len(c.Node.Out))
	}
	out := make([]int, len(parts))
	for i, p := range parts {
		k, _ := p.Const()
		out[i] = int(k)
	}
	return out
}

func evalSplit(c *Call) {
	a := tensor(c, 0)
	axis := try(NormAxis(Int(c.Node, "axis"), a.Rank()))
	parts := splitCall(c, a.Shape[axis])
	at := 0
	for i, p := range parts {
		if c.Wants(i) {
			shape := append([]int(nil), a.Shape...)
			shape[axis] = p
			out := result(c, i, a.DType, shape...)
			copyPart(out, a, axis, at)
		}
		at += p
	}
}
