package cpu

import (
	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Convolutions of 8-bit integers.
//
// A slab of output lines is one tile: the input elements under each tap are
// written side by side as a matrix (padding as the zero point), which is then
// multiplied by the weights.
//
//	weights [M, C·taps] · cols [C·taps, slab]  ->  result [M, slab]
//
// A pointwise convolution reads the input in place. With one input channel in a
// group there is next to nothing to multiply; such planes are summed tap by tap.

var intConvOps = []entry{
	{op: "ConvInteger", prepare: prepareConvInteger},
	{op: "QLinearConv", prepare: prepareQLinearConv},
}

// intConv is the integer part: operand positions and geometry.
type intConv struct {
	x, w, zx, zw int
	win          window
	n, c, m      int
	group        int
	lines, slab  int // output lines; of a slab
	slabs        int
	pointwise    bool // reads the input in place
	depthwise    bool // one input channel in a group
	sum, rest    *kern.IntGemm
	signedX      bool
	worker       int // bytes of workspace of a worker
	cols, zs, z  int // in it: columns, zero points of the weights, of the input
	acc, gemm    int // sums, workspace of the product
	base         int
	threads      int
}

// intSlab is about how many positions a slab has.
const intSlab = 512

// newIntConv prepares the integer part; nil if there is no code for it. keep says
// that the sums stay in the workspace.
func (p *prep) newIntConv(x, w, zx, zw int, keep bool) (*intConv, error) {
	xs, ws, out := p.in[x], p.in[w], p.out[0]
	k := &intConv{x: x, w: w, zx: zx, zw: zw, group: int(p.node.Int("group", 1)), threads: p.threads}
	if !isByte(xs.dt) || !isByte(ws.dt) || len(xs.shape) < 3 || len(ws.shape) != len(xs.shape) || k.group < 1 {
		return nil, nil
	}
	k.n, k.c, k.m = xs.shape[0], xs.shape[1], ws.shape[0]
	if k.c%k.group != 0 || k.m%k.group != 0 || ws.shape[1] != k.c/k.group ||
		p.has(zx) && (p.in[zx].n != 1 || p.in[zx].dt != xs.dt) ||
		p.has(zw) && (p.in[zw].n != 1 && p.in[zw].n != k.m || p.in[zw].dt != ws.dt || !vector(p.in[zw].shape)) {
		return nil, nil
	}
	var ok bool
	if k.win, ok = p.windowOf(ws.shape[2:], xs.shape[2:], out.shape[2:]); !ok {
		return nil, nil
	}
	for d := range 3 {
		if k.win.begin[d] < 0 || k.win.end[d] < 0 {
			return nil, nil
		}
	}
	k.zx, k.zw = present(p, zx), present(p, zw)
	k.signedX = xs.dt == ndarray.Int8
	return k, k.plan(p, ws.dt == ndarray.Int8, keep)
}

// present is a position, -1 where the operand is absent.
func present(p *prep, i int) int {
	if p.has(i) {
		return i
	}
	return -1
}

// plan cuts the slabs and prepares their products.
func (k *intConv) plan(p *prep, signedW, keep bool) error {
	w := &k.win
	taps, width := sizeOf(w.kernel[:]), w.out[2]
	k.lines = w.out[0] * w.out[1]
	k.slab = min(max(1, intSlab/width), k.lines)
	k.slabs = ceilDiv(k.lines, k.slab)
	k.depthwise = k.c == k.group
	k.pointwise = taps == 1 && w.stride == [3]int{1, 1, 1} && w.begin == [3]int{} && w.end == [3]int{}
	plane, rows, depth := sizeOf(w.out[:]), k.m/k.group, k.c/k.group*taps
	cell := func(bytes int) int {
		at := k.worker
		k.worker += roundUp(bytes, lineBytes)
		return at
	}
	k.zs, k.z = cell(4*rows), cell(4)
	if keep {
		k.acc = cell(4 * rows * k.slab * width)
	}
	if k.depthwise {
		k.base = p.workspace(k.worker * p.threads)
		return nil
	}
	if !k.pointwise {
		k.cols = cell(depth * k.slab * width)
	}
	s := kern.IntGemmSpec{M: rows, K: depth, ASigned: signedW, BSigned: k.signedX, LDC: plane, LDB: plane}
	ws := 0
	for _, part := range []struct {
		lines int
		g     **kern.IntGemm
	}{{k.slab, &k.sum}, {k.lines - (k.slabs-1)*k.slab, &k.rest}} {
		s.N = part.lines * width
		if keep {
			s.LDC = s.N
		}
		if !k.pointwise {
			s.LDB = s.N
		}
		g, err := kern.NewIntGemm(s)
		if err != nil {
			return err
		}
		*part.g = g
		ws = max(ws, g.Workspace(1))
	}
	k.gemm = cell(ws)
	k.base = p.workspace(k.worker * p.threads)
	return nil
}

func (k *intConv) tiles() int { return k.n * k.group * k.slabs }

// place is where tile i lies: image, group, and output positions from..to.
func (k *intConv) place(i int) (n, g, from, to int) {
	s := i % k.slabs
	g = i / k.slabs % k.group
	n = i / k.slabs / k.group
	return n, g, s * k.slab * k.win.out[2], min((s+1)*k.slab, k.lines) * k.win.out[2]
}

// compute writes the sums of tile i to out, rows of one output channel each, ld
// apart.
func (k *intConv) compute(c *ops.Call, i, worker int, out []int32, ld int) {
	n, g, from, to := k.place(i)
	w := &k.win
	in, cg := sizeOf(w.in[:]), k.c/k.group
	x := arrayOf(c.In[k.x]).Data[(n*k.c+g*cg)*in:][:cg*in]
	weights := arrayOf(c.In[k.w]).Data
	size := len(weights) / k.group
	weights = weights[g*size:][:size]
	at := k.base + worker*k.worker
	zero := scratchOf[int32](c, at+k.z, 1)
	zero[0] = 0
	if k.zx >= 0 {
		widen(zero, arrayOf(c.In[k.zx]))
	}
	zw := k.weightZero(c, g, at)
	if k.depthwise {
		k.sumTaps(c, x, weights, zw, zero[0], from, to, out, ld)
		return
	}
	args := kern.IntGemmArgs{A: weights, C: out, ZA: zw, ZB: zero}
	if k.pointwise {
		args.B = x[from:]
	} else {
		depth := cg * sizeOf(w.kernel[:])
		args.B = scratchOf[byte](c, at+k.cols, depth*(to-from))
		k.unroll(args.B, x, byte(zero[0]), from, to)
	}
	sum := k.sum
	if to-from != k.slab*w.out[2] {
		sum = k.rest
	}
	// The sizes were checked when the product was prepared; it can not fail.
	_ = sum.Run(args, c.Scratch[at+k.gemm:][:k.worker-k.gemm], 1)
}

// weightZero widens the zero points of a group's weights.
func (k *intConv) weightZero(c *ops.Call, g, at int) []int32 {
	if k.zw < 0 {
		return nil
	}
	mg := k.m / k.group
	z := arrayOf(c.In[k.zw])
	v := scratchOf[int32](c, at+k.zs, mg)
	if len(z.Data) == 1 {
		widen(v[:1], z)
		return v[:1]
	}
	if z.DType == ndarray.Int8 {
		for i, b := range z.Data[g*mg : (g+1)*mg] {
			v[i] = int32(int8(b))
		}
		return v
	}
	for i, b := range z.Data[g*mg : (g+1)*mg] {
		v[i] = int32(b)
	}
	return v
}

// unroll writes the columns of output positions from..to, whole lines.
func (k *intConv) unroll(cols, x []byte, pad byte, from, to int) {
	w := &k.win
	in, width := sizeOf(w.in[:]), to-from
	for ch := range k.c / k.group {
		plane := x[ch*in:][:in]
		for a := range w.kernel[0] {
			for b := range w.kernel[1] {
				for e := range w.kernel[2] {
					k.unrollTap(cols[:width], plane, pad, from, [3]int{a, b, e})
					cols = cols[width:]
				}
			}
		}
	}
}

// unrollTap writes the input elements under one tap.
func (k *intConv) unrollTap(dst, plane []byte, pad byte, from int, tap [3]int) {
	w := &k.win
	x0, x1 := w.inside(2, tap[2])
	for line := from / w.out[2]; len(dst) > 0; line++ {
		row := dst[:w.out[2]]
		dst = dst[w.out[2]:]
		src, ok := w.line(plane, line, tap)
		if !ok || x0 >= x1 {
			fill(row, pad)
			continue
		}
		fill(row[:x0], pad)
		first, step := x0*w.stride[2]+tap[2]*w.dilation[2]-w.begin[2], w.stride[2]
		if step == 1 {
			copy(row[x0:x1], src[first:])
		} else {
			for j := range row[x0:x1] {
				row[x0+j] = src[first]
				first += step
			}
		}
		fill(row[x1:], pad)
	}
}

// line is the input row that output line reads through a tap; false if it lies in
// the padding.
func (w *window) line(plane []byte, line int, tap [3]int) ([]byte, bool) {
	z := line/w.out[1]*w.stride[0] + tap[0]*w.dilation[0] - w.begin[0]
	v := line%w.out[1]*w.stride[1] + tap[1]*w.dilation[1] - w.begin[1]
	if z < 0 || z >= w.in[0] || v < 0 || v >= w.in[1] {
		return nil, false
	}
	return plane[(z*w.in[1]+v)*w.in[2]:][:w.in[2]], true
}

// sumTaps convolves one input channel with the kernels of its group.
func (k *intConv) sumTaps(c *ops.Call, x, weights []byte, zw []int32, zx int32, from, to int, out []int32, ld int) {
	w := &k.win
	taps := sizeOf(w.kernel[:])
	signedW := arrayOf(c.In[k.w]).DType == ndarray.Int8
	for m := range k.m / k.group {
		acc := out[m*ld:][:to-from]
		clear(acc)
		zero := int32(0)
		if len(zw) > 0 {
			zero = zw[min(m, len(zw)-1)]
		}
		tap := 0
		for a := range w.kernel[0] {
			for b := range w.kernel[1] {
				for e := range w.kernel[2] {
					v := int32(weights[m*taps+tap])
					if signedW {
						v = int32(int8(v))
					}
					k.addTap(acc, x, v-zero, zx, from, [3]int{a, b, e})
					tap++
				}
			}
		}
	}
}

// addTap is acc += v·(x − zero) over the elements under one tap; padding adds
// nothing.
func (k *intConv) addTap(acc []int32, plane []byte, v, zero int32, from int, tap [3]int) {
	w := &k.win
	x0, x1 := w.inside(2, tap[2])
	for line := from / w.out[2]; len(acc) > 0; line++ {
		row := acc[:w.out[2]]
		acc = acc[w.out[2]:]
		src, ok := w.line(plane, line, tap)
		if !ok || x0 >= x1 {
			continue
		}
		at := x0*w.stride[2] + tap[2]*w.dilation[2] - w.begin[2]
		row = row[x0:x1]
		if k.signedX {
			for j := range row {
				row[j] += v * (int32(int8(src[at])) - zero)
				at += w.stride[2]
			}
			continue
		}
		for j := range row {
			row[j] += v * (int32(src[at]) - zero)
			at += w.stride[2]
		}
	}
}

// convInteger gives the sums as they are.
type convInteger struct{ *intConv }

func prepareConvInteger(p *prep) (ops.Kernel, error) {
	k, err := p.newIntConv(0, 1, 2, 3, false)
	if k == nil || err != nil {
		return nil, err
	}
	return convInteger{k}, nil
}

// Run computes all tiles.
func (k convInteger) Run(c *ops.Call) error {
	runTilesOn(c, k.tiles(), k.threads, k)
	return nil
}

func (k convInteger) tile(c *ops.Call, i, worker int) {
	n, g, from, _ := k.place(i)
	plane, mg := sizeOf(k.win.out[:]), k.m/k.group
	k.compute(c, i, worker, elems[int32](c.Out[0])[(n*k.m+g*mg)*plane+from:], plane)
}

// qLinearConv adds a bias and quantizes the sums.
type qLinearConv[T int8 | uint8] struct {
	*intConv
	bias   bool
	scales int // of the weights: 1 or one per output channel
}

func prepareQLinearConv(p *prep) (ops.Kernel, error) {
	m := p.in[3].shape[0]
	for _, i := range []int{1, 4, 6} {
		if p.in[i].dt != ndarray.Float32 || i != 4 && p.in[i].n != 1 {
			return nil, nil
		}
	}
	scales := p.in[4].n
	if scales != 1 && scales != m || p.in[7].n != 1 || p.has(8) && (p.in[8].dt != ndarray.Int32 || p.in[8].n != m) {
		return nil, nil
	}
	k, err := p.newIntConv(0, 3, 2, 5, true)
	if k == nil || err != nil {
		return nil, err
	}
	switch p.out[0].dt {
	case ndarray.Int8:
		return &qLinearConv[int8]{k, p.has(8), scales}, nil
	case ndarray.Uint8:
		return &qLinearConv[uint8]{k, p.has(8), scales}, nil
	}
	return nil, nil
}

// Run computes all tiles.
func (k *qLinearConv[T]) Run(c *ops.Call) error {
	runTilesOn(c, k.tiles(), k.threads, k)
	return nil
}

func (k *qLinearConv[T]) tile(c *ops.Call, i, worker int) {
	n, g, from, to := k.place(i)
	plane, mg, width := sizeOf(k.win.out[:]), k.m/k.group, to-from
	acc := scratchOf[int32](c, k.base+worker*k.worker+k.acc, mg*width)
	k.compute(c, i, worker, acc, width)
	xs, ws, ys := f32(c.In[1])[0], f32(c.In[4]), f32(c.In[6])[0]
	zero := int32(elems[T](c.In[7])[0])
	for m := range mg {
		ch := g*mg + m
		bias := int32(0)
		if k.bias {
			bias = elems[int32](c.In[8])[ch]
		}
		row := elems[T](c.Out[0])[(n*k.m+ch)*plane+from:][:width]
		requantizeRow(row, acc[m*width:(m+1)*width], bias, xs*ws[min(ch, k.scales-1)]/ys, zero)
	}
}
