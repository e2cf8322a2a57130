package ops

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// The element types of linear quantization.
var (
	byteInts       = typesOf(ndarray.Int8, ndarray.Uint8)
	quantInts      = byteInts | typesOf(ndarray.Int16, ndarray.Uint16, ndarray.Int4, ndarray.Uint4, ndarray.Int2, ndarray.Uint2)
	quantFloats    = float8Types | typesOf(ndarray.Float4E2M1, ndarray.Float6E2M3, ndarray.Float6E3M2)
	fullPrecisions = typesOf(ndarray.Float32, ndarray.Float16, ndarray.BFloat16)
)

// quantStore returns a function that stores v, which is x/scale, as element i:
// integers as saturate(round(v) + zero), ties to even, NaN as zero; float types
// as v + zero, rounded.
func quantStore(out *ndarray.Array, saturate bool) func(i int, v float32, zero float64) {
	dt := out.DType
	if dt.IsFloat() {
		return func(i int, v float32, zero float64) {
			out.Data[i] = ndarray.F32ToF8(dt, float32(float64(v)+zero), saturate)
		}
	}
	least, most := integerRange(dt)
	lo, hi := float64(least), float64(most)
	round := func(v float32, zero float64) float64 {
		if v != v {
			v = 0
		}
		return max(lo, min(hi, math.RoundToEven(float64(v))+zero))
	}
	switch dt.Size() {
	case 1:
		return func(i int, v float32, zero float64) { out.Data[i] = byte(int32(round(v, zero))) }
	default:
		s := ndarray.Slice[uint16](out)
		return func(i int, v float32, zero float64) { s[i] = uint16(int32(round(v, zero))) }
	}
}

// grain is the granularity of a quantization: which scale an element has.
//
//	per tensor   step 0, one scale
//	per axis     scale d of axis
//	blocked      scale (o, d/block, i) of [outer, axis, inner]
type grain struct {
	outer, dim, inner int
	block             int // 0 unless blocked
	blocks            int // size of axis in a blocked scale
	perAxis           bool
}

// grainOf derives the granularity from the shapes of an operand and its scale.
func grainOf(n *ssa.Node, x, scale []int) grain {
	block := Int(n, "block_size")
	if block < 0 || block > math.MaxInt32 {
		failf("block_size=%d", block)
	}
	if block == 0 && sizeOf(scale) == 1 && len(scale) <= 1 {
		return grain{outer: 1, dim: 1, inner: sizeOf(x)}
	}
	a := Int(n, "axis")
	if len(x) == 1 && block == 0 {
		a = 0
	}
	axis := try(NormAxis(a, len(x)))
	g := grain{block: int(block)}
	g.outer, g.dim, g.inner = splitDims(x, axis)
	if block == 0 {
		g.perAxis = true
		if len(scale) != 1 || scale[0] != g.dim {
			failf("a scale of shape %v does not fit axis %d of %v", scale, axis, x)
		}
		return g
	}
	g.blocks = (g.dim + g.block - 1) / g.block
	want := append([]int(nil), x...)
	want[axis] = g.blocks
	wantShape("the blocked scale", &ndarray.Array{Shape: scale}, want...)
	return g
}

// each calls f for every run of elements [at, at+n) whose scales start at s and
// advance by step.
func (g grain) each(f func(at, n, s, step int)) {
	for o := range g.outer {
		for d := range g.dim {
			at := (o*g.dim + d) * g.inner
			switch {
			case g.block > 0:
				f(at, g.inner, (o*g.blocks+d/g.block)*g.inner, 1)
			case g.perAxis:
				f(at, g.inner, d, 0)
			default:
				f(at, g.inner, 0, 0)
			}
		}
	}
}

// zeroPoints reads zero points as numbers; nil stands for none. They must be as
// many as the scales.
func zeroPoints(a *ndarray.Array, scales int) []float64 {
	if a == nil {
		return nil
	}
	wantLen("the zero point", a, scales)
	return elements[float64](a)
}

// centered32 returns a - zero as int32, zero broadcasting to a; nil is 0.
func centered32(what string, a, zero *ndarray.Array) []int32 {
	if !a.DType.IsInteger() {
		check(unsupportedType(a.DType))
	}
	out := slices.Clone(elements[int32](a))
	switch {
	case zero == nil:
		return out
	case zero.Len() == 1:
		zero = zero.Reshaped()
	}
	shape, err := BroadcastShapes(a.Shape, zero.Shape)
	if err != nil || sizeOf(shape) != len(out) {
		failf("the zero point of %s has shape %v, which does not broadcast to %v", what, zero.Shape, a.Shape)
	}
	z := elements[int32](zero)
	EachBroadcast(a.Shape, zero.Shape, nil, func(o, i, _ int) { out[o] -= z[i] })
	return out
}

// asColumn reads a vector with one element per row as [rows, 1]; other shapes stay.
func asColumn(a *ndarray.Array) *ndarray.Array {
	if a == nil || a.Rank() != 1 || a.Len() == 1 {
		return a
	}
	return a.Reshaped(a.Len(), 1)
}

// perChannel reads a vector with one element per output channel as [m,1,...] so
// that it broadcasts over weights of a rank.
func perChannel(a *ndarray.Array, rank int) *ndarray.Array {
	if a == nil || a.Rank() != 1 || a.Len() == 1 {
		return a
	}
	shape := make([]int, rank)
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = a.Len()
	return a.Reshaped(shape...)
}

// sameOrAbsent checks that a zero point has the element type of its tensor.
func sameOrAbsent(what string, a, zero *ndarray.Array) {
	if zero != nil && zero.DType != a.DType {
		failf("%s has element type %s, its zero point %s", what, a.DType, zero.DType)
	}
}

// quantConv binds an integer convolution of x, w and their zero points and
// returns both operands less their zero points.
func quantConv(c *Call, in [4]*ndarray.Array) (s convShape, x, w []int32) {
	for i, what := range []string{"x", "w"} {
		if !byteInts.has(in[i].DType) {
			check(unsupportedType(in[i].DType))
		}
		sameOrAbsent(what, in[i], in[2+i])
	}
	s = convShapeOf(c.Node, in[0].Shape, in[1].Shape)
	wantLen1("x_zero_point", in[2])
	x = centered32("x", in[0], in[2])
	w = centered32("w", in[1], perChannel(in[3], in[1].Rank()))
	return s, x, w
}

// dynamicRange returns scale and zero point of the range of x and 0, NaN left out.
func dynamicRange(x []float32) (scale float32, zero byte) {
	var lo, hi float32
	for _, v := range x {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	if lo == hi {
		return 1, 0
	}
	scale = (hi - lo) / 255
	return scale, byte(max(0, min(255, math.RoundToEven(float64(-lo/scale)))))
}

// quantizeBytes quantizes to uint8 with one scale; NaN becomes the zero point.
func quantizeBytes(y []byte, x []float32, scale float32, zero byte) {
	for i, v := range x {
		q := math.RoundToEven(float64(v / scale))
		if q != q {
			q = 0
		}
		y[i] = byte(max(0, min(255, q+float64(zero))))
	}
}

// integerProduct multiplies stacks of int8 or uint8 matrices less their zero points.
func integerProduct(p matMulPlan, a, b, za, zb *ndarray.Array) []int32 {
	if !byteInts.has(a.DType) || !byteInts.has(b.DType) {
		check(unsupportedType(a.DType))
	}
	sameOrAbsent("A", a, za)
	sameOrAbsent("B", b, zb)
	x := centered32("A", a, asColumn(za))
	y := centered32("B", b, zb)
	acc := make([]int32, sizeOf(p.shape))
	multiplyStacks(p, x, y, acc)
	return acc
}
