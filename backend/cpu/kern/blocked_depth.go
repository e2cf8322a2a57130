package kern

// blockedTaskTaps is the number of taps, in vectors, from which on rows of a
// depthwise convolution make a task of their own.
const blockedTaskTaps = 1 << 16

// blockedDepth computes depthwise convolutions of blocked images.
type blockedDepth struct {
	depthWeights
	g    *blockedGeometry
	grid tapGrid
	rows split // strips of rows
}

func newBlockedDepth(g *blockedGeometry) *blockedDepth {
	cuts := max(1, min(g.out[1], g.outN*g.taps/blockedTaskTaps))
	return &blockedDepth{depthWeights{g.geometry, g.b}, g, g.depthGrid(), split{g.out[1], cuts, g.out[1] / cuts, g.out[1] % cuts}}
}

func (p *blockedDepth) name() string             { return "blocked depthwise" }
func (p *blockedDepth) workspaceBlocked(int) int { return 0 }

func (p *blockedDepth) runBlocked(r *blockedRun, threads int) {
	Parallel(p.s.Batch*ceilDiv(p.s.OutC, p.b)*p.rows.p, threads, r)
}

// taskBlocked computes a strip of rows of one block.
func (p *blockedDepth) taskBlocked(r *blockedRun, i, _ int) {
	e := &p.s.Epilogue
	y0, n := p.rows.part(i % p.rows.p)
	at := i / p.rows.p // image and block
	block := at % ceilDiv(p.s.OutC, p.b)
	line := p.out[2] * p.b
	first := at*p.outN*p.b + y0*line
	y := r.args.Y[first:][:n*line]
	bias := &noBias[0]
	if e.Bias != NoBias {
		bias = &r.bias[block*p.b]
	}
	var res []float32
	if e.Residual {
		res = r.args.Residual[first:][:len(y)]
	}
	lo, hi := p.g.bounds()
	p.grid.sum(p.t, y, r.args.X[at*p.inN*p.b:][:p.inN*p.b], res, y0, y0+n, 0, r.w.at(block*p.taps*p.b), bias, lo, hi)
	p.g.finish(y, at*p.outN*p.b)
}
