package cpu

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Fused operators of transformer blocks: a residual sum that is normalized, and a
// bias followed by a function.

var skipOps = []entry{
	{domain: microsoft, op: "SkipLayerNormalization", prepare: skipNormOf(true, 3, 4)},
	{domain: microsoft, op: "SkipSimplifiedLayerNormalization", prepare: skipNormOf(false, -1, 3)},
	{domain: microsoft, op: "BiasGelu", prepare: biased("Gelu", simd.Gelu)},
	{domain: microsoft, op: "FastGelu", prepare: biased(tile.GeluTanh, simd.GeluTanh)},
}

// skipNorm is sum = input + skip + bias, normalized. Rows are summed where the sum
// is wanted, result 3, or else in the result itself.
type skipNorm struct {
	cols        int
	skip        int // elements of skip, repeated over the input
	beta, bias  int // operand positions
	center, sum bool
	eps         float32
}

// skipNormOf prepares the normalization, with the operand positions of beta, -1 for
// none, and of the bias.
func skipNormOf(center bool, beta, bias int) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		x := p.in[0]
		if !p.allF32() || len(x.shape) == 0 || !center && (p.wants(1) || p.wants(2)) || !p.wants(0) {
			return nil, nil
		}
		cols := x.shape[len(x.shape)-1]
		for _, i := range []int{2, beta, bias} {
			if i >= 0 && p.has(i) && p.in[i].n != cols {
				return nil, nil
			}
		}
		k := &skipNorm{cols: cols, skip: p.in[1].n, beta: beta, bias: bias, center: center,
			sum: p.wants(3), eps: ops.Float(p.node, "epsilon")}
		if k.skip%cols != 0 || !endsWith(x.shape, p.in[1].shape) {
			return nil, nil
		}
		return rowwise(x.n/cols, TileElems/cols, k.rows), nil
	}
}

// rows sums and normalizes rows r0 up to r1.
func (k *skipNorm) rows(c *ops.Call, r0, r1 int) {
	lo, hi := r0*k.cols, r1*k.cols
	dst, src, skip := f32(c.Out[0])[lo:hi], f32(c.In[0])[lo:hi], f32(c.In[1])
	sum, bias := dst, optF32(c.In, k.bias)
	if k.sum {
		sum = f32(c.Out[3])[lo:hi]
	}
	for r := r0; r < r1; r++ {
		row := sum[(r-r0)*k.cols:][:k.cols]
		at := r * k.cols % k.skip
		vec.Binary(simd.Add, row, src[(r-r0)*k.cols:][:k.cols], skip[at:at+k.cols])
		if bias != nil {
			vec.Binary(simd.Add, row, row, bias)
		}
	}
	gamma := f32(c.In[2])
	if !k.center {
		vec.RMSNorm(c.Done(), dst, sum, gamma, r1-r0, k.cols, k.eps, 1)
		return
	}
	mean, inv := optF32(c.Out, 1), optF32(c.Out, 2)
	if mean != nil {
		mean = mean[r0:r1]
	}
	if inv != nil {
		inv = inv[r0:r1]
	}
	vec.LayerNorm(c.Done(), dst, sum, gamma, optF32(c.In, k.beta), r1-r0, k.cols, k.eps, mean, inv, 1)
}

// biased prepares f(A + B), B a vector along the last dimension or absent.
func biased(op tile.Op, f simd.UnaryOp) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		if !p.allF32() {
			return nil, nil
		}
		if !p.has(1) {
			return newUnary(p, unary{f32: f}), nil
		}
		t := p.program()
		sum := t.Add(tile.Instr{Op: "Add", DType: ndarray.Float32, Args: []tile.Ref{0, 1}})
		t.Store(t.Add(tile.Instr{Op: op, DType: ndarray.Float32, Args: []tile.Ref{sum}}))
		return p.group(t)
	}
}
