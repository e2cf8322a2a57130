package cpu

import (
	"slices"

	"github.com/berth-onnx/berth/backend/cpu/kern"
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
	{domain: microsoft, op: "FusedMatMul", prepare: prepareMatMul},
	{domain: microsoft, op: "TransposeMatMul", prepare: prepareMatMul},
	{domain: microsoft, op: "FusedMatMulActivation", prepare: prepareMatMul},
	{domain: microsoft, op: "GemmFastGelu", prepare: prepareGemmFastGelu},
	{op: "Gemm", prepare: prepareGemm},
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
	s := kern.GemmSpec{Alpha: ops.FloatOr(p.node, "alpha", 1)} // MatMul has none
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
	s := kern.GemmSpec{Alpha: 1, Epilogue: kern.Epilogue{Act: kern.GeluTanh}}
	if p.has(2) {
		s.Epilogue.Bias = kern.BiasPerCol
	}
	k, err := p.matMul(s, p.in[0].shape, b)
	if g, ok := k.(*product); ok && p.has(2) {
		g.bias = 2
	}
	return k, err
}

// matMul completes the product of operands 0 and 1 of shapes a and b.
func (p *prep) matMul(s kern.GemmSpec, a, b []int) (ops.Kernel, error) {
	if len(a) == 0 || len(b) == 0 {
		return nil, nil
	}
	if len(a) == 1 {
		a = []int{1, a[0]}
	}
	if len(b) == 1 {
		b = []int{b[0], 1}
	}
	kb := 0
	s.M, s.K = matrix(a, s.TransA)
	kb, s.N = matrix(b, s.TransB)
	batch, err := ops.BroadcastShapes(a[:len(a)-2], b[:len(b)-2])
	if err != nil || kb != s.K || p.out[0].n != sizeOf(batch)*s.M*s.N {
		return nil, nil
	}
	if sizeOf(b[:len(b)-2]) == 1 && !s.TransA {
		s.M *= sizeOf(batch)
		return p.gemmOrNil(s)
	}
	var ok bool
	if s.Batch, ok = batchDims(batch, a, b, s.M*s.N); !ok {
		return nil, nil
	}
	return p.gemmOrNil(s)
}

// gemmOrNil prepares the product of operands 0 and 1.
func (p *prep) gemmOrNil(s kern.GemmSpec) (ops.Kernel, error) {
	if k := p.dots(s); k != nil {
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

// maxBatch is the number of batch dimensions package kern takes.
const maxBatch = 4

// batchDims gives every batch dimension its strides, merging neighbours; ok is
// false if too many are left.
func batchDims(batch, a, b []int, c int) ([]kern.BatchDim, bool) {
	strides := func(shape []int) []int {
		lead, size := shape[:len(shape)-2], shape[len(shape)-2]*shape[len(shape)-1]
		st := ops.BroadcastStrides(lead, batch)
		for i := range st {
			st[i] *= size
		}
		return st
	}
	sa, sb, sc := strides(a), strides(b), ops.Strides(batch)
	var dims []kern.BatchDim // innermost first
	for i := len(batch) - 1; i >= 0; i-- {
		if batch[i] == 1 {
			continue
		}
		d := kern.BatchDim{N: batch[i], A: sa[i], B: sb[i], C: sc[i] * c, R: sc[i] * c}
		if last := len(dims) - 1; last >= 0 && d.A == dims[last].A*dims[last].N && d.B == dims[last].B*dims[last].N {
			dims[last].N *= d.N
			continue
		}
		dims = append(dims, d)
	}
	slices.Reverse(dims)
	return dims, len(dims) <= maxBatch
}

// prepareGemm serves alpha·A·B + beta·C. A C that is one row, one column or the
// whole matrix, and is not scaled, goes into the epilogue; any other is spread
// over the result first.
func prepareGemm(p *prep) (ops.Kernel, error) {
	act, ok := p.activation()
	if !ok || !p.allF32() || len(p.in[0].shape) != 2 || len(p.in[1].shape) != 2 {
		return nil, nil
	}
	s := kern.GemmSpec{Alpha: ops.Float(p.node, "alpha"), TransA: ops.Int(p.node, "transA") != 0, TransB: ops.Int(p.node, "transB") != 0}
	act.into(&s.Epilogue)
	kb := 0
	s.M, s.K = matrix(p.in[0].shape, s.TransA)
	kb, s.N = matrix(p.in[1].shape, s.TransB)
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
func prepareGemmC(p *prep, s kern.GemmSpec, beta float32) (ops.Kernel, error) {
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
		s.Epilogue.Bias = kern.BiasPerCol
	case beta == 1 && st[0] == 0 && c.n == s.N:
		fixed, s.Epilogue.Bias = nil, kern.BiasPerCol
	case beta == 1 && st[1] == 0 && c.n == s.M:
		fixed, s.Epilogue.Bias = nil, kern.BiasPerRow
	case beta == 1 && c.n == s.M*s.N:
		fixed, residual, s.Epilogue.Residual = nil, 2, true
	default:
		fixed, seed, s.Beta = nil, true, beta
	}
	k, err := p.newProduct(s, 0, 1)
	if err != nil {
		return nil, err
	}
	k.bias, k.fixedBias, k.residual = 2, fixed, residual
	switch {
	case residual >= 0:
		k.bias = -1
	case seed:
		k.seed, err = newMover(4, shape, ops.Strides(shape), st, 0, 0)
	case fixed != nil:
		p.absorb(2, 4*len(fixed))
	}
	return k, err
}
