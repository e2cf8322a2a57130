package cpu

import (
	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ops"
)

// Convolutions with few output positions, those that cut the image into patches,
// and those over long frames of a signal, as a product with the positions as rows:
//
//	windows [N·P, C·taps] · Wᵀ [C·taps, M]  ->  [N·P, M]  ──turned──▶  Y [N, M, P]
//
// The other way round, with the positions as columns, most lanes of a vector would
// be idle (a squeezed image has one position), and gathering patches would go
// element by element where it can copy whole runs of a row. One position needs no
// turning, and if the kernel covers the image exactly the windows are the image.
//
// With enough channels the image itself is turned first, and windows are gathered
// pixel by pixel, all channels of one at a time: [N·P, taps·C].
type rowConv struct {
	win         window
	n, c, m     int
	taps        int
	g           *kern.Gemm
	packed      *kern.Packed
	bias        int        // operand position, -1 for none
	direct      bool       // the input is the matrix of windows
	turn        *kern.Copy // from rows to channels, nil for one position
	image       *kern.Copy // channels last, nil where windows are gathered channel by channel
	pixels      int        // workspace: the image, channels last
	pointwise   bool       // that image is the windows
	rows, sums  int        // workspace: windows, products
	ws, threads int
	cut         // over windows
}

// rowPositions is up to how many output positions an image counts as small.
const rowPositions = 16

// maxWindows is how many elements the windows of long frames, which overlap, may
// have.
const maxWindows = 1 << 20

// rowConv prepares this form of a convolution; nil where it does not pay. The
// weights are what cropped left.
func (p *prep) rowConv(win window, act activation, weights []float32) (ops.Kernel, error) {
	x, w := p.in[0].shape, p.in[1].shape
	positions, taps := sizeOf(win.out[:]), sizeOf(win.kernel[:])
	patches := win.stride == win.kernel && win.kernel[2] >= 4 && win.dilation == [3]int{1, 1, 1} && win.begin == [3]int{} && win.end == [3]int{}
	frames := win.kernel[2] >= 32 && win.dilation[2] == 1 && x[0]*positions*x[1]*taps <= maxWindows
	if ops.Int(p.node, "group") != 1 || x[1] != w[1] || !p.isConst(1) || p.has(3) || positions > rowPositions && !patches && !frames {
		return nil, nil
	}
	k := &rowConv{win: win, n: x[0], c: x[1], m: w[0], taps: taps, bias: -1, threads: p.threads,
		direct: positions == 1 && win.in == win.kernel && win.begin == [3]int{} && win.dilation == [3]int{1, 1, 1}}
	s := kern.GemmSpec{M: k.n * positions, N: k.m, K: k.c * taps, TransB: true, ConstB: true, Alpha: 1}
	act.into(&s.Epilogue)
	if p.has(2) {
		if p.in[2].n != k.m {
			return nil, nil
		}
		k.bias, s.Epilogue.Bias = 2, kern.BiasPerCol
	}
	var err error
	if k.g, err = kern.NewGemm(s); err != nil {
		return nil, err
	}
	if !k.direct && !patches && !frames && k.c >= 16 {
		if err := k.byPixel(p); err != nil {
			return nil, err
		}
	}
	if k.packed, err = k.pack(p, weights); err != nil {
		return nil, err
	}
	p.absorb(1, 0)
	if !k.direct && !k.pointwise {
		k.rows = p.workspace(4 * s.M * s.K)
	}
	if positions > 1 {
		k.sums = p.workspace(4 * s.M * s.N)
		if k.turn, err = kern.NewTranspose([]int{k.n, positions, k.m}, []int{0, 2, 1}); err != nil {
			return nil, err
		}
	}
	k.cut = newCut(s.M, 1, max(1, tileElems/s.K))
	k.ws = p.workspace(k.g.Workspace(p.threads))
	return k, err
}

// byPixel prepares the image with its channels last.
func (k *rowConv) byPixel(p *prep) (err error) {
	w := &k.win
	in := sizeOf(w.in[:])
	k.pointwise = k.taps == 1 && w.in == w.out && w.stride == [3]int{1, 1, 1} && w.begin == [3]int{}
	k.pixels = p.workspace(4 * k.n * k.c * in)
	k.image, err = kern.NewTranspose([]int{k.n, k.c, in}, []int{0, 2, 1})
	return err
}

// pack lays the weights out, from the constant itself where they are all of it.
func (k *rowConv) pack(p *prep, weights []float32) (*kern.Packed, error) {
	s := k.g.Spec()
	key := packKey{trans: s.TransB, rows: s.N, k: s.K, ld: s.LDB, turned: k.image != nil && k.taps > 1}
	laid := func([]float32) (*kern.Packed, error) {
		if k.image == nil || k.taps == 1 {
			return k.g.PackB(weights)
		}
		order, err := kern.NewTranspose([]int{k.m, k.c, k.taps}, []int{0, 2, 1})
		if err != nil {
			return nil, err
		}
		turned := make([]float32, len(weights))
		if err := kern.RunCopy(order, turned, 0, weights, 0, 1); err != nil {
			return nil, err
		}
		return k.g.PackB(turned)
	}
	if len(weights) == p.in[1].n {
		return p.pack(1, key, laid)
	}
	packed, err := laid(nil)
	if err == nil {
		p.packed += int64(packed.Bytes())
	}
	return packed, err
}

// Run gathers the windows, multiplies and turns the result.
func (k *rowConv) Run(c *ops.Call) error {
	args := kern.GemmArgs{A: f32(c.In[0]), C: f32(c.Out[0]), PackedB: k.packed}
	if k.image != nil {
		args.A = scratchOf[float32](c, k.pixels, k.n*k.c*sizeOf(k.win.in[:]))
		if err := kern.RunCopy(k.image, args.A, 0, f32(c.In[0]), 0, c.Threads); err != nil {
			return err
		}
	}
	if !k.direct && !k.pointwise {
		args.A = scratchOf[float32](c, k.rows, k.runs*k.c*k.taps)
		runTiles(c, k.tiles, k)
	}
	if k.bias >= 0 {
		args.Bias = f32(c.In[k.bias])
	}
	if k.turn == nil {
		return k.g.Run(args, c.Scratch[k.ws:], min(k.threads, c.Threads))
	}
	args.C = scratchOf[float32](c, k.sums, k.runs*k.m)
	if err := k.g.Run(args, c.Scratch[k.ws:], min(k.threads, c.Threads)); err != nil {
		return err
	}
	return kern.RunCopy(k.turn, f32(c.Out[0]), 0, args.C, 0, c.Threads)
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
		at := [3]int{o / (w.out[1] * w.out[2]), o / w.out[2] % w.out[1], o % w.out[2]}
		if k.image != nil {
			turned := scratchOf[float32](c, k.pixels, k.n*k.c*in)[r/positions*k.c*in:][:k.c*in]
			gatherPixels(&k.win, rows[r*size:(r+1)*size], turned, k.c, at, 0)
			continue
		}
		image := x[r/positions*k.c*in:][:k.c*in]
		k.window(rows[r*size:(r+1)*size], image, at)
	}
}

// gatherPixels copies the pixels of a window out of an image with its channels
// last; padding is zero.
func gatherPixels[T byte | float32](w *window, dst, image []T, channels int, o [3]int, zero T) {
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
