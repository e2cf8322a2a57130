package cpu

import (
	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ops"
)

// dots is a product of which both operands have dense rows of K and one has few of
// them: C[i, j] = A[i] · B[j]. It is bound by reading the larger operand once, and
// packing that, as the blocked product would do, costs more than the product.
type dots struct {
	a, b       int // operand positions; a is the one with few rows
	few, many  int // rows of a and b
	k          int
	fewStride  int // distance in the result between neighbours along a
	manyStride int // along b
	cut            // over rows of b
}

// maxFew is up to how many rows are few.
const maxFew = 2

// newDots prepares the product.
func newDots(a, b, few, many, k, fewStride, manyStride int) *dots {
	return &dots{a, b, few, many, k, fewStride, manyStride, newCut(many, 1, max(1, 4*tileElems/k))}
}

// Run computes all tiles.
func (d *dots) Run(c *ops.Call) error {
	runTiles(c, d.tiles, d)
	return nil
}

func (d *dots) tile(c *ops.Call, i, _ int) {
	r0, r1, _, _ := d.cut.tile(i)
	dotRows(f32(c.Out[0]), f32(c.In[d.a]), f32(c.In[d.b]), d.few, r0, r1, d.k, d.fewStride, d.manyStride)
}

// dotRows computes rows r0..r1 of b against all of a.
func dotRows(dst, a, b []float32, few, r0, r1, k, fewStride, manyStride int) {
	for i := range few {
		kern.DotRows(dst[i*fewStride+r0*manyStride:], a[i*k:(i+1)*k], b[r0*k:], r1-r0, k, manyStride)
	}
}

// dots chooses this form for a plain product of operands 0 and 1 that is no batch:
// one row against rows (transB), or rows against one column; nil if it is neither.
func (p *prep) dots(s kern.GemmSpec) ops.Kernel {
	e := s.Epilogue
	if s.Alpha != 1 || s.Beta != 0 || e.Bias != kern.NoBias || e.Residual || e.Act != kern.Identity || len(s.Batch) > 0 || s.TransA {
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
