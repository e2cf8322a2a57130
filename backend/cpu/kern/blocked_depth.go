package kern

// blockedTaskTaps is the number of taps, in vectors, from which on rows of a
// depthwise convolution make a task of their own.
const blockedTaskTaps = 1 << 16

// planDepth lays out a blocked depthwise convolution.
func (p *BlockedConv) planDepth(w []float32) {
	c := p.c
	p.depth = c.depthGrid()
	p.cuts = max(1, min(c.out[1], c.outN*c.taps/blockedTaskTaps))
	p.weights = alignedFloats(roundUp(c.s.OutC, p.b) * c.taps)
	packDepth(p.weights, w, c.s.OutC, c.taps, p.b)
}

// depthTask computes a strip of rows of one block.
func (r *blockedRun) depthTask(i int) {
	p, c, g := r.p, r.p.c, &r.p.depth
	e := &c.s.Epilogue
	rows := split{c.out[1], p.cuts, c.out[1] / p.cuts, c.out[1] % p.cuts}
	y0, n := rows.part(i % p.cuts)
	at := i / p.cuts // image and block
	block := at % ceilDiv(c.s.OutC, p.b)
	line := c.out[2] * p.b
	first := at*c.outN*p.b + y0*line
	y := r.args.Y[first:][:n*line]
	bias := &noBias[0]
	if e.Bias != NoBias {
		bias = &r.bias[block*p.b]
	}
	var res []float32
	if e.Residual {
		res = r.args.Residual[first:][:len(y)]
	}
	lo, hi := p.bounds()
	g.sum(p.t, y, r.args.X[at*c.inN*p.b:][:c.inN*p.b], res, y0, y0+n, 0, &p.weights[block*c.taps*p.b], bias, lo, hi)
	p.after(y, at*c.outN*p.b)
}

// bounds returns the clamp of the epilogue.
func (p *BlockedConv) bounds() (lo, hi float32) {
	if p.c.clamp {
		return p.c.lo, p.c.hi
	}
	return negInf, posInf
}
