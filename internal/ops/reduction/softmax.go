package reduction

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Softmax is the normalized exponential: https://onnx.ai/onnx/operators/onnx__Softmax.html
// The maximum is taken out first so that nothing overflows.
var Softmax = softmaxOp("Softmax", "Y = exp(X) / Σ exp(X) along axis", kit.SoftmaxLine[float64]).But(ops.ZeroSignCleared)

// LogSoftmax is the logarithm of Softmax: https://onnx.ai/onnx/operators/onnx__LogSoftmax.html
var LogSoftmax = softmaxOp("LogSoftmax", "Y = X - ln Σ exp(X) along axis", kit.LogSoftmaxLine).But(ops.ZeroSignIgnored)

// Hardmax is 1 at the first maximum and 0 elsewhere:
// https://onnx.ai/onnx/operators/onnx__Hardmax.html
var Hardmax = softmaxOp("Hardmax", "Y = 1 at the first maximum along axis, else 0", hardmaxLine).But(ops.ZeroSignIgnored)

func softmaxOp(name, doc string, line func(w *kit.Watch, x []float64)) ops.Op {
	return ops.Op{
		Name: name, Since: 13, Doc: doc,
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.IntAttr("axis", 1).Before(13), ops.IntAttr("axis", -1).From(13)},
		Infer: kit.Rule(inferSoftmax), Eval: kit.Kernel(func(c *ops.Call) { evalLines(c, line) }),
		Facts:    ops.Facts{Traits: ops.GeneralTraits.But(ops.FailsNever, ops.ZeroSign(0)), InPlace: kit.InPlaceFirst, Cost: softmaxCost},
		Upgrades: []ops.Upgrade{{Below: 13, Source: kit.Changelog(name, 13), Apply: upgradeSoftmax}},
		Downgrades: []ops.Downgrade{{Below: 13, Form: softmaxForm, Apply: downgradeSoftmax},
			kit.PositiveAxes(0, softmaxForm)},
	}
}

func inferSoftmax(n *ssa.Node) []ops.Inferred {
	if t := ops.InType(n, 0); t.Ranked && len(t.Shape) > 0 { // a scalar is a line of one
		kit.Try(ops.NormAxis(ops.Int(n, "axis"), len(t.Shape)))
	}
	return kit.Try(ops.SameAs(n))
}

// softmaxCost counts five operations per element: maximum, difference,
// exponential, sum, quotient.
func softmaxCost(n *ssa.Node) ops.Cost {
	size, _ := n.In[0].Type.ByteSize()
	elems, _ := n.In[0].Type.NumElems().Const()
	return ops.Cost{FLOPs: 5 * elems, Bytes: int64(2 * size)}
}

// upgradeSoftmax: up to operator set 12 the operand was taken as a matrix,
// dimensions before axis (default 1) by dimensions from axis on, and normalized
// by rows:
//
//	[a b c d], axis 2   →   Flatten [a·b c·d]  →  Softmax axis 1  →  Reshape [a b c d]
//
// Where at most one dimension from axis on is not 1, that is the new axis.
func upgradeSoftmax(u *ops.Upgrader, n *ssa.Node) error {
	axis := ops.Int(n, "axis")
	x := ops.InType(n, 0)
	if x.Ranked {
		if k, ok, err := soleAxis(x.Shape, axis); ok || err != nil {
			n.SetAttr(ssa.IntAttr("axis", int64(k)))
			return err
		}
	}
	in := n.In[0]
	shape := u.Before(n, "Shape", []*ssa.Value{in}, 1)
	flat := u.Before(n, "Flatten", []*ssa.Value{in}, 1, ssa.IntAttr("axis", axis))
	rows := u.Before(n, n.Op, []*ssa.Value{flat.Out[0]}, 1, ssa.IntAttr("axis", 1))
	n.Op = "Reshape"
	n.DropAttr("axis")
	if mayBeEmpty(x) { // else a 0 in the shape would copy a dimension of the matrix
		n.SetAttr(ssa.IntAttr("allowzero", 1))
	}
	n.SetInputs([]*ssa.Value{rows.Out[0], shape.Out[0]})
	return nil
}

// softmaxForm is the oldest version that takes the element type, by rows of a matrix.
var softmaxForm = kit.FormBy(kit.From(1, kit.FloatTypes), kit.From(13, kit.AnyType))

// downgradeSoftmax takes the operand as a matrix: the dimensions behind the axis must be
// 1. What upgradeSoftmax made of one node becomes that node again.
func downgradeSoftmax(u *ops.Upgrader, n *ssa.Node) error {
	if flat, back := flattened(n); flat != nil {
		n.SetInput(0, flat.In[0])
		n.SetAttr(ssa.IntAttr("axis", ops.Int(flat, "axis")))
		n.Out[0].Type = back.Out[0].Type
		n.Out[0].Name, back.Out[0].Name = back.Out[0].Name, n.Out[0].Name
		shape := back.In[1].Def
		u.Graph.ReplaceUses(back.Out[0], n.Out[0])
		u.Sweep(back, flat, shape)
		return nil
	}
	axis, shape := ops.Int(n, "axis"), ops.InType(n, 0).Shape
	if axis == -1 {
		n.SetAttr(ssa.IntAttr("axis", -1))
		return nil
	}
	first, err := ops.NormAxis(axis, len(shape))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(shape[first+1:], func(d ssa.Dim) bool { return !d.Is(1) }) {
		return fmt.Errorf("normalizes dimension %d of %s, and older operator sets all dimensions from one on", first, ops.InType(n, 0))
	}
	return nil
}

// flattened finds Flatten(x), n, Reshape to Shape(x), where nothing else reads what is
// between them.
func flattened(n *ssa.Node) (flat, back *ssa.Node) {
	flat = n.In[0].Def
	if flat == nil || flat.Op != "Flatten" || flat.Domain != "" || len(n.Out[0].Uses()) != 1 || !slices.Contains([]int64{1, -1}, ops.Int(n, "axis")) {
		return nil, nil
	}
	back = n.Out[0].Uses()[0].Node
	if back.Op != "Reshape" || back.Domain != "" || back.In[0] != n.Out[0] {
		return nil, nil
	}
	shape := back.In[1].Def
	if shape == nil || shape.Op != "Shape" || shape.Domain != "" || shape.In[0] != flat.In[0] || len(shape.Attrs) > 0 {
		return nil, nil
	}
	return flat, back
}

// mayBeEmpty reports that a dimension is 0 or not known.
func mayBeEmpty(t ssa.Type) bool {
	return !t.Ranked || slices.ContainsFunc(t.Shape, func(d ssa.Dim) bool {
		k, ok := d.Const()
		return !ok || k == 0
	})
}

// soleAxis finds the one dimension from axis on that is not 1.
func soleAxis(shape []ssa.Dim, axis int64) (k int, ok bool, err error) {
	if axis == int64(len(shape)) || len(shape) == 0 { // rows of one element
		return 0, false, nil
	}
	first, err := ops.NormAxis(axis, len(shape))
	if err != nil {
		return 0, false, err
	}
	k = len(shape) - 1
	found := 0
	for i, d := range shape[first:] {
		if !d.Is(1) {
			k = first + i
			found++
		}
	}
	return k, found <= 1, nil
}

// evalLines applies f to every line along the axis.
func evalLines(c *ops.Call, f func(w *kit.Watch, line []float64)) {
	a := kit.Tensor(c, 0)
	if !a.DType.IsFloat() {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	shape := a.Shape
	if len(shape) == 0 {
		shape = []int{1}
	}
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), len(shape)))
	y := kit.NewResult[float64](c, 0, a.DType, a.Shape...)
	kit.CopySlice(c, y.V, kit.Elements[float64](c, a))
	kit.EachLine(c, y.V, shape, axis, f)
	y.Store()
}

func hardmaxLine(w *kit.Watch, x []float64) {
	best := -1
	for i, v := range x {
		w.Did(1)
		if best < 0 || rankFloat(v, x[best], 1) > 0 {
			best = i
		}
	}
	clear(x)
	if best >= 0 {
		x[best] = 1
	}
}
