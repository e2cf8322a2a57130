package convolve

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Depthwise convolution: one window for each channel; see taps.go, and depthrows.go for what needs no blocks. With several output channels
// to each input channel, a task computes those of one remainder, which lie that many channels apart:
//
//	X [0 1 2 …]  ──▶  Y [0 2 4 …], with other weights  Y [1 3 5 …]

// depthGrid is the geometry of a depthwise convolution.
func (c *geometry) depthGrid() tapGrid {
	s := &c.s
	hw := func(x [3]int) [2]int { return [2]int{x[1], x[2]} }
	return tapGrid{
		in: hw(s.In), kernel: hw(s.Kernel), stride: hw(s.Stride), dilation: hw(s.Dilation),
		pad: hw(s.PadBegin), out: hw(c.out), b: c.t.Block(),
	}
}

// listsTaps reports whether the taps of a depthwise convolution are few enough to be listed.
func (c *geometry) listsTaps() bool {
	if n, ok := machine.MulAll(c.taps, c.out[2]); ok && n <= mostTaps {
		return true // at most a list for each column
	}
	g := c.depthGrid()
	return g.listed() <= mostTaps
}

// TapBytes is the memory that preparing a convolution by a plan takes for its taps.
func TapBytes(s ConvSpec, p ConvPlan) int64 {
	if p.Algorithm != ConvDepthwise {
		return 0
	}
	if p.turned {
		s = given.untranspose(s)
	}
	c, err := newGeometry(s)
	if err != nil || !c.listsTaps() {
		return 0 // [NewConv] refuses
	}
	g := c.depthGrid()
	return g.bytes()
}

// depthConv computes depthwise convolutions of plain images.
type depthConv struct {
	*geometry
	strips strips
	b      int // channels of a block
	each   int // output channels to each input channel
}

func newDepthConv(g *geometry) *depthConv {
	c := &depthConv{geometry: g, b: g.t.Block(), each: g.ocg}
	c.strips.g = g.depthGrid()
	if c.padsStrips() {
		c.strips.pad(!g.s.Epilogue.Residual)
	} else {
		c.strips.g.plan(false)
	}
	c.strips.inBlocked, c.strips.outBlocked, c.strips.half = g.s.InBlocked, g.s.OutBlocked, g.s.Half
	c.strips.plan(g.s.InC)
	return c
}

// padsStrips reports whether strips have their padding written out: those of plain images where that is not much, and those of
// blocked ones where it pays to copy them, with many taps and few pixels. Weights must
// be constant, since those that are not finite are refused: zeros of the padding are multiplied.
func (c *depthConv) padsStrips() bool {
	s := &c.s
	span := func(d int) int { return (s.Kernel[d]-1)*s.Dilation[d] + 1 }
	within := func(d int) bool {
		return min(s.PadBegin[d], s.PadEnd[d]) >= 0 && max(s.PadBegin[d], s.PadEnd[d]) < span(d)
	}
	pads := max(s.PadBegin[1], s.PadBegin[2], s.PadEnd[1], s.PadEnd[2]) > 0
	pays := !s.InBlocked || c.taps >= 25 && c.inN <= 1<<10
	return pads && pays && s.ConstW && within(1) && within(2) && span(1)*((c.out[2]-1)*s.Stride[2]+span(2)) <= stripFloats/c.b
}

// packing lays the weights out as [remainder][block][tap][channel of the block], in one piece.
func (c *depthConv) packing() *gemm.Packing {
	blocks := machine.CeilDiv(c.s.InC, c.b)
	size := c.each * blocks * c.b * c.taps
	return &gemm.Packing{
		Layout: c.weightLayout("depthwise"), Size: size, UnitSize: c.b * c.taps, SourceLen: c.weightLen(), Pieces: 1,
		Span: func(int) (at, n int) { return 0, size },
		Pack: func(dst, w []float32, _ int) {
			clear(dst[:size])
			for ch := range c.s.OutC {
				from := ch / c.each
				to := (ch%c.each*blocks+from/c.b)*c.taps*c.b + from%c.b
				for t := range c.taps {
					dst[to+t*c.b] = w[ch*c.taps+t]
				}
			}
		},
	}
}

func (c *depthConv) perWorker() int {
	return c.strips.perWorker() + machine.ScratchBytes(4*c.b) + machine.ScratchBytes(4*c.plainFloats())
}

// plainFloats is the room for a strip of a plain result of halves.
func (c *depthConv) plainFloats() int {
	if c.s.OutBlocked || c.s.Half == NoHalf {
		return 0
	}
	return c.strips.outLen
}

func (c *depthConv) workspace(threads int) int {
	return c.perWorker() * max(1, min(threads, c.each*c.strips.tasks(c.s.Batch)))
}

func (c *depthConv) run(r *convRun, threads int) {
	r.overPool(c.each*c.strips.tasks(c.s.Batch), c.perWorker(), threads)
}

// task computes one strip.
func (c *depthConv) task(r *convRun, i, worker int) {
	s, e := &c.strips, &c.s.Epilogue
	buf := r.buffer(worker)
	p, turn := s.load(c.t, i/c.each, r.input(0), r.args.Y, &buf), i%c.each
	first, step := p.block*s.g.b*c.each+turn, c.each*c.outN
	bias := buf.Floats(s.g.b)
	clear(bias)
	if e.Bias != simd.NoBias {
		for j := range p.have {
			bias[j] = r.args.Bias[first+j*c.each]
		}
	}
	weights := r.w.At((turn*s.blocks + p.block) * c.taps * s.g.b)
	if c.s.Half != NoHalf {
		c.halfStrip(r, &p, buf.Floats(c.plainFloats()), turn, weights, &bias[0])
		return
	}
	lo, hi := c.bounds()
	n := (p.y1 - p.y0) * c.out[2]
	to := (p.image*c.s.OutC+first)*c.outN + p.y0*c.out[2]
	var res []float32
	switch {
	case e.Residual && c.s.OutBlocked:
		res = r.args.Residual[s.outAt(&p):]
	case e.Residual:
		r.bringResidual(p.out, to, step, p.have, n)
		res = p.out
	}
	s.sum(c.t, &p, res, weights, &bias[0], lo, hi)
	if c.s.OutBlocked {
		c.finishBlock(p.out[:n*s.g.b], p.block)
		return
	}
	r.leave(p.out, to, step, p.have, n)
}

// bringResidual brings n pixels of a plain residual, from element at on and channels step apart, into a block: where the sums
// of the block will be written, so that kernels add it as they add that of a blocked result. The
// residual may be the result, which is written last.
func (r *convRun) bringResidual(block []float32, at, step, channels, n int) {
	c := r.c
	if b := c.t.Block(); channels < b {
		clear(block[:n*b])
	}
	c.t.Transpose(&block[0], &r.args.Residual[at], n, 4*c.t.Block(), 4*step, channels)
}

// leave writes n pixels of a block to element to of the plain result, channels step apart, with an activation that is no clamp.
func (r *convRun) leave(block []float32, to, step, channels, n int) {
	c := r.c
	if c.after != simd.Identity {
		block = block[:n*c.t.Block()]
		c.t.UnaryRow(c.after, block, block, c.s.Epilogue.P0, c.s.Epilogue.P1)
	}
	unblock(c.t, r.args.Y[to:], block, channels, n, step)
}
