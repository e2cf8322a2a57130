package kern

// Windows in the channel-blocked layout: depthwise convolution and pooling.
//
// A pixel is one vector, so a window is a list of vectors at fixed distances,
// and no lane is ever wasted. Borders need no padding either: the taps that
// exist for an output pixel are a rectangle of the kernel, most pixels have all
// of them, and pixels of one row with the same rectangle form a segment that
// one call computes:
//
//	   segments of a row, 3×3, padding 1
//	   ┌─┬───────────────┬─┐
//	   │a│       b       │c│     a: taps 1–2, b: taps 0–2, c: taps 0–1
//	   └─┴───────────────┴─┘
//
// All distances in a list are from the first tap that exists, so they are never
// negative.

// tapSegment is a run of output pixels that share their columns of taps.
type tapSegment struct{ x, n, lo, hi int }

// tapGrid is the geometry of a window and its lists of taps.
type tapGrid struct {
	in, kernel, stride, dilation, pad, out [2]int
	b                                      int
	rows                                   []tapSegment // of one pixel each: rows of taps, by output row
	cols                                   []tapSegment
	lists                                  map[[4]int]int // rectangle of taps → its list
	taps                                   [][]int        // pairs: distance in the input, place among the weights, in bytes
}

// plan works out segments and lists.
func (g *tapGrid) plan() {
	g.lists = map[[4]int]int{}
	for y := range g.out[0] {
		lo, hi := g.valid(0, y)
		g.rows = append(g.rows, tapSegment{y, 1, lo, hi})
	}
	for x := range g.out[1] {
		lo, hi := g.valid(1, x)
		if last := len(g.cols) - 1; last >= 0 && g.cols[last].lo == lo && g.cols[last].hi == hi {
			g.cols[last].n++
			continue
		}
		g.cols = append(g.cols, tapSegment{x, 1, lo, hi})
	}
	for _, r := range g.rows {
		for _, c := range g.cols {
			key := [4]int{r.lo, r.hi, c.lo, c.hi}
			if _, ok := g.lists[key]; !ok {
				g.lists[key] = len(g.taps)
				g.taps = append(g.taps, g.list(key))
			}
		}
	}
}

// valid returns the interval of taps of an output place whose input exists in
// one dimension.
func (g *tapGrid) valid(d, at int) (lo, hi int) {
	first := at*g.stride[d] - g.pad[d]
	if first < 0 {
		lo = min(g.kernel[d], ceilDiv(-first, g.dilation[d]))
	}
	hi = max(lo, min(g.kernel[d], ceilDiv(max(0, g.in[d]-first), g.dilation[d])))
	return lo, hi
}

// list is the list of taps of a rectangle.
func (g *tapGrid) list(k [4]int) []int {
	var l []int
	for y := k[0]; y < k[1]; y++ {
		for x := k[2]; x < k[3]; x++ {
			d := ((y-k[0])*g.dilation[0]*g.in[1] + (x-k[2])*g.dilation[1]) * g.b
			l = append(l, 4*d, 4*(y*g.kernel[1]+x)*g.b)
		}
	}
	return l
}

// segment returns the list of taps of a row's segment and the element of the
// block's plane where the first tap of its first pixel lies.
func (g *tapGrid) segment(r, c tapSegment) (list []int, from int) {
	l := g.taps[g.lists[[4]int{r.lo, r.hi, c.lo, c.hi}]]
	y := r.x*g.stride[0] - g.pad[0] + r.lo*g.dilation[0]
	x := c.x*g.stride[1] - g.pad[1] + c.lo*g.dilation[1]
	return l, (y*g.in[1] + x) * g.b
}

// depthTaps lays out a blocked depthwise convolution.
type depthTaps struct {
	grid    tapGrid
	perTask int // output rows of a task
	rowCuts int
	tasks   int // of one image
}

// planDepth lays out a depthwise convolution: weights are [block][tap][channel
// of the block].
func (p *BlockedConv) planDepth(w []float32) {
	c, s := p.c, &p.c.s
	blocks := ceilDiv(s.OutC, p.b)
	p.depth.grid = tapGrid{
		in: [2]int{s.In[1], s.In[2]}, kernel: [2]int{s.Kernel[1], s.Kernel[2]}, stride: [2]int{s.Stride[1], s.Stride[2]},
		dilation: [2]int{s.Dilation[1], s.Dilation[2]}, pad: [2]int{s.PadBegin[1], s.PadBegin[2]}, out: [2]int{c.out[1], c.out[2]}, b: p.b,
	}
	d := &p.depth
	d.grid.plan()
	d.perTask = max(1, min(c.out[1], windowTaskOps/(c.out[2]*c.taps*p.b)))
	d.rowCuts = ceilDiv(c.out[1], d.perTask)
	d.tasks = blocks * d.rowCuts
	p.weights = alignedFloats(blocks * c.taps * p.b)
	for ch := range s.OutC {
		for t := range c.taps {
			p.weights[((ch/p.b)*c.taps+t)*p.b+ch%p.b] = w[ch*c.taps+t]
		}
	}
}

// noBias is a block of zeros.
var noBias [16]float32

// depthTask computes a few rows of one block.
func (r *blockedRun) depthTask(i int) {
	p, c, d := r.p, r.p.c, &r.p.depth
	g := &d.grid
	blocks := d.tasks / d.rowCuts
	y0 := i % d.rowCuts * d.perTask
	at := i / d.rowCuts // image and block
	x := r.args.X[at*c.inN*p.b:][:c.inN*p.b]
	y := r.args.Y[at*c.outN*p.b:][:c.outN*p.b]
	w := &p.weights[at%blocks*c.taps*p.b]
	bias := &noBias[0]
	if c.s.Epilogue.Bias != NoBias {
		bias = &r.bias[at%blocks*p.b]
	}
	lo, hi := p.bounds()
	for row := y0; row < min(y0+d.perTask, c.out[1]); row++ {
		out := y[row*c.out[2]*p.b:][:c.out[2]*p.b]
		for _, seg := range g.cols {
			taps, from := g.segment(g.rows[row], seg)
			if len(taps) == 0 { // only padding: the bias alone
				taps, from = emptyTap[:], 0
				p.t.blockTaps(&out[seg.x*p.b], &noBias[0], seg.n, 0, &taps[0], 1, &noBias[0], bias, lo, hi)
				continue
			}
			p.t.blockTaps(&out[seg.x*p.b], &x[from], seg.n, 4*p.b*g.stride[1], &taps[0], len(taps)/2, w, bias, lo, hi)
		}
		r.finishDepth(out, at, row)
	}
}

// emptyTap is a list of one tap.
var emptyTap [2]int

// finishDepth adds the residual and applies what kernels do not.
func (r *blockedRun) finishDepth(out []float32, at, row int) {
	p, c := r.p, r.p.c
	if c.s.Epilogue.Residual {
		res := r.args.Residual[at*c.outN*p.b+row*c.out[2]*p.b:][:len(out)]
		p.t.binaryRow(Add, out, out, res)
		if c.clamp {
			p.t.unaryRow(c.s.Epilogue.Act, out, out, c.s.Epilogue.P0, c.s.Epilogue.P1)
		}
	}
	p.after(out, at*c.outN*p.b)
}

// bounds returns the clamp of the epilogue, or none if a residual comes first.
func (p *BlockedConv) bounds() (lo, hi float32) {
	if p.c.clamp && (p.algo != blockedDepth || !p.c.s.Epilogue.Residual) {
		return p.c.lo, p.c.hi
	}
	return negInf, posInf
}
