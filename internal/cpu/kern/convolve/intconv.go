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
// First the image is packed into words, several channels of a pixel to a word, with its
// padding (which holds the zero point):
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
	*geometry
	img   *geometry // of the image in words
	pad   [3]int    // extents of the padded image
	ints  *simd.Table
	kind  simd.IntKind
	w, x  gemm.IntSide
	words int // words of a tap
	mat   convMatrix
	zw    []int32 // zero points of the rows, for the values as packed; nil if all are zero

	float *Conv // depthwise: the float32 convolution that does the work
	zeros []int32
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
	p := &IntConv{geometry: g, ints: g.t.Products(), zeros: zw}
	p.w, p.x = gemm.IntSide{Kind: simd.IntPairs, Signed: s.WSigned}, gemm.IntSide{Kind: simd.IntPairs, Signed: s.XSigned}
	if g.isDepthwise() && g.taps <= exactTaps {
		p.float, err = NewConv(s.ConvSpec, ConvPlan{Algorithm: ConvDepthwise})
		return p, err
	}
	p.kind = simd.IntPairs
	if p.ints.Ints.Quads {
		p.kind = simd.QuadsSU
	}
	p.w, p.x = gemm.Sides(p.ints, p.kind, s.WSigned, s.XSigned)
	p.words = machine.CeilDiv(g.icg, p.kind.Group())
	if err := p.planImage(); err != nil {
		return nil, err
	}
	p.mat = newConvMatrix(p.ints, g.ocg, g.taps*p.words, g.outN, g.s.Batch*g.s.Groups)
	p.planZeros()
	return p, nil
}

// Plan returns the algorithm and the reason for it.
func (p *IntConv) Plan() ConvPlan {
	if p.float != nil {
		return ConvPlan{ConvDepthwise, "one input channel to each output channel: float32 holds the sums exactly"}
	}
	return ConvPlan{ConvPatches, "a product of bytes with patches"}
}

// planZeros computes the zero points of the weights, for the values as packed.
func (p *IntConv) planZeros() {
	zeros := make([]int32, p.s.OutC)
	for oc := range zeros {
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
	return l
}

// PackW lays the weights out.
func (p *IntConv) PackW(ctx context.Context, weights []byte) (*gemm.Packed, error) {
	if err := machine.Needs("IntConv", "weights", weights, p.weightLen()); err != nil {
		return nil, err
	}
	if p.float != nil {
		return p.packFloat(ctx, weights)
	}
	m := &p.mat
	out := &gemm.Packed{Order: p.WeightLayout(), Words: make([]uint32, p.s.OutC*p.taps*p.words), Sums: make([]int32, p.s.OutC)}
	err := gemm.InPieces(ctx, p.s.Groups*m.m.P, gemm.PackThreads(4*len(out.Words)), func(i, _ int) { p.packPanel(out, weights, i) })
	return out, err
}

// packFloat converts the weights of a depthwise convolution, less their zero points.
func (p *IntConv) packFloat(ctx context.Context, weights []byte) (*gemm.Packed, error) {
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
	dst := out.Words[group*p.ocg*p.taps*p.words:]
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
	tap, word := k0/p.words, k0%p.words
	for k := range kc {
		var b [4]byte
		n := min(grp, p.icg-word*grp)
		for i := range n {
			b[i] = src[(word*grp+i)*p.taps+tap]
			sum += p.w.Value(b[i])
		}
		dst[k*h] = p.w.Word(b, n)
		if word++; word == p.words {
			tap, word = tap+1, 0
		}
	}
	return sum
}

func (p *IntConv) workers(threads int) int { return max(1, min(threads, p.mat.tasks())) }

// perWorker is the workspace of one worker: packed panels and sums of columns.
func (p *IntConv) perWorker() int {
	return machine.ScratchBytes(4*p.mat.bufLen(p.ints), 4*p.mat.tileN*p.ints.Nr)
}

// Workspace returns the bytes of workspace that Run needs with this many
// threads.
func (p *IntConv) Workspace(threads int) int {
	if p.float != nil {
		s := &p.s
		return machine.ScratchBytes(4*s.Batch*s.InC*p.inN, 4*s.Batch*s.OutC*p.outN, p.float.Workspace(threads))
	}
	return machine.ScratchBytes(4*p.s.OutC, 4*p.imageWords(), p.perWorker()*p.workers(threads)) + machine.LineBytes
}

// imageWords is the size of the images in words.
func (p *IntConv) imageWords() int {
	if p.img == nil {
		return 0
	}
	return p.s.Batch*p.img.s.InC*p.img.inN + machine.SlackFloats
}

// Run convolves x, with zero point zx, with weights from PackW into y, and adds bias,
// one value for each output channel, or nil. The workspace must have Workspace(threads)
// bytes.
func (p *IntConv) Run(w *gemm.Packed, x []byte, zx int32, bias, y []int32, ws []byte, threads int) error {
	s := &p.s
	if p.outN*s.Batch*s.OutC == 0 {
		return nil
	}
	biasLen := 0
	if bias != nil {
		biasLen = s.OutC
	}
	if err := cmp.Or(
		machine.Needs("IntConv", "X", x, s.Batch*s.InC*p.inN),
		machine.Needs("IntConv", "Y", y, s.Batch*s.OutC*p.outN),
		machine.Needs("IntConv", "workspace", ws, p.Workspace(threads)),
		machine.Needs("IntConv", "bias", bias, biasLen),
	); err != nil {
		return err
	}
	if w == nil || w.Order != p.WeightLayout() {
		return &machine.SpecError{Kernel: "IntConv", Field: "weights", Why: "missing, or packed for another layout"}
	}
	if p.float != nil {
		return p.runFloat(w, x, zx, bias, y, ws, threads)
	}
	r := intConvRuns.Get()
	defer intConvRuns.Release(r)
	b := machine.NewScratch(ws)
	*r = intConvRun{p: p, w: w, x: x, y: y, zx: zx + p.x.Shift(), init: b.Int32s(s.OutC), words: b.Floats(p.imageWords())}
	r.ws = b.Rest
	for i, sum := range w.Sums {
		r.init[i] = -r.zx * sum
		if bias != nil {
			r.init[i] += bias[i]
		}
	}
	r.packing = true
	machine.Parallel(s.Batch*p.img.s.InC, threads, r)
	r.packing = false
	machine.Parallel(p.mat.tasks(), threads, r)
	return nil
}

// runFloat does a depthwise convolution in float32.
func (p *IntConv) runFloat(w *gemm.Packed, x []byte, zx int32, bias, y []int32, ws []byte, threads int) error {
	s := &p.s
	b := machine.NewScratch(ws)
	n := s.Batch * s.InC * p.inN
	fx, fy := b.Floats(n), b.Floats(s.Batch*s.OutC*p.outN)
	vec.Dequantize(fx, x[:n], p.x.Signed, 1, zx)
	if err := p.float.Run(ConvArgs{X: fx, Y: fy, Packed: w}, b.Rest, threads); err != nil {
		return err
	}
	p.ints.Ints.FromFloat(&y[0], &fy[0], len(fy))
	if bias != nil {
		for i := range s.Batch * s.OutC {
			for j := range p.outN {
				y[i*p.outN+j] += bias[i%s.OutC]
			}
		}
	}
	return nil
}

// intConvRun is the state of one run; it is a Task.
type intConvRun struct {
	p    *IntConv
	w    *gemm.Packed
	x    []byte
	y    []int32
	zx   int32 // zero point of x, for the values as packed
	init []int32
	ws   []byte

	words   []float32 // the images in words
	packing bool      // tasks pack them
}

var intConvRuns machine.FreeList[intConvRun]

// Run packs one plane of an image, or computes one tile.
func (r *intConvRun) Run(i, worker int) {
	if r.packing {
		r.plane(i)
		return
	}
	p, m := r.p, &r.p.mat
	w, outer := m.tile(p.ints, i, p.outN)
	w.Ints = p.kind
	image, group := outer/p.s.Groups, outer%p.s.Groups
	w.Bias = machine.Ptr(r.init, group*p.ocg)
	x := r.words[(image*p.img.s.InC+group*p.words)*p.img.inN:]
	off := (image*p.s.OutC + group*p.ocg) * p.outN
	w.C = machine.Ptr(r.y, off)
	buf := machine.NewScratch(r.ws[worker*p.perWorker():])
	panels, sums := buf.Floats(m.bufLen(p.ints)), buf.Int32s(m.tileN*p.ints.Nr)
	clear(sums)
	row0, _ := m.m.Part(w.P0)
	for kb := range max(1, m.k.P) {
		k0, kc := m.k.Part(kb)
		w.U.Flags = simd.UkAcc
		if kb == 0 {
			w.U.Flags = simd.UkRow
		}
		w.A = machine.Ptr(r.w.Words, group*p.ocg*p.taps*p.words+k0*p.ocg+row0*kc)
		w.B, w.BStep, w.BLD = machine.Ptr(panels, 0), 4*p.ints.Nr*kc, 4*p.ints.Nr
		p.img.packPixels(p.img.isPointwise(), panels, x, w.Q0, w.Q1, k0, kc)
		if p.zw != nil {
			for q := w.Q0; q < w.Q1; q++ {
				at := (q - w.Q0) * p.ints.Nr
				p.ints.AddColumns(p.kind, &sums[at], machine.Ptr(panels, at*kc), kc, p.ints.Nr)
			}
		}
		w.Run(kc)
	}
	if p.zw != nil {
		r.correct(&w, group, sums, r.y[off:])
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
			p.ints.Ints.MulSub(&y[row*p.outN+c0], &sums[0], c1-c0, z)
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
	if p.kind == simd.IntPairs {
		return (uint32(uint16(zx)) | uint32(uint16(zx))<<16) >> (16 * (2 - have))
	}
	return uint32(uint8(zx)) * 0x01010101 >> (8 * (4 - have))
}

// row interleaves one row of as many channels as there are.
func (p *IntConv) row(dst []uint32, src []byte, have int) {
	n := 0
	switch k := &p.ints.Ints; {
	case p.kind == simd.QuadsSU && have == 4:
		flip := uint32(0)
		if p.x.Flip {
			flip = 0x80808080
		}
		k.QuadRow(&dst[0], &src[0], len(dst), p.inN, flip)
		return
	case p.kind == simd.IntPairs && have == 2 && k.PairRowU != nil && len(dst) >= 16:
		n = len(dst) &^ 15
		if p.x.Signed {
			k.PairRowS(&dst[0], &src[0], n, p.inN)
		} else {
			k.PairRowU(&dst[0], &src[0], n, p.inN)
		}
	}
	for ; n < len(dst); n++ {
		var b [4]byte
		for i := range have {
			b[i] = src[n+i*p.inN]
		}
		dst[n] = p.x.Word(b, have)
	}
}
