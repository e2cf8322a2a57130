package quant

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// quantInts are the integer types that tensors are quantized to.
var quantInts = kit.ByteInts | kit.TypesOf(ndarray.Int16, ndarray.Uint16, ndarray.Int4, ndarray.Uint4, ndarray.Int2, ndarray.Uint2)

// QuantFloats are the float types that tensors are quantized to.
var QuantFloats = kit.Float8Types | kit.TypesOf(ndarray.Float4E2M1, ndarray.Float6E2M3, ndarray.Float6E3M2)

// QuantStore returns a function that stores v, which is x/scale, as element i:
// integers as [Saturated] says, float types as v + zero, rounded.
func QuantStore(out *ndarray.Array, saturate bool) func(i int, v float32, zero float64) {
	dt := out.DType
	if dt.IsFloat() {
		return func(i int, v float32, zero float64) {
			out.Data[i] = ndarray.F32ToF8(dt, float32(float64(v)+zero), saturate)
		}
	}
	least, most := kit.IntegerRange(dt)
	lo, hi := float64(least), float64(most)
	if dt.Size() == 1 {
		return func(i int, v float32, zero float64) { out.Data[i] = byte(Saturated(v, zero, lo, hi)) }
	}
	s := ndarray.Slice[uint16](out)
	return func(i int, v float32, zero float64) { s[i] = uint16(Saturated(v, zero, lo, hi)) }
}

// Saturated quantizes v: round(v) + zero, ties to even, within lo and hi. NaN is lo, whatever the zero point, as in ONNX Runtime,
// and infinities are the ends.
func Saturated(v float32, zero, lo, hi float64) int32 {
	q := math.RoundToEven(float64(v)) + zero
	if q >= lo {
		return int32(min(q, hi))
	}
	return int32(lo)
}

// granularity says which scale an element has.
//
//	per tensor   step 0, one scale
//	per axis     scale d of axis
//	blocked      scale (o, d/block, i) of [outer, axis, inner]
type granularity struct {
	outer, dim, inner int
	block             int // 0 unless blocked
	blocks            int // size of axis in a blocked scale
	perAxis           bool
}

// granularityOf derives the granularity from the shapes of an operand and its scale.
func granularityOf(n *ssa.Node, x, scale []int) granularity {
	block := ops.Int(n, "block_size")
	if block == 0 && kit.SizeOf(scale) == 1 && len(scale) <= 1 {
		return granularity{outer: 1, dim: 1, inner: kit.SizeOf(x)}
	}
	a := ops.Int(n, "axis")
	if len(x) == 1 && block == 0 {
		a = 0
	}
	axis := kit.Try(ops.NormAxis(a, len(x)))
	g := granularity{block: int(block)}
	g.outer, g.dim, g.inner = kit.SplitDims(x, axis)
	if block == 0 {
		g.perAxis = true
		if len(scale) != 1 || scale[0] != g.dim {
			kit.Failf("a scale of shape %v does not fit axis %d of %v", scale, axis, x)
		}
		return g
	}
	g.blocks = (g.dim + g.block - 1) / g.block
	want := slices.Clone(x)
	want[axis] = g.blocks
	kit.WantShape("the blocked scale", &ndarray.Array{Shape: scale}, want...)
	return g
}

// each calls f for every run of elements [at, at+n) whose scales start at s and
// advance by step.
func (g granularity) each(f func(at, n, s, step int)) {
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
func zeroPoints(c *ops.Call, a *ndarray.Array, scales int) []float64 {
	if a == nil {
		return nil
	}
	kit.WantLen("the zero point", a, scales)
	return kit.Elements[float64](c, a)
}

// Centered32 returns a - zero as int32, zero broadcasting to a; nil is 0.
func Centered32(c *ops.Call, what string, a, zero *ndarray.Array) []int32 {
	if !a.DType.IsInteger() {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	out := kit.Copy(c, kit.Elements[int32](c, a))
	switch {
	case zero == nil:
		return out
	case zero.Len() == 1:
		zero = zero.Reshaped()
	}
	shape, err := ops.BroadcastShapes(a.Shape, zero.Shape)
	if err != nil || kit.SizeOf(shape) != len(out) {
		kit.Failf("the zero point of %s has shape %v, which does not broadcast to %v", what, zero.Shape, a.Shape)
	}
	z := kit.Elements[int32](c, zero)
	kit.EachBroadcast(c, a.Shape, zero.Shape, nil, func(o, i, _ int) { out[o] -= z[i] })
	return out
}

// AsColumn reads a vector with one element per row as [rows, 1]; other shapes stay.
func AsColumn(a *ndarray.Array) *ndarray.Array {
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
	shape := slices.Repeat([]int{1}, rank)
	shape[0] = a.Len()
	return a.Reshaped(shape...)
}

// sameOrAbsent checks that a zero point has the element type of its tensor.
func sameOrAbsent(what string, a, zero *ndarray.Array) {
	if zero != nil && zero.DType != a.DType {
		kit.Failf("%s has element type %s, its zero point %s", what, a.DType, zero.DType)
	}
}

// quantConv binds an integer convolution of x, w and their zero points and
// returns both operands less their zero points.
func quantConv(c *ops.Call, in [4]*ndarray.Array) (s nn.ConvShape, x, w []int32) {
	for i, what := range []string{"x", "w"} {
		if !kit.ByteInts.Has(in[i].DType) {
			kit.Check(kit.UnsupportedType(in[i].DType))
		}
		sameOrAbsent(what, in[i], in[2+i])
	}
	s = nn.ConvShapeOf(c.Node, in[0].Shape, in[1].Shape)
	kit.WantLen1("x_zero_point", in[2])
	x = Centered32(c, "x", in[0], in[2])
	w = Centered32(c, "w", in[1], perChannel(in[3], in[1].Rank()))
	return s, x, w
}

// DynamicRange returns scale and zero point of the range of x and 0, NaN left out. The scale of an infinite range is infinite; its zero
// point is 0, but 255 where it goes down to −∞, as in ONNX Runtime.
func DynamicRange(c *ops.Call, x []float32) (scale float32, zero byte) {
	var lo, hi float32
	w := kit.Watching(c)
	for _, v := range x {
		w.Did(1)
		if v == v {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if lo == hi {
		return 1, 0
	}
	scale = (hi - lo) / 255
	if zero := math.RoundToEven(float64(-lo / scale)); zero < 255 {
		return scale, byte(zero)
	}
	return scale, 255
}

// QuantizeBytes quantizes to uint8 with one scale.
func QuantizeBytes(c *ops.Call, y []byte, x []float32, scale float32, zero byte) {
	w := kit.Watching(c)
	for i, v := range x {
		w.Did(1)
		y[i] = byte(Saturated(v/scale, float64(zero), 0, 255))
	}
}

// IntegerProduct multiplies stacks of int8 or uint8 matrices less their zero points.
func IntegerProduct(c *ops.Call, p kit.MatMulPlan, a, b, za, zb *ndarray.Array) []int32 {
	if !kit.ByteInts.Has(a.DType) || !kit.ByteInts.Has(b.DType) {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	sameOrAbsent("A", a, za)
	sameOrAbsent("B", b, zb)
	x := Centered32(c, "A", a, AsColumn(za))
	y := Centered32(c, "B", b, zb)
	acc := kit.Make[int32](c, kit.SizeOf(p.Shape))
	kit.MultiplyStacks(c, p, x, y, acc)
	return acc
}
