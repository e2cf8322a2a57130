package kern

import (
	"math"
	"unsafe"
)

// Depthwise convolution: one window per channel; see windows.go.

// depthPlan lays out a depthwise convolution.
type depthPlan struct {
	win    windows
	chunk  int // channels of a task
	chunks int
}

// planDepth lays out the strips.
func (c *Conv) planDepth() {
	s, d := &c.s, &c.dw
	hw := func(x [3]int) [2]int { return [2]int{x[1], x[2]} }
	d.win = windows{in: hw(s.In), kernel: hw(s.Kernel), stride: hw(s.Stride), dilation: hw(s.Dilation), pad: hw(s.PadBegin), out: hw(c.out)}
	d.win.plan(c.t.lanes)
	d.chunk = d.win.chunk(s.OutC)
	d.chunks = ceilDiv(s.OutC, d.chunk)
}

// depthTask computes one strip of a chunk of channels.
func (r *convRun) depthTask(i int, buf *scratch) {
	c := r.c
	d := &c.dw
	strip := i % d.win.strips
	first := i / d.win.strips % d.chunks * d.chunk
	image := i / d.win.strips / d.chunks
	planes, flat := buf.floats(d.win.bufLen), buf.floats(d.win.flatLen)
	for ch := first; ch < min(first+d.chunk, c.s.OutC); ch++ {
		r.depthStrip(planes, flat, image, ch, strip*d.win.rows)
	}
}

// depthStrip computes output rows y0.. of one channel.
func (r *convRun) depthStrip(planes, flat []float32, image, ch, y0 int) {
	c := r.c
	d, t := &c.dw.win, c.t
	at := image*c.s.OutC + ch
	rows, ow := min(d.rows, c.out[1]-y0), c.out[2]
	d.fill(t, planes, r.args.X[at*c.inN:][:c.inN], y0, rows)
	y := r.args.Y[at*c.outN+y0*ow:][:rows*ow]
	w := r.weights[ch*c.taps:][:c.taps]
	bias := float32(0)
	if c.s.Epilogue.Bias != NoBias {
		bias = r.args.Bias[ch]
	}
	lo, hi := float32(math.Inf(-1)), float32(math.Inf(1))
	if c.clamp && !c.s.Epilogue.Residual {
		lo, hi = c.lo, c.hi
	}
	if d.flat {
		t.depth(f32p(flat, 0), f32p(planes, 0), 1, (rows-1)*d.planeW+ow, 0, 0, &d.offs[0], &w[0], c.taps, bias, lo, hi)
		for i := range rows {
			copy(y[i*ow:][:ow], flat[i*d.planeW:])
		}
	} else {
		t.depth(f32p(y, 0), f32p(planes, 0), rows, ow, 4*ow, 4*d.planeW, &d.offs[0], &w[0], c.taps, bias, lo, hi)
	}
	if c.s.Epilogue.Residual {
		res := r.args.Residual[at*c.outN+y0*ow:][:rows*ow]
		t.binaryRow(Add, y, y, res)
		t.unaryRow(c.s.Epilogue.Act, y, y, c.s.Epilogue.P0, c.s.Epilogue.P1)
	} else if c.after != Identity {
		t.unaryRow(c.after, y, y, c.s.Epilogue.P0, c.s.Epilogue.P1)
	}
}

// depthGeneric is depthRows in plain Go.
func depthGeneric(dst, src *float32, rows, cols, dstStride, srcStride int, offs *int, w *float32, taps int, bias, lo, hi float32) {
	off, wt := unsafe.Slice(offs, taps), unsafe.Slice(w, taps)
	for y := range rows {
		d := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(dst), y*dstStride)), cols)
		for x := range d {
			d[x] = bias
		}
		for t, o := range off {
			s := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(src), y*srcStride+o)), cols)
			k := wt[t]
			for x, v := range s {
				d[x] += k * v
			}
		}
		for x, v := range d {
			d[x] = clampNaN(v, lo, hi)
		}
	}
}
