package reduction

import (
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

func softmaxOp(name, doc string, line func(x []float64)) ops.Op {
	return ops.Op{
		Name: name, Since: 13, Doc: doc,
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
		Attrs: []ops.AttrSpec{ops.IntAttr("axis", 1).Before(13), ops.IntAttr("axis", -1).From(13)},
		Infer: kit.Rule(inferSoftmax), Eval: kit.Kernel(func(c *ops.Call) { evalLines(c, line) }),
		Facts:    ops.Facts{Traits: ops.GeneralTraits.But(ops.FailsNever, ops.ZeroSign(0)), InPlace: kit.InPlaceFirst, Cost: softmaxCost},
		Upgrades: []ops.Upgrade{{Below: 13, Source: kit.Changelog(name, 13), Apply: upgradeSoftmax}},
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
func evalLines(c *ops.Call, f func(line []float64)) {
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
	copy(y.V, kit.Elements[float64](c, a))
	kit.EachLine(y.V, shape, axis, f)
	y.Store()
}

func hardmaxLine(x []float64) {
	best := -1
	for i, v := range x {
		if best < 0 || rankFloat(v, x[best], 1) > 0 {
			best = i
		}
	}
	clear(x)
	if best >= 0 {
		x[best] = 1
	}
}
