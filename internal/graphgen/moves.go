package graphgen

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// reshape draws another static shape, or flattens around a symbol.
func reshape(b *builder, v *ssa.Value) {
	s, ok := v.Type.Static()
	switch {
	case b.chance(25) && v.Type.Rank() > 0:
		b.one("Flatten", []*ssa.Value{v}, ssa.IntAttr("axis", int64(b.rng.IntN(v.Type.Rank()+1))))
	case !ok:
		b.one("Reshape", []*ssa.Value{v, b.ints(-1)})
	default:
		target := factors(b, numElems(s))
		if len(target) > 0 && b.chance(30) {
			target[b.rng.IntN(len(target))] = -1
		}
		b.one("Reshape", []*ssa.Value{v, b.ints(target...)})
	}
}

// factors splits n into up to three dimensions, with ones in between now and then.
func factors(b *builder, n int) []int64 {
	var out []int64
	for range 2 {
		var ds []int
		for d := 1; d <= n; d++ {
			if n%d == 0 {
				ds = append(ds, d)
			}
		}
		d := ds[b.rng.IntN(len(ds))]
		out = append(out, int64(d))
		n /= d
	}
	out = append(out, int64(n))
	if b.chance(30) {
		out = slices.Insert(out, b.rng.IntN(3), 1)
	}
	return out
}

func transpose(b *builder, v *ssa.Value) {
	perm := make([]int64, v.Type.Rank())
	for i, p := range b.rng.Perm(len(perm)) {
		perm[i] = int64(p)
	}
	w := b.one("Transpose", []*ssa.Value{v}, ssa.IntsAttr("perm", perm...))
	if !b.chance(50) {
		return
	}
	if b.chance(50) {
		w = b.apply(w)
	}
	inverse := make([]int64, len(perm))
	for i, p := range perm {
		inverse[p] = int64(i)
	}
	b.one("Transpose", []*ssa.Value{w}, ssa.IntsAttr("perm", inverse...))
}

// concat joins values whose other dimensions agree.
func concat(b *builder, v *ssa.Value) {
	axis := b.rng.IntN(v.Type.Rank())
	fits := func(w *ssa.Value) bool {
		if !isTensor(w) || w.Type.DType != v.Type.DType || w.Type.Rank() != v.Type.Rank() {
			return false
		}
		for i, d := range w.Type.Shape {
			if i != axis && !d.Equal(v.Type.Shape[i]) {
				return false
			}
		}
		return true
	}
	in := []*ssa.Value{v}
	for range b.rng.IntN(3) {
		if w := b.pick(fits); w != nil {
			in = append(in, w)
		}
	}
	b.one("Concat", in, ssa.IntAttr("axis", int64(axis)-int64(b.rng.IntN(2)*v.Type.Rank())))
}

func split(b *builder, v *ssa.Value) {
	axis := ssa.IntAttr("axis", -1)
	if k := lastDim(v); b.chance(50) {
		b.node("Split", []*ssa.Value{v, b.ints(1, int64(k-1))}, 2, axis)
	} else {
		b.node("Split", []*ssa.Value{v}, 2, axis, ssa.IntAttr("num_outputs", 2))
	}
}

// slice cuts one axis, backwards now and then.
func slice(b *builder, v *ssa.Value) {
	k := int64(lastDim(v))
	lo := b.rng.Int64N(k)
	hi := lo + 1 + b.rng.Int64N(k-lo)
	switch b.rng.IntN(4) {
	case 0:
		lo, hi = 0, math.MaxInt64
	case 1:
		b.one("Slice", []*ssa.Value{v, b.ints(-1), b.ints(math.MinInt64 + 1), b.ints(-1), b.ints(-1)})
		return
	}
	b.one("Slice", []*ssa.Value{v, b.ints(lo), b.ints(hi), b.ints(-1)})
}

func gather(b *builder, v *ssa.Value) {
	if b.chance(40) {
		gatherRow(b, v)
		return
	}
	k := int64(lastDim(v))
	idx := b.constant(ssa.ScalarConst(b.rng.Int64N(k)))
	if b.chance(50) {
		idx = b.ints(b.rng.Int64N(k), -1-b.rng.Int64N(k))
	}
	b.one("Gather", []*ssa.Value{v, idx}, ssa.IntAttr("axis", -1))
}

// gatherRow picks one slice along the first axis by an index that is known only
// while running: an integer of the graph, such as the number of an iteration, modulo
// the dimension.
func gatherRow(b *builder, v *ssa.Value) {
	k, ok := v.Type.Shape[0].Const()
	at := b.pick(func(v *ssa.Value) bool {
		return isTensor(v) && v.Type.DType == ndarray.Int64 && v.Type.Ranked && v.Type.NumElems().Is(1)
	})
	if !ok || k < 1 || at == nil {
		return
	}
	idx := b.one("Mod", []*ssa.Value{at, b.constant(ssa.ScalarConst(k))})
	if b.chance(25) {
		idx = b.one("Sub", []*ssa.Value{idx, b.constant(ssa.ScalarConst(k))}) // counts from the back
	}
	b.one("Gather", []*ssa.Value{v, idx}, ssa.IntAttr("axis", 0))
}

func pad(b *builder, v *ssa.Value) {
	pads := make([]int64, 2*v.Type.Rank())
	for i := range pads {
		pads[i] = int64(b.rng.IntN(2))
	}
	b.one("Pad", []*ssa.Value{v, b.ints(pads...)})
}

func unsqueeze(b *builder, v *ssa.Value) {
	axes := b.ints(int64(b.rng.IntN(v.Type.Rank() + 1)))
	w := b.one("Unsqueeze", []*ssa.Value{v, axes})
	if b.chance(40) {
		b.one("Squeeze", []*ssa.Value{b.apply(w), axes})
	}
}

// dimOf reads one dimension of v at run time, as a vector of length 1.
func (b *builder) dimOf(v *ssa.Value, axis int) *ssa.Value {
	s := b.one("Shape", []*ssa.Value{v})
	if b.chance(50) {
		return b.one("Slice", []*ssa.Value{s, b.ints(int64(axis)), b.ints(int64(axis) + 1)})
	}
	d := b.one("Gather", []*ssa.Value{s, b.constant(ssa.ScalarConst(int64(axis)))}, ssa.IntAttr("axis", 0))
	return b.one("Unsqueeze", []*ssa.Value{d, b.ints(0)})
}

// shapeChain computes the target of a Reshape from the value's own shape.
func shapeChain(b *builder, v *ssa.Value) {
	first := b.dimOf(v, 0)
	rest := b.ints(-1)
	if b.chance(50) {
		rest = b.dimOf(v, 1)
		for i := 2; i < v.Type.Rank(); i++ {
			rest = b.one("Mul", []*ssa.Value{rest, b.dimOf(v, i)})
		}
	}
	in := []*ssa.Value{first, rest}
	if b.chance(30) {
		in = []*ssa.Value{first, b.ints(1), rest}
	}
	b.one("Reshape", []*ssa.Value{v, b.one("Concat", in, ssa.IntAttr("axis", 0))})
}

// expandLike makes a number as large as a value: by Expand or ConstantOfShape.
func expandLike(b *builder, v *ssa.Value) {
	s := b.one("Shape", []*ssa.Value{v})
	if b.chance(40) {
		a := ndarray.Must(v.Type.DType, 1)
		a.SetFloat(0, float64(b.rng.IntN(3)))
		w := b.one("ConstantOfShape", []*ssa.Value{s}, ssa.TensorAttr("value", ssa.NewConstant(a)))
		b.one("Add", []*ssa.Value{v, w})
		return
	}
	b.one("Expand", []*ssa.Value{b.scalar(v.Type.DType), s})
	b.one("Expand", []*ssa.Value{v, s})
}

// sliceToEnd drops the first element of an axis, its end computed.
func sliceToEnd(b *builder, v *ssa.Value) {
	axis := b.rng.IntN(v.Type.Rank())
	b.one("Slice", []*ssa.Value{v, b.ints(0), b.dimOf(v, axis), b.ints(int64(axis))})
}
