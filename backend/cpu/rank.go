package cpu

import (
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

// byNumber makes a kernel for the element type of operand 0 among the common ones;
// nil for others.
func byNumber(dt ndarray.DType, f32, f64, i64, i32, i8, u8 func() ops.Kernel) ops.Kernel {
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
// counts as such. Lines that lie side by side are worked on in strips, position
// after position, so that memory is read in order.
type argExtreme[T number] struct {
	lines
	largest, last bool
	strips        int
	ws, threads   int
}

const argStrip = 256

func prepareArg(largest bool) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		x := p.in[0]
		axis, ok := p.axis(len(x.shape))
		if !ok {
			return nil, nil
		}
		outer, size, inner := around(x.shape, axis)
		l, last := lines{outer, size, inner}, ops.Int(p.node, "select_last_index") != 0
		return byNumber(x.dt,
			func() ops.Kernel { return newArg[float32](p, l, largest, last) },
			func() ops.Kernel { return newArg[float64](p, l, largest, last) },
			func() ops.Kernel { return newArg[int64](p, l, largest, last) },
			func() ops.Kernel { return newArg[int32](p, l, largest, last) },
			func() ops.Kernel { return newArg[int8](p, l, largest, last) },
			func() ops.Kernel { return newArg[uint8](p, l, largest, last) }), nil
	}
}

func newArg[T number](p *prep, l lines, largest, last bool) ops.Kernel {
	k := &argExtreme[T]{lines: l, largest: largest, last: last, strips: ceilDiv(l.inner, argStrip), threads: p.threads}
	if l.inner > 1 {
		k.ws = p.workspace(p.threads * argStrip * 8)
	}
	return k
}

// Run goes through all lines.
func (k *argExtreme[T]) Run(c *ops.Call) error {
	if k.inner > 1 {
		runSmall(c, k.outer*k.strips, k.size*min(k.inner, argStrip), k.threads, k)
		return nil
	}
	runSmall(c, k.outer, k.size, c.Threads, k)
	return nil
}

func (k *argExtreme[T]) tile(c *ops.Call, i, worker int) {
	x, out := elems[T](c.In[0]), elems[int64](c.Out[0])
	if k.inner == 1 {
		out[i] = int64(k.row(x[i*k.size : (i+1)*k.size]))
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
		for j, v := range x[base+r*k.inner:][:n] {
			if k.better(v, best[j]) {
				best[j], at[j] = v, int64(r)
			}
		}
	}
}

func (k *argExtreme[T]) row(x []T) int {
	best, at := x[0], 0
	for i, v := range x[1:] {
		if k.better(v, best) {
			best, at = v, i+1
		}
	}
	return at
}

// better reports that v takes the place of best, which came before it.
func (k *argExtreme[T]) better(v, best T) bool {
	switch {
	case v != v:
		return best == best || k.last
	case best != best:
		return false
	case v == best:
		return k.last
	}
	return (v > best) == k.largest
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
	axis, err := ops.NormAxis(given[0], len(x.shape))
	if err != nil {
		return nil, nil
	}
	outer, size, inner := around(x.shape, axis)
	l, ex, rev := lines{outer, size, inner}, ops.Int(p.node, "exclusive") != 0, ops.Int(p.node, "reverse") != 0
	return byNumber(x.dt,
		func() ops.Kernel { return &cumSum[float32]{l, ex, rev} },
		func() ops.Kernel { return &cumSum[float64]{l, ex, rev} },
		func() ops.Kernel { return &cumSum[int64]{l, ex, rev} },
		func() ops.Kernel { return &cumSum[int32]{l, ex, rev} },
		func() ops.Kernel { return &cumSum[int8]{l, ex, rev} },
		func() ops.Kernel { return &cumSum[uint8]{l, ex, rev} }), nil
}

// Run adds up all lines.
func (k *cumSum[T]) Run(c *ops.Call) error {
	runSmall(c, k.outer, k.size*k.inner, c.Threads, k)
	return nil
}

func (k *cumSum[T]) tile(c *ops.Call, i, _ int) {
	n := k.size * k.inner
	x, y := elems[T](c.In[0])[i*n:(i+1)*n], elems[T](c.Out[0])[i*n:(i+1)*n]
	if k.exclusive {
		k.shifted(x, y)
		return
	}
	at := func(r int) int {
		if k.reverse {
			r = k.size - 1 - r
		}
		return r * k.inner
	}
	copy(y[at(0):at(0)+k.inner], x[at(0):])
	for r := 1; r < k.size; r++ {
		o, before := at(r), at(r-1)
		for j := range k.inner {
			y[o+j] = y[before+j] + x[o+j]
		}
	}
}

// shifted writes every sum one place later; in place it needs each element before
// its place is written.
func (k *cumSum[T]) shifted(x, y []T) {
	for j := range k.inner {
		var acc T
		o, by := j, k.inner
		if k.reverse {
			o, by = j+(k.size-1)*k.inner, -k.inner
		}
		for range k.size {
			v := x[o]
			y[o] = acc
			acc += v
			o += by
		}
	}
}
