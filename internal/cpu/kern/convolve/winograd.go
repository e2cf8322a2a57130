package convolve

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

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
// instead of 144 for sixteen. Rounding errors grow: F(2,3) is about as exact as the
// direct sum, F(4,3) loses a few bits (winograd.go of the generator explains the choice
// of the points). Most of them come from the sums over channels, which are added up in short chains.
//
// The tiles of an image are cut into chunks whose U and M fit the L2 cache. Each is a task,
// and there are as many for each thread, unless they were too small then or the weights, which
// every task reads, were much larger than U and M: there the threads work on one chunk at a time
// and share each of its three phases. The results are the same.

// Winograd chooses the algorithm for 3×3 convolutions.
type Winograd uint8

// The choices.
const (
	WinogradOff Winograd = iota // direct
	Winograd2                   // F(2,3): 2.25 times fewer multiplications
	Winograd4                   // F(4,3): 4 times fewer multiplications
)

// winograd brings a plain image into the blocked layout, computes there, and brings the
// result back if it is wanted plain.
type winograd struct {
	*blockedGeometry
	m, n        int       // tile of outputs, of inputs
	across      int       // tiles in a row
	tiles       int       // of an image
	patchFloats int       // size of a patch of inputs, outputs or residuals
	filter      []float64 // see simd.WinoFilterRows
	direct      outlierSearch
	chain       int
}

const (
	winoChunkFloats = 160 << 10 // U and M of a chunk
	winoMinTiles    = 42        // of a chunk for one thread
	winoChain       = 32        // products that are added up one after the other
	winoLeastTiles  = 8         // of a chunk that is smaller for the threads to have as many
)

// winoLayout is how so many threads divide the tiles of an image.
type winoLayout struct {
	chunks     gemm.Split
	posU, posM int  // floats of one position of U and of M
	shares     bool // all threads work on one chunk
}

// layout divides the tiles over threads.
func (p *winograd) layout(threads int) (l winoLayout) {
	perTile := p.n * p.n * (p.inBlocks + p.outBlocks) * p.b
	n := max(1, machine.CeilDiv(p.tiles, max(winoMinTiles, winoChunkFloats/perTile)))
	if threads > 1 {
		many := func(n int) bool { return p.s.Batch*n >= 2*threads }
		even := machine.CeilDiv(machine.RoundUp(p.s.Batch*n, threads), p.s.Batch)
		small := p.inBlocks*p.outBlocks*p.b <= 2*(p.inBlocks+p.outBlocks)*p.tiles // weights, beside U and M
		switch {
		case p.tiles >= even*winoLeastTiles && (many(n) || small && (p.s.Batch*even%threads == 0 || many(even))):
			n = even
		case !many(n):
			l.shares = true
		}
	}
	l.chunks = gemm.NewSplit(p.tiles, machine.CeilDiv(p.tiles, n))
	most := l.chunks.Largest()
	l.posU, l.posM = p.apart(p.inBlocks*most), p.apart(p.outBlocks*most)
	return l
}

// apart is the distance between positions of so many vectors. It is no multiple of the size of a way of the first cache: the
// positions of a tile are written one after the other, and would replace each other.
func (p *winograd) apart(vectors int) int { return (vectors | 1) * p.b }

// newWinograd lays out the tiles of F(m,3).
func newWinograd(geo *geometry, m int) *winograd {
	g := newBlockedGeometry(geo)
	w := &winograd{blockedGeometry: g, m: m, n: m + 2}
	w.filter = simd.WinoFilterRows(w.m)
	w.across = machine.CeilDiv(g.out[2], w.m)
	w.tiles = w.across * machine.CeilDiv(g.out[1], w.m)
	w.patchFloats = w.n * w.n * g.b
	w.direct = newOutlierSearch(w)
	w.chain = machine.CeilDiv(winoChain, w.b)
	return w
}

// winoPieceChannels is the input channels of a piece.
const winoPieceChannels = 32

// packing lays out V = G·g·Gᵀ, computed in float64, for each position like the weights
// of a pointwise convolution. Pieces have a part of every position.
func (p *winograd) packing() *gemm.Packing {
	positions, kind := p.n*p.n, "winograd 2x2"
	if p.m == 4 {
		kind = "winograd 4x4"
	}
	return &gemm.Packing{
		Layout: p.weightLayout(kind), Size: positions * p.pairs() * p.pairLen(), UnitSize: positions * p.pairLen(),
		SourceLen: p.weightLen(), Pieces: p.pairs() * machine.CeilDiv(p.icg, winoPieceChannels),
		Span: func(int) (at, n int) { return 0, 0 },
		Pack: p.pack, PackUnit: p.packUnit,
	}
}

// pairLen is the floats of one position of a pair of output blocks.
func (p *winograd) pairLen() int { return p.inBlocks * p.b * 2 * p.b }

// winoScratch holds a block of filters on its way: its taps, channels innermost, and what the
// transform keeps.
type winoScratch struct {
	taps [9 * maxBlock]float32
	tmp  [3 * 6 * maxBlock / 2]float64
}

// pack transforms the filters of a pair of blocks for some input channels.
func (p *winograd) pack(dst, weights []float32, i int) { p.packBy(new(winoScratch), dst, weights, i) }

// packBy does so with memory for filters on their way.
func (p *winograd) packBy(s *winoScratch, dst, weights []float32, i int) {
	pair, first := i%p.pairs(), i/p.pairs()*winoPieceChannels
	blocks := min(2, p.outBlocks-2*pair)
	for ic := first; ic < min(first+winoPieceChannels, p.icg); ic++ {
		for block := range blocks {
			oc := (2*pair + block) * p.b
			p.gatherTaps(s, weights[(oc*p.icg+ic)*9:], min(p.b, p.ocg-oc))
			p.transform(s, dst[p.weightAt(0, pair, false)+(ic*blocks+block)*p.b:], p.pairs()*p.pairLen())
		}
	}
}

// gatherTaps copies one channel's taps of so many filters, which are p.icg filters of one
// channel apart. Filters beyond them have no taps.
func (p *winograd) gatherTaps(s *winoScratch, weights []float32, filters int) {
	if filters < p.b {
		clear(s.taps[:])
	}
	for j := range filters {
		k := (*[9]float32)(weights[j*p.icg*9:])
		for q, x := range k {
			s.taps[q*p.b+j] = x
		}
	}
}

// transform writes a block of transformed filters, whose positions are step floats apart.
func (p *winograd) transform(s *winoScratch, dst []float32, step int) {
	_ = dst[(p.n*p.n-1)*step+p.b-1]
	p.t.WinoFilter[p.m/4](&dst[0], &s.taps[0], &s.tmp[0], &p.filter[0], 4*step)
}

// packUnit writes a pair of blocks of filters whose elements are all x.
func (p *winograd) packUnit(dst []float32, x float32) {
	var s winoScratch
	for i := range s.taps {
		s.taps[i] = x
	}
	for at := 0; at < p.pairLen(); at += p.b {
		p.transform(&s, dst[at:], p.pairLen())
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

// winoBuffers is the workspace of a chunk.
type winoBuffers struct{ u, m, tmp []float32 }

// winoRun is what a run of a Winograd convolution adds to convRun.
type winoRun struct {
	winoLayout
	phase   winoPhase
	chunk   int
	shared  winoBuffers
	x, y    []float32 // image and result, blocked
	res     []float32 // nil, or the residual, blocked; it may be y
	workers []byte    // workspace of the workers

	filter winoScratch // of weights that the run is given

	sums  []float32 // of magnitudes, by segment
	marks []byte    // 1 for each tile that is computed directly
	hard  bool      // there is such a tile
}

type winoPhase uint8

const (
	winoWhole    winoPhase = iota // a task is a chunk
	winoInput                     // a task is a block of inputs
	winoMultiply                  // a task is a position and a pair of blocks of outputs
	winoOutput                    // a task is a block of outputs
	winoSum                       // a task is a block of inputs of an image: sums of magnitudes
	winoDirect                    // a task is a pair of blocks of outputs of an image: marked tiles
)

// winoSizes are the floats of U, M and the temporaries of a layout.
func (p *winograd) winoSizes(l *winoLayout) (u, m, tmp int) {
	return p.n * p.n * l.posU, p.n * p.n * l.posM, 3 * p.patchFloats
}

// chunkWorkspace is the workspace for U, M and temporaries, enough for fewer threads too.
func (p *winograd) chunkWorkspace(threads int) (most int) {
	for t := 1; t <= threads; t++ {
		l := p.layout(t)
		u, m, tmp := p.winoSizes(&l)
		if l.shares {
			most = max(most, machine.ScratchBytes(4*u, 4*m, t*machine.ScratchBytes(4*tmp)))
		} else {
			most = max(most, min(t, p.s.Batch*l.chunks.P)*machine.ScratchBytes(4*u, 4*m, 4*tmp))
		}
	}
	return most + machine.LineBytes
}

// sizes are the floats of the images and results that are brought into the blocked layout,
// and of the padded bias.
func (p *winograd) sizes() (in, out, bias int) {
	if p.s.Epilogue.Bias != simd.NoBias {
		bias = p.outBlocks * p.b
	}
	if !p.s.InBlocked {
		in = p.s.Batch * p.inLen()
	}
	if !p.s.OutBlocked {
		out = p.s.Batch * p.outLen()
	}
	return in, out, bias
}

func (p *winograd) workspace(threads int) int {
	in, out, bias := p.sizes()
	sums, marks := p.hardSizes()
	return machine.ScratchBytes(4*in, 4*out, 4*bias, 4*sums, marks, max(p.chunkWorkspace(threads), p.directWorkspace(threads)))
}

// run converts the images, runs the phases and converts the results.
func (p *winograd) run(r *convRun, threads int) {
	w, s := &r.wino, machine.NewScratch(r.ws)
	in, out, bias := p.sizes()
	w.x, w.y, r.bias = s.Floats(in), s.Floats(out), s.Floats(bias)
	p.enter(r, threads)
	if bias > 0 {
		clear(r.bias[copy(r.bias, r.args.Bias[:p.s.OutC]):])
	}
	sums, marks := p.hardSizes()
	w.sums, w.marks = s.Floats(sums), s.Bytes(marks)
	clear(w.marks)
	w.hard = false
	if !p.s.ConstW {
		given.mark(p, r)
	}
	before := p.s.Epilogue.Residual // it may lie in the result
	if before {
		w.phase = winoSum
		machine.Parallel(p.s.Batch*p.inBlocks, threads, r)
		p.markOutliers(w)
	}
	p.chunksOf(r, s, threads)
	if !before {
		p.markOutliers(w)
	}
	if w.hard {
		p.directly(r, s, threads)
	}
	if !p.s.OutBlocked {
		changeLayout(p.t, r.args.Y, w.y, p.s.Batch, p.s.OutC, p.outN, true, threads)
	} else if p.clears {
		p.clearPadding(w.y)
	}
}

// enter brings what is plain into the blocked layout.
func (p *winograd) enter(r *convRun, threads int) {
	w, s := &r.wino, &p.s
	if s.InBlocked {
		w.x = r.args.X
	} else {
		changeLayout(p.t, w.x, r.args.X, s.Batch, s.InC, p.inN, false, threads)
	}
	if s.OutBlocked {
		w.y = r.args.Y
	}
	switch {
	case !s.Epilogue.Residual:
	case s.OutBlocked:
		w.res = r.args.Residual
	default:
		changeLayout(p.t, w.y, r.args.Residual, s.Batch, s.OutC, p.outN, false, threads)
		w.res = w.y
	}
}

// clearPadding zeroes the padding channels of results.
func (p *winograd) clearPadding(y []float32) {
	have := p.s.OutC % p.b
	for image := range p.s.Batch {
		clearLanes(y[(image+1)*p.outLen()-p.outN*p.b:][:p.outN*p.b], have, p.b)
	}
}

// chunksOf computes the chunks of all images.
func (p *winograd) chunksOf(r *convRun, s machine.Scratch, threads int) {
	w := &r.wino
	w.winoLayout = p.layout(max(1, threads))
	nu, nm, nt := p.winoSizes(&w.winoLayout)
	if !w.shares {
		w.phase, r.per = winoWhole, machine.ScratchBytes(4*nu, 4*nm, 4*nt)
		w.workers = s.Rest
		machine.Parallel(p.s.Batch*w.chunks.P, threads, r)
		return
	}
	w.shared.u, w.shared.m = s.Floats(nu), s.Floats(nm)
	w.workers, r.per = s.Rest, machine.ScratchBytes(4*nt)
	for r.image = range p.s.Batch {
		for w.chunk = range w.chunks.P {
			w.phase = winoInput
			machine.Parallel(p.inBlocks, threads, r)
			w.phase = winoMultiply
			machine.Parallel(p.n*p.n*p.pairs(), threads, r)
			w.phase = winoOutput
			machine.Parallel(p.outBlocks, threads, r)
		}
	}
}

// task does task i of the present phase.
func (p *winograd) task(r *convRun, i, worker int) {
	w := &r.wino
	switch w.phase {
	case winoSum:
		p.sumBlock(w, i, 0, p.tiles)
		return
	case winoDirect:
		p.directPair(r, i/p.pairs(), i%p.pairs(), worker)
		return
	}
	nu, nm, nt := p.winoSizes(&w.winoLayout)
	s := machine.NewScratch(w.workers[worker*r.per:])
	b := w.shared
	if w.phase == winoWhole {
		b.u, b.m = s.Floats(nu), s.Floats(nm)
	}
	b.tmp = s.Floats(nt)
	t := winoTile{r: r, p: p, b: b, image: r.image}
	chunk := w.chunk
	if w.phase == winoWhole {
		t.image, chunk = i/w.chunks.P, i%w.chunks.P
	}
	t.first, t.count = w.chunks.Part(chunk)
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
	r            *convRun
	p            *winograd
	b            winoBuffers
	image        int
	first, count int // tiles of the chunk
}

// whole computes all three phases of a chunk.
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
	p, w := t.p, &t.r.wino
	s := &p.s
	if !s.Epilogue.Residual {
		p.sumBlock(w, t.image*p.inBlocks+block, t.first, t.first+t.count)
	}
	x := w.x[t.image*p.inLen()+block*p.inN*p.b:][:p.inN*p.b]
	tmp, patch := t.b.tmp[:p.patchFloats], t.b.tmp[p.patchFloats:][:p.patchFloats]
	g := w.chunks.Largest()
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
		p.t.WinoIn[p.m/4](&dst[0], &src[0], &tmp[0], 4*stride, 4*w.posU)
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

// multiply computes the product of one position for a pair of output blocks.
func (t *winoTile) multiply(pos, pair int) {
	p, w := t.p, &t.r.wino
	g := w.chunks.Largest()
	blocks := min(2, p.outBlocks-2*pair)
	unit := t.r.w.Unit
	a := simd.DirectArgs{
		W: machine.Ptr(t.r.w.Data, p.weightAt(pos, pair, unit)), Ic: p.inBlocks, Kh: 1, Kw: 1,
		Plane: 4 * g * p.b, Pixel: 4 * p.b, OutBlock: 4 * g * p.b, Chain: p.chain,
	}
	pieces := gemm.NewSplit(t.count, p.t.Mr)
	for q := range pieces.P {
		i, n := pieces.Part(q)
		a.In = machine.Ptr(t.b.u, pos*w.posU+i*p.b)
		a.Out = machine.Ptr(t.b.m, pos*w.posM+(2*pair*g+i)*p.b)
		p.t.Direct(n, blocks, false, &a)
	}
}

// output transforms the tiles of one block of output channels back.
func (t *winoTile) output(block int) {
	p := t.p
	at := t.image*p.outLen() + block*p.outN*p.b
	y := t.r.wino.y[at:][:p.outN*p.b]
	var res []float32
	if p.s.Epilogue.Residual {
		res = t.r.wino.res[at:][:p.outN*p.b]
	}
	bias := &noBias[0]
	if p.s.Epilogue.Bias != simd.NoBias {
		bias = &t.r.bias[block*p.b]
	}
	g := t.r.wino.chunks.Largest()
	marks := t.r.wino.marks[t.image*p.tiles:]
	for i := range t.count {
		tile := t.first + i
		if marks[tile] != 0 {
			continue
		}
		t.outTile(y, res, bias, t.b.m[(block*g+i)*p.b:], tile/p.across*p.m, tile%p.across*p.m)
	}
}

// outTile transforms one tile back to rows oy.. and columns ox... A tile that
// reaches over the border goes through a patch.
func (t *winoTile) outTile(y, res []float32, bias *float32, m []float32, oy, ox int) {
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
		p.t.WinoOut[p.m/4](&y[at], &m[0], &tmp[0], 4*line, 4*t.r.wino.posM, bias, r, lo, hi)
	} else {
		var r *float32
		if res != nil {
			old := t.b.tmp[2*p.patchFloats:][:p.patchFloats]
			for i := range rows {
				copy(old[i*p.m*b:][:cols*b], res[at+i*line:])
			}
			r = &old[0]
		}
		p.t.WinoOut[p.m/4](&patch[0], &m[0], &tmp[0], 4*p.m*b, 4*t.r.wino.posM, bias, r, lo, hi)
		for i := range rows {
			copy(y[at+i*line:][:cols*b], patch[i*p.m*b:])
		}
	}
	if p.after != simd.Identity {
		for i := range rows {
			row := y[at+i*line:][:cols*b]
			p.t.UnaryRow(p.after, row, row, p.s.Epilogue.P0, p.s.Epilogue.P1)
		}
	}
}
