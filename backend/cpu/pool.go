package cpu

import (
	"math"

	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Pooling: float32 images through package kern; volumes, other types and maxima
// whose positions are wanted window by window.

var poolOps = []entry{
	{op: "MaxPool", prepare: prepareMaxPool},
	{op: "AveragePool", prepare: prepareAveragePool},
	{op: "GlobalAveragePool", prepare: globalPool(kern.ReduceMean)},
	{op: "GlobalMaxPool", prepare: globalPool(kern.ReduceMax)},
}

// poolWindow reads the window of a pooling operator.
func (p *prep) poolWindow() (window, bool) {
	x, out := p.in[0], p.out[0]
	if !out.present || len(x.shape) < 3 || len(out.shape) != len(x.shape) {
		return window{}, false
	}
	kernel, ok := p.list("kernel_shape", len(x.shape)-2, 0)
	if !ok {
		return window{}, false
	}
	return p.windowOf(kernel, x.shape[2:], out.shape[2:])
}

// pool is a pooling of package kern.
type pool struct {
	p           *kern.Pool
	ws, threads int
}

// newPool is the fast kernel for images, nil where it does not fit.
func (p *prep) newPool(kind kern.PoolKind, w window) (ops.Kernel, error) {
	if w.rank > 2 || !p.allF32() {
		return nil, nil
	}
	pair := func(v [3]int) [2]int { return [2]int{v[1], v[2]} }
	k, err := kern.NewPool(kern.PoolSpec{
		Kind: kind, Batch: p.in[0].shape[0], Channels: p.in[0].shape[1],
		In: pair(w.in), Kernel: pair(w.kernel), Stride: pair(w.stride), Dilation: pair(w.dilation),
		PadBegin: pair(w.begin), PadEnd: pair(w.end), Ceil: w.ceil,
	})
	if err != nil {
		return nil, err
	}
	if k.Out() != pair(w.out) {
		return nil, nil
	}
	return &pool{k, p.workspace(k.Workspace(p.threads)), p.threads}, nil
}

// Run pools.
func (k *pool) Run(c *ops.Call) error {
	return k.p.Run(f32(c.In[0]), f32(c.Out[0]), c.Scratch[k.ws:], min(k.threads, c.Threads))
}

func prepareMaxPool(p *prep) (ops.Kernel, error) {
	w, ok := p.poolWindow()
	order := ops.Int(p.node, "storage_order")
	if !ok || p.wants(1) && order != 0 {
		return nil, nil
	}
	if !p.wants(1) {
		if k, err := p.newPool(kern.PoolMax, w); k != nil || err != nil {
			return k, err
		}
	}
	planes := p.in[0].shape[0] * p.in[0].shape[1]
	switch p.in[0].dt {
	case ndarray.Float32:
		return &maxPool[float32]{w, planes, float32(math.Inf(-1)), p.wants(1)}, nil
	case ndarray.Float64:
		return &maxPool[float64]{w, planes, math.Inf(-1), p.wants(1)}, nil
	case ndarray.Int8:
		return &maxPool[int8]{w, planes, math.MinInt8, p.wants(1)}, nil
	case ndarray.Uint8:
		return &maxPool[uint8]{w, planes, 0, p.wants(1)}, nil
	}
	return nil, nil
}

// maxPool takes the maximum of every window, and where it is. A window wholly in
// the padding gives least and position -1; NaN wins.
type maxPool[T float32 | float64 | int8 | uint8] struct {
	w       window
	planes  int
	least   T
	indices bool
}

// Run pools all planes.
func (k *maxPool[T]) Run(c *ops.Call) error {
	runSmall(c, k.planes, sizeOf(k.w.out[:])*sizeOf(k.w.kernel[:]), c.Threads, k)
	return nil
}

func (k *maxPool[T]) tile(c *ops.Call, plane, _ int) {
	w := &k.w
	in, out := sizeOf(w.in[:]), sizeOf(w.out[:])
	x, y := elems[T](c.In[0])[plane*in:][:in], elems[T](c.Out[0])[plane*out:][:out]
	var at []int64
	if k.indices {
		at = elems[int64](c.Out[1])[plane*out:][:out]
	}
	o := 0
	for z := range w.out[0] {
		for v := range w.out[1] {
			for u := range w.out[2] {
				best, where := k.window(x, z, v, u)
				y[o] = best
				if at != nil {
					at[o] = -1
					if where >= 0 {
						at[o] = int64(plane*in + where)
					}
				}
				o++
			}
		}
	}
}

// taps returns the taps lo..hi of output position o along d that lie in the input,
// and the input position of tap 0.
func (w *window) taps(d, o int) (first, lo, hi int) {
	first = o*w.stride[d] - w.begin[d]
	if first < 0 {
		lo = ceilDiv(-first, w.dilation[d])
	}
	if last := w.in[d] - 1 - first; last >= 0 {
		hi = min(last/w.dilation[d]+1, w.kernel[d])
	}
	return first, lo, hi
}

func (k *maxPool[T]) window(x []T, z, v, u int) (best T, where int) {
	w := &k.w
	z0, za, zb := w.taps(0, z)
	v0, va, vb := w.taps(1, v)
	u0, ua, ub := w.taps(2, u)
	best, where = k.least, -1
	for a := za; a < zb; a++ {
		for b := va; b < vb; b++ {
			row := ((z0+a*w.dilation[0])*w.in[1] + v0 + b*w.dilation[1]) * w.in[2]
			for e := ua; e < ub; e++ {
				i := row + u0 + e*w.dilation[2]
				if t := x[i]; t > best || where < 0 || t != t && best == best {
					best, where = t, i
				}
			}
		}
	}
	return best, where
}

func prepareAveragePool(p *prep) (ops.Kernel, error) {
	w, ok := p.poolWindow()
	if !ok {
		return nil, nil
	}
	padded := ops.Int(p.node, "count_include_pad") != 0
	kind := kern.PoolAverage
	if padded {
		kind = kern.PoolAveragePad
	}
	if k, err := p.newPool(kind, w); k != nil || err != nil {
		return k, err
	}
	planes := p.in[0].shape[0] * p.in[0].shape[1]
	switch p.in[0].dt {
	case ndarray.Float32:
		return &averagePool[float32]{w, planes, padded}, nil
	case ndarray.Float64:
		return &averagePool[float64]{w, planes, padded}, nil
	}
	return nil, nil
}

// averagePool takes the mean of every window over what lies in the input, or in the
// input and its padding.
type averagePool[T float32 | float64] struct {
	w      window
	planes int
	padded bool
}

// Run pools all planes.
func (k *averagePool[T]) Run(c *ops.Call) error {
	runSmall(c, k.planes, sizeOf(k.w.out[:])*sizeOf(k.w.kernel[:]), c.Threads, k)
	return nil
}

func (k *averagePool[T]) tile(c *ops.Call, plane, _ int) {
	w := &k.w
	in, out := sizeOf(w.in[:]), sizeOf(w.out[:])
	x, y := elems[T](c.In[0])[plane*in:][:in], elems[T](c.Out[0])[plane*out:][:out]
	o := 0
	for z := range w.out[0] {
		for v := range w.out[1] {
			for u := range w.out[2] {
				sum, count := k.window(x, [3]int{z, v, u})
				if count > 1 {
					sum /= T(count)
				}
				y[o] = sum
				o++
			}
		}
	}
}

func (k *averagePool[T]) window(x []T, o [3]int) (sum T, count int) {
	w := &k.w
	var first, lo, hi [3]int
	count = 1
	for d := range 3 {
		first[d], lo[d], hi[d] = w.taps(d, o[d])
		if k.padded { // a window added by ceil_mode may reach beyond even the padding
			count *= max(min(w.kernel[d], ceilDiv(w.in[d]+w.end[d]-first[d], w.dilation[d])), 0)
		} else {
			count *= max(hi[d]-lo[d], 0)
		}
	}
	for a := lo[0]; a < hi[0]; a++ {
		for b := lo[1]; b < hi[1]; b++ {
			row := ((first[0]+a*w.dilation[0])*w.in[1] + first[1] + b*w.dilation[1]) * w.in[2]
			for e := lo[2]; e < hi[2]; e++ {
				sum += x[row+first[2]+e*w.dilation[2]]
			}
		}
	}
	return sum, count
}

// globalPool reduces every plane to one value.
func globalPool(op kern.ReduceOp) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		x := p.in[0].shape
		if !p.allF32() || len(x) < 3 {
			return nil, nil
		}
		return &reduceRows{op, x[0] * x[1], sizeOf(x[2:])}, nil
	}
}

// reduceRows reduces rows of operand 0 to one value each.
type reduceRows struct {
	op         kern.ReduceOp
	rows, cols int
}

// Run reduces all rows.
func (k *reduceRows) Run(c *ops.Call) error {
	kern.ReduceRows(k.op, f32(c.Out[0]), f32(c.In[0]), k.rows, k.cols, c.Threads)
	return nil
}
