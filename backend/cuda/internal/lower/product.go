package lower

import (
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Products of matrices. The batch of a MatMul is one launch where both factors walk it with one stride, else one launch for each pair.

func init() {
	add("", matMul, "MatMul")
	add("", gemm, "Gemm")
}

// stack is the geometry of a MatMul: a batch of m×k by k×n, with the strides of the batch in matrices of each factor.
type stack struct {
	m, k, n int
	batch   []int
	as, bs  []int
}

// stackOf reads shapes: the rank of a factor is made at least two, and a single right factor makes one product of more rows.
func stackOf(a, b []int) (s stack, ok bool) {
	if len(a) == 0 || len(b) == 0 {
		return s, false
	}
	if len(a) == 1 {
		a = []int{1, a[0]}
	}
	if len(b) == 1 {
		b = []int{b[0], 1}
	}
	s.m, s.k, s.n = a[len(a)-2], a[len(a)-1], b[len(b)-1]
	batch, err := ops.BroadcastShapes(a[:len(a)-2], b[:len(b)-2])
	if err != nil || b[len(b)-2] != s.k {
		return s, false
	}
	s.batch, s.as, s.bs = batch, ops.BroadcastStrides(a[:len(a)-2], batch), ops.BroadcastStrides(b[:len(b)-2], batch)
	if len(b) == 2 && ndarray.Product(a) == ndarray.Product(batch)*s.m*s.k {
		s.m, s.batch, s.as, s.bs = ndarray.Product(batch)*s.m, nil, nil, nil
	}
	return s, true
}

// regular are the strides of the batch where it is one dimension for both factors.
func (s *stack) regular() (a, b, count int64, ok bool) {
	v, okA := viewOf(0, s.batch, s.as)
	w, okB := viewOf(0, s.batch, s.bs)
	count = int64(ndarray.Product(s.batch))
	return int64(v.Strides[0]) * int64(s.m) * int64(s.k), int64(w.Strides[0]) * int64(s.k) * int64(s.n), count,
		okA && okB && v.Rank <= 1 && w.Rank <= 1
}

func matMul(p *prep) (bool, error) {
	f, ok := p.floats()
	if !ok || p.in[0].n == 0 || p.in[1].n == 0 {
		return false, nil
	}
	s, ok := stackOf(p.in[0].shape, p.in[1].shape)
	if !ok || ndarray.Product(s.batch)*s.m*s.n != p.out[0].n {
		return false, nil
	}
	g := kernels.Gemm{M: int32(s.m), N: int32(s.n), K: int32(s.k), ARow: int64(s.k), AColumn: 1, BRow: int64(s.n), BColumn: 1,
		CBatch: int64(s.m) * int64(s.n), Alpha: 1}
	a, b, count, isRegular := s.regular()
	if !isRegular {
		return p.products(f, g, s.batch, s.as, s.bs)
	}
	g.ABatch, g.BBatch = a, b
	p.entry = g.Entry() + string(f)
	return p.launchParts(count, kernels.MostMatrices, func(c *Call, from, n int64) (*device.Launch, error) {
		from *= f.Size()
		return p.host.Kernels().Of(f).Gemm(g, n, behind(c.In[0], from*a), behind(c.In[1], from*b), Operand{}, behind(c.Out[0], from*g.CBatch))
	}, 0, 1), nil
}

// products is a launch for each matrix of the batch but the innermost dimension, whose strides are regular.
func (p *prep) products(f kernels.Floats, g kernels.Gemm, batch, as, bs []int) (bool, error) {
	last := len(batch) - 1
	if last < 0 {
		return false, nil
	}
	count := ndarray.Product(batch[:last])
	if count > mostLaunches {
		return false, nil
	}
	sa, sb := int64(g.M)*int64(g.K), int64(g.K)*int64(g.N)
	g.ABatch, g.BBatch = int64(as[last])*sa, int64(bs[last])*sb
	for i := range count {
		atA, atB, rest := int64(0), int64(0), i
		for d := last - 1; d >= 0; d-- {
			atA, atB, rest = atA+int64(rest%batch[d]*as[d])*sa, atB+int64(rest%batch[d]*bs[d])*sb, rest/batch[d]
		}
		atC, size := int64(i)*int64(batch[last])*g.CBatch, f.Size()
		p.launch(func(c *Call) (*device.Launch, error) {
			return p.host.Kernels().Of(f).Gemm(g, int64(batch[last]), behind(c.In[0], atA*size), behind(c.In[1], atB*size), Operand{}, behind(c.Out[0], atC*size))
		}, 0, 1)
	}
	return true, nil
}

func gemm(p *prep) (bool, error) {
	a, b := p.in[0].shape, p.in[1].shape
	f, ok := p.floats()
	if !ok || len(a) != 2 || len(b) != 2 || p.in[0].n == 0 || p.in[1].n == 0 {
		return false, nil
	}
	g := kernels.Gemm{M: int32(a[0]), K: int32(a[1]), N: int32(b[1]), ARow: int64(a[1]), AColumn: 1, BRow: int64(b[1]), BColumn: 1,
		Alpha: ops.Float(p.node, "alpha"), Beta: ops.Float(p.node, "beta")}
	if ops.Int(p.node, "transA") != 0 {
		g.M, g.K, g.ARow, g.AColumn = g.K, g.M, 1, int64(a[1])
	}
	if ops.Int(p.node, "transB") != 0 {
		g.N, g.BRow, g.BColumn = int32(b[0]), 1, int64(b[1])
	}
	if p.has(2) {
		s := ops.BroadcastStrides(p.in[2].shape, p.out[0].shape)
		g.HasBias, g.BiasRow, g.BiasColumn = 1, int32(s[0]), int32(s[1])
	}
	p.entry = g.Entry() + string(f)
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Of(f).Gemm(g, 1, c.In[0], c.In[1], at(c.In, 2), c.Out[0])
	}, 0, 1, 2)
	return true, nil
}
