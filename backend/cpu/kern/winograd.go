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

// winogradForm is the form of an algorithm.
func winogradForm(a ConvAlgorithm) Winograd {
	if a == ConvWinograd4 {
		return Winograd4
	}
	return Winograd2
}

// winograd computes convolutions of blocked images by Winograd's algorithm.
type winograd struct {
	*blockedGeometry
	m, n        int // tile of outputs, of inputs
	across      int // tiles in a row
	tiles       int // of an image
	chunks      split
	posU, posM  int // floats of one position of U and of M
	patchFloats int // room for a patch of inputs, outputs or residuals
	filter      [][3]float64
}

const (
	winoChunkFloats = 160 << 10 // U and M of a chunk
	winoMinTiles    = 42
)

// newWinograd lays the tiles out.
func newWinograd(g *blockedGeometry, form Winograd) *winograd {
	w := &winograd{blockedGeometry: g, m: 2}
	if form == Winograd4 {
		w.m = 4
	}
	w.n = w.m + 2
	w.filter = winoG(w.m)
	w.across = ceilDiv(g.out[2], w.m)
	w.tiles = w.across * ceilDiv(g.out[1], w.m)
	perTile := w.n * w.n * (g.inBlocks + g.outBlocks) * g.b
	w.chunks = newSplit(w.tiles, max(winoMinTiles, winoChunkFloats/perTile))
	most := w.chunks.largest()
	w.posU, w.posM = g.inBlocks*most*g.b, g.outBlocks*most*g.b
	w.patchFloats = w.n * w.n * g.b
	return w
}

func (p *winograd) name() string { return "blocked winograd" }

// Weights: V = G·g·Gᵀ, computed in float64, laid out for each position like the
// weights of a pointwise convolution.
func (p *winograd) layout() Layout {
	if p.m == 4 {
		return p.weightLayout("winograd 4x4")
	}
	return p.weightLayout("winograd 2x2")
}
func (p *winograd) size() int            { return p.n * p.n * p.pairs() * p.pairLen() }
func (p *winograd) unitSize() int        { return p.n * p.n * p.pairLen() }
func (p *winograd) pairLen() int         { return p.inBlocks * p.b * 2 * p.b }
func (p *winograd) span(int) (at, n int) { return 0, 0 } // pieces have a part of every position

// winoPieceChannels is the input channels of a piece.
const winoPieceChannels = 32

func (p *winograd) pieces() int { return p.pairs() * ceilDiv(p.icg, winoPieceChannels) }

// pack transforms the filters of a pair of blocks for some input channels, one channel
// at a time, so that what is written is contiguous.
func (p *winograd) pack(dst, weights []float32, i int) {
	pair, first := i%p.pairs(), i/p.pairs()*winoPieceChannels
	blocks := min(2, p.outBlocks-2*pair)
	filters := min(blocks*p.b, p.ocg-2*p.b*pair)
	var v [36 * 2 * maxBlock]float32 // by position, filters next to each other
	step := 2 * p.b
	for ic := first; ic < min(first+winoPieceChannels, p.icg); ic++ {
		for j := range filters {
			k := (*[9]float32)(weights[((2*p.b*pair+j)*p.icg+ic)*9:])
			winoFilter(p.filter, k, v[j:], step)
		}
		for at := range p.n * p.n {
			copy(dst[p.weightAt(at, pair, false)+ic*blocks*p.b:], v[at*step:][:filters])
		}
	}
}

// packUnit writes a pair of blocks of filters whose elements are all x.
func (p *winograd) packUnit(dst []float32, x float32) {
	var v [36]float32
	winoFilter(p.filter, &[9]float32{x, x, x, x, x, x, x, x, x}, v[:], 1)
	for at := range p.n * p.n {
		fillUnit(dst[at*p.pairLen():][:p.pairLen()], v[at])
	}
}

// weightAt is where the weights of a position and a pair of blocks begin; of a unit,
// all pairs have the same.
func (p *winograd) weightAt(pos, pair int, unit bool) int {
	if unit {
		return pos * p.pairLen()
	}
	return (pos*p.pairs() + pair) * p.pairLen()
}

// winoFilter transforms one filter of 3×3; its positions lie step apart in v.
func winoFilter(gm [][3]float64, k *[9]float32, v []float32, step int) {
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
func (p *winograd) winoShares(threads int) bool {
	return threads > 1 && p.s.Batch*p.chunks.p < 2*threads
}

// winoSizes are the floats of U, M and the temporaries.
func (p *winograd) winoSizes() (u, m, tmp int) {
	return p.n * p.n * p.posU, p.n * p.n * p.posM, 3 * p.patchFloats
}

// workspaceBlocked is the workspace of a run, enough for fewer threads too.
func (p *winograd) workspaceBlocked(threads int) int {
	threads = max(1, threads)
	u, m, tmp := p.winoSizes()
	apart := threads // most threads that do not share
	if p.winoShares(threads) {
		apart = max(1, p.s.Batch*p.chunks.p/2)
	}
	return max(apart*scratchBytes(4*u, 4*m, 4*tmp), scratchBytes(4*u, 4*m, threads*scratchBytes(4*tmp))) + lineBytes
}

// runBlocked runs the phases.
func (p *winograd) runBlocked(r *blockedRun, threads int) {
	w, s := &r.wino, newScratch(r.ws)
	nu, nm, nt := p.winoSizes()
	if !p.winoShares(max(1, threads)) {
		w.phase, w.per = winoWhole, scratchBytes(4*nu, 4*nm, 4*nt)
		w.each = s.rest
		Parallel(p.s.Batch*p.chunks.p, threads, r)
		return
	}
	w.shared.u, w.shared.m = s.floats(nu), s.floats(nm)
	w.each, w.per = s.rest, scratchBytes(4*nt)
	for w.image = range p.s.Batch {
		for w.chunk = range p.chunks.p {
			w.phase = winoInput
			Parallel(p.inBlocks, threads, r)
			w.phase = winoMultiply
			Parallel(p.n*p.n*p.pairs(), threads, r)
			w.phase = winoOutput
			Parallel(p.outBlocks, threads, r)
		}
	}
}

// taskBlocked does task i of the present phase.
func (p *winograd) taskBlocked(r *blockedRun, i, worker int) {
	w := &r.wino
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
		t.image, chunk = i/p.chunks.p, i%p.chunks.p
	}
	t.first, t.count = p.chunks.part(chunk)
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
	p            *winograd
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
	for pos := range p.n * p.n {
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
	p := t.p
	s := &p.s
	x := t.r.args.X[t.image*p.inLen()+block*p.inN*p.b:][:p.inN*p.b]
	tmp, patch := t.b.tmp[:p.patchFloats], t.b.tmp[p.patchFloats:][:p.patchFloats]
	g := p.chunks.largest()
	for i := range t.count {
		tile := t.first + i
		y := tile/p.across*p.m - s.PadBegin[1]
		xx := tile%p.across*p.m - s.PadBegin[2]
		src, stride := patch, p.n*p.b
		if y >= 0 && xx >= 0 && y+p.n <= s.In[1] && xx+p.n <= s.In[2] {
			src, stride = x[(y*s.In[2]+xx)*p.b:], s.In[2]*p.b
		} else {
			p.gather(patch, x, y, xx)
		}
		dst := t.b.u[(block*g+i)*p.b:]
		p.t.winoIn(p.m, &dst[0], &src[0], &tmp[0], 4*stride, 4*p.posU)
	}
}

// gather copies an input patch that reaches over the border, zeros outside.
func (p *winograd) gather(patch, x []float32, y0, x0 int) {
	s, n, b := &p.s, p.n, p.b
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
	p := t.p
	g := p.chunks.largest()
	blocks := min(2, p.outBlocks-2*pair)
	unit := t.r.w.unit
	a := directArgs{
		w: ptr(t.r.w.data, p.weightAt(pos, pair, unit)), ic: p.inBlocks, kh: 1, kw: 1,
		plane: 4 * g * p.b, pixel: 4 * p.b, outBlock: 4 * g * p.b,
	}
	pieces := newSplit(t.count, p.maxT)
	for q := range pieces.p {
		i, n := pieces.part(q)
		a.in = ptr(t.b.u, pos*p.posU+i*p.b)
		a.out = ptr(t.b.m, pos*p.posM+(2*pair*g+i)*p.b)
		p.t.direct(n, blocks, false, &a)
	}
}

// output transforms the tiles of one block of output channels back.
func (t *winoTile) output(block int) {
	p := t.p
	at := t.image*p.outLen() + block*p.outN*p.b
	y := t.r.args.Y[at:][:p.outN*p.b]
	var res []float32
	if p.s.Epilogue.Residual {
		res = t.r.args.Residual[at:][:p.outN*p.b]
	}
	bias := &noBias[0]
	if p.s.Epilogue.Bias != NoBias {
		bias = &t.r.bias[block*p.b]
	}
	g := p.chunks.largest()
	for i := range t.count {
		tile := t.first + i
		t.outTile(y, res, bias, t.b.m[(block*g+i)*p.b:], tile/p.across*p.m, tile%p.across*p.m, at)
	}
}

// outTile transforms one tile back to rows oy.. and columns ox... A tile that
// reaches over the border goes through a patch.
func (t *winoTile) outTile(y, res []float32, bias *float32, m []float32, oy, ox, blockAt int) {
	p := t.p
	tmp, patch := t.b.tmp[:p.patchFloats], t.b.tmp[p.patchFloats:][:p.patchFloats]
	lo, hi := p.bounds()
	rows, cols := min(p.m, p.out[1]-oy), min(p.m, p.out[2]-ox)
	line, b := p.out[2]*p.b, p.b
	at := oy*line + ox*b
	if rows == p.m && cols == p.m {
		var r *float32
		if res != nil {
			r = &res[at]
		}
		p.t.winoOut(p.m, &y[at], &m[0], &tmp[0], 4*line, 4*p.posM, bias, r, lo, hi)
	} else {
		var r *float32
		if res != nil {
			old := t.b.tmp[2*p.patchFloats:][:p.patchFloats]
			for i := range rows {
				copy(old[i*p.m*b:][:cols*b], res[at+i*line:])
			}
			r = &old[0]
		}
		p.t.winoOut(p.m, &patch[0], &m[0], &tmp[0], 4*p.m*b, 4*p.posM, bias, r, lo, hi)
		for i := range rows {
			copy(y[at+i*line:][:cols*b], patch[i*p.m*b:])
		}
	}
	if p.after != Identity || p.clears {
		for i := range rows {
			p.finish(y[at+i*line:][:cols*b], blockAt)
		}
	}
}
