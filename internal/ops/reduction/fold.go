package reduction

import (
	"errors"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
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
	init A                        // the empty reduction
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

	// content folds known elements; nil if known elements tell nothing.
	content func(acc, x ssa.Dim) ssa.Dim
}

// reduceOp fills in what the reductions have in common. axesInput is the version
// in which the axes became an operand.
func reduceOp(name string, since, axesInput int, doc string, r reduction, form func(*ssa.Node) int) ops.Op {
	return ops.Op{
		Name: name, Since: since, Form: form, Doc: doc,
		MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.IntAttr("keepdims", 1), ops.IntAttr("noop_with_empty_axes", 0).From(axesInput),
			ops.IntsAttr("axes").Before(axesInput)},
		Infer:    kit.Rule(func(n *ssa.Node) []ops.Inferred { return inferReduce(n, r.content) }),
		Eval:     kit.Kernel(func(c *ops.Call) { evalReduce(c, r) }),
		Facts:    ops.Facts{Traits: ops.GeneralTraits.But(ops.ZeroSign(0)), Cost: kit.ReadCost, Smaller: reducedSmaller},
		Upgrades: []ops.Upgrade{kit.AttrToOperand(name, axesInput, "axes", 1)},
		Downgrades: []ops.Downgrade{{Below: axesInput, Form: reduceForm, Apply: downgradeReduce},
			kit.PositiveAxes(0, reduceForm)},
	}
}

// reduceForm is the oldest version that takes the element type, with axes as an attribute.
var reduceForm = kit.FormBy(kit.From(1, kit.FloatTypes|kit.WideTypes), kit.From(12, kit.ByteInts), kit.From(13, kit.BfloatType), kit.From(20, kit.AnyType))

// downgradeReduce makes an attribute of the axes.
func downgradeReduce(u *ops.Upgrader, n *ssa.Node) error {
	axes, _ := ops.ConstInts(n, 1)
	if ops.Int(n, "noop_with_empty_axes") != 0 && len(axes) == 0 {
		return errors.New("noop_with_empty_axes needs constant axes, and some")
	}
	n.DropAttr("noop_with_empty_axes")
	err := u.InputToAttr(n, 1, "axes")
	if len(axes) == 0 {
		n.DropAttr("axes")
	}
	return err
}

// reduceMask says which axes of a tensor of some rank are reduced: those given,
// none or all where none is given.
func reduceMask(n *ssa.Node, axes []int64, rank int) ([]bool, error) {
	mask := make([]bool, rank)
	if len(axes) == 0 && ops.Int(n, "noop_with_empty_axes") == 0 {
		for i := range mask {
			mask[i] = true
		}
	}
	for _, a := range axes {
		k, err := ops.NormAxis(a, rank)
		if err != nil {
			return nil, err
		}
		mask[k] = true
	}
	return mask, nil
}

func inferReduce(n *ssa.Node, content func(acc, x ssa.Dim) ssa.Dim) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		return ops.One(ssa.UnrankedTensor(t.DType))
	}
	keep := ops.Int(n, "keepdims") != 0
	var axes []int64
	if n.Input(1) != nil {
		var ok bool
		if axes, ok = ops.ConstInts(n, 1); !ok {
			return ops.One(reduceUnknownAxes(n, t, keep))
		}
	}
	mask := kit.Try(reduceMask(n, axes, len(t.Shape)))
	out := ssa.TensorOf(t.DType)
	out.Shape, _ = reduceShapes(t.Shape, mask, keep, ssa.D(1))
	return kit.FactOf(out, reduceContent(n, t, mask, content))
}

// reduceUnknownAxes is the result type when the axes come from a computation.
func reduceUnknownAxes(n *ssa.Node, t ssa.Type, keep bool) ssa.Type {
	switch axes := kit.LenOf(n, 1); {
	case keep:
		return kit.TensorOfRank(t.DType, len(t.Shape))
	case axes == 0 && ops.Int(n, "noop_with_empty_axes") != 0:
		return t
	case axes == 0:
		return ssa.TensorOf(t.DType)
	case axes > 0 && axes <= len(t.Shape):
		return kit.TensorOfRank(t.DType, len(t.Shape)-axes)
	}
	return ssa.UnrankedTensor(t.DType)
}

// reduceContent folds a known vector into one element.
func reduceContent(n *ssa.Node, t ssa.Type, mask []bool, f func(acc, x ssa.Dim) ssa.Dim) []ssa.Dim {
	x := kit.Known(n, 0)
	if f == nil || len(x) == 0 || len(mask) != 1 || !mask[0] || !kit.TracksContent(t.DType) {
		return nil
	}
	acc := x[0]
	for _, d := range x[1:] {
		acc = f(acc, d)
	}
	return []ssa.Dim{acc}
}

// reducedSmaller is the Smaller fact of reductions over known axes.
func reducedSmaller(n *ssa.Node) []ops.Pair {
	axes, ok := ops.ConstInts(n, 1)
	if n.Input(1) != nil && !ok {
		return nil
	}
	mask, err := reduceMask(n, axes, n.In[0].Type.Rank())
	if err != nil {
		return nil
	}
	return innerReduced(n, mask)
}

// innerReduced pairs the result of a reduction with its operand if the reduced
// axes are the innermost: then every result element belongs to one run of the
// operand, and lies before it or at its start.
//
//	operand  0 0 0 0 1 1 1 1 2 2 2 2
//	result   0 1 2
func innerReduced(n *ssa.Node, mask []bool) []ops.Pair {
	if !ops.Halves(n.Input(0), n.Output(0)) || n.In[0].Type.Rank() != len(mask) {
		return nil
	}
	kept := false // from the last axis to the first
	for i := len(mask) - 1; i >= 0; i-- {
		switch {
		case n.In[0].Type.Shape[i].Is(1):
		case !mask[i]:
			kept = true
		case kept:
			return nil
		}
	}
	return []ops.Pair{{In: 0, Out: 0}}
}

// reduceGeometry is the operand of a reduction with the shape of its result: as
// asked for, and with the reduced axes kept.
type reduceGeometry struct {
	in          *ndarray.Array
	shape, kept []int
}

func reduceGeometryOf(c *ops.Call) (g reduceGeometry) {
	g.in = kit.Tensor(c, 0)
	mask := kit.Try(reduceMask(c.Node, kit.OptionalInts(c, 1), g.in.Rank()))
	g.shape, g.kept = reduceShapes(g.in.Shape, mask, ops.Int(c.Node, "keepdims") != 0, 1)
	return g
}

// reduceShapes returns the result's shape and its shape with reduced axes kept.
func reduceShapes[T any](shape []T, mask []bool, keep bool, one T) (out, kept []T) {
	for i, d := range shape {
		if mask[i] {
			d = one
		}
		kept = append(kept, d)
		if !mask[i] || keep {
			out = append(out, d)
		}
	}
	return out, kept
}

func evalReduce(c *ops.Call, op reduction) {
	switch dt := kit.Tensor(c, 0).DType; {
	case dt.IsFloat() && op.float.step != nil:
		runFold(c, op.float)
	case dt.IsSigned() && op.int != nil:
		runFold(c, op.int(dt))
	case (dt.IsUnsigned() || dt == ndarray.Bool && op.bools) && op.uint != nil:
		runFold(c, op.uint(dt))
	default:
		kit.Check(kit.UnsupportedType(dt))
	}
}

// runFold stores the reduction of operand 0 as result 0.
func runFold[A kit.Number](c *ops.Call, f fold[A]) {
	g := reduceGeometryOf(c)
	y := kit.NewResult[A](c, 0, g.in.DType, g.shape...)
	foldInto(c, g, f, kit.Elements[A](c, g.in), y.V)
	y.Store()
}

// foldInto folds every element of x into the accumulator it belongs to.
func foldInto[A any](c *ops.Call, g reduceGeometry, f fold[A], x, acc []A) {
	w := kit.Watching(c)
	for i := range acc {
		w.Did(1)
		acc[i] = f.init
	}
	kit.EachBroadcast(c, g.in.Shape, g.kept, nil, func(i, o, _ int) { acc[o] = f.step(acc[o], x[i]) })
	if f.done != nil {
		for i, v := range acc {
			w.Did(1)
			acc[i] = f.done(v, len(x)/len(acc))
		}
	}
}
