package convolve

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Windows over images: a task takes a strip of output rows of one block
// of channels, converts the input rows it reads to the blocked layout, runs the blocked
// kernels, and converts the result back. All of it stays in the cache. Images that are
// blocked are read and written where they lie.

// strips lays out the strips of a window over plain images.
type strips struct {
	g        tapGrid
	channels int
	blocks   int
	rows     int // output rows of a strip
	cuts     int // strips of a block
	inLen    int // floats of a strip's input, blocked
	outLen   int // floats of a strip's output, blocked
	spill    int // floats behind them that are written, too

	inBlocked, outBlocked bool // the images
	half                  Half // their type, if both are blocked

	padded    bool         // strips have the padding written out: the grid is that of an image with it
	src, left [2]int       // rows and columns of the image, of padding before it
	exact     []tapSegment // the columns of the grid without spill
}

// stripFloats bounds the input of a strip: it should not fill the L2 cache.
const stripFloats = 32 << 10

// plan lays out the strips of a grid whose segments are known.
func (s *strips) plan(channels int) {
	g := &s.g
	s.channels = channels
	s.blocks = machine.CeilDiv(channels, g.b)
	perRow := g.in[1] * g.b
	span := (g.kernel[0]-1)*g.dilation[0] + 1
	s.rows = max(1, min(g.out[0], (stripFloats/perRow-span)/g.stride[0]+1))
	s.rows = gemm.NewSplit(g.out[0], s.rows).Largest()
	s.cuts = machine.CeilDiv(g.out[0], s.rows)
	s.inLen = min(g.in[0], (s.rows-1)*g.stride[0]+span) * perRow
	s.outLen = s.rows*g.out[1]*g.b + s.spill
}

// pad makes the grid one of an image with its padding, where every pixel has all taps, and a call computes all rows of a strip:
// windows that are large beside the image have a rectangle of pixels for each place near the border. Rows are computed up to
// as many pixels as calls take together if spills is set: the next row is written over what is too much.
func (s *strips) pad(spills bool) {
	g := &s.g
	s.padded, s.src, s.left = true, g.in, g.pad
	n := g.out
	if more := -n[1] & 7; spills && (more < 4 || more == 5) {
		n[1] += more & 3
	}
	for d := range g.in {
		g.in[d] = (n[d]-1)*g.stride[d] + (g.kernel[d]-1)*g.dilation[d] + 1
	}
	g.pad = [2]int{}
	g.plan(false)
	s.exact, g.cols = g.cols, []tapSegment{g.cols[0]}
	g.cols[0].n = n[1]
	s.spill = (n[1] - g.out[1]) * g.b
}

// sum is that of the grid for a strip. What follows the last row of a blocked result is another task's.
func (s *strips) sum(t *simd.Table, p *strip, res []float32, w, bias *float32, lo, hi float32) {
	if s.spill == 0 || !s.outBlocked {
		s.g.sum(t, p.out, p.in, res, p.y0, p.y1, p.top, w, bias, lo, hi)
		return
	}
	s.g.sum(t, p.out, p.in, nil, p.y0, p.y1-1, p.top, w, bias, lo, hi)
	last := s.g
	last.cols = s.exact
	last.sum(t, p.out[(p.y1-1-p.y0)*s.g.out[1]*s.g.b:], p.in, nil, p.y1-1, p.y1, p.top, w, bias, lo, hi)
}

// loadPadded brings the rows of a strip into the blocked layout, or copies them, with their padding.
func (s *strips) loadPadded(t *simd.Table, p *strip, end int, x source) {
	g := &s.g
	line, inN, first := g.in[1]*g.b, s.src[0]*s.src[1], s.left[1]*g.b
	past := first + min(s.src[1], g.in[1]-s.left[1])*g.b
	for y := p.top; y < end; y++ {
		row := p.in[(y-p.top)*line:][:line]
		from := y - s.left[0]
		if from < 0 || from >= s.src[0] {
			clear(row)
			continue
		}
		clear(row[:first])
		clear(row[past:])
		if s.inBlocked {
			x.take(row[first:past], ((p.image*s.blocks+p.block)*s.src[0]+from)*s.src[1]*g.b)
			continue
		}
		if p.have < g.b {
			clear(row[first:past])
		}
		t.Transpose(&row[first], &x.floats[p.plane*inN+from*s.src[1]], (past-first)/g.b, 4*g.b, 4*inN, p.have)
	}
}

// tasks is the number of strips of a batch.
func (s *strips) tasks(batch int) int { return batch * s.blocks * s.cuts }

// perWorker is the workspace of one worker.
func (s *strips) perWorker() int {
	in, out := 4*s.inLen, 4*s.outLen
	if s.inBlocked && !s.padded && s.half == NoHalf {
		in = 0
	}
	if s.outBlocked && s.half == NoHalf {
		out = 0
	}
	return machine.ScratchBytes(in, out)
}

// strip is one strip of a task.
type strip struct {
	image, block int
	plane        int // first plane, over all images
	have         int // planes of the block that exist
	y0, y1       int // output rows
	top          int // first input row
	in, out      []float32
}

// load brings strip i into the blocked layout.
func (s *strips) load(t *simd.Table, i int, x source, y []float32, buf *machine.Scratch) strip {
	return s.loadAt(t, s.strip(i), x, y, buf)
}

// inAt and outAt are where a strip begins in blocked images.
func (s *strips) inAt(p *strip) int {
	g := &s.g
	return ((p.image*s.blocks+p.block)*g.in[0] + p.top) * g.in[1] * g.b
}

func (s *strips) outAt(p *strip) int {
	g := &s.g
	return ((p.image*s.blocks+p.block)*g.out[0] + p.y0) * g.out[1] * g.b
}

// strip is strip i of a batch.
func (s *strips) strip(i int) strip {
	p := strip{block: i / s.cuts % s.blocks, image: i / s.cuts / s.blocks}
	p.have = min(s.g.b, s.channels-p.block*s.g.b)
	p.plane = p.image*s.channels + p.block*s.g.b
	return p.rows(s, i%s.cuts)
}

// stripOf is strip i of the planes first … past-1, cut into blocks wherever images
// begin: only for work that does not depend on the channel.
func (s *strips) stripOf(first, past, i int) strip {
	p := strip{plane: first + i/s.cuts*s.g.b}
	p.have = min(s.g.b, past-p.plane)
	return p.rows(s, i%s.cuts)
}

func (p strip) rows(s *strips, cut int) strip {
	p.y0 = cut * s.rows
	p.y1 = min(p.y0+s.rows, s.g.out[0])
	return p
}

// loadAt brings a strip of x into the blocked layout, and finds its place in y if that is
// blocked. Rows of halves are widened when they are read, unless padding is written out.
func (s *strips) loadAt(t *simd.Table, p strip, x source, y []float32, buf *machine.Scratch) strip {
	g := &s.g
	var end int
	p.top, end = g.reach(p.y0, p.y1)
	if s.outBlocked && s.half == NoHalf {
		p.out = y[s.outAt(&p):][:(p.y1-p.y0)*g.out[1]*g.b]
	} else {
		p.out = buf.Floats(s.outLen)
	}
	if s.inBlocked && !s.padded && s.half == NoHalf {
		p.in = x.floats[min(s.inAt(&p), len(x.floats)-1):] // a strip of nothing but padding reads nothing
		return p
	}
	p.in = buf.Floats(s.inLen)
	if s.padded {
		s.loadPadded(t, &p, end, x)
		return p
	}
	if s.half != NoHalf {
		return p
	}
	inN := g.in[0] * g.in[1]
	from := p.plane*inN + p.top*g.in[1]
	if n := (end - p.top) * g.in[1]; n > 0 {
		if p.have < g.b {
			clear(p.in[:n*g.b])
		}
		t.Transpose(&p.in[0], &x.floats[from], n, 4*g.b, 4*inN, p.have)
	}
	return p
}

// store brings the result of a strip back into the plain layout.
func (s *strips) store(t *simd.Table, p *strip, y []float32) {
	g := &s.g
	outN := g.out[0] * g.out[1]
	to := p.plane*outN + p.y0*g.out[1]
	unblock(t, y[to:], p.out, p.have, (p.y1-p.y0)*g.out[1], outN)
}

// unblock brings n pixels of a block of channels into the plain layout, where
// channels are stride apart.
func unblock(t *simd.Table, dst, src []float32, channels, n, stride int) {
	b := t.Block()
	for i := 0; i < n; i += t.Tw {
		t.Transpose(&dst[i], &src[i*b], channels, 4*stride, 4*b, min(t.Tw, n-i))
	}
}
