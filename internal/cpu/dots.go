package cpu

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ops"
)

// maxFew is up to how many rows are few.
const maxFew = 2

// newDots is the kernel of a product of which both operands have dense rows of k
// elements and a has few of them: C[i, j] = A[i] · B[j]. It is bound by reading B once;
// packing B, as the blocked product does, would cost more than the product. a and b are
// operand positions, strideA and strideB the distances in the result between neighbours
// along the rows of a and of b.
func newDots(a, b, few, many, k, strideA, strideB int) ops.Kernel {
	return rowwise(many, 4*TileElems/k, func(c *ops.Call, r0, r1 int) {
		dotRows(f32(c.Out[0]), f32(c.In[a]), f32(c.In[b]), few, r0, r1, k, strideA, strideB)
	})
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
