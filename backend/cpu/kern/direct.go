package kern

import "unsafe"

// Direct convolution.
//
// Each output is a sum over input channels, kernel rows and taps; a direct
// kernel computes up to 14 neighbouring pixels of two blocks of output channels
// and keeps them in registers throughout:
//
//	for pairs of output blocks          weights of a pair stay in the L2 cache
//	  for output rows
//	    for pieces of a row             one call: all input channels, all taps
//
// The input is first copied with its padding written out (unless it has none),
// so no kernel ever tests for borders. A pointwise convolution takes the whole
// image for one row. Inputs may be blocked or plain; outputs are blocked, and
// brought into the plain layout task by task where that is wanted.

// directPlan lays out a direct convolution.
type directPlan struct {
	*blockedGeometry
	flat      bool
	pad       paddedCopy
	inPlanes  int   // planes of one image: blocks, or channels if plain
	width     int   // floats of an input pixel in a plane
	rowLen    int   // output pixels of a row
	rows      int   // output rows
	cuts      split // pieces of a row
	perTask   int   // rows of a task (pieces, if flat)
	rowTasks  int   // tasks of a pair of blocks
	rowsFirst bool  // neighbouring tasks share rows rather than weights
}

func newDirectPlan(g *geometry, plainIn bool) directPlan {
	return directPlan{blockedGeometry: newBlockedGeometry(g, plainIn)}
}

// layOut works out rows, pieces and tasks of about so many multiply-adds.
func (d *directPlan) layOut(work int) {
	c, s := d.geometry, &d.s
	d.width, d.inPlanes = d.b, s.Groups*d.inBlocks
	if d.plainIn {
		d.width, d.inPlanes = 1, s.InC
	}
	d.pad = paddedCopy{
		rows: s.In[1], cols: s.In[2], top: s.PadBegin[1], left: s.PadBegin[2], width: d.width,
		pRows: (c.out[1]-1)*s.Stride[1] + (s.Kernel[1]-1)*s.Dilation[1] + 1,
		pCols: (c.out[2]-1)*s.Stride[2] + (s.Kernel[2]-1)*s.Dilation[2] + 1,
	}
	if !d.pad.needed() { // read in place, rows as they are
		d.pad.pRows, d.pad.pCols = s.In[1], s.In[2]
	}
	d.rows, d.rowLen = c.out[1], c.out[2]
	if c.taps == 1 && s.Stride == [3]int{1, 1, 1} && !d.pad.needed() {
		d.flat, d.rows, d.rowLen = true, 1, c.outN
	}
	d.cuts = newSplit(d.rowLen, d.maxT)
	d.cut(work)
}

// cut divides rows (or, of a flat image, pieces of the one row) over tasks.
func (d *directPlan) cut(work int) {
	units, unit := d.rows, d.rowLen
	if d.flat {
		units, unit = d.cuts.p, d.cuts.largest()
	}
	one := unit * 2 * d.b * d.icg * d.taps
	d.perTask = max(1, min(units, ceilDiv(work, max(1, one))))
	d.perTask = newSplit(units, d.perTask).largest()
	d.rowTasks = ceilDiv(units, d.perTask)
	const small = 1 << 17 // floats of weights that stay in the L2 cache
	d.rowsFirst = d.pairLen()*d.pairs() <= small
}

// pieces is the number of pairs of blocks.
func (d *directPlan) pieces() int { return d.s.Groups * d.pairs() }

// tasks is the number of tasks of one image.
func (d *directPlan) tasks() int { return d.pieces() * d.rowTasks }

// Weights: for each pair of blocks: input channel blocks, kernel rows, taps, channels of
// the input block, two output blocks. A plain input has blocks of one channel, so the
// weights of a pair are its rows, transposed.
func (d *directPlan) layout() Layout {
	if d.plainIn {
		return d.weightLayout("conv direct")
	}
	return d.weightLayout("conv blocked")
}
func (d *directPlan) size() int     { return d.pieces() * d.pairLen() }
func (d *directPlan) unitSize() int { return d.pairLen() }

func (d *directPlan) packUnit(dst []float32, v float32) { fillUnit(dst, v) }

// pairLen is the floats of a pair of blocks' weights.
func (d *directPlan) pairLen() int {
	if d.plainIn {
		return d.icg * d.taps * 2 * d.b
	}
	return d.inBlocks * d.b * d.taps * 2 * d.b
}

func (d *directPlan) span(i int) (at, n int) { return i * d.pairLen(), d.pairLen() }

func (d *directPlan) pack(dst, w []float32, i int) {
	pair := i % d.pairs()
	n := min(2, d.outBlocks-2*pair) * d.b
	have := min(n, d.ocg-2*pair*d.b)
	rows := w[(i/d.pairs()*d.ocg+2*pair*d.b)*d.icg*d.taps:]
	clear(dst[:d.pairLen()])
	if d.plainIn {
		k := d.icg * d.taps
		for j := 0; j < have; j += d.t.tw {
			d.t.transpose(f32p(dst, j), f32p(rows, j*k), k, 4*n, 4*k, min(d.t.tw, have-j))
		}
		return
	}
	for j := range have {
		src := rows[j*d.icg*d.taps:]
		for ic := range d.icg {
			at := ((ic/d.b*d.taps)*d.b+ic%d.b)*n + j
			for tap := range d.taps {
				dst[at+tap*d.b*n] = src[ic*d.taps+tap]
			}
		}
	}
}

// directTask is one task: a range of output pixels of a pair of blocks.
type directTask struct {
	group, pair, blocks int
	u0, u1              int // rows, or pieces of a flat image
	pixel, pixels       int // the output pixels, flat
}

// task is task i of an image.
func (d *directPlan) task(i int) directTask {
	all := d.pieces()
	gp, rt := i/d.rowTasks, i%d.rowTasks
	if d.rowsFirst {
		gp, rt = i%all, i/all
	}
	k := directTask{group: gp / d.pairs(), pair: gp % d.pairs(), u0: rt * d.perTask}
	k.blocks = min(2, d.outBlocks-2*k.pair)
	if !d.flat {
		k.u1 = min(k.u0+d.perTask, d.rows)
		k.pixel, k.pixels = k.u0*d.rowLen, (k.u1-k.u0)*d.rowLen
		return k
	}
	k.u1 = min(k.u0+d.perTask, d.cuts.p)
	k.pixel, _ = d.cuts.part(k.u0)
	last, n := d.cuts.part(k.u1 - 1)
	k.pixels = last + n - k.pixel
	return k
}

// args fills in what all kernel calls of a task share, but for the epilogue.
func (d *directPlan) args(weights *packedView, k *directTask) directArgs {
	c, s := d.geometry, &d.s
	a := directArgs{
		w: unsafe.Pointer(weights.at((k.group*d.pairs() + k.pair) * d.pairLen())), ic: d.inBlocks, kh: s.Kernel[1], kw: s.Kernel[2],
		plane: 4 * d.pad.size(), row: 4 * d.pad.pCols * d.width * s.Dilation[1],
		tap: 4 * d.width * s.Dilation[2], pixel: 4 * d.width * s.Stride[2],
		lo: c.lo, hi: c.hi,
	}
	if d.plainIn {
		a.ic = c.icg
	}
	return a
}

// compute runs the kernels of a task. The task's first pixel goes to element at
// of y, and has its residual there.
func (d *directPlan) compute(a *directArgs, in []float32, k *directTask, y, res []float32, at int) {
	s := &d.s
	planes := d.inBlocks
	if d.plainIn {
		planes = d.icg
	}
	in = in[k.group*planes*d.pad.size():]
	call := func(row, q int) {
		x, n := d.cuts.part(q)
		to := at + (row*d.rowLen+x-k.pixel)*d.b
		a.in = ptr(in, (row*s.Stride[1]*d.pad.pCols+x*s.Stride[2])*d.width)
		a.out = ptr(y, to)
		if a.flags&directRes != 0 {
			a.res = ptr(res, to)
		}
		d.t.direct(n, k.blocks, d.plainIn, a)
	}
	for u := k.u0; u < k.u1; u++ {
		if d.flat {
			call(0, u)
			continue
		}
		for q := range d.cuts.p {
			call(u, q)
		}
	}
}
