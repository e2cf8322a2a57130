package cpu

import (
	"slices"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/epilogue"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
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

// newProduct prepares the product of operands a and b, with the operands that an epilogue of the
// node adds.
func (p *prep) newProduct(s gemm.GemmSpec, a, b int) (*product, error) {
	e, _ := epilogue.Of(p.node)
	k := &product{a: a, b: b, bias: e.Bias, residual: e.Residual, threads: p.threads}
	if e.Bias >= 0 {
		s.Epilogue.Bias = simd.BiasPerCol
	}
	s.Epilogue.Residual = s.Epilogue.Residual || e.Residual >= 0
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
		if err := k.seed.run(c, arrayOf(c.Out[0]), arrayOf(c.In[k.bias])); err != nil {
			return err
		}
	}
	if k.residual >= 0 {
		args.Residual = f32(c.In[k.residual])
	}
	return k.g.Run(args, c.Scratch[k.ws:], min(k.threads, c.Threads))
}

// Choice is how package gemm multiplies.
func (k *product) Choice() backend.Choice {
	algorithm, reason := k.g.Choice()
	return backend.Choice{Algorithm: algorithm, Reason: reason}
}

// maxFew is up to how many rows are few.
const maxFew = 2

// newDots is the kernel of a product of which both operands have dense rows of k
// elements and a has few of them: C[i, j] = A[i] · B[j]. It is bound by reading B once;
// packing B, as the blocked product does, would cost more than the product. a and b are
// operand positions, strideA and strideB the distances in the result between neighbours
// along the rows of a and of b.
func newDots(a, b, few, many, k, strideA, strideB int) ops.Kernel {
	return dots{rowwise(many, 4*TileElems/k, func(c *ops.Call, r0, r1 int) {
		dotRows(f32(c.Out[0]), f32(c.In[a]), f32(c.In[b]), few, r0, r1, k, strideA, strideB)
	})}
}

// dots is the kernel that [newDots] makes.
type dots struct{ *ranges }

// Choice says why it is no blocked product.
func (dots) Choice() backend.Choice {
	return backend.Choice{Algorithm: "inner products", Reason: "the matrix is read once, packing it would cost more than the product"}
}

// dotRows computes rows r0..r1 of b against all of a.
func dotRows(dst, a, b []float32, few, r0, r1, k, strideA, strideB int) {
	for i := range few {
		vec.DotRows(dst[i*strideA+r0*strideB:], a[i*k:(i+1)*k], b[r0*k:], r1-r0, k, strideB)
	}
}

// dots chooses this form for a plain product of operands 0 and 1 that is no batch:
// one row against rows (transB), or rows against one column; nil if it is neither.
func (p *prep) dots(s gemm.GemmSpec) ops.Kernel {
	e := s.Epilogue
	if s.Alpha != 1 || s.Beta != 0 || e.Bias != simd.NoBias || e.Residual || e.Act != simd.Identity || len(s.Batch) > 0 || s.TransA {
		return nil
	}
	switch {
	case s.TransB && s.M <= maxFew && !p.isConst(1):
		return newDots(0, 1, s.M, s.N, s.K, s.N, 1)
	case s.N == 1 && !p.isConst(0) && s.K >= 8:
		return newDots(1, 0, 1, s.M, s.K, 1, 1)
	}
	return nil
}
