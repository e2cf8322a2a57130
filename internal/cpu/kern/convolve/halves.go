package convolve

import (
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
)

// Images of half types. Arithmetic is that of float32; a task widens the pixels that it reads into its workspace and narrows what it
// has computed, while both are in the cache, so that what lies in memory is read and written once, in half the bytes:
//
//	X f16 ──▶ strip, or rows with their padding, f32 ──▶ tile f32 ──▶ Y f16
//	                                   residual f16 ──▶ ┘
//
// Direct kernels narrow to binary16, and widen the residual, in the registers that hold their sums.

// Half is an element type of images.
type Half uint8

// The types.
const (
	NoHalf Half = iota // float32
	Binary16
	Bfloat16
)

// Halves are the images of a convolution of a half type, in the place of those of float32.
type Halves struct{ X, Y, Residual []uint16 }

// TakesHalves reports whether a plan computes images of half types: directly, or one channel of blocks at a time.
func TakesHalves(s ConvSpec, p ConvPlan) bool {
	return s.ConstW && (p.Algorithm == ConvDirect || p.Algorithm == ConvDepthwise && s.InBlocked)
}

// source is the elements of an image from some element on.
type source struct {
	floats []float32
	halves []uint16
	half   Half
}

// input is the operand of a run from an element on.
func (r *convRun) input(at int) source {
	if half := r.c.s.Half; half != NoHalf {
		return source{halves: r.args.Halves.X[at:], half: half}
	}
	return source{floats: r.args.X[at:]}
}

// after is the source from a later element on.
func (x source) after(at int) source {
	if x.half != NoHalf {
		x.halves = x.halves[at:]
	} else {
		x.floats = x.floats[at:]
	}
	return x
}

// take copies or widens the elements at a place.
func (x source) take(dst []float32, at int) {
	if x.half == NoHalf {
		copy(dst, x.floats[at:])
		return
	}
	x.half.widen(dst, x.halves[at:])
}

// widen converts as many elements as dst has.
func (h Half) widen(dst []float32, src []uint16) {
	if h == Bfloat16 {
		vec.BfloatToFloat(dst, src[:len(dst)])
	} else {
		vec.HalfToFloat(dst, src[:len(dst)])
	}
}

// leaveHalves is leave for a result of halves; plain has room for the block.
func (r *convRun) leaveHalves(block, plain []float32, to, step, channels, n int) {
	c := r.c
	if c.after != simd.Identity {
		block = block[:n*c.t.Block()]
		c.t.UnaryRow(c.after, block, block, c.s.Epilogue.P0, c.s.Epilogue.P1)
	}
	unblock(c.t, plain, block, channels, n, n)
	for i := range channels {
		c.s.Half.narrow(r.args.Halves.Y[to+i*step:][:n], plain[i*n:][:n])
	}
}

// bringHalves is bringResidual for a residual of halves.
func (r *convRun) bringHalves(block, plain []float32, at, step, channels, n int) {
	c, b := r.c, r.c.t.Block()
	if channels < b {
		clear(block[:n*b])
	}
	for i := range channels {
		c.s.Half.widen(plain[i*n:][:n], r.args.Halves.Residual[at+i*step:])
	}
	c.t.Transpose(&block[0], &plain[0], n, 4*b, 4*n, channels)
}

// skipHalves is skip for halves, which are widened together: they lie in the second half of the row until then, where none is overwritten
// before it is read.
func (p *paddedCopy) skipHalves(dst []float32, src source) {
	n := p.pCols * p.width
	row := unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(dst))), 2*n)[n:]
	for x := range p.pCols {
		to := row[x*p.width:][:p.width]
		if from := x*p.step[1] - p.left; from < 0 || from >= p.cols {
			clear(to)
		} else {
			copy(to, src.halves[from*p.width:])
		}
	}
	src.half.widen(dst[:n], row)
}

// narrow rounds to the type.
func (h Half) narrow(dst []uint16, src []float32) {
	if h == Bfloat16 {
		vec.FloatToBfloat(dst, src)
	} else {
		vec.FloatToHalf(dst, src)
	}
}

// narrows reports whether kernels write halves.
func (d *directConv) narrows() bool {
	return d.s.Half == Binary16 && d.s.InBlocked && d.s.OutBlocked && d.after == simd.Identity && d.t.Level != machine.LevelGeneric
}

// halfPixels is about how many pixels of a pair of blocks are computed before they are narrowed.
const halfPixels = 128

// A task that widens its pixels keeps so many floats of them in the cache, and computes so many pieces of the image at least.
const (
	widenCached = 1 << 15
	widenLeast  = 4
)

// canWiden reports whether a task takes pairs of output blocks over pixels that it widens for itself: not with so many weights, or channels of
// a pixel, that they would be read for few pixels at a time.
func (d *directConv) canWiden() bool {
	const most = 1 << 18 // floats of weights
	return d.s.Half != NoHalf && d.flat && d.s.InBlocked && d.s.Groups == 1 && !d.pad.needed() && d.pairLen()*d.pairs() <= most && d.widenUnits() >= widenLeast
}

// widenUnits is how many pieces of the image with all their channels stay in the cache; it may be twice as full for a task to have enough of them.
func (d *directConv) widenUnits() int {
	unit := d.inPlanes * d.b * d.cuts.Largest()
	return max(widenCached/unit, min(widenLeast, 2*widenCached/unit))
}

// cutWidened divides pieces of the image, and pairs where these are few, over tasks as long as each other. What pairs of several tasks read is
// widened once for each.
func (d *directConv) cutWidened() {
	const (
		tasks = 16 // where there is work for so many
		even  = 8  // most numbers of threads divide it
		again = 2  // how often pixels are widened, if there are so many tasks then
	)
	units, work := d.cuts.P, gemm.TaskWork(0, directWork)
	want := min(tasks, machine.CeilDiv(d.rowLen*d.s.OutC*d.icg, work))
	parts := max(machine.CeilDiv(units, d.widenUnits()), min(want, machine.CeilDiv(units, widenLeast)))
	if parts > even {
		parts = machine.RoundUp(parts, even)
	}
	parts = max(1, min(parts, units))
	d.parts = gemm.Split{N: units, P: parts, Base: units / parts, Extra: units % parts}
	groups := min(machine.CeilDiv(want, parts), max(again, machine.CeilDiv(even, parts)))
	d.perPair = gemm.NewSplit(d.pairs(), machine.CeilDiv(d.pairs(), groups))
}

// halfUnits is how many rows, or pieces of a flat image, are computed before they are narrowed.
func (d *directConv) halfUnits() int {
	unit, most := d.rowLen, halfPixels
	if d.flat {
		unit = d.cuts.Largest()
	}
	if d.narrows() {
		most = d.outN
	}
	if d.widens {
		most = min(most, d.widenUnits()*unit)
	}
	return min(max(1, most/unit), d.parts.Largest())
}

// halfFloats are the floats of a tile of results, with a block in the plain layout, or of the sums of a call, and of the pixels that it is computed from.
func (d *directConv) halfFloats() (tile, in int) {
	pixels := d.halfUnits() * d.rowLen
	if d.flat {
		pixels = d.halfUnits() * d.cuts.Largest()
	}
	if d.widens {
		in = d.inPlanes * d.b * pixels
	}
	if d.narrows() {
		return 2 * d.b * d.cuts.Largest(), in
	}
	return 3 * d.b * pixels, in
}

// halves computes a task over an image that is widened.
func (d *directConv) halves(r *convRun, k directTask, worker int) {
	buf := r.buffer(worker)
	nt, _ := d.halfFloats()
	tile := buf.Floats(nt)
	step := d.halfUnits()
	for u := k.u0; u < k.u1; u += step {
		part := d.within(k, u, min(u+step, k.u1))
		d.halfTile(r, d.groupOf(r, &part), d.pad.size(), &part, tile)
	}
}

// widened computes task i, some pixels of some pairs of blocks.
func (d *directConv) widened(r *convRun, i, worker int) {
	buf := r.buffer(worker)
	nt, ni := d.halfFloats()
	tile, in := buf.Floats(nt), buf.Floats(ni)
	step := d.halfUnits()
	first, n := d.parts.Part(i % d.parts.P)
	pair, pairs := d.perPair.Part(i / d.parts.P)
	last := first + n
	for u := first; u < last; u += step {
		k := d.within(directTask{}, u, min(u+step, last))
		plane := k.pixels * d.b
		for j := range d.inPlanes {
			r.from.take(in[j*plane:][:plane], (j*d.inN+k.pixel)*d.b)
		}
		for k.pair = pair; k.pair < pair+pairs; k.pair++ {
			k.blocks = min(2, d.outBlocks-2*k.pair)
			d.halfTile(r, in, plane, &k, tile)
		}
	}
}

// halfTile computes a task in the cache, over input planes of so many floats, and narrows it into the result.
func (d *directConv) halfTile(r *convRun, in []float32, plane int, k *directTask, tile []float32) {
	a, size := d.args(r, k, plane), k.pixels*d.b
	if d.clamp {
		a.Flags |= simd.DirectCut
	}
	if d.narrows() {
		d.narrowTile(r, in, &a, k, tile)
		return
	}
	a.OutBlock = 4 * size
	var res []float32
	if d.s.Epilogue.Residual {
		a.Flags |= simd.DirectRes
		res = tile
		for j := range k.blocks {
			d.bringHalf(r, k, j, tile)
		}
	}
	d.compute(r, in, &a, k, tile, res)
	for j := range k.blocks {
		d.leaveHalf(r, k, j, tile)
	}
}

// narrowTile computes a task whose kernels write halves; sums of a call have room for those of chains.
func (d *directConv) narrowTile(r *convRun, in []float32, a *simd.DirectArgs, k *directTask, sums []float32) {
	at, _ := d.halfAt(r, k, 0)
	a.Out, a.OutBlock, a.HalfBlock = machine.Ptr(sums, 0), 4*d.b*d.cuts.Largest(), 2*d.b*d.outN
	a.Flags |= simd.DirectHalf
	t := *k
	t.half = r.args.Halves.Y[at:]
	if d.s.Epilogue.Residual {
		a.Flags |= simd.DirectHalfRes
		t.halfRes = r.args.Halves.Residual[at:]
	}
	d.compute(r, in, a, &t, nil, nil)
	for j := range k.blocks {
		have := d.s.OutC - (k.group*d.outBlocks+2*k.pair+j)*d.b
		if d.clears && have < d.b {
			clearLanes(t.half[j*d.outN*d.b:][:k.pixels*d.b], have, d.b)
		}
	}
}

// halfAt is where block j of a task begins in the result, and how far it is to a channel's next in a plain one.
func (d *directConv) halfAt(r *convRun, k *directTask, j int) (at, step int) {
	if d.s.OutBlocked {
		return r.image*d.outImage() + ((k.group*d.outBlocks+2*k.pair+j)*d.outN+k.pixel)*d.b, 0
	}
	at, step = d.resultAt(r.image, k.group, (2*k.pair+j)*d.b)
	return at + k.pixel, step
}

// bringHalf widens the residual of block j of a task into its tile, behind which there is room for a plain block.
func (d *directConv) bringHalf(r *convRun, k *directTask, j int, tile []float32) {
	size := k.pixels * d.b
	block := tile[j*size:][:size]
	at, step := d.halfAt(r, k, j)
	if d.s.OutBlocked {
		d.s.Half.widen(block, r.args.Halves.Residual[at:])
		return
	}
	r.bringHalves(block, tile[2*size:], at, step, min(d.b, d.ocg-(2*k.pair+j)*d.b), k.pixels)
}

// leaveHalf narrows block j of a task's tile into the result.
func (d *directConv) leaveHalf(r *convRun, k *directTask, j int, tile []float32) {
	size := k.pixels * d.b
	block := tile[j*size:][:size]
	at, step := d.halfAt(r, k, j)
	if d.s.OutBlocked {
		d.finishBlock(block, k.group*d.outBlocks+2*k.pair+j)
		d.s.Half.narrow(r.args.Halves.Y[at:][:size], block)
		return
	}
	r.leaveHalves(block, tile[2*size:], at, step, min(d.b, d.ocg-(2*k.pair+j)*d.b), k.pixels)
}

// halfStrip computes a depthwise strip a few rows at a time: they are widened, summed up and narrowed while they are in the L1 cache. There is room for
// a plain strip if the result is plain; turn is that of the output channels.
func (c *depthConv) halfStrip(r *convRun, p *strip, plain []float32, turn int, w, bias *float32) {
	const near = 1 << 12 // floats
	s := &c.strips
	line, rows, done := s.g.in[1]*c.b, max(1, near/(c.out[2]*c.b)), p.top
	var x source
	if s.padded { // all rows were widened
		rows = p.y1 - p.y0
	} else {
		x = r.input(s.inAt(p))
	}
	for y := p.y0; y < p.y1; y += rows {
		part := *p
		part.y0, part.y1 = y, min(y+rows, p.y1)
		if _, end := s.g.reach(part.y0, part.y1); end > done && !s.padded {
			at := (done - p.top) * line
			x.take(p.in[at:(end-p.top)*line], at)
			done = end
		}
		c.halfRows(r, &part, plain, turn, w, bias)
	}
}

// halfRows computes rows whose input is widened.
func (c *depthConv) halfRows(r *convRun, p *strip, plain []float32, turn int, w, bias *float32) {
	s, half, res := &c.strips, c.s.Half, []float32(nil)
	lo, hi := c.bounds()
	pixels := (p.y1 - p.y0) * c.out[2]
	tile, step := p.out[:pixels*c.b], c.each*c.outN
	to := (p.image*c.s.OutC+p.block*c.b*c.each+turn)*c.outN + p.y0*c.out[2]
	switch {
	case c.s.Epilogue.Residual && c.s.OutBlocked:
		res = tile
		half.widen(res, r.args.Halves.Residual[s.outAt(p):])
	case c.s.Epilogue.Residual:
		res = tile
		r.bringHalves(res, plain, to, step, p.have, pixels)
	}
	s.sum(c.t, p, res, w, bias, lo, hi)
	if !c.s.OutBlocked {
		r.leaveHalves(tile, plain, to, step, p.have, pixels)
		return
	}
	c.finishBlock(tile, p.block)
	half.narrow(r.args.Halves.Y[s.outAt(p):][:len(tile)], tile)
}
