package convolve

import (
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Direct convolution.
//
// Each output is a sum over input channels, kernel rows and taps; a direct
// kernel computes up to 14 neighbouring pixels of two blocks of output channels
// and keeps them in registers throughout:
//
//	for pairs of output blocks          weights of a pair stay in the L2 cache
//	  for output rows
//	    for pieces of a row             products in chains
//
// The input is first copied with its padding written out (unless it has none),
// so no kernel ever tests for borders. A pointwise convolution takes the whole
// image for one row. Images may be blocked or plain. Into a plain result, a task computes
// a few rows of a pair of output blocks into the cache and brings them into that layout.

// directChain is about how many products are added up one after the other. The error of a sum grows with the length of its chain, and what
// a kernel takes to add one to those before is little against so many products.
const directChain = 128

// directWork is the largest task, in multiply-adds.
const directWork = 4 << 20

// directConv computes convolutions directly.
type directConv struct {
	paddedInput
	flat      bool
	rowLen    int        // output pixels of a row
	step      [2]int     // input rows and pixels from one output to the next
	rows      int        // output rows
	cuts      gemm.Split // pieces of a row
	chain     int        // planes whose products are added up one after the other
	parts     gemm.Split // tasks of a pair of blocks: rows (pieces, if flat)
	perPair   gemm.Split // pairs of blocks, where tasks widen several
	rowsFirst bool       // neighbouring tasks share rows rather than weights
	byTaps    bool       // outputs are computed tap by tap, without those of the padding
}

// newDirectConv works out rows, pieces and tasks.
func newDirectConv(g *geometry) *directConv {
	d, s := &directConv{paddedInput: newPaddedInput(g)}, &g.s
	d.step = [2]int{s.Stride[1], s.Stride[2]}
	d.pad = paddedCopy{
		rows: s.In[1], cols: s.In[2], top: s.PadBegin[1], left: s.PadBegin[2], width: d.width, step: [2]int{1, 1},
		pRows: (g.out[1]-1)*s.Stride[1] + (s.Kernel[1]-1)*s.Dilation[1] + 1,
		pCols: (g.out[2]-1)*s.Stride[2] + (s.Kernel[2]-1)*s.Dilation[2] + 1,
	}
	if d.skipsPixels() {
		d.pad.step, d.step = d.step, [2]int{1, 1}
		d.pad.pRows, d.pad.pCols = g.out[1], g.out[2]
	}
	if d.byTaps = d.skipsTaps(); d.byTaps {
		d.pad.top, d.pad.left, d.pad.pRows, d.pad.pCols = 0, 0, 0, 0
	}
	if !d.pad.needed() { // read in place, rows as they are
		d.pad.pRows, d.pad.pCols = s.In[1], s.In[2]
	}
	d.rows, d.rowLen = g.out[1], g.out[2]
	if g.taps == 1 && d.step == [2]int{1, 1} && d.pad.pRows*d.pad.pCols == g.outN {
		d.flat, d.rows, d.rowLen = true, 1, g.outN
	}
	d.cuts = gemm.NewSplit(d.rowLen, d.t.Mr)
	taps := d.taps
	if d.byTaps {
		taps = 1
	}
	d.chain = gemm.NewSplit(d.perGroup, machine.CeilDiv(directChain, d.width*taps)).Largest()
	d.cut()
	return d
}

// skipsPixels reports whether the pixels that a pointwise convolution with strides reads are copied: the image is one row
// then, of whole pieces, and one output block after the other reads no others.
func (d *directConv) skipsPixels() bool {
	return (d.t.Level == machine.LevelAVX2 || d.s.Half != NoHalf) && d.taps == 1 && d.s.InBlocked && d.step != [2]int{1, 1}
}

// cut divides rows (or, of a flat image, pieces of the one row) over tasks.
func (d *directConv) cut() {
	units, unit := d.rows, d.rowLen
	if d.flat {
		units, unit = d.cuts.P, d.cuts.Largest()
	}
	one := unit * 2 * d.b * d.icg * d.taps
	work := gemm.TaskWork(d.s.Batch*d.allPairs()*units*one, directWork)
	perTask := machine.CeilDiv(work, max(1, one))
	const small = 1 << 17 // floats of weights that fit the L2 cache
	d.rowsFirst = d.pairLen()*d.pairs() <= small
	if d.widens = d.canWiden(); d.widens {
		d.cutWidened()
		return
	}
	if most := d.cachedUnits(unit); most > 0 {
		perTask, d.rowsFirst = min(perTask, most), true
	}
	d.parts = gemm.NewSplit(units, max(1, perTask))
}

// cachedUnits is how many units of so many output pixels a task may take for the channels of its input to
// stay in the L2 cache while one pair of output blocks after the other reads them; 0 where that is not
// asked for. Processors without AVX-512 wait for inputs that come from further away, a few pixels of each
// of many planes: with 256 channels their kernels reach 60% of the peak, and 87% from the L2 cache.
// Weights come from there as well as from near, since they are read in order.
func (d *directConv) cachedUnits(unit int) int {
	const (
		cached = 1 << 15 // floats, a quarter of a small L2 cache
		least  = 4
	)
	if d.t.Level != machine.LevelAVX2 {
		return 0
	}
	return max(least, cached/max(1, unit*d.icg*d.step[0]*d.step[1]))
}

// tasks is the number of tasks of one image.
func (d *directConv) tasks() int {
	if d.widens {
		return d.parts.P * d.perPair.P
	}
	return d.allPairs() * d.parts.P
}

// packing lays out, for each pair of blocks, input channels, kernel rows, taps, the
// channels of two output blocks; so the weights of a pair are its rows, transposed. For a
// blocked input the channels of a block come last but for the outputs, and padding has
// weights of zero.
func (d *directConv) packing() *gemm.Packing {
	kind := "conv direct"
	switch {
	case d.byTaps && d.icg%d.width != 0: // padding is between the taps
		kind = "conv padded taps"
	case d.byTaps:
		kind = "conv taps"
	case d.byBlocks():
		kind = "conv blocked"
	}
	return d.packingOf(d.weightLayout(kind), d.packPair)
}

// packPair packs the weights of pair i.
func (d *directConv) packPair(dst, w []float32, i int) {
	pair := i % d.pairs()
	n := min(2, d.outBlocks-2*pair) * d.b
	have := min(n, d.ocg-2*pair*d.b)
	rows := w[(i/d.pairs()*d.ocg+2*pair*d.b)*d.icg*d.taps:]
	clear(dst[:d.pairLen()])
	if d.byTaps || d.byBlocks() {
		d.packBlocks(dst, rows, have, n)
		return
	}
	k := d.icg * d.taps
	for j := 0; j < have; j += d.t.Tw {
		d.t.Transpose(machine.F32p(dst, j), machine.F32p(rows, j*k), k, 4*n, 4*k, min(d.t.Tw, have-j))
	}
}

// byBlocks reports that the weights of an input block's channels lie together; with one tap
// they do anyway, if there is no padding.
func (d *directConv) byBlocks() bool {
	return d.s.InBlocked && (d.taps > 1 || d.icg%d.b != 0)
}

// packBlocks packs rows of weights by blocks of input channels, n outputs to each input; all are one block where taps are computed one by one.
func (d *directConv) packBlocks(dst, rows []float32, have, n int) {
	k, block := d.icg*d.taps, d.b
	if d.byTaps {
		block = d.perGroup * d.width
	}
	for ic := range d.icg {
		at := (ic/block*d.taps*block + ic%block) * n
		for j := 0; j < have; j += d.t.Tw {
			d.t.Transpose(machine.F32p(dst, at+j), machine.F32p(rows, j*k+ic*d.taps), d.taps, 4*block*n, 4*k, min(d.t.Tw, have-j))
		}
	}
}

// directTask is a task: a range of output pixels of a pair of blocks.
type directTask struct {
	group, pair, blocks int
	u0, u1              int // rows, or pieces of a flat image
	pixel, pixels       int // the output pixels, flat

	half, halfRes []uint16 // where the first pixel goes if kernels narrow, and its residual
}

// taskAt is task i of an image.
func (d *directConv) taskAt(i int) directTask {
	all := d.allPairs()
	gp, rt := i/d.parts.P, i%d.parts.P
	if d.rowsFirst {
		gp, rt = i%all, i/all
	}
	k := directTask{group: gp / d.pairs(), pair: gp % d.pairs()}
	k.blocks = min(2, d.outBlocks-2*k.pair)
	first, n := d.parts.Part(rt)
	return d.within(k, first, first+n)
}

// within is a task over other rows, or pieces.
func (d *directConv) within(k directTask, u0, u1 int) directTask {
	k.u0, k.u1 = u0, u1
	if !d.flat {
		k.pixel, k.pixels = u0*d.rowLen, (u1-u0)*d.rowLen
		return k
	}
	k.pixel, _ = d.cuts.Part(u0)
	last, n := d.cuts.Part(u1 - 1)
	k.pixels = last + n - k.pixel
	return k
}

// args are the arguments that all kernel calls of a task share, without residual and clamp; planes of the input have so many floats.
func (d *directConv) args(r *convRun, k *directTask, plane int) simd.DirectArgs {
	c, s := d.geometry, &d.s
	a := simd.DirectArgs{
		W: unsafe.Pointer(r.w.At((k.group*d.pairs() + k.pair) * d.pairLen())), Ic: d.perGroup, Kh: s.Kernel[1], Kw: s.Kernel[2],
		Plane: 4 * plane, Row: 4 * d.width * d.pad.pCols * s.Dilation[1],
		Tap: 4 * d.width * s.Dilation[2], Pixel: 4 * d.width * d.step[1],
		Lo: c.lo, Hi: c.hi, Chain: d.chain,
	}
	if c.taps == 1 || d.byTaps { // the planes of a chain are the taps of one row: the innermost loop of the kernel
		full := d.perGroup / d.chain
		a.Ic, a.Kh, a.Kw, a.Chain = max(1, full), 1, min(d.perGroup, d.chain), 1
		a.Tap, a.Plane = a.Plane, d.chain*a.Plane
	}
	if d.s.Epilogue.Bias != simd.NoBias {
		a.Flags |= simd.DirectBias
		a.Bias = machine.Ptr(r.bias, k.group*d.ocg+2*k.pair*d.b)
	}
	return a
}

// compute runs the kernels of a task over the image of its group with its padding, or where tasks widen, its pixels of that; tile, and res unless
// it is nil, begin at the first pixel of the task. With kernels so large that a row takes long
// it looks for the end of the run before every call.
func (d *directConv) compute(r *convRun, in []float32, a *simd.DirectArgs, k *directTask, tile, res []float32) {
	skipped := 0 // pixels that are not in the image
	if d.widens {
		skipped = k.pixel
	}
	const long = 1 << 24 // multiplications, about a millisecond
	isLong := d.rowLen*d.icg*d.taps > long/(2*d.b)
	call := func(row, q int) {
		if isLong && machine.Closed(r.args.Done) {
			return
		}
		x, n := d.cuts.Part(q)
		a.In = machine.Ptr(in, (row*d.step[0]*d.pad.pCols+x*d.step[1]-skipped)*d.width)
		at := (row*d.rowLen + x - k.pixel) * d.b
		if k.half != nil {
			a.Half = machine.Ptr(k.half, at)
			if k.halfRes != nil {
				a.HalfRes = machine.Ptr(k.halfRes, at)
			}
		} else {
			a.Out = machine.Ptr(tile, at)
		}
		if res != nil {
			a.Res = machine.Ptr(res, at)
		}
		d.sum(n, k.blocks, a)
	}
	for u := k.u0; u < k.u1; u++ {
		switch {
		case d.flat:
			call(0, u)
			continue
		case d.byTaps:
			d.rowByTaps(r, in, *a, k, u, tile, res)
			continue
		}
		for q := range d.cuts.P {
			call(u, q)
		}
	}
}

// sum computes n pixels of some blocks. Chains of planes that are the taps of a row are as long as each other,
// and what is left is added to their sum by a call of its own.
func (d *directConv) sum(n, blocks int, a *simd.DirectArgs) {
	full, rest := d.perGroup/d.chain, d.perGroup%d.chain
	if d.taps > 1 && !d.byTaps || full == 0 || rest == 0 {
		d.t.Direct(n, blocks, !d.s.InBlocked, a)
		return
	}
	c := *a
	c.Flags &^= simd.DirectCut | simd.DirectHalf
	d.t.Direct(n, blocks, !d.s.InBlocked, &c)
	c.In, c.W = unsafe.Add(a.In, full*a.Plane), unsafe.Add(a.W, 4*full*d.chain*d.width*blocks*d.b)
	c.Ic, c.Kw, c.Res = 1, rest, a.Out
	c.Flags = simd.DirectRes | a.Flags&(simd.DirectCut|simd.DirectHalf)
	d.t.Direct(n, blocks, !d.s.InBlocked, &c)
}

// pixels is the most pixels of a task.
func (d *directConv) pixels() int {
	if d.flat {
		return d.parts.Largest() * d.cuts.Largest()
	}
	return d.parts.Largest() * d.rowLen
}

func (d *directConv) perWorker() int {
	if d.s.Half != NoHalf {
		tile, in := d.halfFloats()
		return machine.ScratchBytes(4*tile, 4*in)
	}
	if d.s.OutBlocked {
		return 0
	}
	return machine.ScratchBytes(8 * d.b * d.pixels())
}

func (d *directConv) workspace(threads int) int {
	return d.workspaceOf(d.tasks(), d.perWorker(), threads)
}

func (d *directConv) run(r *convRun, threads int) { d.runTasks(r, d.tasks(), d.perWorker(), threads) }

// task computes one task, or pads a plane.
func (d *directConv) task(r *convRun, i, worker int) {
	if r.phase == convPads {
		d.padPlane(r, i)
		return
	}
	switch {
	case d.widens:
		d.widened(r, i, worker)
		return
	case d.s.Half != NoHalf:
		d.halves(r, d.taskAt(i), worker)
		return
	}
	k := d.taskAt(i)
	a := d.args(r, &k, d.pad.size())
	if d.s.OutBlocked {
		d.inPlace(r, &a, &k)
	} else {
		d.throughTile(r, &a, &k, worker)
	}
}

// groupOf is the image of a task's group with its padding.
func (d *directConv) groupOf(r *convRun, k *directTask) []float32 {
	return r.in[k.group*d.perGroup*d.pad.size():]
}

// inPlace computes a task where its blocks lie in the result.
func (d *directConv) inPlace(r *convRun, a *simd.DirectArgs, k *directTask) {
	plane := d.outN * d.b
	block := k.group*d.outBlocks + 2*k.pair
	to := r.image*d.outImage() + block*plane + k.pixel*d.b
	a.OutBlock = 4 * plane
	if d.clamp {
		a.Flags |= simd.DirectCut
	}
	var res []float32
	if d.s.Epilogue.Residual {
		a.Flags |= simd.DirectRes
		res = r.args.Residual[to:]
	}
	d.compute(r, d.groupOf(r, k), a, k, r.args.Y[to:], res)
	for j := range k.blocks {
		d.finishBlock(r.args.Y[to+j*plane:][:k.pixels*d.b], block+j)
	}
}

// throughTile computes a task in the cache and brings it into the plain layout.
func (d *directConv) throughTile(r *convRun, a *simd.DirectArgs, k *directTask, worker int) {
	buf := r.buffer(worker)
	a.OutBlock = 4 * k.pixels * d.b
	if d.clamp {
		a.Flags |= simd.DirectCut
	}
	plane := k.pixels * d.b
	tile := buf.Floats(2 * d.b * d.pixels())[:k.blocks*plane]
	to, step := d.resultAt(r.image, k.group, 2*k.pair*d.b)
	each := func(f func(block []float32, to, step, channels, n int)) {
		for j := range k.blocks {
			f(tile[j*plane:][:plane], to+k.pixel+j*d.b*step, step, min(d.b, d.ocg-(2*k.pair+j)*d.b), k.pixels)
		}
	}
	var res []float32
	if d.s.Epilogue.Residual {
		a.Flags |= simd.DirectRes
		each(r.bringResidual)
		res = tile
	}
	d.compute(r, d.groupOf(r, k), a, k, tile, res)
	each(r.leave)
}

// paddedCopy writes planes of rows × cols pixels of some floats each into larger planes of
// zeros, or only every few rows and pixels of them.
type paddedCopy struct {
	rows, cols   int    // of the source
	pRows, pCols int    // of the destination
	top, left    int    // where the source's first pixel goes
	width        int    // floats of a pixel
	step         [2]int // rows and pixels of the source from one that is copied to the next
}

// plane copies one plane. What lies outside of the destination is dropped.
func (p *paddedCopy) plane(dst []float32, src source) {
	line, left := p.pCols*p.width, p.left*p.width
	n := max(0, min(p.cols, p.pCols-p.left)) * p.width
	for y := range p.pRows {
		row := dst[y*line:][:line]
		from := y*p.step[0] - p.top
		if from < 0 || from >= p.rows {
			clear(row)
			continue
		}
		if p.step[1] != 1 {
			p.skip(row, src.after(from*p.cols*p.width))
			continue
		}
		clear(row[:left])
		src.take(row[left:][:n], from*p.cols*p.width)
		clear(row[min(line, left+n):])
	}
}

// skip copies every few pixels of a row.
func (p *paddedCopy) skip(dst []float32, src source) {
	if src.half != NoHalf {
		p.skipHalves(dst, src)
		return
	}
	for x := range p.pCols {
		to := dst[x*p.width:][:p.width]
		if from := x*p.step[1] - p.left; from < 0 || from >= p.cols {
			clear(to)
		} else {
			src.take(to, from*p.width)
		}
	}
}

// size is the number of floats of a padded plane.
func (p *paddedCopy) size() int { return p.pRows * p.pCols * p.width }

// needed reports whether the padded plane differs from the plain one.
func (p *paddedCopy) needed() bool {
	return p.top != 0 || p.left != 0 || p.pRows > p.rows || p.pCols > p.cols || p.step != [2]int{1, 1}
}
