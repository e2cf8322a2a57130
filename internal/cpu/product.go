package cpu

import (
	"slices"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/ops"
)

// product is a prepared matrix product between two operands of a node. A constant
// operand that the whole batch shares is packed beforehand.
type product struct {
	g                *gemm.Gemm
	packedA, packedB *gemm.Packed
	a, b             int // operand positions
	bias, residual   int // the same, -1 for none
	fixedBias        []float32
	seed             *mover // broadcasts operand bias over the result, which Beta then scales
	ws, threads      int
}

// newProduct prepares the product of operands a and b.
func (p *prep) newProduct(s gemm.GemmSpec, a, b int) (*product, error) {
	k := &product{a: a, b: b, bias: -1, residual: -1, threads: p.threads}
	shared := func(stride func(gemm.BatchDim) int) bool {
		return !slices.ContainsFunc(s.Batch, func(d gemm.BatchDim) bool { return d.N > 1 && stride(d) != 0 })
	}
	s.ConstB = p.isConst(b) && shared(func(d gemm.BatchDim) int { return d.B })
	s.ConstA = !s.ConstB && p.isConst(a) && shared(func(d gemm.BatchDim) int { return d.A })
	var err error
	if k.g, err = gemm.NewGemm(s); err != nil {
		return nil, err
	}
	if s.ConstB {
		if k.packedB, err = p.packB(k.g, b, 0); err != nil {
			return nil, err
		}
	}
	if s.ConstA {
		if k.packedA, err = p.packA(k.g, a, 0); err != nil {
			return nil, err
		}
	}
	k.ws = p.workspace(k.g.Workspace(p.threads))
	return k, nil
}

// Run computes the product.
func (k *product) Run(c *ops.Call) error {
	args := gemm.GemmArgs{Done: c.Done(), C: f32(c.Out[0]), PackedA: k.packedA, PackedB: k.packedB, Bias: k.fixedBias}
	if k.packedA == nil {
		args.A = f32(c.In[k.a])
	}
	if k.packedB == nil {
		args.B = f32(c.In[k.b])
	}
	switch {
	case k.bias < 0 || k.fixedBias != nil:
	case k.seed == nil:
		args.Bias = f32(c.In[k.bias])
	default:
		if err := k.seed.run(arrayOf(c.Out[0]), arrayOf(c.In[k.bias]), c.Threads); err != nil {
			return err
		}
	}
	if k.residual >= 0 {
		args.Residual = f32(c.In[k.residual])
	}
	return k.g.Run(args, c.Scratch[k.ws:], min(k.threads, c.Threads))
}
