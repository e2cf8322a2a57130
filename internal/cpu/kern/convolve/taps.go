package convolve

import (
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Windows: depthwise convolution and pooling, in either layout.
//
// The kernels work on blocks of channels, where a pixel is one vector and a
// window a list of vectors at fixed distances: no lane is wasted, whatever the
// width of the image. Plain images are converted strip by strip, in the cache (see
// strips.go).
//
// Borders need no padding. The taps that exist for an output pixel are a
// rectangle of the kernel; most pixels have all of them. Pixels with the same
// taps form rectangles of the output, at most nine for the usual kernels, and
// one call computes one of them:
//
//	┌─┬───────────────┬─┐
//	│a│       b       │c│     3×3, padding 1
//	├─┼───────────────┼─┤     a: rows 1–2, columns 1–2 of the kernel
//	│d│       e       │f│     b: rows 1–2, columns 0–2
//	│ │               │ │     e: all taps
//	├─┼───────────────┼─┤
//	│g│       h       │i│
//	└─┴───────────────┴─┘

// tapSegment is a run of output rows (or columns) that share their rows (or
// columns) of taps.
type tapSegment struct {
	at, n int // first output place, number of places
	tapRange
}

// tapRange is what the taps of an output place have in common with others. Neither end of either range grows from one
// place to the next.
type tapRange struct {
	lo, hi   int // taps that exist
	from, to int // elements that an average counts
}

// count is the number of elements that an average counts.
func (r *tapRange) count() int { return r.to - r.from }

// tapGrid is the geometry of a window and its segments. Pairs are height,
// width.
type tapGrid struct {
	in, kernel, stride, dilation, pad, padEnd, out [2]int

	countPad bool // averages count the padding
	b        int  // channels of a block
	rows     []tapSegment
	cols     []tapSegment
	taps     [][]int // for each segment of columns, all rows of the kernel: pairs of distances in the input and among the weights, in bytes
}

// mostTaps bounds the taps that all segments list: 64 MB.
const mostTaps = 1 << 22

// manyTaps says why a window is refused.
const manyTaps = "the windows at the borders differ too much"

// tapSize is what a listed tap takes, two distances, and segmentSize what a segment does.
const (
	tapSize     = 16
	segmentSize = int64(unsafe.Sizeof(tapSegment{}))
)

// listed is how many taps plan would list, or some number above [mostTaps].
func (g *tapGrid) listed() (taps int) {
	for at := 0; at < g.out[1] && taps <= mostTaps; {
		s := g.segment(1, at)
		taps += g.kernel[0] * (s.hi - s.lo)
		at += s.n
	}
	return taps
}

// bytes is the memory that plan takes for a window whose taps are few enough.
func (g *tapGrid) bytes() int64 {
	segments := int64(0)
	for d := range g.out {
		for at := 0; at < g.out[d]; at += g.segment(d, at).n {
			segments++
		}
	}
	return tapSize*int64(g.listed()) + 2*segmentSize*segments
}

// plan computes the segments. oneWeight makes all taps share one weight.
func (g *tapGrid) plan(oneWeight bool) {
	g.rows, g.cols = g.segments(0), g.segments(1)
	for _, c := range g.cols {
		l := make([]int, 0, 2*g.kernel[0]*(c.hi-c.lo))
		for y := range g.kernel[0] {
			for x := c.lo; x < c.hi; x++ {
				w := (y*g.kernel[1] + x) * g.b
				if oneWeight {
					w = 0
				}
				l = append(l, 4*(y*g.dilation[0]*g.in[1]+x*g.dilation[1])*g.b, 4*w)
			}
		}
		g.taps = append(g.taps, l)
	}
}

// segments cuts one dimension of the output.
func (g *tapGrid) segments(d int) (list []tapSegment) {
	for at := 0; at < g.out[d]; {
		s := g.segment(d, at)
		list = append(list, s)
		at += s.n
	}
	return list
}

// segment is the one that begins at a place. What places have in common changes in one direction only, so where the segment
// ends is searched, and the places within are not looked at.
func (g *tapGrid) segment(d, at int) tapSegment {
	s := tapSegment{at, 1, g.place(d, at)}
	step := 1
	same := func() bool { return at+s.n+step <= g.out[d] && g.place(d, at+s.n+step-1) == s.tapRange }
	for ; same(); step *= 2 {
		s.n += step
	}
	for ; step > 0; step /= 2 {
		if same() {
			s.n += step
		}
	}
	return s
}

// place finds the taps that exist for an output place in one dimension.
func (g *tapGrid) place(d, at int) (r tapRange) {
	first, dl := at*g.stride[d]-g.pad[d], g.dilation[d]
	within := func(lo, hi int) (a, b int) { // taps k with lo ≤ first + k·dl < hi
		a = min(g.kernel[d], machine.CeilDiv(max(0, lo-first), dl))
		return a, max(a, min(g.kernel[d], machine.CeilDiv(max(0, hi-first), dl)))
	}
	r.lo, r.hi = within(0, g.in[d])
	r.from, r.to = r.lo, r.hi
	if g.countPad {
		r.from, r.to = within(-g.pad[d], g.in[d]+g.padEnd[d])
	}
	return r
}

// tapCall is one rectangle of the output.
type tapCall struct {
	y, rows, x, n int
	off           int   // bytes from the first input row to the kernel's first tap
	taps          []int // none: the window has only padding
	count         int   // elements that an average counts
}

// each visits the rectangles of output rows y0..y1; top is the input row at
// which the caller's input starts.
func (g *tapGrid) each(y0, y1, top int, visit func(c tapCall)) {
	for _, r := range g.rows {
		lo, hi := max(r.at, y0), min(r.at+r.n, y1)
		if lo >= hi {
			continue
		}
		for i, s := range g.cols {
			width := 2 * (s.hi - s.lo)
			y, x := lo*g.stride[0]-g.pad[0]-top, s.at*g.stride[1]-g.pad[1]
			visit(tapCall{
				y: lo, rows: hi - lo, x: s.at, n: s.n, off: 4 * (y*g.in[1] + x) * g.b,
				taps: g.taps[i][r.lo*width : r.hi*width], count: r.count() * s.count(),
			})
		}
	}
}

// eachStep visits the rectangles as each does, in pieces of some stepTaps elements of windows, until done, which may be nil, is closed:
// windows as wide as a long row take tens of milliseconds a row.
func (g *tapGrid) eachStep(done <-chan struct{}, y0, y1, top int, visit func(c tapCall)) {
	g.each(y0, y1, top, func(c tapCall) {
		per := max(1, stepTaps/max(1, c.rows*len(c.taps)/2))
		for left := c.n; left > 0 && !machine.Closed(done); left -= c.n {
			c.n = min(left, per)
			visit(c)
			c.x += c.n
			c.off += 4 * g.b * g.stride[1] * c.n
		}
	})
}

// reach returns the input rows that output rows y0..y1 read.
func (g *tapGrid) reach(y0, y1 int) (top, end int) {
	top = y0*g.stride[0] - g.pad[0]
	end = (y1-1)*g.stride[0] - g.pad[0] + (g.kernel[0]-1)*g.dilation[0] + 1
	top = min(max(top, 0), g.in[0])
	return top, max(top, min(end, g.in[0]))
}

// emptyTap is a list of one tap, for pixels without any.
var emptyTap [2]int

// noBias is a block of zeros.
var noBias [16]float32

// sum computes weighted sums of output rows y0..y1 of a block: x is its input
// from row top on, y its output from row y0 on, res its residual likewise, or
// nil. y may be res.
func (g *tapGrid) sum(t *simd.Table, y, x, res []float32, y0, y1, top int, w, bias *float32, lo, hi float32) {
	line := 4 * g.b * g.out[1]
	g.each(y0, y1, top, func(c tapCall) {
		at := ((c.y-y0)*g.out[1] + c.x) * g.b
		var add *float32
		if res != nil {
			add = &res[at]
		}
		if len(c.taps) == 0 { // the bias alone
			t.BlockTaps(&y[at], &noBias[0], 0, c.rows, c.n, line, 0, 0, &emptyTap[0], 1, &noBias[0], bias, add, lo, hi)
			return
		}
		t.BlockTaps(&y[at], &x[0], c.off, c.rows, c.n, line, 4*g.b*g.in[1]*g.stride[0], 4*g.b*g.stride[1], &c.taps[0], len(c.taps)/2, w, bias, add, lo, hi)
	})
}

// max computes maxima, −∞ where a window has only padding.
func (g *tapGrid) max(done <-chan struct{}, t *simd.Table, y, x []float32, y0, y1, top int) {
	line := 4 * g.b * g.out[1]
	g.eachStep(done, y0, y1, top, func(c tapCall) {
		dst := &y[((c.y-y0)*g.out[1]+c.x)*g.b]
		if len(c.taps) == 0 {
			t.BlockTaps(dst, &noBias[0], 0, c.rows, c.n, line, 0, 0, &emptyTap[0], 1, &noBias[0], &noBias[0], nil, simd.NegInf, simd.NegInf)
			return
		}
		t.BlockMax(dst, &x[0], c.off, c.rows, c.n, line, 4*g.b*g.in[1]*g.stride[0], 4*g.b*g.stride[1], &c.taps[0], len(c.taps)/2)
	})
}

// averages are the factors of means, 1/count in every lane.
var averages machine.FreeList[[16]float32]

// average computes means. The mean of an empty window is 0, as in ONNX Runtime. Near the borders of a large window each mean may be of
// another count: there are too many for a table.
func (g *tapGrid) average(done <-chan struct{}, t *simd.Table, y, x []float32, y0, y1, top int) {
	line, count, w := 4*g.b*g.out[1], -1, averages.Get()
	defer averages.Put(w)
	g.eachStep(done, y0, y1, top, func(c tapCall) {
		dst := &y[((c.y-y0)*g.out[1]+c.x)*g.b]
		if c.count != count {
			count = c.count
			for i := range w[:g.b] {
				w[i] = 1 / float32(max(count, 1))
			}
		}
		if len(c.taps) == 0 {
			t.BlockTaps(dst, &noBias[0], 0, c.rows, c.n, line, 0, 0, &emptyTap[0], 1, &w[0], &noBias[0], nil, simd.NegInf, simd.PosInf)
			return
		}
		t.BlockTaps(dst, &x[0], c.off, c.rows, c.n, line, 4*g.b*g.in[1]*g.stride[0], 4*g.b*g.stride[1], &c.taps[0], len(c.taps)/2, &w[0], &noBias[0], nil, simd.NegInf, simd.PosInf)
	})
}
