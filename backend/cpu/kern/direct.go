package kern

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
	c       *Conv // geometry
	t       *table
	b       int  // channels of a block
	plainIn bool // the input is in the plain layout

	inBlocks, outBlocks int // of a group
	maxT                int // pixels of a kernel call
	flat                bool
	pad                 paddedCopy
	inPlanes            int // planes of one image: blocks, or channels if plain
	width               int // floats of an input pixel in a plane
	rowLen              int // output pixels of a row
	rows                int // output rows
	pieces              split
	perTask             int  // rows of a task (pieces, if flat)
	rowTasks            int  // tasks of a pair of blocks
	rowsFirst           bool // neighbouring tasks share rows rather than weights
	pairLen             int  // floats of a pair of blocks' weights
}

// newDirectPlan starts a plan: what other algorithms of the blocked layout need
// of it, too.
func newDirectPlan(c *Conv, plainIn bool) directPlan {
	d := directPlan{c: c, t: c.t, b: c.t.block(), plainIn: plainIn, maxT: c.t.mr}
	d.inBlocks, d.outBlocks = ceilDiv(c.icg, d.b), ceilDiv(c.ocg, d.b)
	return d
}

// layOut works out rows, pieces and tasks of about so many multiply-adds.
func (d *directPlan) layOut(work int) {
	c, s := d.c, &d.c.s
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
	d.pieces = newSplit(d.rowLen, d.maxT)
	d.pairLen = c.icg * c.taps * 2 * d.b
	if !d.plainIn {
		d.pairLen = d.inBlocks * d.b * c.taps * 2 * d.b
	}
	d.cut(work)
}

// cut divides rows (or, of a flat image, pieces of the one row) over tasks.
func (d *directPlan) cut(work int) {
	c := d.c
	units, unit := d.rows, d.rowLen
	if d.flat {
		units, unit = d.pieces.p, d.pieces.largest()
	}
	one := unit * 2 * d.b * c.icg * c.taps
	d.perTask = max(1, min(units, ceilDiv(work, max(1, one))))
	d.perTask = newSplit(units, d.perTask).largest()
	d.rowTasks = ceilDiv(units, d.perTask)
	const small = 1 << 17 // floats of weights that stay in the L2 cache
	d.rowsFirst = d.pairLen*d.pairs() <= small
}

// pairs is the number of pairs of output blocks in a group; the last may be a
// single block.
func (d *directPlan) pairs() int { return ceilDiv(d.outBlocks, 2) }

// tasks is the number of tasks of one image.
func (d *directPlan) tasks() int { return d.c.s.Groups * d.pairs() * d.rowTasks }

// packedLen is the number of floats of the packed weights.
func (d *directPlan) packedLen() int { return d.c.s.Groups * d.pairs() * d.pairLen }

// packGroup lays out a group's weights: for each pair of blocks: input channel
// blocks, kernel rows, taps, channels of the input block, two output blocks. A
// plain input has blocks of one channel.
func (d *directPlan) packGroup(dst, w []float32, group int) {
	inner := d.b
	if d.plainIn {
		inner = 1
	}
	for pair := range d.pairs() {
		d.packPair(dst[(group*d.pairs()+pair)*d.pairLen:][:d.pairLen], w, group, pair, inner)
	}
}

func (d *directPlan) packPair(dst, w []float32, group, pair, inner int) {
	c := d.c
	clear(dst)
	n := min(2, d.outBlocks-2*pair) * d.b
	for j := range min(n, c.ocg-2*pair*d.b) {
		src := w[(group*c.ocg+2*pair*d.b+j)*c.icg*c.taps:]
		for ic := range c.icg {
			at := ((ic/inner*c.taps)*inner+ic%inner)*n + j
			for tap := range c.taps {
				dst[at+tap*inner*n] = src[ic*c.taps+tap]
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
	all := d.c.s.Groups * d.pairs()
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
	k.u1 = min(k.u0+d.perTask, d.pieces.p)
	k.pixel, _ = d.pieces.part(k.u0)
	last, n := d.pieces.part(k.u1 - 1)
	k.pixels = last + n - k.pixel
	return k
}

// args fills in what all kernel calls of a task share, but for the epilogue.
func (d *directPlan) args(weights []float32, k *directTask) directArgs {
	c, s := d.c, &d.c.s
	a := directArgs{
		w: ptr(weights, (k.group*d.pairs()+k.pair)*d.pairLen), ic: d.inBlocks, kh: s.Kernel[1], kw: s.Kernel[2],
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
	s := &d.c.s
	planes := d.inBlocks
	if d.plainIn {
		planes = d.c.icg
	}
	in = in[k.group*planes*d.pad.size():]
	call := func(row, q int) {
		x, n := d.pieces.part(q)
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
		for q := range d.pieces.p {
			call(u, q)
		}
	}
}
