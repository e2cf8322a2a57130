package kern

// Depthwise convolution: one window for each channel; see taps.go.

// depthGrid is the geometry of a depthwise convolution.
func (c *geometry) depthGrid() tapGrid {
	s := &c.s
	hw := func(x [3]int) [2]int { return [2]int{x[1], x[2]} }
	g := tapGrid{
		in: hw(s.In), kernel: hw(s.Kernel), stride: hw(s.Stride), dilation: hw(s.Dilation),
		pad: hw(s.PadBegin), out: hw(c.out), b: c.t.block(),
	}
	g.plan(false)
	return g
}

// depthWeights are depthwise weights: [block][tap][channel of the block].
type depthWeights struct {
	*geometry
	b int // channels of a block
}

func (d depthWeights) layout() Layout                    { return d.weightLayout("depthwise") }
func (d depthWeights) size() int                         { return roundUp(d.s.OutC, d.b) * d.taps }
func (d depthWeights) unitSize() int                     { return d.b * d.taps }
func (d depthWeights) pieces() int                       { return 1 }
func (d depthWeights) span(int) (at, n int)              { return 0, d.size() }
func (d depthWeights) packUnit(dst []float32, v float32) { fillUnit(dst, v) }

func (d depthWeights) pack(dst, w []float32, _ int) {
	clear(dst[:d.size()])
	for ch := range d.s.OutC {
		for t := range d.taps {
			dst[((ch/d.b)*d.taps+t)*d.b+ch%d.b] = w[ch*d.taps+t]
		}
	}
}

// depthConv computes depthwise convolutions of plain images.
type depthConv struct {
	depthWeights
	strips strips
}

func newDepthConv(g *geometry) *depthConv {
	c := &depthConv{depthWeights: depthWeights{g, g.t.block()}}
	c.strips.g = g.depthGrid()
	c.strips.plan(g.s.OutC)
	return c
}

func (c *depthConv) perWorker() int {
	return c.strips.perWorker() + scratchBytes(4*c.b, 4*c.leaveLen(c.strips.rows*c.out[2]))
}

func (c *depthConv) workspace(threads int) int {
	return c.perWorker() * max(1, min(threads, c.strips.tasks(c.s.Batch)))
}

func (c *depthConv) run(r *convRun, threads int) {
	r.overPool(c.strips.tasks(c.s.Batch), c.perWorker(), threads)
}

// task computes one strip.
func (c *depthConv) task(r *convRun, i, worker int) {
	s, e := &c.strips, &c.s.Epilogue
	buf := r.buffer(worker)
	p := s.load(c.t, i, r.args.X, &buf)
	bias := buf.floats(s.g.b)
	clear(bias)
	if e.Bias != NoBias {
		copy(bias, r.args.Bias[p.block*s.g.b:][:p.have])
	}
	lo, hi := negInf, posInf
	if c.clamp && !e.Residual {
		lo, hi = c.lo, c.hi
	}
	s.g.sum(c.t, p.out, p.in, nil, p.y0, p.y1, p.top, r.w.at(p.block*c.taps*s.g.b), &bias[0], lo, hi)
	n := (p.y1 - p.y0) * c.out[2]
	to := (p.image*c.s.OutC+p.block*s.g.b)*c.outN + p.y0*c.out[2]
	r.leave(p.out, &buf, to, p.have, n)
}

// leave brings n pixels of a block, without residual and activation as yet, into
// the plain layout at element to of the result. The residual may be the result:
// it is read before the result is written.
func (r *convRun) leave(block []float32, buf *scratch, to, channels, n int) {
	c := r.c
	e := &c.s.Epilogue
	if !e.Residual {
		if c.after != Identity {
			block = block[:n*c.t.block()]
			c.t.unaryRow(c.after, block, block, e.P0, e.P1)
		}
		c.t.unblock(r.args.Y[to:], block, channels, n, c.outN)
		return
	}
	plain := buf.floats(channels * n)
	c.t.unblock(plain, block, channels, n, n)
	for ch := range channels {
		y := r.args.Y[to+ch*c.outN:][:n]
		c.t.binaryRow(Add, y, plain[ch*n:][:n], r.args.Residual[to+ch*c.outN:][:n])
		if e.Act != Identity {
			c.t.unaryRow(e.Act, y, y, e.P0, e.P1)
		}
	}
}

// leaveLen is the floats that leave needs for n pixels of a block.
func (c *geometry) leaveLen(n int) int {
	if !c.s.Epilogue.Residual {
		return 0
	}
	return c.t.block() * n
}
