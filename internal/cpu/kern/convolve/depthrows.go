package convolve

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Depthwise 3×3 windows over plain images, rows of pixels in vectors: the image is read and the result
// written where they lie, where depth.go brings strips into the blocked layout and back. A task is a few
// channels, a call a strip of columns of them.

// depthRowsCols are the output columns of a strip.
const depthRowsCols = 14

// depthRows computes depthwise convolutions of plain images.
type depthRows struct {
	*geometry
	kernel simd.DepthRows
	cuts   gemm.Split // channels of a task
}

// depthRowsFit reports whether there is a kernel for a depthwise convolution: with AVX-512, windows of 3×3
// that slide by one or two, without a residual.
func (g *geometry) depthRowsFit() bool {
	s := &g.s
	stride := s.Stride[2]
	return g.t.DepthRows[0] != nil && g.ocg == 1 && !g.isBlocked() && !s.Epilogue.Residual && s.Kernel == [3]int{1, 3, 3} && s.Dilation == [3]int{1, 1, 1} &&
		stride <= 2 && s.Stride[1] == stride && min(g.inN, g.outN) > 0
}

func newDepthRows(g *geometry) *depthRows {
	c := &depthRows{geometry: g, kernel: g.t.DepthRows[g.s.Stride[2]-1]}
	one := 2 * g.taps * g.outN // windows reach about half of what products do
	work := gemm.TaskWork(g.s.Batch*g.s.OutC*one, directWork)
	c.cuts = gemm.NewSplit(g.s.OutC, max(1, work/one))
	return c
}

// packing leaves the weights as they are.
func (c *depthRows) packing() *gemm.Packing {
	size := c.weightLen()
	return &gemm.Packing{
		Layout: c.weightLayout("depthwise rows"), Size: size, UnitSize: c.taps, SourceLen: size, Pieces: 1,
		Span: func(int) (at, n int) { return 0, size },
		Pack: func(dst, w []float32, _ int) { copy(dst, w[:size]) },
	}
}

func (c *depthRows) workspace(int) int { return 0 }

func (c *depthRows) run(r *convRun, threads int) { r.overPool(c.s.Batch*c.cuts.P, 0, threads) }

// task computes some channels of an image, as many at a time as the L1 cache holds for all strips.
func (c *depthRows) task(r *convRun, i, _ int) {
	const cached = 1 << 12 // floats
	from, n := c.cuts.Part(i % c.cuts.P)
	for past := from + n; from < past; from += n {
		n = min(past-from, max(1, cached/c.inN))
		c.channels(r, i/c.cuts.P, from, n)
	}
}

// channels computes n channels of an image.
func (c *depthRows) channels(r *convRun, image, from, n int) {
	s := &c.s
	w, wStep := r.w.At(from*c.taps), 4*c.taps
	if r.w.Unit {
		wStep = 0
	}
	bias, biasStep := &noBias[0], 0
	if s.Epilogue.Bias != simd.NoBias {
		bias, biasStep = &r.args.Bias[from], 4
	}
	x, y := r.args.X[(image*s.InC+from)*c.inN:], r.args.Y[(image*s.OutC+from)*c.outN:]
	lo, hi := c.bounds()
	for col := 0; col < c.out[2]; col += depthRowsCols {
		cols := min(depthRowsCols, c.out[2]-col)
		first := col*s.Stride[2] - s.PadBegin[2]
		lanes := lanesWithin(first, s.In[2])
		c.kernel(&y[col], &x[0], w, bias, 4*(first-s.PadBegin[1]*s.In[2]), n, c.out[1], s.In[1], -s.PadBegin[1], 4*c.out[2], 4*s.In[2],
			4*c.outN, 4*c.inN, wStep, biasStep, lanes&0xffff, lanes>>16, 1<<cols-1, lo, hi)
	}
	if c.after != simd.Identity {
		y = y[:n*c.outN]
		c.t.UnaryRow(c.after, y, y, s.Epilogue.P0, s.Epilogue.P1)
	}
}

// lanesWithin has the bits of those of 32 neighbouring pixels that lie in a row of n, the first one at a column that may be
// outside.
func lanesWithin(first, n int) int {
	lo, hi := min(max(-first, 0), 32), min(max(n-first, 0), 32)
	return (1<<hi - 1) &^ (1<<lo - 1)
}
