package kern

// Depthwise convolution: one window for each channel; see taps.go.

// depthPlan lays out a depthwise convolution of plain images.
type depthPlan struct{ strips strips }

// depthGrid is the geometry of a depthwise convolution.
func (c *Conv) depthGrid() tapGrid {
	s := &c.s
	hw := func(x [3]int) [2]int { return [2]int{x[1], x[2]} }
	g := tapGrid{
		in: hw(s.In), kernel: hw(s.Kernel), stride: hw(s.Stride), dilation: hw(s.Dilation),
		pad: hw(s.PadBegin), out: hw(c.out), b: c.t.block(),
	}
	g.plan(false)
	return g
}

// planDepth lays out the strips.
func (c *Conv) planDepth() {
	c.dw.strips.g = c.depthGrid()
	c.dw.strips.plan(c.s.OutC)
}

// packDepth lays out depthwise weights: [block][tap][channel of the block].
func packDepth(dst, w []float32, channels, taps, b int) {
	clear(dst)
	for ch := range channels {
		for t := range taps {
			dst[((ch/b)*taps+t)*b+ch%b] = w[ch*taps+t]
		}
	}
}

// depthTask computes one strip.
func (r *convRun) depthTask(i int, buf *scratch) {
	c, s := r.c, &r.c.dw.strips
	e := &c.s.Epilogue
	p := s.load(c.t, i, r.args.X, buf)
	bias := buf.floats(s.g.b)
	clear(bias)
	if e.Bias != NoBias {
		copy(bias, r.args.Bias[p.block*s.g.b:][:p.have])
	}
	lo, hi := negInf, posInf
	if c.clamp && !e.Residual {
		lo, hi = c.lo, c.hi
	}
	w := &r.weights[p.block*c.taps*s.g.b]
	s.g.sum(c.t, p.out, p.in, nil, p.y0, p.y1, p.top, w, &bias[0], lo, hi)
	n := (p.y1 - p.y0) * c.out[2]
	to := (p.image*c.s.OutC+p.block*s.g.b)*c.outN + p.y0*c.out[2]
	r.leave(p.out, buf, to, p.have, n)
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
func (c *Conv) leaveLen(n int) int {
	if !c.s.Epilogue.Residual {
		return 0
	}
	return c.t.block() * n
}
