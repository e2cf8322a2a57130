package kern

import (
	"math"
	"unsafe"
)

// Integer convolution, NCHW bytes to 32-bit sums.
//
// First the image is brought into words, several channels of a pixel to a word,
// with its padding written out (the padding holds the zero point):
//
//	bytes  [channel][y][x]   ──▶   words  [channel/4][y+padding][x+padding]
//
// From there on it is the float32 convolution of an unpadded image, with words
// in place of numbers: weights are the rows of the product, patches its columns,
// and the same segment kernels pack them. The quads take signed rows and
// unsigned columns.
//
// Depthwise convolutions of few taps go through the float32 kernels, which add
// such sums exactly: all of them stay below 2²⁴.

// IntConvSpec describes an integer convolution. The epilogue of the embedded
// specification is not used.
type IntConvSpec struct {
	ConvSpec
	XSigned, WSigned bool
}

// IntConv is a prepared integer convolution. It is immutable.
type IntConv struct {
	c      *Conv  // geometry
	img    *Conv  // geometry of the image in words
	pad    [3]int // extents of the padded image
	t      *table
	kind   intKind
	w, x   intSide
	words  int // words of a tap
	mat    convMatrix
	packed []uint32
	init   []int32 // what the rows start from, without the zero point of x
	zw     []int32 // zero points of the rows as packed; nil if all are zero
	sums   []int32 // Σw of each row as packed

	float *Conv // depthwise: the float32 convolution that does the work
}

// exactTaps is the number of products of bytes whose sum float32 holds exactly.
const exactTaps = 1 << 24 / (255 * 255)

// NewIntConv prepares a convolution at the active level. zw holds the zero
// point of the weights: nothing, one value, or one for each output channel.
func NewIntConv(s IntConvSpec, weights []byte, zw []int32) (*IntConv, error) {
	s.Epilogue = Epilogue{}
	c := &Conv{s: s.ConvSpec, t: active.Load()}
	if err := c.check(); err != nil {
		return nil, err
	}
	if n := len(zw); n > 1 && n != c.s.OutC {
		return nil, &SizeError{"IntConv", "zero points", n, c.s.OutC}
	}
	if err := needs("IntConv", "weights", weights, c.weightLen()); err != nil {
		return nil, err
	}
	c.choose(false)
	if c.outN == 0 || c.s.Batch == 0 || c.s.OutC == 0 {
		return &IntConv{c: c, t: c.t}, nil
	}
	p := &IntConv{c: c, t: active.Load().products()}
	if c.algo == convDepthwise && c.taps <= exactTaps {
		return p, p.planFloat(s, weights, zw)
	}
	p.kind = intPairs
	if p.t.ints.quads {
		p.kind = quadsSU
	}
	p.w, p.x = p.t.sides(p.kind, s.WSigned, s.XSigned)
	p.words = ceilDiv(c.icg, p.kind.group())
	if err := p.planImage(); err != nil {
		return nil, err
	}
	p.planMatrix()
	p.pack(weights, zw)
	return p, nil
}

// zeroOf is the zero point of row i.
func zeroOf(z []int32, i int) int32 {
	switch len(z) {
	case 0:
		return 0
	case 1:
		return z[0]
	}
	return z[i]
}

// planFloat prepares the float32 convolution of a depthwise one.
func (p *IntConv) planFloat(s IntConvSpec, weights []byte, zw []int32) error {
	f := make([]float32, p.c.weightLen())
	side := intSide{kind: intPairs, signed: s.WSigned}
	for i := range f {
		f[i] = float32(side.value(weights[i]) - zeroOf(zw, i/p.c.taps))
	}
	p.x = intSide{kind: intPairs, signed: s.XSigned}
	var err error
	p.float, err = NewConv(s.ConvSpec, f)
	return err
}

// planImage describes the convolution of the padded image of words.
func (p *IntConv) planImage() error {
	s := p.c.s
	for d := range 3 {
		p.pad[d] = max(s.In[d]+s.PadBegin[d]+s.PadEnd[d], 0)
	}
	s.In, s.PadBegin, s.PadEnd = p.pad, [3]int{}, [3]int{}
	s.InC, s.OutC = s.Groups*p.words, s.Groups*p.c.ocg
	p.img = &Conv{s: s, t: p.t}
	if err := p.img.check(); err != nil {
		return err
	}
	if s.Kernel == [3]int{1, 1, 1} && s.Stride == [3]int{1, 1, 1} {
		p.img.algo = convPointwise
	}
	return nil
}

// planMatrix lays out the product, in words.
func (p *IntConv) planMatrix() {
	c, m := p.c, &p.mat
	kAll := c.taps * p.words
	m.m, m.k = newSplit(c.ocg, p.t.mr), newSplit(kAll, gemmBlockK)
	m.panels = ceilDiv(c.outN, p.t.nr)
	m.groupLen = c.ocg * kAll
	if m.m.p == 0 || m.panels == 0 {
		return
	}
	m.tileN = newSplit(m.panels, max(1, convTileCols/p.t.nr)).largest()
	m.tilesN = ceilDiv(m.panels, m.tileN)
	parts := 1
	if n := c.s.Batch * c.s.Groups * m.tilesN; n < convMinTiles {
		parts = max(1, min(ceilDiv(convMinTiles, n), c.ocg*kAll*m.tileN*p.t.nr/gemmTileWork))
	}
	m.tileM = ceilDiv(m.m.p, parts)
	m.tilesM = ceilDiv(m.m.p, m.tileM)
	m.bufLen = m.k.largest() * m.tileN * p.t.nr
	m.loopRows = m.tileM*p.t.mr <= m.tileN*p.t.nr
}

// pack lays out the weights and works out the corrections for zero points.
func (p *IntConv) pack(weights []byte, zw []int32) {
	c, m, grp := p.c, &p.mat, p.kind.group()
	p.packed = make([]uint32, c.s.Groups*m.groupLen)
	p.sums, p.init = make([]int32, c.s.OutC), make([]int32, c.s.OutC)
	zeros := make([]int32, c.s.OutC)
	for oc := range c.s.OutC {
		group, row := oc/c.ocg, oc%c.ocg
		w := weights[oc*c.icg*c.taps:][:c.icg*c.taps]
		for k := range c.taps * p.words {
			tap, ch := k/p.words, k%p.words*grp
			var b [4]byte
			n := min(grp, c.icg-ch)
			for i := range n {
				b[i] = w[(ch+i)*c.taps+tap]
				p.sums[oc] += p.w.value(b[i])
			}
			p.packed[group*m.groupLen+p.at(row, k)] = p.w.word(b, n)
		}
		zeros[oc] = zeroOf(zw, oc) + p.w.shift()
		if zeros[oc] != 0 {
			p.zw = zeros
		}
	}
}

// at is the place of word k of a row within its group.
func (p *IntConv) at(row, k int) int {
	m := &p.mat
	kb := min(k/max(1, m.k.base), m.k.p-1)
	for {
		if start, _ := m.k.part(kb); start <= k {
			break
		}
		kb--
	}
	k0, kc := m.k.part(kb)
	pn := min(row/max(1, m.m.base), m.m.p-1)
	for {
		if start, _ := m.m.part(pn); start <= row {
			break
		}
		pn--
	}
	r0, h := m.m.part(pn)
	return k0*p.c.ocg + r0*kc + (k-k0)*h + row - r0
}

// Out returns the spatial extents of the output.
func (p *IntConv) Out() [3]int { return p.c.out }

// tasks is the number of tiles.
func (p *IntConv) tasks() int { return p.c.s.Batch * p.c.s.Groups * p.mat.tilesM * p.mat.tilesN }

func (p *IntConv) workers(threads int) int { return max(1, min(threads, p.tasks())) }

// perWorker is the workspace of one worker: packed panels and sums of columns.
func (p *IntConv) perWorker() int {
	return scratchBytes(4*p.mat.bufLen, 4*p.mat.tileN*p.t.nr)
}

// Workspace returns the bytes of workspace that Run needs with this many
// threads.
func (p *IntConv) Workspace(threads int) int {
	if p.float != nil {
		s := &p.c.s
		return scratchBytes(4*s.Batch*s.InC*p.c.inN, 4*s.Batch*s.OutC*p.c.outN, p.float.Workspace(threads))
	}
	return scratchBytes(4*p.c.s.OutC, 4*p.imageWords(), p.perWorker()*p.workers(threads)) + lineBytes
}

// imageWords is the size of the images in words.
func (p *IntConv) imageWords() int {
	if p.img == nil {
		return 0
	}
	return p.c.s.Batch*p.img.s.InC*p.img.inN + slackFloats
}

// Run convolves x, with zero point zx, into y, and adds bias, one value for each
// output channel, or nil. The workspace must have Workspace(threads) bytes.
func (p *IntConv) Run(x []byte, zx int32, bias, y []int32, ws []byte, threads int) error {
	s := &p.c.s
	if p.c.outN*s.Batch*s.OutC == 0 {
		return nil
	}
	if err := needs("IntConv", "X", x, s.Batch*s.InC*p.c.inN); err != nil {
		return err
	}
	if err := needs("IntConv", "Y", y, s.Batch*s.OutC*p.c.outN); err != nil {
		return err
	}
	if err := needs("IntConv", "workspace", ws, p.Workspace(threads)); err != nil {
		return err
	}
	if bias != nil {
		if err := needs("IntConv", "bias", bias, s.OutC); err != nil {
			return err
		}
	}
	if p.float != nil {
		return p.runFloat(x, zx, bias, y, ws, threads)
	}
	r := intConvRuns.get()
	defer func() {
		*r = intConvRun{}
		intConvRuns.put(r)
	}()
	b := newScratch(ws)
	*r = intConvRun{p: p, x: x, y: y, zx: zx + p.x.shift(), init: b.int32s(s.OutC), words: b.floats(p.imageWords())}
	r.ws = b.rest
	for i, sum := range p.sums {
		r.init[i] = -r.zx * sum
		if bias != nil {
			r.init[i] += bias[i]
		}
	}
	r.packing = true
	Parallel(s.Batch*p.img.s.InC, threads, r)
	r.packing = false
	Parallel(p.tasks(), threads, r)
	return nil
}

// runFloat does a depthwise convolution in float32.
func (p *IntConv) runFloat(x []byte, zx int32, bias, y []int32, ws []byte, threads int) error {
	s := &p.c.s
	b := newScratch(ws)
	n := s.Batch * s.InC * p.c.inN
	fx, fy := b.floats(n), b.floats(s.Batch*s.OutC*p.c.outN)
	Dequantize(fx, x[:n], p.x.signed, 1, zx)
	if err := p.float.Run(ConvArgs{X: fx, Y: fy}, b.rest, threads); err != nil {
		return err
	}
	p.t.ints.fromFloat(&y[0], &fy[0], len(fy))
	if bias != nil {
		for i := range s.Batch * s.OutC {
			for j := range p.c.outN {
				y[i*p.c.outN+j] += bias[i%s.OutC]
			}
		}
	}
	return nil
}

// intConvRun is the state of one run; it is a Task.
type intConvRun struct {
	p    *IntConv
	x    []byte
	y    []int32
	zx   int32 // as packed
	init []int32
	ws   []byte

	words   []float32 // the images in words
	packing bool      // tasks make them
}

var intConvRuns freeList[intConvRun]

// Run brings one plane of an image into words, or computes one tile.
func (r *intConvRun) Run(i, worker int) {
	if r.packing {
		r.plane(i)
		return
	}
	p, c, m := r.p, r.p.c, &r.p.mat
	tm := i % m.tilesM
	tn := i / m.tilesM % m.tilesN
	group := i / m.tilesM / m.tilesN % c.s.Groups
	image := i / m.tilesM / m.tilesN / c.s.Groups
	w := sweep{t: p.t, ints: p.kind, rows: m.m, cols: c.outN, loopRows: m.loopRows}
	w.u.ldc = 4 * c.outN
	w.p0, w.p1 = tm*m.tileM, min((tm+1)*m.tileM, m.m.p)
	w.q0, w.q1 = tn*m.tileN, min((tn+1)*m.tileN, m.panels)
	w.bias = ptr(r.init, group*c.ocg)
	x := r.words[(image*p.img.s.InC+group*p.words)*p.img.inN:]
	off := (image*c.s.OutC + group*c.ocg) * c.outN
	w.c = ptr(r.y, off)
	buf := newScratch(r.ws[worker*p.perWorker():])
	panels, sums := buf.floats(m.bufLen), buf.int32s(m.tileN*p.t.nr)
	clear(sums)
	row0, _ := m.m.part(w.p0)
	for kb := range max(1, m.k.p) {
		k0, kc := m.k.part(kb)
		w.u.flags = ukAcc
		if kb == 0 {
			w.u.flags = ukRow
		}
		w.a = ptr(p.packed, group*m.groupLen+k0*c.ocg+row0*kc)
		w.b, w.bStep, w.bLD = ptr(panels, 0), 4*p.t.nr*kc, 4*p.t.nr
		p.img.packPixels(panels, x, w.q0, w.q1, k0, kc)
		if p.zw != nil {
			for q := w.q0; q < w.q1; q++ {
				p.addColumns(sums[(q-w.q0)*p.t.nr:][:p.t.nr], panels[(q-w.q0)*p.t.nr*kc:], kc)
			}
		}
		w.run(kc)
	}
	if p.zw != nil {
		r.correct(&w, group, sums, r.y[off:])
	}
}

// addColumns adds the columns of a packed panel to sums; columns of quadsSU are
// unsigned.
func (p *IntConv) addColumns(sums []int32, panel []float32, words int) {
	for k := range words {
		row := panel[k*p.t.nr:][:len(sums)]
		for j, f := range row {
			v := math.Float32bits(f)
			if p.kind == intPairs {
				sums[j] += int32(int16(v)) + int32(v)>>16
			} else {
				sums[j] += int32(v&0xff + v>>8&0xff + v>>16&0xff + v>>24)
			}
		}
	}
}

// correct subtracts what the zero points of the weights owe:
// zw·(Σx − K·zx) for every row and column.
func (r *intConvRun) correct(w *sweep, group int, sums, y []int32) {
	p, c := r.p, r.p.c
	k := int32(c.icg * c.taps)
	for j := range sums {
		sums[j] -= k * r.zx
	}
	r0, _ := w.rows.part(w.p0)
	last, h := w.rows.part(w.p1 - 1)
	c0, c1 := w.q0*p.t.nr, min(w.q1*p.t.nr, c.outN)
	for row := r0; row < last+h; row++ {
		if z := p.zw[group*c.ocg+row]; z != 0 {
			p.t.ints.mulSub(&y[row*c.outN+c0], &sums[0], c1-c0, z)
		}
	}
}

// plane brings one plane of words of one image into place: rows of several
// channels interleaved, surrounded by the zero point.
func (r *intConvRun) plane(i int) {
	p, c := r.p, r.p.c
	s := &c.s
	word := i % p.words
	group := i / p.words % s.Groups
	image := i / p.words / s.Groups
	grp := p.kind.group()
	ch := word * grp
	have := min(grp, c.icg-ch)
	dst := unsafe.Slice((*uint32)(ptr(r.words, i*p.img.inN)), p.img.inN)
	src := r.x[(image*s.InC+group*c.icg+ch)*c.inN:]
	fill := p.fillWord(r.zx, have)
	for j := range dst {
		dst[j] = fill
	}
	// The part of the image that is not cropped away by negative padding.
	var lo, hi [3]int
	for d := range 3 {
		lo[d], hi[d] = max(0, -s.PadBegin[d]), min(s.In[d], p.pad[d]-s.PadBegin[d])
	}
	if lo[2] >= hi[2] {
		return
	}
	for z := lo[0]; z < hi[0]; z++ {
		for y := lo[1]; y < hi[1]; y++ {
			to := ((z+s.PadBegin[0])*p.pad[1]+y+s.PadBegin[1])*p.pad[2] + lo[2] + s.PadBegin[2]
			from := (z*s.In[1]+y)*s.In[2] + lo[2]
			p.row(dst[to:][:hi[2]-lo[2]], src[from:], have)
		}
	}
}

// fillWord is a word of the zero point in as many channels as there are.
func (p *IntConv) fillWord(zx int32, have int) uint32 {
	if p.kind == intPairs {
		return (uint32(uint16(zx)) | uint32(uint16(zx))<<16) >> (16 * (2 - have))
	}
	return uint32(uint8(zx)) * 0x01010101 >> (8 * (4 - have))
}

// row interleaves one row of as many channels as there are.
func (p *IntConv) row(dst []uint32, src []byte, have int) {
	n := 0
	switch k := &p.t.ints; {
	case p.kind == quadsSU && have == 4:
		flip := uint32(0)
		if p.x.flip {
			flip = 0x80808080
		}
		k.quadRow(&dst[0], &src[0], len(dst), p.c.inN, flip)
		return
	case p.kind == intPairs && have == 2 && k.pairRowU != nil && len(dst) >= 16:
		n = len(dst) &^ 15
		if p.x.signed {
			k.pairRowS(&dst[0], &src[0], n, p.c.inN)
		} else {
			k.pairRowU(&dst[0], &src[0], n, p.c.inN)
		}
	}
	for ; n < len(dst); n++ {
		var b [4]byte
		for i := range have {
			b[i] = src[n+i*p.c.inN]
		}
		dst[n] = p.x.word(b, have)
	}
}
