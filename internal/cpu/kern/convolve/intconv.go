package convolve

import (
	"cmp"
	"context"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
)

// Integer convolution, NCHW bytes to 32-bit sums.
//
// Where four bytes are multiplied at once, the image is transposed: see bytePixels. Else it is a product
// of pairs. First the image is packed into words, several channels of a pixel to a word, with its
// padding (which holds the zero point):
//
//	bytes  [channel][y][x]   ──▶   words  [channel/4][y+padding][x+padding]
//
// From there on it is the float32 convolution of an unpadded image, with words
// in place of numbers: weights are the rows of the product, patches its columns,
// and the same segment kernels pack them.
//
// Depthwise convolutions that bytePixels does not serve and that have few taps go through the float32 kernels,
// which add such sums exactly: all of them stay below 2²⁴.
//
// Results that are quantized at once pass through a tile of sums in the cache.

// IntConvSpec describes an integer convolution. The epilogue of the embedded
// specification is not used.
type IntConvSpec struct {
	ConvSpec
	XSigned, WSigned bool
	Quantized        bool // results are bytes

	// Channels of a pixel lie side by side, in the image and in results that are bytes: for levels with HasPixels.
	InPixels, OutPixels bool
}

// IntConvArgs are the operands of one run.
type IntConvArgs struct {
	W    *gemm.Packed
	X    []byte
	ZX   int32   // zero point of X
	Bias []int32 // one value for each output channel, or nil
	Y    []int32 // the sums, unless they are quantized
	Q    Quantization
}

// Quantization brings sums to bytes: round(sum·factor) + zero, within the bounds of the type.
type Quantization struct {
	Y       []byte
	Signed  bool
	Zero    int32
	Factors []float32 // of each output channel
}

// IntConv is a prepared integer convolution. It is immutable.
type IntConv struct {
	*geometry
	img   *geometry // of the image in words
	pad   [3]int    // extents of the padded image
	ints  *simd.Table
	kind  simd.IntKind
	w, x  gemm.IntSide
	words int // words of a tap
	mat   convMatrix
	zw    []int32 // zero points of the rows, for the values as packed; nil if all are zero

	quantized           bool
	inPixels, outPixels bool
	pixels              *bytePixels // the form that does the work where four bytes are multiplied at once
	float               *Conv       // depthwise: the float32 convolution that does the work
	zeros               []int32
}

// Bytes is the memory that preparing the convolution takes beside its packed weights: zero points, and the offsets of
// taps and the order of channels where it is depthwise.
func (s IntConvSpec) Bytes() int64 {
	bytes := (2*4+4*4)*int64(s.OutC+64) + 8*int64(s.Kernel[1])*int64(s.Kernel[2]) // at most: lanes of depthwise ones repeat up to four times
	if g, err := newGeometry(s.ConvSpec); err == nil && g.isDepthwise() && g.taps <= exactTaps {
		bytes += TapBytes(s.ConvSpec, ConvPlan{Algorithm: ConvDepthwise})
	}
	return bytes
}

// exactTaps is the number of products of bytes whose sum float32 holds exactly.
const exactTaps = 1 << 24 / (255 * 255)

// NewIntConv prepares a convolution at the active level. zw holds the zero
// point of the weights: nothing, one value, or one for each output channel.
func NewIntConv(s IntConvSpec, zw []int32) (*IntConv, error) {
	s.Epilogue, s.ConstW = simd.Epilogue{}, true
	g, err := newGeometry(s.ConvSpec)
	if err != nil {
		return nil, err
	}
	if n := len(zw); n > 1 && n != g.s.OutC {
		return nil, &machine.SizeError{Kernel: "IntConv", Operand: "zero points", Have: n, Need: g.s.OutC}
	}
	p := &IntConv{geometry: g, ints: g.t.Products(), zeros: zw, quantized: s.Quantized, inPixels: s.InPixels, outPixels: s.OutPixels}
	p.kind = simd.IntPairs
	if p.ints.Ints.Quads {
		p.kind = simd.QuadsUS
	}
	p.x, p.w = gemm.Sides(p.ints, p.kind, s.XSigned, s.WSigned)
	p.planZeros()
	isDepthwise := g.isDepthwise() && g.taps <= exactTaps
	if p.ints.Ints.Quads {
		if p.pixels = newBytePixels(p); isDepthwise && p.pixels.depth == nil {
			p.pixels = nil
		}
	}
	switch {
	case p.pixels != nil:
		if !p.pixels.fits(&s) {
			err = errPixels
		}
	case s.InPixels || s.OutPixels:
		err = errPixels
	case isDepthwise:
		p.w, p.x = gemm.IntSide{Kind: simd.IntPairs, Signed: s.WSigned}, gemm.IntSide{Kind: simd.IntPairs, Signed: s.XSigned}
		p.float, err = NewConv(s.ConvSpec, ConvPlan{Algorithm: ConvDepthwise})
	default:
		err = p.planProduct()
	}
	return p, err
}

var errPixels = &machine.SpecError{Kernel: "IntConv", Field: "InPixels", Why: "not where channels are no whole words, or results sums"}

// planProduct divides the product of pairs into tiles.
func (p *IntConv) planProduct() error {
	p.words = machine.CeilDiv(p.icg, p.kind.Group())
	if err := p.planImage(); err != nil {
		return err
	}
	p.mat = newConvMatrix(p.ints, p.ocg, p.taps*p.words, p.outN, p.s.Batch*p.s.Groups)
	if p.quantized {
		p.mat.limitRows(p.ints, quantizedTile)
	}
	return nil
}

// quantizedTile is about how many sums wait in the cache to be quantized.
const quantizedTile = 1 << 16

// Plan returns the algorithm and the reason for it.
func (p *IntConv) Plan() ConvPlan {
	switch {
	case p.pixels != nil && p.pixels.depth != nil:
		return ConvPlan{Algorithm: ConvDepthwise, Reason: "one input channel to each output channel: words of four taps"}
	case p.float != nil:
		return ConvPlan{Algorithm: ConvDepthwise, Reason: "one input channel to each output channel: float32 holds the sums exactly"}
	case p.pixels != nil:
		return ConvPlan{Algorithm: ConvDirect, Reason: "a product of bytes with pixels, read where they lie"}
	}
	return ConvPlan{Algorithm: ConvPatches, Reason: "a product of bytes with patches"}
}

// planZeros computes the zero points of the weights, for the values as packed.
func (p *IntConv) planZeros() {
	zeros := make([]int32, p.s.OutC+p.ints.Nr) // kernels read beyond the last
	for oc := range p.s.OutC {
		if zeros[oc] = gemm.ZeroOf(p.zeros, oc) + p.w.Shift(); zeros[oc] != 0 {
			p.zw = zeros
		}
	}
}

// planImage describes the convolution of the padded image of words.
func (p *IntConv) planImage() error {
	s := p.s
	for d := range 3 {
		p.pad[d] = max(s.In[d]+s.PadBegin[d]+s.PadEnd[d], 0)
	}
	s.In, s.PadBegin, s.PadEnd = p.pad, [3]int{}, [3]int{}
	s.InC, s.OutC = s.Groups*p.words, s.Groups*p.ocg
	p.img = &geometry{s: s, t: p.ints}
	return p.img.check()
}

// WeightLayout identifies the order in which the weights are read. Those of a depthwise
// convolution are numbers less their zero points.
func (p *IntConv) WeightLayout() gemm.Layout {
	if p.float != nil {
		return p.float.WeightLayout()
	}
	l := p.weightLayout("integer rows")
	l.Level, l.Dims[7] = p.ints.Level, gemm.Signs(p.x.Signed, p.w.Signed)
	switch {
	case p.pixels != nil && p.pixels.depth != nil:
		l.Kind, l.Dims[4] = "integer taps", len(p.pixels.depth.at)
	case p.pixels != nil:
		l.Kind = "integer windows"
	}
	return l
}

// PackW lays the weights out.
func (p *IntConv) PackW(ctx context.Context, weights []byte) (*gemm.Packed, error) {
	if err := machine.Needs("IntConv", "weights", weights, p.weightLen()); err != nil {
		return nil, err
	}
	switch {
	case p.float != nil:
		return p.packFloat(ctx, weights)
	case p.pixels != nil:
		return p.pixels.packW(ctx, weights)
	}
	m := &p.mat
	if err := machine.AskPacked(ctx, 4*p.s.OutC*(m.k.N+1)); err != nil {
		return nil, err
	}
	out := &gemm.Packed{Order: p.WeightLayout(), Words: make([]uint32, p.s.OutC*m.k.N), Sums: make([]int32, p.s.OutC)}
	err := gemm.InPieces(ctx, p.s.Groups*m.m.P, gemm.PackThreads(4*len(out.Words)), func(i, _ int) { p.packPanel(out, weights, i) })
	return out, err
}

// packFloat converts the weights of a depthwise convolution, less their zero points.
func (p *IntConv) packFloat(ctx context.Context, weights []byte) (*gemm.Packed, error) {
	if err := machine.AskPacked(ctx, 4*p.weightLen()); err != nil {
		return nil, err
	}
	f := make([]float32, p.weightLen())
	for i := range f {
		f[i] = float32(p.w.Value(weights[i]) - gemm.ZeroOf(p.zeros, i/p.taps))
	}
	return p.float.PackW(ctx, gemm.Dense(f))
}

// packPanel packs a panel of rows for all of K and adds the rows up.
func (p *IntConv) packPanel(out *gemm.Packed, weights []byte, i int) {
	m := &p.mat
	group := i / m.m.P
	row, h := m.m.Part(i % m.m.P)
	dst := out.Words[group*p.ocg*m.k.N:]
	for j := range h {
		oc := group*p.ocg + row + j
		src := weights[oc*p.icg*p.taps:][:p.icg*p.taps]
		for kb := range m.k.P {
			k0, kc := m.k.Part(kb)
			out.Sums[oc] += p.packRow(dst[k0*p.ocg+row*kc+j:], src, k0, kc, h)
		}
	}
}

// packRow packs words k0… of a row, h words apart, and returns the sum of their bytes.
func (p *IntConv) packRow(dst []uint32, src []byte, k0, kc, h int) (sum int32) {
	grp := p.kind.Group()
	words := machine.CeilDiv(p.icg, grp)
	tap, word := k0/words, k0%words
	for k := range kc {
		var b [4]byte
		n := min(grp, p.icg-word*grp)
		for i := range n {
			b[i] = src[(word*grp+i)*p.taps+tap]
			sum += p.w.Value(b[i])
		}
		dst[k*h] = p.w.Word(b, n)
		if word++; word == words {
			tap, word = tap+1, 0
		}
	}
	return sum
}

func (p *IntConv) workers(threads int) int { return max(1, min(threads, p.mat.tasks())) }

// perWorker is the workspace of one worker: packed panels, sums of columns, the tile that is
// quantized.
func (p *IntConv) perWorker() int {
	return machine.ScratchBytes(4*(p.mat.bufLen(p.ints)+machine.SlackFloats), 4*p.mat.tileN*p.ints.Nr, 4*p.tileLen())
}

// tileLen is the number of sums of a tile that is quantized.
func (p *IntConv) tileLen() int {
	if !p.quantized {
		return 0
	}
	return p.mat.tileM * p.ints.Mr * p.mat.tileN * p.ints.Nr
}

// Workspace returns the bytes of workspace that Run needs with this many
// threads.
func (p *IntConv) Workspace(threads int) int {
	s := &p.s
	switch {
	case p.float != nil:
		return machine.ScratchBytes(4*s.Batch*s.InC*p.inN, 4*s.Batch*s.OutC*p.outN, p.float.Workspace(threads))
	case p.pixels != nil:
		return machine.ScratchBytes(4*(s.OutC+p.slack()), p.pixels.workspace(threads)) + machine.LineBytes
	}
	return machine.ScratchBytes(4*s.OutC, p.imageBytes(), p.perWorker()*p.workers(threads)) + machine.LineBytes
}

// imageBytes is the size of the images in words.
func (p *IntConv) imageBytes() int {
	if p.img == nil {
		return 0
	}
	return 4 * (p.s.Batch*p.img.s.InC*p.img.inN + machine.SlackFloats)
}

// Run convolves. The workspace must have Workspace(threads) bytes.
func (p *IntConv) Run(a IntConvArgs, ws []byte, threads int) error {
	s := &p.s
	if p.outN*s.Batch*s.OutC == 0 {
		return nil
	}
	if err := p.checkArgs(&a, ws, threads); err != nil {
		return err
	}
	r := intConvRuns.Get()
	defer intConvRuns.Release(r)
	if p.float != nil {
		return p.runFloat(&a, r, ws, threads)
	}
	b := machine.NewScratch(ws)
	*r = intConvRun{p: p, w: a.W, x: a.X, y: a.Y, q: a.Q, zx: a.ZX + p.x.Shift(), init: b.Int32s(s.OutC + p.slack())}
	for i, sum := range a.W.Sums {
		r.init[i] = -r.zx * sum
		if a.Bias != nil {
			r.init[i] += a.Bias[i]
		}
	}
	if p.pixels != nil {
		p.pixels.start(r, b, threads)
		return nil
	}
	r.words, r.ws = b.Floats(p.imageBytes()/4), b.Rest
	r.packing = true
	machine.Parallel(s.Batch*p.img.s.InC, threads, r)
	r.packing = false
	machine.Parallel(p.mat.tasks(), threads, r)
	return nil
}

// slack is how many starts of sums are read behind the last.
func (p *IntConv) slack() int {
	if p.pixels != nil {
		return p.ints.Nr
	}
	return 0
}

func (p *IntConv) checkArgs(a *IntConvArgs, ws []byte, threads int) error {
	s := &p.s
	sums, bytes, factors, biasLen := s.Batch*s.OutC*p.outN, 0, 0, 0
	if a.Bias != nil {
		biasLen = s.OutC
	}
	if p.quantized {
		sums, bytes, factors = 0, sums, s.OutC
	}
	if err := cmp.Or(
		machine.Needs("IntConv", "X", a.X, s.Batch*s.InC*p.inN),
		machine.Needs("IntConv", "Y", a.Y, sums),
		machine.Needs("IntConv", "Y", a.Q.Y, bytes),
		machine.Needs("IntConv", "factors", a.Q.Factors, factors),
		machine.Needs("IntConv", "workspace", ws, p.Workspace(threads)),
		machine.Needs("IntConv", "bias", a.Bias, biasLen),
	); err != nil {
		return err
	}
	if a.W == nil || a.W.Order != p.WeightLayout() {
		return &machine.SpecError{Kernel: "IntConv", Field: "weights", Why: "missing, or packed for another layout"}
	}
	return nil
}

// runFloat does a depthwise convolution in float32.
func (p *IntConv) runFloat(a *IntConvArgs, r *intConvRun, ws []byte, threads int) error {
	s := &p.s
	b := machine.NewScratch(ws)
	n := s.Batch * s.InC * p.inN
	fx, fy := b.Floats(n), b.Floats(s.Batch*s.OutC*p.outN)
	vec.Dequantize(fx, a.X[:n], p.x.Signed, 1, a.ZX)
	if err := p.float.Run(ConvArgs{X: fx, Y: fy, Packed: a.W}, b.Rest, threads); err != nil {
		return err
	}
	*r = intConvRun{p: p, y: a.Y, q: a.Q}
	sums := unsafe.Slice((*int32)(machine.Ptr(fy, 0)), len(fy)) // in place
	p.ints.Ints.FromFloat(&sums[0], &fy[0], len(fy))
	for i := range s.Batch * s.OutC {
		row, oc := sums[i*p.outN:][:p.outN], i%s.OutC
		for j := 0; j < len(row) && a.Bias != nil; j++ {
			row[j] += a.Bias[oc]
		}
		r.deliver(i*p.outN, oc, row)
	}
	return nil
}

// intConvRun is the state of one run; it is a Task.
type intConvRun struct {
	p    *IntConv
	w    *gemm.Packed
	x    []byte
	y    []int32
	q    Quantization
	zx   int32 // zero point of x, for the values as packed
	init []int32
	ws   []byte

	words   []float32 // the images in words
	packing bool      // tasks pack them
	byteRun
}

var intConvRuns machine.FreeList[intConvRun]

// deliver gives sums of an output channel to the result, from an element on.
func (r *intConvRun) deliver(at, oc int, sums []int32) {
	if !r.p.quantized {
		copy(r.y[at:], sums)
		return
	}
	r.quantize(at, vec.Sums{X: sums, Rows: 1, N: len(sums), Factors: r.q.Factors[oc:]})
}

// quantize brings sums to bytes of the result, from an element on.
func (r *intConvRun) quantize(at int, s vec.Sums) {
	vec.RequantizeRows(r.q.Y[at:], r.p.outN, s, r.q.Signed, r.q.Zero)
}

// Run packs one plane of an image, or computes one tile.
func (r *intConvRun) Run(i, worker int) {
	p := r.p
	switch {
	case p.pixels != nil:
		p.pixels.task(r, i, worker)
	case !r.packing:
		r.tile(i, worker)
	default:
		r.plane(i)
	}
}

// tile computes one tile.
func (r *intConvRun) tile(i, worker int) {
	p, m := r.p, &r.p.mat
	w, outer := m.tile(p.ints, i, p.outN)
	w.Ints = p.kind
	image, group := outer/p.s.Groups, outer%p.s.Groups
	w.Bias = machine.Ptr(r.init, group*p.ocg)
	off := (image*p.s.OutC + group*p.ocg) * p.outN
	buf := machine.NewScratch(r.ws[worker*p.perWorker():])
	panels, columns, sums := buf.Floats(m.bufLen(p.ints)+machine.SlackFloats), buf.Int32s(m.tileN*p.ints.Nr), buf.Int32s(p.tileLen())
	clear(columns)
	row0, _ := m.m.Part(w.P0)
	if p.quantized {
		w.Row0, w.Col0 = row0, w.Q0*p.ints.Nr
		w.U.Ldc, w.C = 4*m.tileN*p.ints.Nr, machine.Ptr(sums, 0)
	} else {
		sums = r.y[off:]
		w.C = machine.Ptr(sums, 0)
	}
	for kb := range max(1, m.k.P) {
		k0, kc := m.k.Part(kb)
		w.U.Flags = simd.UkAcc
		if kb == 0 {
			w.U.Flags = simd.UkRow
		}
		w.A = machine.Ptr(r.w.Words, group*p.ocg*m.k.N+k0*p.ocg+row0*kc)
		r.packPixels(&w, panels, columns, (image*p.img.s.InC+group*p.words)*p.img.inN, k0, kc)
		w.Run(kc)
	}
	if p.zw != nil {
		r.correct(&w, group, columns, sums)
	}
	if p.quantized {
		last, h := m.m.Part(w.P1 - 1)
		r.quantize(off+row0*p.outN+w.Col0, vec.Sums{X: sums, Rows: last + h - row0, N: min(w.Q1*p.ints.Nr, p.outN) - w.Col0,
			LD: w.U.Ldc / 4, Factors: r.q.Factors[group*p.ocg+row0:]})
	}
}

// packPixels packs the columns of a tile from words of channels, for one block of K, and adds
// them up where zero points of the weights ask for it.
func (r *intConvRun) packPixels(w *gemm.Sweep, panels []float32, columns []int32, image, k0, kc int) {
	p := r.p
	nr := p.ints.Nr
	w.B, w.BStep, w.BLD = machine.Ptr(panels, 0), 4*nr*kc, 4*nr
	p.img.packPixels(p.img.isPointwise(), panels, r.words[image:], w.Q0, w.Q1, k0, kc)
	for q := w.Q0; q < w.Q1 && p.zw != nil; q++ {
		at := (q - w.Q0) * nr
		p.ints.AddColumns(p.kind, &columns[at], machine.Ptr(panels, at*kc), kc, nr)
	}
}

// correct subtracts the correction term of the zero points of the weights,
// zw·(Σx − K·zx), for every row and column.
func (r *intConvRun) correct(w *gemm.Sweep, group int, sums, y []int32) {
	p := r.p
	k := int32(p.icg * p.taps)
	for j := range sums {
		sums[j] -= k * r.zx
	}
	r0, _ := w.Rows.Part(w.P0)
	last, h := w.Rows.Part(w.P1 - 1)
	c0, c1 := w.Q0*p.ints.Nr, min(w.Q1*p.ints.Nr, p.outN)
	for row := r0; row < last+h; row++ {
		if z := p.zw[group*p.ocg+row]; z != 0 {
			p.ints.Ints.MulSub(&y[(row-w.Row0)*w.U.Ldc/4+c0-w.Col0], &sums[0], c1-c0, z)
		}
	}
}

// plane packs one plane of words of one image: rows of several channels interleaved,
// surrounded by the zero point.
func (r *intConvRun) plane(i int) {
	p := r.p
	s := &p.s
	word := i % p.words
	group := i / p.words % s.Groups
	image := i / p.words / s.Groups
	grp := p.kind.Group()
	ch := word * grp
	have := min(grp, p.icg-ch)
	dst := unsafe.Slice((*uint32)(machine.Ptr(r.words, i*p.img.inN)), p.img.inN)
	src := r.x[(image*s.InC+group*p.icg+ch)*p.inN:]
	if p.pad == s.In && s.PadBegin == [3]int{} {
		p.row(dst, src, have)
		return
	}
	dst[0] = p.fillWord(r.zx, have)
	for n := 1; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
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
	return (uint32(uint16(zx)) | uint32(uint16(zx))<<16) >> (16 * (2 - have))
}

// row interleaves one row of as many channels as there are.
func (p *IntConv) row(dst []uint32, src []byte, have int) {
	n := 0
	if k := &p.ints.Ints; have == 2 && k.PairRowU != nil && len(dst) >= 16 {
		n = len(dst) &^ 15
		if p.x.Signed {
			k.PairRowS(&dst[0], &src[0], n, p.inN)
		} else {
			k.PairRowU(&dst[0], &src[0], n, p.inN)
		}
	}
	if dst, src = dst[n:], src[n:]; have == p.kind.Group() && len(dst) > 0 {
		p.x.PackWords(dst, src, p.inN)
		return
	}
	for n := range dst {
		var b [4]byte
		for i := range have {
			b[i] = src[n+i*p.inN]
		}
		dst[n] = p.x.Word(b, have)
	}
}
