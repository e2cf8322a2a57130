package ops

import (
	"math"

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
		Attrs: []AttrSpec{{Name: "keepdims", Kind: ssa.AttrInt}, {Name: "noop_with_empty_axes", Kind: ssa.AttrInt}},
		Infer: rule(func(n *ssa.Node) []Inferred { return inferReduce(n, r.content) }),
		Eval:  kernel(func(c *Call) { evalReduce(c, r) }),
		Facts: Facts{Cost: reduceCost, Smaller: reducedSmaller},
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
	if len(axes) == 0 && n.Int("noop_with_empty_axes", 0) == 0 {
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
	keep := n.Int("keepdims", 1) != 0
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
	case axes == 0 && n.Int("noop_with_empty_axes", 0) != 0:
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

// reduceShapes returns the result's shape and its shape with reduced axes kept,
// and how many elements fall into each result element.
func reduceShapes(shape []int, mask []bool, keep bool) (out, kept []int, count int) {
	count = 1
	for i, d := range shape {
		switch {
		case !mask[i]:
			out, kept = append(out, d), append(kept, d)
			continue
		case keep:
			out = append(out, 1)
		}
		kept = append(kept, 1)
		count *= d
	}
	return out, kept, count
}

// reduceCall is a reduction's operands, checked.
type reduceCall struct {
	in, out *ndarray.Array
	kept    []int
	count   int
}

func prepareReduce(c *Call) (r reduceCall) {
	r.in = needTensor(c, 0)
	axes := optInts(c, 1)
	mask := try(reduceMask(c.Node, axes, len(r.in.Shape)))
	var shape []int
	shape, r.kept, r.count = reduceShapes(r.in.Shape, mask, c.Node.Int("keepdims", 1) != 0)
	r.out = try(c.Output(0, r.in.DType, shape...))
	return r
}

func evalReduce(c *Call, op reduction) {
	a := needTensor(c, 0)
	switch dt := a.DType; {
	case dt.IsFloat() && op.float.step != nil:
	case dt.IsSigned() && op.int != nil:
	case (dt.IsUnsigned() || dt == ndarray.Bool && op.bools) && op.uint != nil:
	default:
		check(unsupportedType(dt))
	}
	r := prepareReduce(c)
	switch dt := a.DType; {
	case dt.IsFloat():
		r.floats(op.float)
	case dt.IsSigned():
		f := op.int(dt)
		acc := runFold(r, f, r.in.Int)
		for i, v := range acc {
			r.out.SetInt(i, v)
		}
	default:
		f := op.uint(dt)
		acc := runFold(r, f, func(i int) uint64 { return uint64(r.in.Int(i)) })
		for i, v := range acc {
			r.out.SetInt(i, int64(v))
		}
	}
}

// floats runs a float reduction; float32 without a call per element to read it.
func (r reduceCall) floats(f fold[float64]) {
	var acc []float64
	if r.in.DType == ndarray.Float32 {
		acc = runFold32(r, f)
	} else {
		acc = runFold(r, f, floatReader(r.in))
	}
	write := floatWriter(r.out)
	for i, v := range acc {
		write(i, v)
	}
}

// runFold folds the whole input and finishes every accumulator.
func runFold[A any](r reduceCall, f fold[A], read func(i int) A) []A {
	acc := newAcc(r, f)
	w := newWalk(r.in.Shape, r.kept)
	w.each(func(first int, at []int) {
		o := at[0]
		for k := range w.run {
			acc[o] = f.step(acc[o], read(first+k))
			o += w.step[0]
		}
	})
	return finishFold(r, f, acc)
}

// runFold32 is runFold over float32 elements.
func runFold32(r reduceCall, f fold[float64]) []float64 {
	acc := newAcc(r, f)
	x := ndarray.Slice[float32](r.in)
	w := newWalk(r.in.Shape, r.kept)
	w.each(func(first int, at []int) {
		if w.step[0] != 0 {
			for k, v := range x[first : first+w.run] {
				acc[at[0]+k] = f.step(acc[at[0]+k], float64(v))
			}
			return
		}
		s := acc[at[0]]
		for _, v := range x[first : first+w.run] {
			s = f.step(s, float64(v))
		}
		acc[at[0]] = s
	})
	return finishFold(r, f, acc)
}

func newAcc[A any](r reduceCall, f fold[A]) []A {
	acc := make([]A, r.out.Len())
	for i := range acc {
		acc[i] = f.init
	}
	return acc
}

func finishFold[A any](r reduceCall, f fold[A], acc []A) []A {
	if f.done != nil {
		for i, v := range acc {
			acc[i] = f.done(v, r.count)
		}
	}
	return acc
}

// smallestInt is the low end of a signed type's range; the high end is -1 minus it.
func smallestInt(dt ndarray.DType) int64 {
	switch dt {
	case ndarray.Int2:
		return -2
	case ndarray.Int4:
		return -8
	case ndarray.Int8:
		return math.MinInt8
	case ndarray.Int16:
		return math.MinInt16
	case ndarray.Int32:
		return math.MinInt32
	}
	return math.MinInt64
}

// largestUint is the high end of an unsigned type's range (1, true, for bool).
func largestUint(dt ndarray.DType) uint64 {
	switch dt {
	case ndarray.Bool:
		return 1
	case ndarray.Uint2:
		return 3
	case ndarray.Uint4:
		return 15
	case ndarray.Uint8:
		return math.MaxUint8
	case ndarray.Uint16:
		return math.MaxUint16
	case ndarray.Uint32:
		return math.MaxUint32
	}
	return math.MaxUint64
}
