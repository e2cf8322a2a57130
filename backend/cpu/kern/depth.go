package kern

import (
	"math"
	"unsafe"
)

// Depthwise convolution.
//
// A strip of output rows of one channel is computed from a copy of its input
// rows with the padding written out and the strides taken apart: element
// (y, x) of the padded input goes to plane (y mod sy, x mod sx), place
// (y div sy, x div sx). For stride 2:
//
//	a b a b a b         a a a   b b b
//	c d c d c d    ──▶  a a a   b b b   c c c   d d d
//	a b a b a b                         …       …
//	c d c d c d
//
// Then every tap of every output pixel is a fixed distance from the pixel's
// own place, rows are contiguous whatever the stride, and one kernel serves
// all shapes:
//
//	y[o] = Σₜ w[t]·plane[o + offs[t]]
//
// Narrow images waste lanes at the ends of rows. For them the planes are run
// through as one long row; the few results between rows are dropped when the
// rows are copied out.

// depthPlan lays out a depthwise convolution.
type depthPlan struct {
	rows    int // output rows of a strip
	strips  int
	chunk   int // channels of a task
	chunks  int
	planeW  int // extent of a plane
	planeH  int
	offs    []int // distance of each tap, in bytes
	flat    bool  // one long row
	bufLen  int   // floats of workspace
	flatLen int   // floats of workspace for flat results
}

const (
	depthStripFloats = 12 << 10 // planes of a strip stay in the L1 cache, or nearly
	depthTaskFlops   = 1 << 19
)

// planDepth lays out the strips.
func (c *Conv) planDepth() {
	s, d := &c.s, &c.dw
	oh, ow := c.out[1], c.out[2]
	sy, sx := s.Stride[1], s.Stride[2]
	d.planeW = ceilDiv((ow-1)*sx+(s.Kernel[2]-1)*s.Dilation[2]+1, sx)
	extra := (s.Kernel[1] - 1) * s.Dilation[1] // rows a strip needs beyond its own
	perRow := sy * sx * d.planeW
	d.rows = max(1, min(oh, (depthStripFloats/perRow)-ceilDiv(extra, sy)))
	d.rows = newSplit(oh, d.rows).largest()
	d.strips = ceilDiv(oh, d.rows)
	d.planeH = ceilDiv((d.rows-1)*sy+extra+1, sy)
	work := 2 * d.rows * ow * c.taps
	d.chunk = max(1, min(s.OutC, depthTaskFlops/max(1, work)))
	d.chunks = ceilDiv(s.OutC, d.chunk)
	plane := d.planeW * d.planeH
	d.offs = make([]int, 0, c.taps)
	for ky := range s.Kernel[1] {
		for kx := range s.Kernel[2] {
			y, x := ky*s.Dilation[1], kx*s.Dilation[2]
			d.offs = append(d.offs, 4*(((y%sy)*sx+x%sx)*plane+(y/sy)*d.planeW+x/sx))
		}
	}
	w := c.t.lanes
	d.flat = ceilDiv(ow, w)*d.rows*c.taps > ceilDiv(d.rows*d.planeW, w)*c.taps+4*d.rows
	// The flat row and whole-vector stores run a little past the planes.
	d.bufLen = roundUp(sy*sx*plane+d.planeW+2*slackFloats, slackFloats)
	if d.flat {
		d.flatLen = d.rows*d.planeW + slackFloats
	}
}

// depthTask computes one strip of a chunk of channels.
func (r *convRun) depthTask(i int, buf *scratch) {
	c := r.c
	d := &c.dw
	strip := i % d.strips
	first := i / d.strips % d.chunks * d.chunk
	image := i / d.strips / d.chunks
	planes, flat := buf.floats(d.bufLen), buf.floats(d.flatLen)
	for ch := first; ch < min(first+d.chunk, c.s.OutC); ch++ {
		r.depthStrip(planes, flat, image, ch, strip*d.rows)
	}
}

// depthStrip computes output rows y0.. of one channel.
func (r *convRun) depthStrip(planes, flat []float32, image, ch, y0 int) {
	c := r.c
	d, t := &c.dw, c.t
	at := image*c.s.OutC + ch
	rows, ow := min(d.rows, c.out[1]-y0), c.out[2]
	c.fillPlanes(planes, r.args.X[at*c.inN:][:c.inN], y0, rows)
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

// fillPlanes copies the input rows that output rows y0.. need, padded and taken
// apart by stride. A segment kernel copies a vector's width of columns, all
// rows of a plane at a time. It stores whole vectors, so the last columns go
// first and what they write into the next row is overwritten by its start.
func (c *Conv) fillPlanes(planes, x []float32, y0, rows int) {
	s, d := &c.s, &c.dw
	tw := c.t.tw
	sy, sx := s.Stride[1], s.Stride[2]
	h := ceilDiv((rows-1)*sy+(s.Kernel[1]-1)*s.Dilation[1]+1, sy)
	for f := range sy * sx {
		plane := planes[f*d.planeW*d.planeH:]
		iy := y0*sy + f/sx - s.PadBegin[1] // input row of the plane's first row
		lo := 0                            // rows lo..hi of the plane lie in the image
		if iy < 0 {
			lo = min(h, ceilDiv(-iy, sy))
		}
		hi := max(lo, min(h, ceilDiv(s.In[1]-iy, sy)))
		for px := (d.planeW - 1) / tw * tw; px >= 0; px -= tw {
			ix := px*sx + f%sx - s.PadBegin[2]
			mask := laneMask(ix, sx, s.In[2], tw)
			dst := func(row int) *float32 { return f32p(plane, row*d.planeW+px) }
			c.t.segFill(dst(0), f32p(x, 0), lo, 4*d.planeW, 0, 0, 0)
			c.columns(dst(lo), f32p(x, 0), hi-lo, mask, 4*((iy+lo*sy)*s.In[2]+ix))
			c.t.segFill(dst(hi), f32p(x, 0), h-hi, 4*d.planeW, 0, 0, 0)
		}
	}
}

// columns copies a vector's width of columns of n rows, one plane row each.
func (c *Conv) columns(dst, src *float32, n, mask, off int) {
	t, s := c.t, &c.s
	ds, ss := 4*c.dw.planeW, 4*s.In[2]*s.Stride[1]
	switch s.Stride[2] {
	case 1:
		t.segFill(dst, src, n, ds, ss, mask, off)
	case 2:
		t.segFill2(dst, src, n, ds, ss, mask, off)
	default:
		t.segFillN(dst, src, n, ds, ss, mask, off, s.Stride[2])
	}
}

// laneMask selects the lanes whose element, first + lane·step, lies in [0, n).
func laneMask(first, step, n, lanes int) int {
	lo, hi := 0, 0
	if first < 0 {
		lo = min(lanes, ceilDiv(-first, step))
	}
	if first < n {
		hi = min(lanes, ceilDiv(n-first, step))
	}
	if lo >= hi {
		return 0
	}
	return 1<<hi - 1<<lo
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
