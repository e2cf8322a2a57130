package kern

// Winograd convolution (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2015) in the channel-blocked layout, for 3×3 kernels of
// stride and dilation one.
//
// The image is covered by tiles of m×m outputs (m = 2 or 4), each from (m+2)²
// inputs. Tiles are transformed, multiplied with transformed weights position
// by position (each position is a small matrix product over channels), and
// transformed back:
//
//	 tiles ──BᵀdB──▶ U[position][channel][tile]
//	                      │ × V[position][channel][output channel]
//	                      ▼
//	        M[position][output channel][tile] ──AᵀMA──▶ outputs
//
// F(2,3) takes 16 instead of 36 multiplications for four outputs, F(4,3) 36
// instead of 144 for sixteen. The price is rounding: relative to the direct sum
// F(2,3) is about as exact, F(4,3) loses a few bits (see the generator's
// winograd file for the points chosen and why).
//
// The tiles of an image are cut into chunks whose U and M fit the L2 cache.
// With many chunks each is a task; with few, the threads share one chunk and go
// through its three phases together. The results are the same.

// Winograd chooses the algorithm for 3×3 convolutions.
type Winograd uint8

// The choices.
const (
	WinogradOff Winograd = iota // direct
	Winograd2                   // F(2,3): 2.25 times fewer multiplications
	Winograd4                   // F(4,3): 4 times fewer multiplications
)

// SuggestWinograd returns the choice that is fastest for a convolution at the
// active level, where the error of F(4,3) is no concern: off where the window
// does not allow Winograd, where there are too few channels for the transforms
// to pay, or where tiles would hang far over the border.
func SuggestWinograd(s ConvSpec) Winograd {
	c := &Conv{s: s, t: active.Load()}
	if c.s.Winograd = Winograd4; c.check() != nil || !winogradFits(&c.s) {
		return WinogradOff
	}
	covered := func(m int) float64 {
		h, w := c.out[1], c.out[2]
		return float64(h*w) / float64(ceilDiv(h, m)*ceilDiv(w, m)*m*m)
	}
	switch tiles := ceilDiv(c.out[1], 4) * ceilDiv(c.out[2], 4); {
	case min(c.icg, c.ocg) < 16 || c.t.level == LevelGeneric:
		return WinogradOff
	case tiles >= 9 && covered(4) > 0.6:
		return Winograd4
	case tiles >= 4 && covered(2) > 0.6:
		return Winograd2
	}
	return WinogradOff
}

// winoPlan lays out a Winograd convolution.
type winoPlan struct {
	m, n        int // tile of outputs, of inputs
	across      int // tiles in a row
	tiles       int // of an image
	chunks      split
	posU, posM  int // floats of one position of U and of M
	weightsLen  int // floats of one position of V
	patchFloats int // room for a patch of inputs, outputs or residuals
}

const (
	winoChunkFloats = 160 << 10 // U and M of a chunk
	winoMinTiles    = 42
)

// wantsWinograd reports whether the specification asks for Winograd and the
// geometry allows it.
func (p *BlockedConv) wantsWinograd() bool { return !p.plainIn && winogradFits(&p.c.s) }

// planWinograd lays out the tiles and transforms the weights.
func (p *BlockedConv) planWinograd(weights []float32) {
	c, w := p.c, &p.wino
	w.m = 2
	if p.c.s.Winograd == Winograd4 {
		w.m = 4
	}
	w.n = w.m + 2
	w.across = ceilDiv(c.out[2], w.m)
	w.tiles = w.across * ceilDiv(c.out[1], w.m)
	perTile := w.n * w.n * (p.inBlocks + p.outBlocks) * p.b
	w.chunks = newSplit(w.tiles, max(winoMinTiles, winoChunkFloats/perTile))
	g := w.chunks.largest()
	w.posU, w.posM = p.inBlocks*g*p.b, p.outBlocks*g*p.b
	p.pairLen = p.inBlocks * p.b * 2 * p.b
	w.weightsLen = p.pairs() * p.pairLen
	w.patchFloats = w.n * w.n * p.b
	p.transformWeights(weights)
}

// transformWeights makes V = G·g·Gᵀ in float64, laid out like the weights of a
// pointwise convolution for each position. All filters of a pair of blocks are
// transformed for one channel at a time, so that what is written is contiguous.
func (p *BlockedConv) transformWeights(weights []float32) {
	c, w, b := p.c, &p.wino, p.b
	gm := winoG(w.m)
	p.weights = alignedFloats(w.n * w.n * w.weightsLen)
	v := make([]float32, w.n*w.n*2*b) // by position, filters next to each other
	for pair := range p.pairs() {
		blocks := min(2, p.outBlocks-2*pair)
		filters := min(blocks*b, c.ocg-2*b*pair)
		for ic := range c.icg {
			for j := range filters {
				k := weights[((2*b*pair+j)*c.icg+ic)*9:][:9]
				winoFilter(gm, k, v[j:], 2*b)
			}
			for at := range w.n * w.n {
				copy(p.weights[at*w.weightsLen+pair*p.pairLen+ic*blocks*b:], v[at*2*b:][:filters])
			}
		}
	}
}

// winoFilter transforms one filter of 3×3; its positions lie step apart in v.
func winoFilter(gm [][3]float64, k, v []float32, step int) {
	n := len(gm)
	var rows [6][3]float64 // G·g
	for y := range n {
		for q := range 3 {
			rows[y][q] = gm[y][0]*float64(k[q]) + gm[y][1]*float64(k[3+q]) + gm[y][2]*float64(k[6+q])
		}
	}
	for y := range n {
		r := &rows[y]
		for x := range n {
			g := &gm[x]
			v[(y*n+x)*step] = float32(r[0]*g[0] + r[1]*g[1] + r[2]*g[2])
		}
	}
}

// winoPoints are the finite interpolation points.
func winoPoints(m int) []float64 {
	if m == 2 {
		return []float64{0, 1, -1}
	}
	return []float64{0, 0.75, -0.75, 1.5, -1.5}
}

// winoG is the weight transform: rows (1, p, p²)/Π(p−q) for the points, and
// (0, 0, 1) for infinity.
func winoG(m int) [][3]float64 {
	var g [][3]float64
	for i, p := range winoPoints(m) {
		d := 1.0
		for j, q := range winoPoints(m) {
			if i != j {
				d *= p - q
			}
		}
		g = append(g, [3]float64{1 / d, p / d, p * p / d})
	}
	return append(g, [3]float64{0, 0, 1})
}

// winoBuffers is the workspace of a chunk.
type winoBuffers struct{ u, m, tmp []float32 }

// winoRun is the state of a run of a Winograd convolution.
type winoRun struct {
	phase  winoPhase
	image  int
	chunk  int
	shared winoBuffers
	each   []byte // one piece per worker
	per    int
}

type winoPhase uint8

const (
	winoWhole    winoPhase = iota // a task is a chunk
	winoInput                     // a task is a block of inputs
	winoMultiply                  // a task is a position and a pair of blocks of outputs
	winoOutput                    // a task is a block of outputs
)

// winoShares reports whether the threads go through the chunks together.
func (p *BlockedConv) winoShares(threads int) bool {
	return threads > 1 && p.c.s.Batch*p.wino.chunks.p < 2*threads
}

// winoSizes are the floats of U, M and the temporaries.
func (p *BlockedConv) winoSizes() (u, m, tmp int) {
	w := &p.wino
	return w.n * w.n * w.posU, w.n * w.n * w.posM, 3 * w.patchFloats
}

// winoBytes is the workspace of a run, enough for fewer threads too.
func (p *BlockedConv) winoBytes(threads int) int {
	threads = max(1, threads)
	u, m, tmp := p.winoSizes()
	apart := threads // most threads that do not share
	if p.winoShares(threads) {
		apart = max(1, p.c.s.Batch*p.wino.chunks.p/2)
	}
	return max(apart*scratchBytes(4*u, 4*m, 4*tmp), scratchBytes(4*u, 4*m, threads*scratchBytes(4*tmp))) + lineBytes
}

// runWinograd runs the phases.
func (p *BlockedConv) runWinograd(r *blockedRun, s *scratch, threads int) {
	w := &r.wino
	nu, nm, nt := p.winoSizes()
	if !p.winoShares(max(1, threads)) {
		w.phase, w.per = winoWhole, scratchBytes(4*nu, 4*nm, 4*nt)
		w.each = s.rest
		Parallel(p.c.s.Batch*p.wino.chunks.p, threads, r)
		return
	}
	w.shared.u, w.shared.m = s.floats(nu), s.floats(nm)
	w.each, w.per = s.rest, scratchBytes(4*nt)
	for w.image = range p.c.s.Batch {
		for w.chunk = range p.wino.chunks.p {
			w.phase = winoInput
			Parallel(p.inBlocks, threads, r)
			w.phase = winoMultiply
			Parallel(p.wino.n*p.wino.n*p.pairs(), threads, r)
			w.phase = winoOutput
			Parallel(p.outBlocks, threads, r)
		}
	}
}

// winoTask does task i of the present phase.
func (r *blockedRun) winoTask(i, worker int) {
	p, w := r.p, &r.wino
	nu, nm, nt := p.winoSizes()
	s := newScratch(w.each[worker*w.per:])
	b := w.shared
	if w.phase == winoWhole {
		b.u, b.m = s.floats(nu), s.floats(nm)
	}
	b.tmp = s.floats(nt)
	t := winoTile{r: r, p: p, b: b, image: w.image}
	chunk := w.chunk
	if w.phase == winoWhole {
		t.image, chunk = i/p.wino.chunks.p, i%p.wino.chunks.p
	}
	t.first, t.count = p.wino.chunks.part(chunk)
	switch w.phase {
	case winoInput:
		t.input(i)
	case winoMultiply:
		t.multiply(i/p.pairs(), i%p.pairs())
	case winoOutput:
		t.output(i)
	default:
		t.whole()
	}
}

// winoTile is one chunk being computed.
type winoTile struct {
	r            *blockedRun
	p            *BlockedConv
	b            winoBuffers
	image        int
	first, count int // tiles of the chunk
}

// whole does all three phases of a chunk.
func (t *winoTile) whole() {
	p := t.p
	for i := range p.inBlocks {
		t.input(i)
	}
	for pos := range p.wino.n * p.wino.n {
		for pair := range p.pairs() {
			t.multiply(pos, pair)
		}
	}
	for i := range p.outBlocks {
		t.output(i)
	}
}

// input transforms the tiles of one block of input channels.
func (t *winoTile) input(block int) {
	p, c, w := t.p, t.p.c, &t.p.wino
	s := &c.s
	x := t.r.args.X[t.image*p.inLen()+block*c.inN*p.b:][:c.inN*p.b]
	tmp, patch := t.b.tmp[:w.patchFloats], t.b.tmp[w.patchFloats:][:w.patchFloats]
	g := w.chunks.largest()
	for i := range t.count {
		tile := t.first + i
		y := tile/w.across*w.m - s.PadBegin[1]
		xx := tile%w.across*w.m - s.PadBegin[2]
		src, stride := patch, w.n*p.b
		if y >= 0 && xx >= 0 && y+w.n <= s.In[1] && xx+w.n <= s.In[2] {
			src, stride = x[(y*s.In[2]+xx)*p.b:], s.In[2]*p.b
		} else {
			p.gather(patch, x, y, xx)
		}
		dst := t.b.u[(block*g+i)*p.b:]
		p.t.winoIn(w.m, &dst[0], &src[0], &tmp[0], 4*stride, 4*w.posU)
	}
}

// gather copies an input patch that reaches over the border, zeros outside.
func (p *BlockedConv) gather(patch, x []float32, y0, x0 int) {
	s, n, b := &p.c.s, p.wino.n, p.b
	lo, hi := max(0, -x0), min(n, s.In[2]-x0)
	for i := range n {
		row := patch[i*n*b:][:n*b]
		y := y0 + i
		if y < 0 || y >= s.In[1] || lo >= hi {
			clear(row)
			continue
		}
		clear(row[:lo*b])
		copy(row[lo*b:hi*b], x[(y*s.In[2]+x0+lo)*b:])
		clear(row[hi*b:])
	}
}

// multiply does the product of one position for a pair of output blocks.
func (t *winoTile) multiply(pos, pair int) {
	p, w := t.p, &t.p.wino
	g := w.chunks.largest()
	blocks := min(2, p.outBlocks-2*pair)
	a := directArgs{
		w: ptr(p.weights, pos*w.weightsLen+pair*p.pairLen), ic: p.inBlocks, kh: 1, kw: 1,
		plane: 4 * g * p.b, pixel: 4 * p.b, outBlock: 4 * g * p.b,
	}
	pieces := newSplit(t.count, p.maxT)
	for q := range pieces.p {
		i, n := pieces.part(q)
		a.in = ptr(t.b.u, pos*w.posU+i*p.b)
		a.out = ptr(t.b.m, pos*w.posM+(2*pair*g+i)*p.b)
		p.t.direct(n, blocks, false, &a)
	}
}

// output transforms the tiles of one block of output channels back.
func (t *winoTile) output(block int) {
	p, c, w := t.p, t.p.c, &t.p.wino
	at := t.image*p.outLen() + block*c.outN*p.b
	y := t.r.args.Y[at:][:c.outN*p.b]
	var res []float32
	if c.s.Epilogue.Residual {
		res = t.r.args.Residual[at:][:c.outN*p.b]
	}
	bias := &noBias[0]
	if c.s.Epilogue.Bias != NoBias {
		bias = &t.r.bias[block*p.b]
	}
	g := w.chunks.largest()
	for i := range t.count {
		tile := t.first + i
		t.outTile(y, res, bias, t.b.m[(block*g+i)*p.b:], tile/w.across*w.m, tile%w.across*w.m, at)
	}
}

// outTile transforms one tile back to rows oy.. and columns ox... A tile that
// reaches over the border goes through a patch.
func (t *winoTile) outTile(y, res []float32, bias *float32, m []float32, oy, ox, blockAt int) {
	p, c, w := t.p, t.p.c, &t.p.wino
	tmp, patch := t.b.tmp[:w.patchFloats], t.b.tmp[w.patchFloats:][:w.patchFloats]
	lo, hi := p.bounds()
	rows, cols := min(w.m, c.out[1]-oy), min(w.m, c.out[2]-ox)
	line, b := c.out[2]*p.b, p.b
	at := oy*line + ox*b
	if rows == w.m && cols == w.m {
		var r *float32
		if res != nil {
			r = &res[at]
		}
		p.t.winoOut(w.m, &y[at], &m[0], &tmp[0], 4*line, 4*w.posM, bias, r, lo, hi)
	} else {
		var r *float32
		if res != nil {
			old := t.b.tmp[2*w.patchFloats:][:w.patchFloats]
			for i := range rows {
				copy(old[i*w.m*b:][:cols*b], res[at+i*line:])
			}
			r = &old[0]
		}
		p.t.winoOut(w.m, &patch[0], &m[0], &tmp[0], 4*w.m*b, 4*w.posM, bias, r, lo, hi)
		for i := range rows {
			copy(y[at+i*line:][:cols*b], patch[i*w.m*b:])
		}
	}
	if c.after != Identity || p.clears {
		for i := range rows {
			p.after(y[at+i*line:][:cols*b], blockAt)
		}
	}
}
