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
	s.g.sum(c.t, p.out, p.in, p.y0, p.y1, p.top, w, &bias[0], lo, hi)
	if c.after != Identity && !e.Residual {
		n := (p.y1 - p.y0) * c.out[2] * s.g.b
		c.t.unaryRow(c.after, p.out[:n], p.out[:n], e.P0, e.P1)
	}
	s.store(c.t, &p, r.args.Y)
	if e.Residual {
		r.addResidual((p.image*c.s.OutC+p.block*s.g.b)*c.outN+p.y0*c.out[2], p.have, (p.y1-p.y0)*c.out[2])
	}
}

// addResidual adds the residual to n pixels of some channels from element at
// on, and applies the activation.
func (r *convRun) addResidual(at, channels, n int) {
	c := r.c
	e := &c.s.Epilogue
	for ch := range channels {
		y := r.args.Y[at+ch*c.outN:][:n]
		c.t.binaryRow(Add, y, y, r.args.Residual[at+ch*c.outN:][:n])
		if e.Act != Identity {
			c.t.unaryRow(e.Act, y, y, e.P0, e.P1)
		}
	}
}
