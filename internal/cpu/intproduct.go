package cpu

import (
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Matrix products of 8-bit integers.

var intProductOps = []entry{
	{op: "MatMulInteger", prepare: prepareMatMulInteger},
	{op: "QLinearMatMul", prepare: prepareQLinearMatMul},
}

// widen writes 8-bit elements as int32.
func widen(dst []int32, a *ndarray.Array) {
	if a.DType == ndarray.Int8 {
		for i, v := range ndarray.Slice[int8](a) {
			dst[i] = int32(v)
		}
		return
	}
	for i, v := range a.Data {
		dst[i] = int32(v)
	}
}

// intProduct is a product of operands a and b less their zero points.
type intProduct struct {
	g           *gemm.IntGemm
	packed      *gemm.Packed
	a, b        int // operand positions
	za, zb      zeroPoint
	ws, threads int
}

// zeroPoint is an operand of one or more zero points, widened in every run.
type zeroPoint struct {
	at, n  int // operand position (-1: none), elements
	buffer int // workspace
}

// zeroPoint reads operand i; ok is false unless it has one element or most.
func (p *prep) zeroPoint(i, most int, dt ndarray.DType) (z zeroPoint, ok bool) {
	z.at = -1
	if !p.has(i) {
		return z, true
	}
	x := p.in[i]
	if x.dt != dt || x.n != 1 && (x.n != most || !vector(x.shape)) {
		return z, false
	}
	return zeroPoint{i, x.n, p.workspace(4 * x.n)}, true
}

// vector reports a shape with at most one dimension, the last, that is not 1.
func vector(shape []int) bool {
	return len(shape) == 0 || sizeOf(shape) == shape[len(shape)-1]
}

// of returns the zero points of a run.
func (z *zeroPoint) of(c *ops.Call) []int32 {
	if z.at < 0 {
		return nil
	}
	v := scratchOf[int32](c, z.buffer, z.n)
	widen(v, arrayOf(c.In[z.at]))
	return v
}

// newIntProduct prepares the product of operands a and b with zero points za and zb;
// nil if there is no code for their types or shapes.
func (p *prep) newIntProduct(a, b, za, zb int) (k *intProduct, err error) {
	x, y := p.in[a], p.in[b]
	xs, ys, ok := matrices(x.shape, y.shape)
	if !ok || !x.dt.IsByte() || !y.dt.IsByte() {
		return nil, nil
	}
	s := gemm.IntGemmSpec{ASigned: x.dt == ndarray.Int8, BSigned: y.dt == ndarray.Int8}
	s.M, s.K = matrix(xs, false)
	kb, n := matrix(ys, false)
	s.N = n
	rows := sizeOf(xs[:len(xs)-2])
	switch stack := sizeOf(ys[:len(ys)-2]); {
	case kb != s.K:
		return nil, nil
	case stack == 1:
		s.M, s.ConstB = s.M*rows, p.isConst(b)
	case stack == rows && sizeOf(p.out[0].shape) == rows*s.M*s.N:
		s.Batch, s.StrideA, s.StrideB, s.StrideC = rows, s.M*s.K, s.K*s.N, s.M*s.N
	default:
		return nil, nil
	}
	k = &intProduct{a: a, b: b, threads: p.threads}
	mostA := s.M
	if rows > 1 {
		mostA = 1 // the product has no zero points of rows that repeat over the batch
	}
	var okA, okB bool
	k.za, okA = p.zeroPointColumn(za, mostA, x.dt)
	k.zb, okB = p.zeroPoint(zb, s.N, y.dt)
	if !okA || !okB {
		return nil, nil
	}
	if k.g, err = gemm.NewIntGemm(s); err != nil {
		return nil, err
	}
	if s.ConstB {
		if k.packed, err = p.packBytes(k.g, b, 0, y.n); err != nil {
			return nil, err
		}
	}
	k.ws = p.workspace(k.g.Workspace(p.threads))
	return k, nil
}

// zeroPointColumn is zeroPoint for one element per row: [m] or [m, 1].
func (p *prep) zeroPointColumn(i, most int, dt ndarray.DType) (zeroPoint, bool) {
	if p.has(i) && len(p.in[i].shape) == 2 && p.in[i].shape[1] == 1 {
		x := p.in[i]
		if x.dt != dt || x.n != 1 && x.n != most {
			return zeroPoint{}, false
		}
		return zeroPoint{i, x.n, p.workspace(4 * x.n)}, true
	}
	if p.has(i) && len(p.in[i].shape) > 1 && p.in[i].n > 1 {
		return zeroPoint{}, false
	}
	return p.zeroPoint(i, most, dt)
}

// into computes the product.
func (k *intProduct) into(c *ops.Call, out []int32) error {
	args := gemm.IntGemmArgs{Done: c.Done(), A: arrayOf(c.In[k.a]).Data, PackedB: k.packed, C: out, ZA: k.za.of(c), ZB: k.zb.of(c)}
	if k.packed == nil {
		args.B = arrayOf(c.In[k.b]).Data
	}
	return k.g.Run(args, c.Scratch[k.ws:], min(k.threads, c.Threads))
}

// Choice is how package gemm multiplies.
func (k *intProduct) Choice() backend.Choice {
	algorithm, reason := k.g.Choice()
	return backend.Choice{Algorithm: algorithm, Reason: reason}
}

// matMulInteger gives the products as they are.
type matMulInteger struct{ *intProduct }

func prepareMatMulInteger(p *prep) (ops.Kernel, error) {
	k, err := p.newIntProduct(0, 1, 2, 3)
	if k == nil || err != nil {
		return nil, err
	}
	return matMulInteger{k}, nil
}

// Run computes the product.
func (k matMulInteger) Run(c *ops.Call) error { return k.into(c, elems[int32](c.Out[0])) }

// qLinearMatMul quantizes the products: one scale for all, or one per column of B.
type qLinearMatMul struct {
	*intProduct
	cols, scales int // columns of the result; scales of B
	acc          int // workspace
	cut              // over rows
}

func prepareQLinearMatMul(p *prep) (ops.Kernel, error) {
	for _, i := range []int{1, 4, 6} {
		if p.in[i].dt != ndarray.Float32 {
			return nil, nil
		}
	}
	cols := 1
	if y := p.in[3].shape; len(y) > 1 {
		cols = y[len(y)-1]
	}
	scales := p.in[4].n
	if p.in[1].n != 1 || p.in[6].n != 1 || p.in[7].n != 1 || !p.out[0].dt.IsByte() ||
		scales != 1 && (scales != cols || !vector(p.in[4].shape)) {
		return nil, nil
	}
	k, err := p.newIntProduct(0, 3, 2, 5)
	if k == nil || err != nil {
		return nil, err
	}
	acc := p.workspace(4 * p.out[0].n)
	rows := newCut(p.out[0].n/cols, 1, max(1, TileElems/cols))
	return &qLinearMatMul{k, cols, scales, acc, rows}, nil
}

// Run computes the product, then quantizes it.
func (k *qLinearMatMul) Run(c *ops.Call) error {
	return checkedTiles(c, k.into(c, scratchOf[int32](c, k.acc, k.runs*k.cols)), k.tiles, k)
}

func (k *qLinearMatMul) tile(c *ops.Call, i, _ int) {
	acc, out := scratchOf[int32](c, k.acc, k.runs*k.cols), arrayOf(c.Out[0])
	as, bs, ys := f32(c.In[1])[0], f32(c.In[4]), f32(c.In[6])[0]
	zero, signed := byteOf(arrayOf(c.In[7]), 0), out.DType == ndarray.Int8
	r0, r1, _, _ := k.cut.tile(i)
	if k.scales == 1 {
		lo, hi := r0*k.cols, r1*k.cols
		vec.Requantize(out.Data[lo:hi], acc[lo:hi], signed, as*bs[0]/ys, zero)
		return
	}
	lo, hi := int32(0), int32(255)
	if signed {
		lo, hi = -128, 127
	}
	for r := r0; r < r1; r++ {
		row := out.Data[r*k.cols : (r+1)*k.cols]
		for j, v := range acc[r*k.cols : (r+1)*k.cols] {
			row[j] = byte(min(max(rounded(float32(v)*(as*bs[j]/ys))+zero, lo), hi))
		}
	}
}
