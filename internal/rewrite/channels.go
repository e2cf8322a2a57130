package rewrite

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// channels is one number per channel: a slice of length 1 (the same for all) or
// of the number of channels.
type channels []float64

func (c channels) at(i int) float64 {
	if len(c) == 1 {
		return c[0]
	}
	return c[i]
}

// all reports that every channel has the number v.
func (c channels) all(v float64) bool {
	return !slices.ContainsFunc(c, func(x float64) bool { return x != v })
}

func (c channels) finite() bool {
	return !slices.ContainsFunc(c, func(x float64) bool { return !isFinite(x) })
}

// roundingShift is an addend that models add to round: x + 1.5·2²³ is x rounded to an integer in float32, and subtracting that
// again shows it. As a bias it would round every partial sum instead, and together with what is subtracted none at all.
// Real biases are smaller; merging these moves results by no more than half a unit in the last place of 2¹², 2.4e-4.
const roundingShift = 1 << 12

// round reports that adding the channels rounds what they are added to.
func (c channels) round() bool {
	return slices.ContainsFunc(c, func(x float64) bool { return math.Abs(x) >= roundingShift })
}

// zip applies f channel by channel.
func (c channels) zip(d channels, f func(a, b float64) float64) channels {
	out := make(channels, max(len(c), len(d)))
	for i := range out {
		out[i] = f(c.at(i), d.at(i))
	}
	return out
}

// vector reads a constant of rank 0 or 1 as channels; ok is false for other
// lengths than count (1 broadcasts).
func vector(v *ssa.Value, count int) (channels, bool) {
	if v == nil || v.Const == nil || len(v.Const.Shape()) > 1 {
		return nil, false
	}
	return readChannels(v.Const, count)
}

// perChannel reads a constant that broadcasts against a tensor of the given rank
// along one axis only: every dimension is 1 but that of the axis, which may be
// count.
func perChannel(k *ssa.Constant, rank, axis, count int) (channels, bool) {
	shape := k.Shape()
	if len(shape) > rank {
		return nil, false
	}
	for i, d := range shape {
		if d != 1 && (i+rank-len(shape) != axis || d != count) {
			return nil, false
		}
	}
	return readChannels(k, count)
}

func readChannels(k *ssa.Constant, count int) (channels, bool) {
	n := k.Len()
	if n != 1 && n != count || n == 0 || !k.DType().IsFloat() {
		return nil, false
	}
	if e, ok := k.Splat(); ok {
		return channels{e.Float(0)}, true
	}
	a, err := k.Array()
	if err != nil {
		return nil, false
	}
	out := make(channels, n)
	for i := range out {
		out[i] = a.Float(i)
	}
	return out, true
}

// channelWalk goes through the elements of a weight in their order and knows the channel of each.
type channelWalk struct {
	ops.Channels
	inner, per, outer, base int
}

func (w *channelWalk) channel() int { return w.base + w.per }

// advance goes n elements on, which must not lead past the end of a row of Inner elements.
func (w *channelWalk) advance(n int) {
	if w.inner += n; w.inner >= w.Inner {
		w.nextRow()
	}
}

func (w *channelWalk) nextRow() {
	w.inner = 0
	if w.per++; w.per < w.Per {
		return
	}
	w.per = 0
	if w.outer++; w.outer == w.Outer {
		w.outer = 0
		w.base += w.Per
	}
}

// offsets adds up, for every output channel, the weights times the offsets t of the
// input channels: W·t. Elements are added by runs of one channel on either side.
func offsets(l *ops.Linear, w *ndarray.Array, t channels) channels {
	out := make(channels, l.Out.Count())
	to, from := channelWalk{Channels: l.Out}, channelWalk{Channels: l.In}
	t = slices.Repeat(t, l.In.Count()/len(t))
	run := gcd(l.Out.Inner, l.In.Inner)
	if rows := l.In.Per * l.In.Inner; w.DType == ndarray.Float32 && l.Out.Inner == rows {
		floats := ndarray.Slice[float32](w)
		for p := 0; p < len(floats); p += rows { // an output channel of all input channels of a group
			out[to.channel()] += weighted(floats[p:][:rows], t[from.base:][:l.In.Per], l.In.Inner)
			to.advance(rows)
			from.per = l.In.Per - 1
			from.nextRow()
		}
		return out
	}
	for p, end := 0, w.Len(); p < end; p += run {
		at, by := to.channel(), t[from.channel()]
		for i := range run {
			out[at] += w.Float(p+i) * by
		}
		to.advance(run)
		from.advance(run)
	}
	return out
}

// weighted is the sum of a row, n elements of it times each number: in four parts, where each element has a number of its own.
func weighted(row []float32, by channels, n int) (sum float64) {
	var part [4]float64
	for n == 1 && len(by) >= len(part) {
		for i, f := range by[:len(part)] {
			part[i] += float64(row[i]) * f
		}
		row, by = row[len(part):], by[len(part):]
	}
	for _, f := range by {
		for _, x := range row[:n] {
			sum += float64(x) * f
		}
		row = row[n:]
	}
	return sum + (part[0] + part[1]) + (part[2] + part[3])
}

// gcd is the greatest common divisor of two positive numbers.
func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// scaleRows multiplies rows of n elements from position p on, each by its factor; false if a
// finite element overflows or loses digits. Elements of float32 are read at any address.
func scaleRows(dst, src *ndarray.Array, p, n int, factors channels) bool {
	if src.DType == ndarray.Float32 {
		var piece [256]float32
		d, s := ndarray.Slice[float32](dst)[p:], src.Data[4*p:]
		for _, f := range factors {
			for left := n; left > 0; {
				part := piece[:min(left, len(piece))]
				copy(ndarray.Bytes(part), s)
				if !scaleFloats(d[:len(part)], part, f) {
					return false
				}
				d, s, left = d[len(part):], s[4*len(part):], left-len(part)
			}
		}
		return true
	}
	for i := range n * len(factors) {
		x, f := src.Float(p+i), factors[i/n]
		dst.SetFloat(p+i, x*f)
		if !scalesWell(src.DType, x, x*f, dst.Float(p+i)) {
			return false
		}
	}
	return true
}

// scaleFloats multiplies a row by a factor; false if a finite element overflows or loses digits. Elements are looked at one
// by one only where one of the row is zero, subnormal, infinite or NaN.
func scaleFloats(d, s []float32, f float64) bool {
	const exponent = 0xff << 23
	d = d[:len(s)]
	var odd uint32 // its upper bit is set by exponents of 0 and of 255
	for i, x := range s {
		y := float32(float64(x) * f)
		d[i] = y
		e := math.Float32bits(y) & exponent
		odd |= (e - 1<<23) | (e + 1<<23)
	}
	if odd>>31 == 0 {
		return true
	}
	for i, x := range s {
		if y := float64(d[i]); (x != 0 || y != 0) && !(math.Abs(y) >= 0x1p-126 && math.Abs(y) <= math.MaxFloat32) && !scalesWell(ndarray.Float32, float64(x), float64(x)*f, y) {
			return false
		}
	}
	return true
}

// scalesWell reports that y, which is exact rounded, may be stored for the scaled weight x.
func scalesWell(dt ndarray.DType, x, exact, y float64) bool {
	return !isFinite(x) || math.Abs(x) < formats[dt].nothing && isFinite(y) || keepsPrecision(dt, exact, y)
}

// constant makes a rank-1 constant of count elements, a splat if they are equal
// and many. nil if a number does not fit the element type.
func (c channels) constant(dt ndarray.DType, count int) *ssa.Constant {
	a, err := ndarray.New(dt, count)
	if err != nil {
		return nil
	}
	for i := range count {
		a.SetFloat(i, c.at(i))
		if y := a.Float(i); y-y != 0 {
			return nil
		}
	}
	return packed(a)
}

// floatScalar is an array of rank 0 of a float type.
func floatScalar(dt ndarray.DType, v float64) *ndarray.Array {
	a := ndarray.Must(dt)
	a.SetFloat(0, v)
	return a
}

// float32s is a rank-1 float32 constant.
func float32s(v ...float32) *ssa.Constant {
	return ssa.NewConstant(ndarray.Of(slices.Clone(v), len(v)))
}
