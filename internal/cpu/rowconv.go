package cpu

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ops"
)

// Convolutions with few output positions, those that cut the image into patches,
// and those over long frames of a signal, as a product with the positions as rows:
//
//	windows [N·P, C·taps] · Wᵀ [C·taps, M]  ->  [N·P, M]  ──transposed──▶  Y [N, M, P]
//
// With the positions as columns most lanes of a vector would be idle, and gathering
// patches would go element by element where it can copy whole runs of a row. A single
// position needs no transposition, and if the kernel covers the image exactly the
// windows are the image.
//
// With enough channels the image itself is transposed first, and windows are gathered
// pixel by pixel, all channels of one at a time: [N·P, taps·C].
type rowConv struct {
	planned
	win         window
	n, c, m     int
	taps        int
	g           *gemm.Gemm
	packed      *gemm.Packed
	direct      bool      // the input is the matrix of windows
	transpose   *vec.Copy // from rows to channels, nil for one position
	image       *vec.Copy // channels last, nil where windows are gathered channel by channel
	pixels      int       // workspace: the image, channels last
	pointwise   bool      // that image is the windows
	rows, sums  int       // workspace: windows, products
	ws, threads int
	cut         // over windows
}

// rowChain is how many products are added up one after the other, for so many rows. Products of a signal with a filter nearly cancel, and so do
// those of a spectrum, whose largest bins come first, with weights of both signs: every later product of a chain is rounded at the size of
// these. Few rows read their weights once: shorter chains cost them 3 to 4% of a small model.
func rowChain(rows int) int {
	if rows <= convolve.FewPositions {
		return 128
	}
	return 32
}

// rowConv prepares this form of a convolution, over what is taken of the weights.
func (p *prep) rowConv(win window, act activation, taken arrangement, plan convolve.ConvPlan) (ops.Kernel, error) {
	x, w := p.in[0].shape, p.in[1].shape
	positions, taps := sizeOf(win.out[:]), sizeOf(win.kernel[:])
	k := &rowConv{planned: planned(plan), win: win, n: x[0], c: x[1], m: w[0], taps: taps, threads: p.threads,
		direct: positions == 1 && win.in == win.kernel && win.begin == [3]int{} && win.dilation == [3]int{1, 1, 1}}
	s := gemm.GemmSpec{M: k.n * positions, N: k.m, K: k.c * taps, TransB: true, ConstB: true, Alpha: 1, Chain: rowChain(k.n * positions)}
	act.into(&s.Epilogue)
	if p.has(2) {
		s.Epilogue.Bias = simd.BiasPerCol
	}
	var err error
	if k.g, err = gemm.NewGemm(s); err != nil {
		return nil, err
	}
	if plan.Algorithm == convolve.ConvPixelRows {
		if err := k.byPixel(p); err != nil {
			return nil, err
		}
	}
	if k.packed, err = k.pack(p, taken); err != nil {
		return nil, err
	}
	if !k.direct && !k.pointwise {
		k.rows = p.workspace(4 * s.M * s.K)
	}
	if positions > 1 {
		k.sums = p.workspace(4 * s.M * s.N)
		if k.transpose, err = swapLast(k.n, positions, k.m); err != nil {
			return nil, err
		}
	}
	k.cut = newCut(s.M, 1, max(1, TileElems/s.K))
	k.ws = p.workspace(k.g.Workspace(p.threads))
	return k, err
}

// byPixel prepares the image with its channels last.
func (k *rowConv) byPixel(p *prep) (err error) {
	w := &k.win
	in := sizeOf(w.in[:])
	k.pointwise = w.isPointwise()
	k.pixels = p.workspace(4 * k.n * k.c * in)
	k.image, err = swapLast(k.n, k.c, in)
	return err
}

// pack lays the weights out.
func (k *rowConv) pack(p *prep, taken arrangement) (*gemm.Packed, error) {
	s := k.g.Spec()
	taken.trans, taken.ld, taken.channelsLast = s.TransB, s.LDB, k.image != nil && k.taps > 1
	return p.packFloats(1, k.g.LayoutB(), taken, func(w gemm.Source) (*gemm.Packed, error) {
		w, err := p.crop(w, taken)
		if err != nil {
			return nil, err
		}
		if err := convolve.CheckWeights(simd.Active(), w); err != nil {
			return nil, err
		}
		if !taken.channelsLast || w.Splat {
			return k.g.PackB(p.ctx, w)
		}
		data, err := channelsLast(p, w.Data, k.m, k.c, k.taps)
		if err != nil {
			return nil, err
		}
		return k.g.PackB(p.ctx, gemm.Source{Data: data})
	})
}

// channelsLast transposes weights [m, c, taps] to [m, taps, c].
func channelsLast(p *prep, w []float32, m, c, taps int) ([]float32, error) {
	order, err := swapLast(m, c, taps)
	if err == nil {
		err = machine.AskPacked(p.ctx, 4*len(w))
	}
	if err != nil {
		return nil, err
	}
	out := make([]float32, len(w))
	return out, vec.RunCopy(nil, order, out, 0, w, 0, machine.Threads())
}

// swapLast is the transposition of [n, a, b] to [n, b, a].
func swapLast(n, a, b int) (*vec.Copy, error) {
	return vec.NewTranspose([]int{n, a, b}, []int{0, 2, 1})
}

// Run gathers the windows, multiplies and transposes the result.
func (k *rowConv) Run(c *ops.Call) error {
	args := gemm.GemmArgs{Done: c.Done(), A: f32(c.In[0]), C: f32(c.Out[0]), PackedB: k.packed, Bias: optF32(c.In, 2)}
	if k.image != nil {
		args.A = scratchOf[float32](c, k.pixels, k.n*k.c*sizeOf(k.win.in[:]))
		if err := vec.RunCopy(c.Done(), k.image, args.A, 0, f32(c.In[0]), 0, c.Threads); err != nil {
			return err
		}
	}
	if !k.direct && !k.pointwise {
		args.A = scratchOf[float32](c, k.rows, k.runs*k.c*k.taps)
		runTiles(c, k.tiles, k)
	}
	if k.transpose == nil {
		return k.g.Run(args, c.Scratch[k.ws:], min(k.threads, c.Threads))
	}
	args.C = scratchOf[float32](c, k.sums, k.runs*k.m)
	if err := k.g.Run(args, c.Scratch[k.ws:], min(k.threads, c.Threads)); err != nil {
		return err
	}
	return vec.RunCopy(c.Done(), k.transpose, f32(c.Out[0]), 0, args.C, 0, c.Threads)
}

// tile gathers windows.
func (k *rowConv) tile(c *ops.Call, i, _ int) {
	w := &k.win
	size := k.c * k.taps
	rows, x := scratchOf[float32](c, k.rows, k.runs*size), f32(c.In[0])
	in, positions := sizeOf(w.in[:]), sizeOf(w.out[:])
	r0, r1, _, _ := k.cut.tile(i)
	for r := r0; r < r1; r++ {
		o := r % positions
		at := w.position(o)
		if k.image != nil {
			pixels := scratchOf[float32](c, k.pixels, k.n*k.c*in)[r/positions*k.c*in:][:k.c*in]
			gatherPixels(&k.win, rows[r*size:(r+1)*size], pixels, k.c, at, 0)
			continue
		}
		image := x[r/positions*k.c*in:][:k.c*in]
		k.window(rows[r*size:(r+1)*size], image, at)
	}
}

// gatherPixels copies the pixels of a window out of an image with its channels
// last; padding is zero.
func gatherPixels(w *window, dst, image []float32, channels int, o [3]int, zero float32) {
	for a := range w.kernel[0] {
		for b := range w.kernel[1] {
			for e := range w.kernel[2] {
				pixel := dst[:channels]
				dst = dst[channels:]
				at, inside := 0, true
				for d, tap := range [3]int{a, b, e} {
					v := o[d]*w.stride[d] - w.begin[d] + tap*w.dilation[d]
					inside = inside && v >= 0 && v < w.in[d]
					at = at*w.in[d] + v
				}
				if inside {
					copy(pixel, image[at*channels:])
					continue
				}
				for i := range pixel {
					pixel[i] = zero
				}
			}
		}
	}
}

// window gathers the window of one output position.
func (k *rowConv) window(dst, image []float32, o [3]int) {
	w := &k.win
	var first, lo, hi [3]int
	for d := range 3 {
		first[d], lo[d], hi[d] = w.taps(d, o[d])
		hi[d] = max(hi[d], lo[d])
	}
	kw, step := w.kernel[2], w.dilation[2]
	in := sizeOf(w.in[:])
	for ch := range k.c {
		plane := image[ch*in:][:in]
		for a := range w.kernel[0] {
			for b := range w.kernel[1] {
				run := dst[:kw]
				dst = dst[kw:]
				if a < lo[0] || a >= hi[0] || b < lo[1] || b >= hi[1] {
					clear(run)
					continue
				}
				line := plane[((first[0]+a*w.dilation[0])*w.in[1]+first[1]+b*w.dilation[1])*w.in[2]:][:w.in[2]]
				clear(run[:min(lo[2], kw)])
				if step == 1 && hi[2] > lo[2] {
					copy(run[lo[2]:hi[2]], line[first[2]+lo[2]:])
				} else {
					for e := lo[2]; e < hi[2]; e++ {
						run[e] = line[first[2]+e*step]
					}
				}
				clear(run[min(hi[2], kw):])
			}
		}
	}
}
