package cpu

import (
	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ops"
)

// Fused operators of transformer blocks: a residual sum that is normalized, and a
// bias followed by a function.

var skipOps = []entry{
	{domain: microsoft, op: "SkipLayerNormalization", prepare: skipNormOf(true, 3, 4)},
	{domain: microsoft, op: "SkipSimplifiedLayerNormalization", prepare: skipNormOf(false, -1, 3)},
	{domain: microsoft, op: "BiasGelu", prepare: biased(kern.Gelu)},
	{domain: microsoft, op: "FastGelu", prepare: biased(kern.GeluTanh)},
}

// skipNorm is sum = input + skip + bias, normalized. Rows are summed where the sum
// is wanted, result 3, or else in the result itself.
type skipNorm struct {
	rows, cols  int
	skip        int // elements of skip, repeated over the input
	beta, bias  int // operand positions, -1 for none
	center, sum bool
	eps         float32
	cut
}

func skipNormOf(center bool, beta, bias int) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		x := p.in[0]
		if !p.allF32() || len(x.shape) == 0 || !center && (p.wants(1) || p.wants(2)) || !p.wants(0) {
			return nil, nil
		}
		cols := x.shape[len(x.shape)-1]
		k := &skipNorm{rows: x.n / cols, cols: cols, skip: p.in[1].n, beta: -1, bias: -1, center: center,
			sum: p.wants(3), eps: ops.Float(p.node, "epsilon")}
		if k.skip%cols != 0 || !endsWith(x.shape, p.in[1].shape) || p.in[2].n != cols {
			return nil, nil
		}
		for _, o := range []struct {
			at  int
			dst *int
		}{{beta, &k.beta}, {bias, &k.bias}} {
			if o.at < 0 || !p.has(o.at) {
				continue
			}
			if p.in[o.at].n != cols {
				return nil, nil
			}
			*o.dst = o.at
		}
		k.cut = newCut(k.rows, 1, max(1, tileElems/cols))
		return k, nil
	}
}

// Run sums and normalizes all rows.
func (k *skipNorm) Run(c *ops.Call) error {
	runTiles(c, k.tiles, k)
	return nil
}

func (k *skipNorm) tile(c *ops.Call, i, _ int) {
	r0, r1, _, _ := k.cut.tile(i)
	lo, hi := r0*k.cols, r1*k.cols
	dst, src, skip := f32(c.Out[0])[lo:hi], f32(c.In[0])[lo:hi], f32(c.In[1])
	sum := dst
	if k.sum {
		sum = f32(c.Out[3])[lo:hi]
	}
	for r := r0; r < r1; r++ {
		row := sum[(r-r0)*k.cols:][:k.cols]
		at := r * k.cols % k.skip
		kern.Binary(kern.Add, row, src[(r-r0)*k.cols:][:k.cols], skip[at:at+k.cols])
		if k.bias >= 0 {
			kern.Binary(kern.Add, row, row, f32(c.In[k.bias]))
		}
	}
	gamma := f32(c.In[2])
	if !k.center {
		kern.RMSNorm(dst, sum, gamma, r1-r0, k.cols, k.eps, 1)
		return
	}
	var beta, mean, inv []float32
	if k.beta >= 0 {
		beta = f32(c.In[k.beta])
	}
	if mean = resultF32(c, 1); mean != nil {
		mean = mean[r0:r1]
	}
	if inv = resultF32(c, 2); inv != nil {
		inv = inv[r0:r1]
	}
	kern.LayerNorm(dst, sum, gamma, beta, r1-r0, k.cols, k.eps, mean, inv, 1)
}

// biased prepares f(A + B), B a vector along the last dimension or absent.
func biased(f kern.UnaryOp) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		if !p.allF32() {
			return nil, nil
		}
		if !p.has(1) {
			return newUnary(p, unary{f32: f}), nil
		}
		e := p.expr()
		e.Steps = []Step{
			{Kind: StepBinary, Binary: kern.Add, A: LeafRef(0), B: LeafRef(1)},
			{Kind: StepUnary, Unary: f, A: StepRef(0)},
		}
		return p.tape(e)
	}
}
