package cpu

import (
	"math"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Quantization of float32 to 8 and 16 bits and back, per tensor or per axis, and sums of quantized tensors.

var quantOps = []entry{
	{op: "QuantizeLinear", prepare: prepareQuantize},
	{op: "DequantizeLinear", prepare: prepareDequantize},
	{op: "DynamicQuantizeLinear", prepare: prepareDynamicQuantize},
}

// rounder is 1.5·2²³: adding and subtracting it rounds a float32 below 2²² to the
// nearest integer, halves to even.
const rounder = float32(3 << 22)

// rounded is v rounded to an integer within ±limit; NaN gives −limit. The limit is
// beyond what any quantized type can hold together with its zero point.
func rounded(v float32) int32 {
	const limit = 1 << 20
	switch {
	case v > limit:
		return limit
	case !(v > -limit):
		return -limit
	}
	r := v + rounder
	return int32(r - rounder)
}

// quantizeWide is [vec.Quantize] to 16 bits.
func quantizeWide(dst []uint16, src []float32, signed bool, scale float32, zero int32) {
	shift := zero
	if signed {
		shift += 1 << 15
	}
	for i, x := range src {
		dst[i] = uint16(min(max(rounded(x/scale)+shift, 0), math.MaxUint16) + zero - shift)
	}
}

// granularity says which scale a row of elements has: one for all rows, or one for
// each index of an axis.
type granularity struct {
	dim, inner int // index of a row's scale is row mod dim
	cut            // over rows of inner elements
}

// granularity reads which scale rows have; ok is false for blocks.
func (p *prep) granularity() (g granularity, ok bool) {
	x, scale := p.in[0], p.in[1]
	if ops.Int(p.node, "block_size") != 0 || p.has(2) && p.in[2].n != scale.n {
		return g, false
	}
	if scale.n == 1 && len(scale.shape) <= 1 {
		g = granularity{dim: 1, inner: x.n}
		g.cut = newCut(1, x.n, TileElems)
		return g, true
	}
	a := ops.Int(p.node, "axis")
	if len(x.shape) == 1 {
		a = 0
	}
	axis, err := ops.NormAxis(a, len(x.shape))
	if err != nil || len(scale.shape) != 1 || scale.n != x.shape[axis] {
		return g, false
	}
	outer, dim, inner := around(x.shape, axis)
	g = granularity{dim: dim, inner: inner}
	g.cut = newCut(outer*dim, inner, TileElems)
	return g, true
}

// scaledRows is QuantizeLinear or DequantizeLinear.
type scaledRows struct {
	granularity
	zero bool
	row  func(dst, src *ndarray.Array, at, n int, scale float32, zero int32)
}

func (k *scaledRows) tile(c *ops.Call, i, _ int) {
	dst, src, scale := arrayOf(c.Out[0]), arrayOf(c.In[0]), f32(c.In[1])
	r0, r1, lo, hi := k.cut.tile(i)
	for r := r0; r < r1; r++ {
		zero := int32(0)
		if k.zero {
			zero = int32(arrayOf(c.In[2]).Int(r % k.dim))
		}
		k.row(dst, src, r*k.inner+lo, hi-lo, scale[r%k.dim], zero)
	}
}

// Choice says how it is computed.
func (k *scaledRows) Choice() backend.Choice {
	return backend.Choice{Algorithm: "vectors over rows of one scale"}
}

func prepareQuantize(p *prep) (ops.Kernel, error) {
	g, ok := p.granularity()
	x, out := p.in[0], p.out[0]
	if pr := ops.Int(p.node, "precision"); !ok || x.dt != ndarray.Float32 || p.in[1].dt != ndarray.Float32 ||
		pr != 0 && pr != int64(ndarray.Float32) || p.has(2) && p.in[2].dt != out.dt {
		return nil, nil
	}
	switch out.dt {
	case ndarray.Uint8, ndarray.Int8, ndarray.Uint16, ndarray.Int16:
		return allTiles(g.tiles, &scaledRows{g, p.has(2), quantizeElems}), nil
	}
	return nil, nil
}

// quantizeElems quantizes n elements from one on.
func quantizeElems(dst, src *ndarray.Array, at, n int, scale float32, zero int32) {
	x := ndarray.Slice[float32](src)[at:][:n]
	switch dst.DType {
	case ndarray.Uint8, ndarray.Int8:
		vec.Quantize(dst.Data[at:][:n], x, dst.DType == ndarray.Int8, scale, zero)
	case ndarray.Uint16:
		quantizeWide(ndarray.Slice[uint16](dst)[at:], x, false, scale, zero)
	default:
		y := ndarray.Slice[int16](dst)[at:][:n]
		quantizeWide(unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(y))), n), x, true, scale, zero)
	}
}

func prepareDequantize(p *prep) (ops.Kernel, error) {
	g, ok := p.granularity()
	x := p.in[0]
	if !ok || p.out[0].dt != ndarray.Float32 || p.in[1].dt != ndarray.Float32 || p.has(2) && p.in[2].dt != x.dt {
		return nil, nil
	}
	switch x.dt {
	case ndarray.Uint8, ndarray.Uint4, ndarray.Uint2, ndarray.Int8, ndarray.Int4, ndarray.Int2, ndarray.Uint16, ndarray.Int16, ndarray.Int32:
		return allTiles(g.tiles, &scaledRows{g, p.has(2), dequantizeElems}), nil
	}
	return nil, nil
}

// dequantizeElems is dst = (src − zero)·scale for n elements from one on.
func dequantizeElems(dst, src *ndarray.Array, at, n int, scale float32, zero int32) {
	y := ndarray.Slice[float32](dst)[at:][:n]
	if src.DType.Size() == 1 {
		vec.Dequantize(y, src.Data[at:][:n], src.DType.IsSigned(), scale, zero)
		return
	}
	switch src.DType {
	case ndarray.Uint16:
		dequantizeWide(y, ndarray.Slice[uint16](src)[at:], scale, zero)
	case ndarray.Int16:
		dequantizeWide(y, ndarray.Slice[int16](src)[at:], scale, zero)
	default:
		dequantizeWide(y, ndarray.Slice[int32](src)[at:], scale, zero)
	}
}

func dequantizeWide[T uint16 | int16 | int32](dst []float32, src []T, scale float32, zero int32) {
	for j := range dst {
		dst[j] = float32(int64(src[j])-int64(zero)) * scale
	}
}

// dynamicQuantize finds the range of its operand, then quantizes by it.
//
//	scale = (max(0, max x) − min(0, min x)) / 255      zero = round(−min / scale)
type dynamicQuantize struct {
	cut
	ranges int // workspace: smallest and largest element of every tile
}

func prepareDynamicQuantize(p *prep) (ops.Kernel, error) {
	if p.in[0].dt != ndarray.Float32 {
		return nil, nil
	}
	for i := range 3 {
		if !p.wants(i) {
			return nil, nil
		}
	}
	k := &dynamicQuantize{cut: newCut(1, p.in[0].n, TileElems)}
	k.ranges = p.workspace(8 * k.tiles)
	return k, nil
}

// Run finds the range, then quantizes.
func (k *dynamicQuantize) Run(c *ops.Call) error {
	runTiles(c, k.tiles, (*rangeTiles)(k))
	scale, zero := rangeScale(scratchOf[float32](c, k.ranges, 2*k.tiles))
	f32(c.Out[1])[0], arrayOf(c.Out[2]).Data[0] = scale, zero
	runTiles(c, k.tiles, k)
	return nil
}

// Choice says how it is computed.
func (k *dynamicQuantize) Choice() backend.Choice {
	return backend.Choice{Algorithm: "range, then quantization", Reason: "two passes by tiles"}
}

func (k *dynamicQuantize) tile(c *ops.Call, i, _ int) {
	_, _, lo, hi := k.cut.tile(i)
	vec.Quantize(arrayOf(c.Out[0]).Data[lo:hi], f32(c.In[0])[lo:hi], false, f32(c.Out[1])[0], int32(arrayOf(c.Out[2]).Data[0]))
}

// rangeTiles is the first pass of a dynamicQuantize.
type rangeTiles dynamicQuantize

func (k *rangeTiles) tile(c *ops.Call, i, _ int) {
	_, _, lo, hi := k.cut.tile(i)
	r := scratchOf[float32](c, k.ranges, 2*k.tiles)
	r[2*i], r[2*i+1] = rangeOf(f32(c.In[0])[lo:hi])
}

// rangeOf returns the smallest and the largest element and 0; NaN does not count.
func rangeOf(x []float32) (lo, hi float32) {
	lo, hi = vec.MinOf(x), vec.MaxOf(x)
	if lo == lo && hi == hi {
		return min(lo, 0), max(hi, 0)
	}
	lo, hi = 0, 0
	for _, v := range x {
		if v == v {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return lo, hi
}

// rangeScale makes scale and zero point of pairs of smallest and largest elements.
func rangeScale(pairs []float32) (scale float32, zero byte) {
	lo, hi := float32(0), float32(0)
	for i := 0; i < len(pairs); i += 2 {
		lo, hi = min(lo, pairs[i]), max(hi, pairs[i+1])
	}
	if lo == hi {
		return 1, 0
	}
	scale = (hi - lo) / 255
	if zero := math.RoundToEven(float64(-lo / scale)); zero < 255 {
		return scale, byte(zero)
	}
	return scale, 255 // for −∞ too, as in ONNX Runtime
}

// Arithmetic of quantized tensors in one pass over their bytes:
//
//	round((a − za)·sa/sy + (b − zb)·sb/sy + zy)  =  round(a·fa + b·fb + start)
//
// The factors are rounded once, so where a result lies within 2⁻¹³ of its step of the middle
// between two integers, it may be the other one. Scales that would make more of it, or that leave the range of float32, take the
// left side for each element.

var qLinearOps = []entry{
	{domain: microsoft, op: "QLinearAdd", prepare: prepareQLinearAdd},
}

// qLinearAdd is the sum of two tensors of one shape.
type qLinearAdd struct {
	signed bool
	zeros  [3]int // operand positions, -1 for none
}

func prepareQLinearAdd(p *prep) (ops.Kernel, error) {
	k := &qLinearAdd{}
	dt := p.in[0].dt
	for i, at := range []int{0, 3, 5} {
		scale, zero := at+1, at+2
		if !dt.IsByte() || i < 2 && (p.in[at].dt != dt || !slices.Equal(p.in[at].shape, p.out[0].shape)) ||
			p.in[scale].n != 1 || p.in[scale].dt != ndarray.Float32 || p.has(zero) && (p.in[zero].n != 1 || p.in[zero].dt != dt) {
			return nil, nil
		}
		k.zeros[i] = present(p, zero)
	}
	k.signed = dt == ndarray.Int8
	return elementwise(p.out[0].n, TileElems, k.add), nil
}

// add computes elements lo up to hi.
func (k *qLinearAdd) add(c *ops.Call, lo, hi int) {
	sa, sb, sy := float64(f32(c.In[1])[0]), float64(f32(c.In[4])[0]), float64(f32(c.In[6])[0])
	fa, fb := float32(sa/sy), float32(sb/sy)
	if most := max(math.Abs(sa), math.Abs(sb), 1/math.Abs(sy)); !(most <= 1e30 && max(math.Abs(sa), math.Abs(sb)) <= 512*math.Abs(sy)) {
		k.addEach(c, lo, hi)
		return
	}
	start := k.zero(c, 2) - k.zero(c, 0)*float64(fa) - k.zero(c, 1)*float64(fb)
	vec.AddQuantized(arrayOf(c.Out[0]).Data[lo:hi], arrayOf(c.In[0]).Data[lo:hi], arrayOf(c.In[3]).Data[lo:hi], k.signed, fa, fb, float32(start))
}

// addEach computes elements as the operator is defined.
func (k *qLinearAdd) addEach(c *ops.Call, lo, hi int) {
	sa, sb, sy := f32(c.In[1])[0], f32(c.In[4])[0], f32(c.In[6])[0]
	za, zb, zy := float32(k.zero(c, 0)), float32(k.zero(c, 1)), float32(k.zero(c, 2))
	least := int32(0)
	if k.signed {
		least = math.MinInt8
	}
	for i := lo; i < hi; i++ {
		x := float32((float32(byteOf(arrayOf(c.In[0]), i)) - za) * sa)
		y := float32((float32(byteOf(arrayOf(c.In[3]), i)) - zb) * sb)
		arrayOf(c.Out[0]).Data[i] = byte(min(max(rounded(float32(x+y)/sy+zy), least), least+math.MaxUint8))
	}
}

// zero is the zero point of an operand or the result.
func (k *qLinearAdd) zero(c *ops.Call, i int) float64 {
	if k.zeros[i] < 0 {
		return 0
	}
	return float64(byteOf(arrayOf(c.In[k.zeros[i]]), 0))
}
