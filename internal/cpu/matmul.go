package cpu

import (
	"slices"

	"github.com/berth-onnx/berth/internal/cpu/epilogue"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/ops"
)

// Matrix products over float32.
//
// Leading dimensions become batch dimensions with a stride each for A, B and the
// result, 0 where an operand is broadcast, merged where neighbours fit. Where all
// of the batch shares one B the batch is no batch at all, but more rows:
//
//	A [4 7 m k] · B [k n]   ->   [28·m k] · [k n]

var productOps = []entry{
	{op: "MatMul", prepare: prepareMatMul},
	{domain: ops.Private, op: "MatMul", prepare: prepareMatMul},
	{domain: microsoft, op: "FusedMatMul", prepare: prepareMatMul},
	{domain: microsoft, op: "TransposeMatMul", prepare: prepareMatMul},
	{domain: microsoft, op: "FusedMatMulActivation", prepare: prepareMatMul},
	{domain: microsoft, op: "GemmFastGelu", prepare: prepareGemmFastGelu},
	{op: "Gemm", prepare: prepareGemm},
	{domain: ops.Private, op: "Gemm", prepare: prepareGemm},
	{domain: microsoft, op: "FusedGemm", prepare: prepareGemm},
}

// prepareMatMul serves MatMul and its fused forms, which add transA, transB,
// alpha and an activation.
func prepareMatMul(p *prep) (ops.Kernel, error) {
	act, ok := p.activation()
	if !ok || !p.allF32() || ops.Int(p.node, "transBatchA") != 0 || ops.Int(p.node, "transBatchB") != 0 {
		return nil, nil
	}
	a, b := p.in[0].shape, p.in[1].shape
	s := gemm.GemmSpec{Alpha: ops.FloatOr(p.node, "alpha", 1)} // MatMul has none
	s.TransA = ops.Int(p.node, "transA") != 0 && len(a) > 1
	s.TransB = ops.Int(p.node, "transB") != 0 && len(b) > 1
	act.into(&s.Epilogue)
	return p.matMul(s, a, b)
}

// prepareGemmFastGelu is a product followed by a bias along its columns and the
// tanh form of gelu.
func prepareGemmFastGelu(p *prep) (ops.Kernel, error) {
	b := p.in[1].shape
	if !p.allF32() || len(b) == 0 || p.has(2) && (p.in[2].n != b[len(b)-1] || len(b) < 2 || !vector(p.in[2].shape)) {
		return nil, nil
	}
	s := gemm.GemmSpec{Alpha: 1, Epilogue: simd.Epilogue{Act: simd.GeluTanh}}
	if p.has(2) {
		s.Epilogue.Bias = simd.BiasPerCol
	}
	k, err := p.matMul(s, p.in[0].shape, b)
	if g, ok := k.(*product); ok && p.has(2) {
		g.bias = 2
	}
	return k, err
}

// matMul completes the product of operands 0 and 1 of shapes a and b.
func (p *prep) matMul(s gemm.GemmSpec, a, b []int) (ops.Kernel, error) {
	a, b, ok := matrices(a, b)
	if !ok {
		return nil, nil
	}
	kb := 0
	s.M, s.K = matrix(a, s.TransA)
	kb, s.N = matrix(b, s.TransB)
	s.Shared = p.threads > 1
	batch, err := ops.BroadcastShapes(a[:len(a)-2], b[:len(b)-2])
	if err != nil || kb != s.K || p.out[0].n != sizeOf(batch)*s.M*s.N {
		return nil, nil
	}
	if sizeOf(b[:len(b)-2]) == 1 && !s.TransA {
		s.M *= sizeOf(batch)
		return p.gemmOrNil(s)
	}
	if s.Batch, ok = batchDims(batch, a, b, s.M*s.N); !ok {
		return nil, nil
	}
	return p.gemmOrNil(s)
}

// matrices makes vectors a row on the left and a column on the right; ok is false for
// scalars.
func matrices(a, b []int) (left, right []int, ok bool) {
	if len(a) == 1 {
		a = []int{1, a[0]}
	}
	if len(b) == 1 {
		b = []int{b[0], 1}
	}
	return a, b, len(a) > 0 && len(b) > 0
}

// gemmOrNil prepares the product of operands 0 and 1.
func (p *prep) gemmOrNil(s gemm.GemmSpec) (ops.Kernel, error) {
	if k := p.dots(s); k != nil && !fused.HasEpilogue(p.node) {
		return k, nil
	}
	k, err := p.newProduct(s, 0, 1)
	if err != nil {
		return nil, err
	}
	return k, nil
}

// matrix returns rows and columns of the last two dimensions.
func matrix(shape []int, trans bool) (rows, cols int) {
	rows, cols = shape[len(shape)-2], shape[len(shape)-1]
	if trans {
		return cols, rows
	}
	return rows, cols
}

// maxBatch is the number of batch dimensions package gemm takes.
const maxBatch = 4

// batchDims gives every batch dimension its strides, see [mergeBatch].
func batchDims(batch, a, b []int, c int) ([]gemm.BatchDim, bool) {
	strides := func(shape []int) []int {
		lead, size := shape[:len(shape)-2], shape[len(shape)-2]*shape[len(shape)-1]
		st := ops.BroadcastStrides(lead, batch)
		for i := range st {
			st[i] *= size
		}
		return st
	}
	sa, sb, sc := strides(a), strides(b), ops.Strides(batch)
	dims := make([]gemm.BatchDim, len(batch))
	for i, n := range batch {
		dims[i] = gemm.BatchDim{N: n, A: sa[i], B: sb[i], C: sc[i] * c, R: sc[i] * c}
	}
	return mergeBatch(dims)
}

// mergeBatch drops batch dimensions of one and merges neighbours; ok is false if too
// many are left.
func mergeBatch(dims []gemm.BatchDim) (merged []gemm.BatchDim, ok bool) {
	for _, d := range slices.Backward(dims) {
		last := len(merged) - 1
		if d.N == 1 {
			continue
		}
		if last >= 0 {
			e := &merged[last]
			if size := e.N; d.A == e.A*size && d.B == e.B*size && d.C == e.C*size {
				e.N *= d.N
				continue
			}
		}
		merged = append(merged, d)
	}
	slices.Reverse(merged)
	return merged, len(merged) <= maxBatch
}

// prepareGemm serves alpha·A·B + beta·C. A C that is one row, one column or the
// whole matrix, and is not scaled, goes into the epilogue; any other is broadcast over
// the result first.
func prepareGemm(p *prep) (ops.Kernel, error) {
	act, ok := p.activation()
	if !ok || !p.allF32() || len(p.in[0].shape) != 2 || len(p.in[1].shape) != 2 || !epilogue.LeavesC(p.node) {
		return nil, nil
	}
	s := gemm.GemmSpec{Alpha: ops.Float(p.node, "alpha"), TransA: ops.Int(p.node, "transA") != 0, TransB: ops.Int(p.node, "transB") != 0}
	act.into(&s.Epilogue)
	kb := 0
	s.M, s.K = matrix(p.in[0].shape, s.TransA)
	kb, s.N = matrix(p.in[1].shape, s.TransB)
	s.Shared = p.threads > 1
	if kb != s.K || !slices.Equal(p.out[0].shape, []int{s.M, s.N}) {
		return nil, nil
	}
	beta := ops.Float(p.node, "beta")
	if !p.has(2) || beta == 0 {
		return p.gemmOrNil(s)
	}
	return prepareGemmC(p, s, beta)
}

// prepareGemmC adds beta·C.
func prepareGemmC(p *prep, s gemm.GemmSpec, beta float32) (ops.Kernel, error) {
	c := p.in[2]
	shape, err := ops.BroadcastShapes(c.shape, []int{s.M, s.N})
	if err != nil || !slices.Equal(shape, []int{s.M, s.N}) {
		return nil, nil
	}
	st := ops.BroadcastStrides(c.shape, shape)
	fixed, err := p.floats(2)
	if err != nil {
		return nil, err
	}
	residual, seed := -1, false
	switch {
	case fixed != nil && (st[0] == 0 || s.M == 1):
		row := make([]float32, s.N)
		for i := range row {
			row[i] = beta * fixed[i*st[1]]
		}
		fixed = row
		s.Epilogue.Bias = simd.BiasPerCol
	case beta == 1 && st[0] == 0 && c.n == s.N:
		fixed, s.Epilogue.Bias = nil, simd.BiasPerCol
	case beta == 1 && st[1] == 0 && c.n == s.M:
		fixed, s.Epilogue.Bias = nil, simd.BiasPerRow
	case beta == 1 && c.n == s.M*s.N:
		fixed, residual, s.Epilogue.Residual = nil, 2, true
	default:
		fixed, seed, s.Beta = nil, true, beta
	}
	k, err := p.newProduct(s, 0, 1)
	if err != nil {
		return nil, err
	}
	k.bias, k.fixedBias = 2, fixed
	switch {
	case residual >= 0:
		k.bias, k.residual = -1, residual
	case seed:
		k.seed, err = newMover(4, shape, ops.Strides(shape), st, 0, 0)
	case fixed != nil:
		p.absorb(2, 4*len(fixed))
	}
	return k, err
}
