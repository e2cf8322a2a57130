package cpu

import (
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Operators that order elements along an axis. Of equal elements the one that
// comes first wins.

var rankOps = []entry{
	{op: "ArgMax", prepare: prepareArg(true)},
	{op: "ArgMin", prepare: prepareArg(false)},
	{op: "TopK", prepare: prepareTopK},
	{op: "CumSum", prepare: prepareCumSum},
}

// byNumber makes a tiler for an element type among the common ones; nil for others.
func byNumber(dt ndarray.DType, f32, f64, i64, i32, i8, u8 func() tiler) tiler {
	switch dt {
	case ndarray.Float32:
		return f32()
	case ndarray.Float64:
		return f64()
	case ndarray.Int64:
		return i64()
	case ndarray.Int32:
		return i32()
	case ndarray.Int8:
		return i8()
	case ndarray.Uint8:
		return u8()
	}
	return nil
}

// lines is a tensor seen as lines along an axis.
type lines struct{ outer, size, inner int }

// argExtreme is the position of the largest or smallest element of every line; NaN
// wins. Lines that are interleaved are processed in strips, position after position, so
// that memory is read in order.
type argExtreme[T number] struct {
	lines
	largest, last bool
	strips, ws    int
	extreme       func(x []T, largest, last bool) (T, int) // of a piece of a line
}

const argStrip = 256

func prepareArg(largest bool) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		x := p.in[0]
		axis, _ := p.axis(len(x.shape)) // checked by inference
		outer, size, inner := around(x.shape, axis)
		l, last := lines{outer, size, inner}, ops.Int(p.node, "select_last_index") != 0
		strips, ws := ceilDiv(inner, argStrip), 0
		if inner > 1 {
			ws = p.perWorker(argStrip*8, outer*strips)
		}
		t := byNumber(x.dt,
			func() tiler { return &argExtreme[float32]{l, largest, last, strips, ws, vec.ExtremeF32} },
			func() tiler { return &argExtreme[float64]{l, largest, last, strips, ws, vec.Extreme[float64]} },
			func() tiler { return &argExtreme[int64]{l, largest, last, strips, ws, vec.Extreme[int64]} },
			func() tiler { return &argExtreme[int32]{l, largest, last, strips, ws, vec.Extreme[int32]} },
			func() tiler { return &argExtreme[int8]{l, largest, last, strips, ws, vec.Extreme[int8]} },
			func() tiler { return &argExtreme[uint8]{l, largest, last, strips, ws, vec.Extreme[uint8]} })
		if t == nil {
			return nil, nil
		}
		return smallTiles(outer*strips, size*min(inner, argStrip), p.threads, t), nil
	}
}

func (k *argExtreme[T]) tile(c *ops.Call, i, worker int) {
	x, out := elems[T](c.In[0]), elems[int64](c.Out[0])
	if k.inner == 1 {
		out[i] = int64(k.row(c, x[i*k.size:(i+1)*k.size]))
		return
	}
	first := i % k.strips * argStrip
	n := min(argStrip, k.inner-first)
	outer := i / k.strips
	at := out[outer*k.inner+first:][:n]
	best := scratchOf[T](c, k.ws+worker*argStrip*8, argStrip)[:n]
	base := outer*k.size*k.inner + first
	clear(at)
	copy(best, x[base:base+n])
	for r := 1; r < k.size; r++ {
		if r%(lookStep/argStrip) == 0 && c.Ended() {
			return
		}
		for j, v := range x[base+r*k.inner:][:n] {
			if vec.IsBetter(v, best[j], k.largest, k.last) {
				best[j], at[j] = v, int64(r)
			}
		}
	}
}

func (k *argExtreme[T]) row(c *ops.Call, x []T) int {
	best, at := x[0], 0
	for lo := 0; lo < len(x); lo += lookStep {
		if lo > 0 && c.Ended() {
			break
		}
		v, i := k.extreme(x[lo:min(lo+lookStep, len(x))], k.largest, k.last)
		if lo == 0 || vec.IsBetter(v, best, k.largest, k.last) {
			best, at = v, lo+i
		}
	}
	return at
}

// cumSum adds up along an axis. With inner lines, a whole row of them is added at
// a time.
type cumSum[T number] struct {
	lines
	exclusive, reverse bool
}

func prepareCumSum(p *prep) (ops.Kernel, error) {
	x := p.in[0]
	given, ok := p.ints(1)
	if !ok || len(given) != 1 || x.dt != p.out[0].dt {
		return nil, nil
	}
	axis, _ := ops.NormAxis(given[0], len(x.shape)) // checked by inference
	outer, size, inner := around(x.shape, axis)
	l, ex, rev := lines{outer, size, inner}, ops.Int(p.node, "exclusive") != 0, ops.Int(p.node, "reverse") != 0
	t := byNumber(x.dt,
		func() tiler { return &cumSum[float32]{l, ex, rev} },
		func() tiler { return &cumSum[float64]{l, ex, rev} },
		func() tiler { return &cumSum[int64]{l, ex, rev} },
		func() tiler { return &cumSum[int32]{l, ex, rev} },
		func() tiler { return &cumSum[int8]{l, ex, rev} },
		func() tiler { return &cumSum[uint8]{l, ex, rev} })
	if t == nil {
		return nil, nil
	}
	return smallTiles(outer, size*inner, math.MaxInt, t), nil
}

func (k *cumSum[T]) tile(c *ops.Call, i, _ int) {
	n := k.size * k.inner
	x, y := elems[T](c.In[0])[i*n:(i+1)*n], elems[T](c.Out[0])[i*n:(i+1)*n]
	if k.exclusive {
		k.shifted(c, x, y)
		return
	}
	at := func(r int) int {
		if k.reverse {
			r = k.size - 1 - r
		}
		return r * k.inner
	}
	copy(y[at(0):at(0)+k.inner], x[at(0):])
	left := lookStep
	for r := 1; r < k.size; r++ {
		if left -= k.inner; left < 0 {
			if left = lookStep; c.Ended() {
				return
			}
		}
		o, before := at(r), at(r-1)
		for j := range k.inner {
			y[o+j] = y[before+j] + x[o+j]
		}
	}
}

// shifted writes every sum one position later, and reads each element before it is
// overwritten.
func (k *cumSum[T]) shifted(c *ops.Call, x, y []T) {
	left := 0
	for j := range k.inner {
		var acc T
		o, by := j, k.inner
		if k.reverse {
			o, by = j+(k.size-1)*k.inner, -k.inner
		}
		for range k.size {
			if left--; left < 0 {
				if left = lookStep; c.Ended() {
					return
				}
			}
			v := x[o]
			y[o] = acc
			acc += v
			o += by
		}
	}
}
