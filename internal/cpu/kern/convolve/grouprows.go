package convolve

import (
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Grouped convolutions whose groups have too few output channels to fill blocks: of plain images, rows of pixels in vectors. A
// plane with its padding is copied so that pixels which are a stride apart are neighbours, a phase after the other:
//
//	a b c d e f g      stride 2      a c e g | b d f
//
// Then the elements that a tap reads for neighbouring outputs are neighbours too, and the rows of a plane follow each other: pixels
// are counted through all of a strip's rows, those between the end of one row and the beginning of the next are computed in vain.

const (
	mostGroupTaps = 256 // taps of a group: more are long chains, and channels enough for blocks
	groupStrip    = 512 // pixels of a strip
)

// groupRows computes such convolutions.
type groupRows struct {
	*geometry
	channels     int // outputs of a call
	pRows, pCols int // of a phase
	taps         []int
	perStrip     int // rows
}

// groupChannels is how many output channels the kernels for a grouped convolution compute at a time, 0 where there are none or
// blocks are at least as good.
func (g *geometry) groupChannels() int {
	s := &g.s
	if s.Groups == 1 || g.isBlocked() || s.Shuffle || s.Epilogue.Residual || g.taps == 1 || g.icg*g.taps > mostGroupTaps ||
		!g.directFits() || max(s.Stride[1], s.Stride[2]) > 2 || max(g.pad(1), g.pad(2)) > groupStrip {
		return 0
	}
	b := g.t.Block()
	for _, channels := range [2]int{4, 8} {
		if g.t.GroupChannels(channels) && g.ocg%channels == 0 && g.ocg%(2*channels) != 0 && 4*g.ocg <= 3*machine.RoundUp(g.ocg, b) {
			return channels
		}
	}
	return 0
}

// pad is the larger padding of an axis.
func (g *geometry) pad(axis int) int { return max(g.s.PadBegin[axis], g.s.PadEnd[axis]) }

func newGroupRows(g *geometry) *groupRows {
	s := &g.s
	c := &groupRows{geometry: g, channels: g.groupChannels()}
	reach := func(axis, k int) (phase, at int) {
		k *= s.Dilation[axis]
		return k % s.Stride[axis], k / s.Stride[axis]
	}
	_, rows := reach(1, s.Kernel[1]-1)
	_, cols := reach(2, s.Kernel[2]-1)
	c.pRows, c.pCols = g.out[1]+rows, g.out[2]+cols
	for ic := range g.icg {
		for kh := range s.Kernel[1] {
			for kw := range s.Kernel[2] {
				py, y := reach(1, kh)
				px, x := reach(2, kw)
				phase := (ic*s.Stride[1]+py)*s.Stride[2] + px
				c.taps = append(c.taps, 4*((phase*c.pRows+y)*c.pCols+x))
			}
		}
	}
	c.perStrip = gemm.NewSplit(g.out[1], max(1, groupStrip/c.pCols)).Largest()
	return c
}

// plane is the number of floats of an input channel's phases.
func (c *groupRows) plane() int { return c.s.Stride[1] * c.s.Stride[2] * c.pRows * c.pCols }

// packing lays out, for each call's channels, the weights of one tap after the other.
func (c *groupRows) packing() *gemm.Packing {
	unit := len(c.taps) * c.channels
	layout := c.weightLayout("conv groups")
	layout.Dims[4] = c.channels
	return &gemm.Packing{
		Layout: layout, Size: c.weightLen(), UnitSize: unit, SourceLen: c.weightLen(), Pieces: c.s.OutC / c.channels,
		Span: func(i int) (at, n int) { return i * unit, unit },
		Pack: func(dst, w []float32, i int) {
			for j := range c.channels {
				for k, v := range w[i*unit+j*len(c.taps):][:len(c.taps)] {
					dst[k*c.channels+j] = v
				}
			}
		},
	}
}

// imageLen is the floats of the copied image; the last vector of a plane reads beyond it.
func (c *groupRows) imageLen() int { return c.s.InC*c.plane() + c.t.Lanes() }

// pitch is the floats from one channel of a strip to the next.
func (c *groupRows) pitch() int { return machine.RoundUp(c.perStrip*c.pCols, c.t.Lanes()) }

func (c *groupRows) strips() int { return machine.CeilDiv(c.out[1], c.perStrip) }

func (c *groupRows) tasks() int { return c.s.OutC / c.channels * c.strips() }

func (c *groupRows) perWorker() int { return machine.ScratchBytes(4 * c.channels * c.pitch()) }

func (c *groupRows) workspace(threads int) int {
	return machine.ScratchBytes(4*c.imageLen()) + c.perWorker()*max(1, min(threads, c.tasks()))
}

func (c *groupRows) run(r *convRun, threads int) {
	s := machine.NewScratch(r.ws)
	r.padded = s.Floats(c.imageLen())
	r.ws = s.Rest
	for r.image = range c.s.Batch {
		r.in, r.phase = r.args.X[r.image*c.inImage():], convPads
		machine.Parallel(c.s.InC, threads, r)
		r.phase = convComputes
		r.overPool(c.tasks(), c.perWorker(), threads)
	}
}

// task copies a plane, or computes a strip of some output channels.
func (c *groupRows) task(r *convRun, i, worker int) {
	if r.phase == convPads {
		c.copyPlane(r.padded[i*c.plane():][:c.plane()], r.in[i*c.inN:][:c.inN])
		return
	}
	first, from := i/c.strips()*c.channels, i%c.strips()*c.perStrip
	rows := min(c.perStrip, c.out[1]-from)
	buf := r.buffer(worker)
	tile := buf.Floats(c.channels * c.pitch())
	a := simd.GroupArgs{
		In: machine.Ptr(r.padded, first/c.ocg*c.icg*c.plane()+from*c.pCols), W: unsafe.Pointer(r.w.At(first * len(c.taps))), Out: machine.Ptr(tile, 0),
		Bias: unsafe.Pointer(&noBias[0]), Taps: &c.taps[0], K: len(c.taps), OutRow: 4 * c.pitch(),
	}
	if c.s.Epilogue.Bias != simd.NoBias {
		a.Bias = machine.Ptr(r.args.Bias, first)
	}
	a.Lo, a.Hi = c.bounds()
	vectors := machine.CeilDiv((rows-1)*c.pCols+c.out[2], c.t.Lanes())
	for calls := machine.CeilDiv(vectors, 3); calls > 0; calls-- {
		n := machine.CeilDiv(vectors, calls)
		c.t.GroupRows(c.channels, n, &a)
		by := 4 * n * c.t.Lanes()
		a.In, a.Out = unsafe.Add(a.In, by), unsafe.Add(a.Out, by)
		vectors -= n
	}
	c.leave(r, tile, first, from, rows)
}

// leave brings a strip of rows into the result.
func (c *groupRows) leave(r *convRun, tile []float32, first, from, rows int) {
	w := c.out[2]
	for j := range c.channels {
		y := r.args.Y[(r.image*c.s.OutC+first+j)*c.outN+from*w:][:rows*w]
		for u := range rows {
			copy(y[u*w:][:w], tile[j*c.pitch()+u*c.pCols:])
		}
		if c.after != simd.Identity {
			c.t.UnaryRow(c.after, y, y, c.s.Epilogue.P0, c.s.Epilogue.P1)
		}
	}
}

// copyPlane copies a plane with its padding, phase by phase.
func (c *groupRows) copyPlane(dst, src []float32) {
	s := &c.s
	for py := range s.Stride[1] {
		for px := range s.Stride[2] {
			phase := dst[:c.pRows*c.pCols]
			dst = dst[len(phase):]
			from := machine.CeilDiv(max(0, s.PadBegin[1]-py), s.Stride[1]) // rows that lie in the image
			past := min(c.pRows, machine.CeilDiv(max(0, s.In[1]+s.PadBegin[1]-py), s.Stride[1]))
			if from >= past {
				clear(phase)
				continue
			}
			clear(phase[:from*c.pCols])
			clear(phase[past*c.pCols:])
			c.copyPhase(phase[from*c.pCols:], src[(from*s.Stride[1]+py-s.PadBegin[1])*s.In[2]:], past-from, px-s.PadBegin[2])
		}
	}
}

// copyPhase copies rows of a phase, the first element of each from a column that may lie before the image: a vector of each row
// at a time, while whole vectors lie in the phase.
func (c *groupRows) copyPhase(dst, src []float32, rows, first int) {
	step, rowStep, width := c.s.Stride[2], c.s.Stride[1]*c.s.In[2], c.s.In[2]
	if step == 1 {
		for y := range rows {
			copyEach(dst[y*c.pCols:][:c.pCols], src[y*rowStep:][:width], first, step)
		}
		return
	}
	clear(dst[:rows*c.pCols])
	for col := 0; col < c.pCols; col += c.t.Tw {
		n, at := min(c.t.Tw, c.pCols-col), first+col*step
		whole := min(rows, max(0, len(dst)-col-c.t.Tw+c.pCols)/c.pCols)
		if mask := laneMask(at, step, width, n); mask != 0 && whole > 0 {
			segment(c.t, step, machine.F32p(dst, col), machine.F32p(src, 0), whole, 4*c.pCols, 4*rowStep, mask, 4*at, false)
		}
		for y := whole; y < rows; y++ {
			copyEach(dst[y*c.pCols+col:][:n], src[y*rowStep:][:width], at, step)
		}
	}
}

// copyEach copies elements that lie step apart, the first of them at a place that may lie before the row; elements outside are 0.
func copyEach(dst, src []float32, first, step int) {
	lead := min(len(dst), machine.CeilDiv(max(0, -first), step))
	clear(dst[:lead])
	at := first + lead*step
	n := 0
	if at < len(src) {
		n = min(len(dst)-lead, machine.CeilDiv(len(src)-at, step))
	}
	body := dst[lead:][:n]
	if step == 1 {
		copy(body, src[at:])
	} else {
		for i := range body {
			body[i] = src[at+i*step]
		}
	}
	clear(dst[lead+n:])
}
