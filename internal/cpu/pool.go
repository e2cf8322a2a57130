package cpu

import (
	"errors"
	"math"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Pooling: float32 images and volumes through package convolve; other types and maxima
// whose positions are wanted window by window.

var poolOps = []entry{
	{op: "MaxPool", prepare: prepareMaxPool},
	{op: "AveragePool", prepare: prepareAveragePool},
	{op: "GlobalAveragePool", prepare: globalPool(vec.ReduceMean)},
	{op: "GlobalMaxPool", prepare: globalPool(vec.ReduceMax)},
}

// poolWindow reads the window of a pooling operator.
func (p *prep) poolWindow() (window, bool) {
	x, out := p.in[0], p.out[0]
	if !out.present || len(x.shape) < 3 || len(out.shape) != len(x.shape) {
		return window{}, false
	}
	kernel := make([]int, len(x.shape)-2)
	ok := p.list("kernel_shape", kernel, 0)
	if !ok {
		return window{}, false
	}
	return p.windowOf(kernel, x.shape[2:], out.shape[2:])
}

// pool is a pooling of package convolve.
type pool struct {
	p interface {
		Run(done <-chan struct{}, x, y []float32, ws []byte, threads int) error
		Workspace(threads int) int
	}
	ws, threads int
	halves      *convolve.Pool // p, of images of a half type
}

// newPool is the fast kernel for images and volumes, nil where it does not fit.
func (p *prep) newPool(kind convolve.PoolKind, w window) (ops.Kernel, error) {
	if !p.allF32() {
		return nil, nil
	}
	if w.rank > 2 {
		k, out, err := convolve.NewVolumePool(convolve.VolumeSpec{Kind: kind, Batch: p.in[0].shape[0], Channels: p.in[0].shape[1], In: w.in,
			Kernel: w.kernel, Stride: w.stride, Dilation: w.dilation, PadBegin: w.begin, PadEnd: w.end, Ceil: w.ceil},
			func(bytes int64) error { return p.table(tapLists, bytes) })
		if refused := (*machine.SpecError)(nil); errors.As(err, &refused) || err == nil && out != w.out {
			return nil, nil // more taps than can be listed
		}
		if err != nil {
			return nil, err
		}
		return &pool{p: k, ws: p.workspace(k.Workspace(p.threads)), threads: p.threads}, nil
	}
	s := convolve.PoolSpec{
		Kind: kind, Batch: p.in[0].shape[0], Channels: p.in[0].shape[1],
		In: pair(w.in), Kernel: pair(w.kernel), Stride: pair(w.stride), Dilation: pair(w.dilation),
		PadBegin: pair(w.begin), PadEnd: pair(w.end), Ceil: w.ceil, Blocked: p.in[0].blocked,
	}
	if err := p.table(tapLists, s.TapBytes()); err != nil {
		return nil, err
	}
	halves := false
	if s.Blocked {
		s.Half, halves = p.keepHalves(0)
	}
	k, err := convolve.NewPool(s)
	if err != nil {
		return nil, err
	}
	if k.Out() != pair(w.out) {
		return nil, nil
	}
	made := &pool{p: k, ws: p.workspace(k.Workspace(p.threads)), threads: p.threads}
	if halves {
		made.halves = k
	}
	return made, nil
}

// Run pools.
func (k *pool) Run(c *ops.Call) error {
	if k.halves != nil {
		return k.halves.RunHalves(c.Done(), optHalves(c.In, 0), optHalves(c.Out, 0), c.Scratch[k.ws:], min(k.threads, c.Threads))
	}
	return k.p.Run(c.Done(), f32(c.In[0]), f32(c.Out[0]), c.Scratch[k.ws:], min(k.threads, c.Threads))
}

// Choice says how it is computed.
func (k *pool) Choice() backend.Choice {
	return backend.Choice{Algorithm: "vectors over strips of the image", Reason: "float32 images and volumes"}
}

func prepareMaxPool(p *prep) (ops.Kernel, error) {
	w, ok := p.poolWindow()
	order := ops.Int(p.node, "storage_order")
	if !ok || p.wants(1) && order != 0 {
		return nil, nil
	}
	if !p.wants(1) {
		if k, err := p.newPool(convolve.PoolMax, w); k != nil || err != nil {
			return k, err
		}
	}
	at := p.wants(1)
	switch p.in[0].dt {
	case ndarray.Float32:
		return p.planes(w, &maxPool[float32]{w, float32(math.Inf(-1)), at}), nil
	case ndarray.Float64:
		return p.planes(w, &maxPool[float64]{w, math.Inf(-1), at}), nil
	case ndarray.Int8, ndarray.Uint8:
		if !at {
			return p.newBytePool(w), nil
		}
	}
	return nil, nil
}

// bytePool takes maxima of windows of bytes, a row at a time: first of the rows of a window, then of its columns
// side by side, of which those are kept that the stride leaves. Planes are images of pixels of one byte; where channels of
// a pixel lie side by side, pixels have as many.
type bytePool struct {
	w      window
	pixel  int // bytes
	signed bool
	ws     int // workspace: for each worker a row with its padding
	row    int // bytes of it, whole vectors with what follows them
}

func (p *prep) newBytePool(w window) ops.Kernel {
	x := p.in[0]
	k := &bytePool{w: w, pixel: 1, signed: x.dt == ndarray.Int8}
	images := x.shape[0] * x.shape[1]
	if x.blocked {
		k.pixel, images = x.shape[1], x.shape[0]
	}
	k.row = (k.pixel*max((w.out[2]-1)*w.stride[2]+1, w.begin[2]+w.in[2])+63)&^63 + k.pixel*(w.kernel[2]-1)*w.dilation[2]
	k.ws = p.perWorker(k.row, images*w.out[0]*w.out[1])
	return smallTiles(images*w.out[0]*w.out[1], k.row*(w.kernel[0]*w.kernel[1]+w.kernel[2])/8, p.threads, k)
}

// tile computes a row of the result.
func (k *bytePool) tile(c *ops.Call, i, worker int) {
	w, size := &k.w, k.w.in[2]*k.pixel
	x, y := arrayOf(c.In[0]).Data, arrayOf(c.Out[0]).Data[i*w.out[2]*k.pixel:][:w.out[2]*k.pixel]
	least := byte(0)
	if k.signed {
		least = 0x80
	}
	row := c.Scratch[k.ws+worker*k.row:][:k.row]
	row[0] = least
	for n := 1; n < len(row); n *= 2 {
		copy(row[n:], row[:n])
	}
	image, o := i/(w.out[0]*w.out[1]), w.position(i%(w.out[0]*w.out[1])*w.out[2])
	z0, za, zb := w.taps(0, o[0])
	v0, va, vb := w.taps(1, o[1])
	all := row[w.begin[2]*k.pixel:][:size]
	for a := za; a < zb; a++ {
		for b := va; b < vb; b++ {
			at := (image*w.in[0]+z0+a*w.dilation[0])*w.in[1] + v0 + b*w.dilation[1]
			vec.MaxBytes(all, all, x[at*size:][:size], k.signed)
		}
	}
	for n := w.kernel[2] - 1; n > 0; n-- {
		shift := w.dilation[2] * k.pixel
		vec.MaxBytes(row[:(len(row)-shift)&^63], row, row[shift:], k.signed)
	}
	if k.pixel == 1 {
		for u := range y {
			y[u] = row[u*w.stride[2]]
		}
		return
	}
	for u := range w.out[2] {
		copy(y[u*k.pixel:][:k.pixel], row[u*w.stride[2]*k.pixel:])
	}
}

// Choice says how it is computed.
func (k *bytePool) Choice() backend.Choice {
	return backend.Choice{Algorithm: "maxima of rows, then of columns", Reason: "bytes"}
}

// planes is the kernel of a pooling with a tile for each plane.
func (p *prep) planes(w window, t tiler) ops.Kernel {
	x := p.in[0].shape
	return smallTiles(x[0]*x[1], sizeOf(w.out[:])*sizeOf(w.kernel[:]), math.MaxInt, t)
}

// maxPool takes the maximum of every window, and where it is. A window wholly in
// the padding gives least and position -1; NaN wins.
type maxPool[T float32 | float64] struct {
	w       window
	least   T
	indices bool
}

func (k *maxPool[T]) tile(c *ops.Call, plane, _ int) {
	w := &k.w
	in, out := sizeOf(w.in[:]), sizeOf(w.out[:])
	x, y := elems[T](c.In[0])[plane*in:][:in], elems[T](c.Out[0])[plane*out:][:out]
	var at []int64
	if k.indices {
		at = elems[int64](c.Out[1])[plane*out:][:out]
	}
	look := watch{c: c, work: sizeOf(w.kernel[:])}
	for row := range w.out[0] * w.out[1] {
		z0, za, zb := w.taps(0, row/w.out[1])
		v0, va, vb := w.taps(1, row%w.out[1])
		for u := range w.out[2] {
			u0, ua, ub := u*w.stride[2]-w.begin[2], 0, w.kernel[2]
			if u0 < 0 || u0+(ub-1)*w.dilation[2] >= w.in[2] {
				u0, ua, ub = w.taps(2, u)
			}
			if look.ended() {
				return
			}
			best, where := k.least, -1
			for a := za; a < zb; a++ {
				for b := va; b < vb; b++ {
					i := ((z0+a*w.dilation[0])*w.in[1]+v0+b*w.dilation[1])*w.in[2] + u0 + ua*w.dilation[2]
					for range ub - ua {
						if t := x[i]; t > best || where < 0 || t != t && best == best {
							best, where = t, i
						}
						i += w.dilation[2]
					}
				}
			}
			o := row*w.out[2] + u
			y[o] = best
			if at != nil {
				at[o] = -1
				if where >= 0 {
					at[o] = int64(plane*in + where)
				}
			}
		}
	}
}

// Choice says how it is computed.
func (k *maxPool[T]) Choice() backend.Choice {
	return backend.Choice{Algorithm: "window by window", Reason: "positions or another type"}
}

func prepareAveragePool(p *prep) (ops.Kernel, error) {
	w, ok := p.poolWindow()
	if !ok {
		return nil, nil
	}
	padded := ops.Int(p.node, "count_include_pad") != 0
	kind := convolve.PoolAverage
	if padded {
		kind = convolve.PoolAveragePad
	}
	if k, err := p.newPool(kind, w); k != nil || err != nil {
		return k, err
	}
	switch p.in[0].dt {
	case ndarray.Float32:
		return p.planes(w, &averagePool[float32]{w, padded}), nil
	case ndarray.Float64:
		return p.planes(w, &averagePool[float64]{w, padded}), nil
	}
	return nil, nil
}

// averagePool takes the mean of every window over what lies in the input, or in the
// input and its padding.
type averagePool[T float32 | float64] struct {
	w      window
	padded bool
}

func (k *averagePool[T]) tile(c *ops.Call, plane, _ int) {
	w := &k.w
	in, out := sizeOf(w.in[:]), sizeOf(w.out[:])
	x, y := elems[T](c.In[0])[plane*in:][:in], elems[T](c.Out[0])[plane*out:][:out]
	o, look := 0, watch{c: c, work: sizeOf(w.kernel[:])}
	for z := range w.out[0] {
		for v := range w.out[1] {
			for u := range w.out[2] {
				if look.ended() {
					return
				}
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

// Choice says how it is computed.
func (k *averagePool[T]) Choice() backend.Choice {
	return backend.Choice{Algorithm: "window by window", Reason: "another type"}
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
func globalPool(op vec.ReduceOp) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		x := p.in[0].shape
		if !p.allF32() || len(x) < 3 {
			return nil, nil
		}
		step := reduceStep{op: op, rows: x[0] * x[1], cols: sizeOf(x[2:]), byRow: true, dst: -1}
		return &reduce{steps: []reduceStep{step}, after: simd.Identity}, nil
	}
}
