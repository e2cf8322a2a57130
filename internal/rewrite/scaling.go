package rewrite

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Weights that factors of channels are folded into.
//
// The error that rounding gives a weight is the same for every pixel, so nothing averages it out on the way to the result, unlike
// those of sums. It is kept small in two ways.
//
// Weights are rounded once, however many factors are folded into them: [scaling] knows what the first one was folded into, and
// computes from that in float64.
//
// Weights over one input channel keep their sum. Images are smooth, so the errors of the taps meet nearly the same number and
// add up: to half a unit in the last place times √(n/3) with n taps of one size that are rounded each to the nearest. So some of
// them are rounded the other way, but none is off by a unit of the largest. That rounding to the nearest is not best where errors act together is shown in "Up or
// Down? Adaptive Rounding for Post-Training Quantization", https://arxiv.org/abs/2004.10568. With several input channels
// their errors are independent and matter less.

// scaling is how weights came about: those of a constant, times a factor for each channel of several sets.
type scaling struct {
	of    *ssa.Constant
	steps []scalingStep
}

type scalingStep struct {
	channels ops.Channels
	by       channels
}

// scaled multiplies every channel of a weight by its number. A splat times one number stays a splat. nil if something finite
// would overflow or lose digits ([keepsPrecision]). Rows of several taps, 0 for none, keep their sums.
func scaled(c *Context, k *ssa.Constant, w ops.Channels, s channels, taps int) (*ssa.Constant, scaling) {
	if e, ok := k.Splat(); ok && (len(s) == 1 || s.all(s[0])) {
		a := ndarray.Must(k.DType())
		if !scaleRows(a, e, 0, 1, s[:1]) {
			return nil, scaling{}
		}
		return ssa.NewSplat(a, k.Shape()...), scaling{}
	}
	if len(s) == 1 {
		w = ops.Channels{Groups: 1, Outer: 1, Per: 1, Inner: k.Len()}
	}
	from, ok := c.scalings[k]
	if !ok {
		from.of = k
	}
	from.steps = append(slices.Clip(from.steps), scalingStep{w, s})
	defer from.of.Release() // the scaled weights are read in their place
	defer k.Release()
	a := from.weights(c)
	if a == nil {
		return nil, scaling{}
	}
	if taps > 1 && a.DType == ndarray.Float32 {
		from.evenOut(c, a, taps)
	}
	return ssa.NewConstant(a), from
}

// weights computes them, each rounded to the nearest.
func (f scaling) weights(c *Context) *ndarray.Array {
	src, err := c.unaligned(f.of)
	if err != nil || len(src.Data) != src.Len()*src.DType.Size() {
		return nil
	}
	walk := factorWalk{f.steps, make([]channelWalk, len(f.steps))}
	run := 0
	for i, s := range f.steps {
		if src.Len() != s.channels.Groups*s.channels.Outer*s.channels.Per*s.channels.Inner {
			return nil
		}
		walk.at[i].Channels, run = s.channels, gcd(s.channels.Inner, run)
	}
	dst, err := c.array(src.DType, src.Shape...)
	if err != nil {
		return nil
	}
	_ = sysmem.Prefault(c.ctx, dst.Data)
	var factors [64]float64
	for p := 0; p < src.Len(); {
		n := min(len(factors), (src.Len()-p)/run)
		for i := range n {
			factors[i] = walk.next(run)
		}
		if !scaleRows(dst, src, p, run, factors[:n]) {
			return nil
		}
		p += n * run
	}
	return dst
}

// factorWalk goes through weights in their order and knows the factor of each.
type factorWalk struct {
	steps []scalingStep
	at    []channelWalk
}

// next is the factor of the next n elements, which all sets have in one channel.
func (w *factorWalk) next(n int) float64 {
	f := 1.0
	for i := range w.at {
		f *= w.steps[i].by[w.at[i].channel()]
		w.at[i].advance(n)
	}
	return f
}

// evenOut rounds weights again so that the sum of each row of n elements is that before rounding.
func (f scaling) evenOut(c *Context, dst *ndarray.Array, n int) {
	src, err := c.elements(f.of)
	if err != nil {
		return
	}
	walk := factorWalk{f.steps, make([]channelWalk, len(f.steps))}
	for i, s := range f.steps {
		walk.at[i].Channels = s.channels
	}
	row := makeRoundedRow(n)
	for w := ndarray.Slice[float32](dst); len(w) > 0; w = w[n:] {
		for i := range n {
			row.exact[i] = src.Float(dst.Len()-len(w)+i) * walk.next(1)
		}
		row.rounded = w[:n]
		row.evenOut()
	}
}

// roundedRow is numbers before and after rounding.
type roundedRow struct {
	exact   []float64
	rounded []float32

	off, up, down []float64 // the errors, and the distances from the next numbers
}

func makeRoundedRow(n int) roundedRow {
	return roundedRow{exact: make([]float64, n), off: make([]float64, n), up: make([]float64, n), down: make([]float64, n)}
}

// set rounds a number to x. Zeros stay.
func (r *roundedRow) set(i int, x float32) {
	r.rounded[i], r.off[i], r.up[i], r.down[i] = x, float64(x)-r.exact[i], 0, 0
	if x != 0 {
		b := math.Float32bits(x)
		away, near := float64(math.Float32frombits(b+1))-float64(x), float64(math.Float32frombits(b-1))-float64(x)
		r.up[i], r.down[i] = max(away, near), min(away, near)
	}
}

// evenOut moves numbers to a neighbour, one at a time, each time the one by which the square of the sum of the errors and the
// sum of their squares fall most together, until that is little.
func (r *roundedRow) evenOut() {
	const little = 1e-3 // of the square of the sum
	sum := 0.0
	for i, x := range r.rounded {
		r.set(i, x)
		sum += r.off[i]
	}
	for range r.exact {
		by := r.down
		if sum < 0 {
			by = r.up
		}
		// With s the sum, e the error and d the distance: s² + e² - (s+d)² - (e+d)² = -2d(s+e+d).
		best, most := -1, little/2*sum*sum
		for i, e := range r.off {
			if gain := -by[i] * (sum + e + by[i]); gain > most {
				best, most = i, gain
			}
		}
		if best < 0 {
			return
		}
		sum += by[best]
		r.set(best, float32(float64(r.rounded[best])+by[best]))
	}
}
