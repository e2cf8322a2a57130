package cpu

import (
	"strconv"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ops"
)

// Transposed convolution: a product, then a scattering sum.
//
//	cols[m·tap, x] = Σc W[c, m·tap] · X[c, x]         one product for each group
//	Y[m, x·stride + tap·dilation − pad] += cols[m·tap, x]
//
// Input positions are processed in slabs along the outermost spatial dimension, so that
// cols stays in cache. One tile sums an output channel of a slab; slabs and taps come
// one after the other, so sums have one order on any number of threads.

type convTranspose struct {
	win      window // of the convolution from Y to X: in is Y's shape, out X's
	g        []slabProduct
	n, c, m  int // batch, input channels, output channels
	group    int
	taps     int
	slab     int // outermost positions in a slab
	cols, ws int // workspace: cols; of the products
	threads  int
	packed   []*gemm.Packed // weights of each group, nil if not constant
}

// slabProduct is the product of a slab of some size.
type slabProduct struct {
	slab int
	g    *gemm.Gemm
}

// slabElems is about how many elements of cols a slab has.
const slabElems = 256 << 10

func prepareConvTranspose(p *prep) (ops.Kernel, error) {
	x, w, out := p.in[0], p.in[1], p.out[0]
	group := int(ops.Int(p.node, "group"))
	if !p.allF32() || len(x.shape) < 3 || len(w.shape) != len(x.shape) || group < 1 ||
		x.shape[1] != w.shape[0] || x.shape[1]%group != 0 || out.shape[1] != w.shape[1]*group ||
		p.has(2) && p.in[2].n != out.shape[1] {
		return nil, nil
	}
	k := &convTranspose{n: x.shape[0], c: x.shape[1], m: out.shape[1], group: group, threads: p.threads}
	var ok bool
	if k.win, ok = p.transposedWindow(w.shape[2:], x.shape[2:], out.shape[2:]); !ok {
		return nil, nil
	}
	k.taps = sizeOf(k.win.kernel[:])
	return k.products(p)
}

// transposedWindow is windowOf with the roles of input and output exchanged. Where the
// output's size is given, or is a multiple of the input's, the padding is the difference
// to the full result.
func (p *prep) transposedWindow(kernel, x, y []int) (window, bool) {
	w, ok := p.windowOf(kernel, y, x)
	extra := make([]int, w.rank)
	ok2 := p.list("output_padding", extra, 0)
	mode := ops.Str(p.node, "auto_pad")
	if !ok || !ok2 {
		return w, false
	}
	if len(ops.Ints(p.node, "output_shape")) == 0 && mode != "SAME_UPPER" && mode != "SAME_LOWER" {
		return w, true
	}
	for i := range w.rank {
		d := 3 - w.rank + i
		full := (w.out[d]-1)*w.stride[d] + extra[i] + w.extent(d)
		total := max(full-w.in[d], 0)
		w.begin[d] = total - total/2
		if mode == "SAME_UPPER" {
			w.begin[d] = total / 2
		}
	}
	return w, true
}

// outer is the outermost dimension with more than one position.
func (w *window) outer() int {
	for d := range 3 {
		if w.out[d] > 1 {
			return d
		}
	}
	return 2
}

// products prepares the products, for whole slabs and for the last one.
func (k *convTranspose) products(p *prep) (ops.Kernel, error) {
	rows, plane := k.m/k.group*k.taps, sizeOf(k.win.out[:])
	d := k.win.outer()
	positions, line := k.win.out[d], sizeOf(k.win.out[d+1:])
	k.slab = min(max(1, slabElems/max(1, rows*line)), positions)
	constW := p.isConst(1)
	sizes := []int{k.slab}
	if rest := positions % k.slab; rest > 0 {
		sizes = append(sizes, rest)
	}
	ws := 0
	for _, n := range sizes {
		g, err := gemm.NewGemm(gemm.GemmSpec{
			M: rows, N: n * line, K: k.c / k.group, Alpha: 1, TransA: true,
			LDB: plane, ConstA: constW,
		})
		if err != nil {
			return nil, err
		}
		k.g = append(k.g, slabProduct{n, g})
		ws = max(ws, g.Workspace(p.threads))
	}
	if constW {
		for g := range k.group {
			packed, err := p.packA(k.g[0].g, 1, g*p.in[1].n/k.group)
			if err != nil {
				return nil, err
			}
			k.packed = append(k.packed, packed)
		}
	}
	k.cols = p.workspace(rows * k.slab * line * 4)
	k.ws = p.workspace(ws)
	return k, nil
}

// Run fills in the bias and adds slab after slab.
func (k *convTranspose) Run(c *ops.Call) error {
	k.start(c)
	x, y := f32(c.In[0]), f32(c.Out[0])
	if len(y) == 0 {
		return nil
	}
	plane, rows := sizeOf(k.win.out[:]), k.m/k.group*k.taps
	d := k.win.outer()
	line := sizeOf(k.win.out[d+1:])
	cols := scratchOf[float32](c, k.cols, rows*k.slab*line)
	mg, first := k.m/k.group, 0
	for n := range k.n {
		for g := range k.group {
			args := gemm.GemmArgs{Done: c.Done(), C: cols}
			if k.packed != nil {
				args.PackedA = k.packed[g]
			} else {
				args.A = f32(c.In[1])[g*k.c/k.group*rows:]
			}
			for from := 0; from < k.win.out[d] && !c.Ended(); from += k.slab {
				to := min(from+k.slab, k.win.out[d])
				args.B = x[(n*k.c+g*k.c/k.group)*plane+from*line:]
				if err := k.product(to-from).Run(args, c.Scratch[k.ws:], min(k.threads, c.Threads)); err != nil {
					return err
				}
				runTasks(c, first, first+mg, smallTasks(k.taps*(to-from)*line), c.Threads, k)
				first += mg
			}
		}
	}
	return nil
}

// Choice says how it is computed.
func (k *convTranspose) Choice() backend.Choice {
	return backend.Choice{Algorithm: "products, then sums into the image", Reason: strconv.Itoa(k.slab) + " rows of the input at a time"}
}

func (k *convTranspose) product(slab int) *gemm.Gemm {
	for _, g := range k.g {
		if g.slab == slab {
			return g.g
		}
	}
	return nil
}

// start fills the result with the bias.
func (k *convTranspose) start(c *ops.Call) {
	y, bias, plane := f32(c.Out[0]), optF32(c.In, 2), sizeOf(k.win.in[:])
	if bias == nil {
		pieces(c, len(y), func(lo, hi int) { clear(y[lo:hi]) })
		return
	}
	for i := range k.n * k.m {
		row := y[i*plane:][:plane]
		pieces(c, plane, func(lo, hi int) { fill(row[lo:hi], bias[i%k.m]) })
	}
}

// tile adds the columns of one slab of an image to one output channel of a group; i
// counts channels within slabs within groups within images.
func (k *convTranspose) tile(c *ops.Call, i, _ int) {
	d, mg := k.win.outer(), k.m/k.group
	slabs := ceilDiv(k.win.out[d], k.slab)
	m, slab, g, n := i%mg, i/mg%slabs, i/mg/slabs%k.group, i/mg/slabs/k.group
	lo, hi := [3]int{}, k.win.out
	lo[d], hi[d] = slab*k.slab, min((slab+1)*k.slab, hi[d])
	width := (hi[0] - lo[0]) * (hi[1] - lo[1]) * (hi[2] - lo[2])
	plane := sizeOf(k.win.in[:])
	cols := scratchOf[float32](c, k.cols, mg*k.taps*width)
	y := f32(c.Out[0])[(n*k.m+g*mg+m)*plane:][:plane]
	tap := 0
	w := &k.win
	for a := range w.kernel[0] {
		for b := range w.kernel[1] {
			for e := range w.kernel[2] {
				part := cols[(m*k.taps+tap)*width:][:width]
				k.scatter(y, part, [3]int{a, b, e}, lo, hi)
				tap++
			}
		}
	}
}

// scatter adds one tap's columns for input positions lo..hi.
func (k *convTranspose) scatter(y, part []float32, tap, lo, hi [3]int) {
	w := &k.win
	at := func(d, x int) int { return x*w.stride[d] + tap[d]*w.dilation[d] - w.begin[d] }
	x0, x1 := w.inside(2, tap[2])
	x0, x1 = max(x0, lo[2]), min(x1, hi[2])
	line := hi[2] - lo[2]
	for z := lo[0]; z < hi[0]; z++ {
		pz := at(0, z)
		for v := lo[1]; v < hi[1]; v++ {
			pv := at(1, v)
			src := part[:line]
			part = part[line:]
			if pz < 0 || pz >= w.in[0] || pv < 0 || pv >= w.in[1] || x0 >= x1 {
				continue
			}
			dst := y[(pz*w.in[1]+pv)*w.in[2]+at(2, x0):]
			addStrided(dst, src[x0-lo[2]:x1-lo[2]], w.stride[2])
		}
	}
}

// inside returns the window positions lo..hi along d whose tap lies in the input.
func (w *window) inside(d, tap int) (lo, hi int) {
	first, s := tap*w.dilation[d]-w.begin[d], w.stride[d]
	if first < 0 {
		lo = ceilDiv(-first, s)
	}
	if last := w.in[d] - 1 - first; last >= 0 {
		hi = min(last/s+1, w.out[d])
	}
	return min(lo, hi), hi
}

// addStrided is dst[i·stride] += src[i].
func addStrided(dst, src []float32, stride int) {
	if stride == 1 {
		vec.Binary(simd.Add, dst[:len(src)], dst[:len(src)], src)
		return
	}
	for i, v := range src {
		dst[i*stride] += v
	}
}
