package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Reductions walk over the input in memory order and fold every element into the
// accumulator of the result element it belongs to:
//
//	input [2 3 4], axes [1]     acc [2 1 4], strides [4 0 1]
//
//	in   0 1 2 3 | 4 5 6 7 | 8 9 …       acc   0 1 2 3
//	     └──┬──┘   └──┬──┘                     ↑ ↑ ↑ ↑
//	        └─────────┴── both fold into ──────┴─┴─┴─┘
//
// Floats accumulate in float64, signed integers in int64, unsigned in uint64;
// each result is rounded (or wrapped) to its type once, at the end.

// fold is a reduction over one accumulator type.
type fold[A any] struct {
	init A                        // the reduction of nothing
	step func(acc, x A) A         // takes in one element
	done func(acc A, count int) A // nil: the accumulator is the result
}

// reduction is a reduction on each arithmetic domain. Integer and boolean types
// without a fold of their own are not supported.
type reduction struct {
	float fold[float64]
	int   func(dt ndarray.DType) fold[int64]
	uint  func(dt ndarray.DType) fold[uint64]
	bools bool // booleans reduce as uint8

	// content folds known elements, nil if it can not.
	content func(acc, x ssa.Dim) ssa.Dim
}

// reduceOp fills in what the reductions have in common. axesInput is the version
// in which the axes became an operand.
func reduceOp(name string, since, axesInput int, doc string, r reduction, form func(*ssa.Node) int) Op {
	return Op{
		Name: name, Since: since, Form: form, Doc: doc,
		MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
		Attrs: []AttrSpec{intAttr("keepdims", 1), intAttr("noop_with_empty_axes", 0).since(axesInput),
			intsAttr("axes").until(axesInput)},
		Infer: rule(func(n *ssa.Node) []Inferred { return inferReduce(n, r.content) }),
		Eval:  kernel(func(c *Call) { evalReduce(c, r) }),
		Facts: Facts{Traits: general.but(ZeroSign(0)), Cost: reduceCost, Smaller: reducedSmaller},
		Upgrades: []Upgrade{{Below: axesInput, Source: changelog(name, axesInput), Apply: func(u *Upgrader, n *ssa.Node) error {
			u.AttrToInput(n, "axes", 1)
			return nil
		}}},
	}
}

// reduceMask tells which axes of a tensor of some rank are reduced: those given,
// none or all where none is given.
func reduceMask(n *ssa.Node, axes []int64, rank int) ([]bool, error) {
	mask := make([]bool, rank)
	if len(axes) == 0 && Int(n, "noop_with_empty_axes") == 0 {
		for i := range mask {
			mask[i] = true
		}
	}
	for _, a := range axes {
		k, err := NormAxis(a, rank)
		if err != nil {
			return nil, err
		}
		mask[k] = true
	}
	return mask, nil
}

func inferReduce(n *ssa.Node, content func(acc, x ssa.Dim) ssa.Dim) []Inferred {
	t := InType(n, 0)
	keep := Int(n, "keepdims") != 0
	if !t.Ranked {
		return One(ssa.UnrankedTensor(t.DType))
	}
	var axes []int64
	if n.Input(1) != nil {
		var ok bool
		if axes, ok = ConstInts(n, 1); !ok {
			return One(reduceUnknownAxes(n, t, keep))
		}
	}
	mask := try(reduceMask(n, axes, len(t.Shape)))
	out := ssa.TensorOf(t.DType)
	for i, d := range t.Shape {
		switch {
		case !mask[i]:
			out.Shape = append(out.Shape, d)
		case keep:
			out.Shape = append(out.Shape, ssa.D(1))
		}
	}
	return factOf(out, reduceContent(n, t, mask, content))
}

// reduceUnknownAxes is the result type when the axes come from a computation.
func reduceUnknownAxes(n *ssa.Node, t ssa.Type, keep bool) ssa.Type {
	switch axes := lenOf(n, 1); {
	case keep:
		return tensorOfRank(t.DType, len(t.Shape))
	case axes == 0 && Int(n, "noop_with_empty_axes") != 0:
		return t
	case axes == 0:
		return ssa.TensorOf(t.DType)
	case axes > 0 && axes <= len(t.Shape):
		return tensorOfRank(t.DType, len(t.Shape)-axes)
	}
	return ssa.UnrankedTensor(t.DType)
}

// reduceContent folds a known vector into one element.
func reduceContent(n *ssa.Node, t ssa.Type, mask []bool, f func(acc, x ssa.Dim) ssa.Dim) []ssa.Dim {
	x := known(n, 0)
	if f == nil || len(x) == 0 || len(mask) != 1 || !mask[0] || !followed(t.DType) {
		return nil
	}
	acc := x[0]
	for _, d := range x[1:] {
		acc = f(acc, d)
	}
	return []ssa.Dim{acc}
}

// reducedSmaller is the Smaller fact of reductions over known axes.
func reducedSmaller(n *ssa.Node) []Pair {
	axes, ok := ConstInts(n, 1)
	if n.Input(1) != nil && !ok {
		return nil
	}
	mask, err := reduceMask(n, axes, n.In[0].Type.Rank())
	if err != nil {
		return nil
	}
	return innerReduced(n, mask)
}

// reduceCost counts one operation per input element.
func reduceCost(n *ssa.Node) Cost {
	in, _ := n.In[0].Type.ByteSize()
	out, _ := n.Out[0].Type.ByteSize()
	elems, _ := n.In[0].Type.NumElems().Const()
	return Cost{FLOPs: elems, Bytes: int64(in + out)}
}

// reduceGeometry is the operand of a reduction with the shape of its result: as
// asked for, and with the reduced axes kept.
type reduceGeometry struct {
	in          *ndarray.Array
	shape, kept []int
}

func reduceGeometryOf(c *Call) (g reduceGeometry) {
	g.in = tensor(c, 0)
	mask := try(reduceMask(c.Node, optionalInts(c, 1), g.in.Rank()))
	g.shape, g.kept = reduceShapes(g.in.Shape, mask, Int(c.Node, "keepdims") != 0)
	return g
}

// reduceShapes returns the result's shape and its shape with reduced axes kept.
func reduceShapes(shape []int, mask []bool, keep bool) (out, kept []int) {
	for i, d := range shape {
		if mask[i] {
			d = 1
		}
		kept = append(kept, d)
		if !mask[i] || keep {
			out = append(out, d)
		}
	}
	return out, kept
}

func evalReduce(c *Call, op reduction) {
	switch dt := tensor(c, 0).DType; {
	case dt.IsFloat() && op.float.step != nil:
		runFold(c, op.float)
	case dt.IsSigned() && op.int != nil:
		runFold(c, op.int(dt))
	case (dt.IsUnsigned() || dt == ndarray.Bool && op.bools) && op.uint != nil:
		runFold(c, op.uint(dt))
	default:
		check(unsupportedType(dt))
	}
}

// runFold stores the reduction of operand 0 as result 0.
func runFold[A number](c *Call, f fold[A]) {
	g := reduceGeometryOf(c)
	y := newResult[A](c, 0, g.in.DType, g.shape...)
	foldInto(g, f, elements[A](g.in), y.V)
	y.store()
}

// foldInto folds every element of x into the accumulator it belongs to.
func foldInto[A any](g reduceGeometry, f fold[A], x, acc []A) {
	for i := range acc {
		acc[i] = f.init
	}
	EachBroadcast(g.in.Shape, g.kept, nil, func(i, o, _ int) { acc[o] = f.step(acc[o], x[i]) })
	if f.done != nil {
		for i, v := range acc {
			acc[i] = f.done(v, len(x)/len(acc))
		}
	}
}
