package cpu

import (
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Products with constant weights of 2, 4 or 8 bits, which stay that small: see package gemm.

var nbitsOps = []entry{{domain: microsoft, op: "MatMulNBits", prepare: prepareMatMulNBits}}

// nbitsProduct is operand 0 times the weights, plus operand 5.
type nbitsProduct struct {
	g           *gemm.Gemm
	b           *gemm.NBits
	bias        bool
	ws, threads int
}

func prepareMatMulNBits(p *prep) (ops.Kernel, error) {
	s := gemm.NBitsSpec{N: int(ops.Int(p.node, "N")), K: int(ops.Int(p.node, "K")),
		Bits: int(ops.Int(p.node, "bits")), Block: int(ops.Int(p.node, "block_size"))}
	x := p.in[0]
	if x.dt != ndarray.Float32 || p.out[0].dt != ndarray.Float32 || len(x.shape) == 0 || x.shape[len(x.shape)-1] != s.K ||
		!p.isConst(1) || p.in[1].dt != ndarray.Uint8 || p.has(4) || ops.Int(p.node, "weight_prepacked") != 0 ||
		p.has(5) && (p.in[5].dt != ndarray.Float32 || p.in[5].n != s.N) {
		return nil, nil
	}
	k := &nbitsProduct{bias: p.has(5), threads: p.threads}
	var err error
	if k.b, err = p.nbits(s); k.b == nil || err != nil {
		return nil, err
	}
	g := gemm.GemmSpec{M: x.n / s.K, N: s.N, K: s.K, Alpha: 1, NBitsB: true, WholeBits: k.b.WholeBits(), BytesBlock: k.b.BytesBlock(), BytesDigits: k.b.BytesDigits()}
	if k.bias {
		g.Epilogue.Bias = simd.BiasPerCol
	}
	if k.g, err = gemm.NewGemm(g); err != nil {
		return nil, err
	}
	k.ws = p.workspace(k.g.Workspace(p.threads))
	return k, nil
}

// nbits packs the weights, operands 1 to 3; nil if scales or zero points are not constants
// of the sizes that the operator page gives them.
func (p *prep) nbits(s gemm.NBitsSpec) (*gemm.NBits, error) {
	b, err := gemm.NewNBits(s)
	if err != nil {
		return nil, err
	}
	n := s.N * b.Blocks()
	scales, err := p.floats(2)
	if err != nil || len(scales) != n || p.in[1].n != n*s.Block*s.Bits/8 {
		return nil, err
	}
	zeros, err := p.nbitZeros(s, b.Blocks())
	if zeros == nil || err != nil || !(max(vec.MaxOf(scales), -vec.MinOf(scales), vec.MaxOf(zeros), -vec.MinOf(zeros)) <= 1e30) {
		return nil, err // kernels scale sums: an infinite scale would give ±Inf for (q-zero)·Inf, which is NaN
	}
	if !p.options.Strict {
		b.ByBytes(zeros, ops.Int(p.node, "accuracy_level") != 4)
	}
	packed, err := p.pack(1, b.Layout(), arrangement{}, func(c *ssa.Constant) (*gemm.Packed, error) {
		data, err := p.bytesOf(c)
		if err != nil {
			return nil, err
		}
		return b.Pack(p.ctx, data)
	})
	if err != nil {
		return nil, err
	}
	if b, err = b.With(p.ctx, packed, scales, zeros); err != nil {
		return nil, err
	}
	p.absorb(2, b.Bytes())
	if p.has(3) {
		p.absorb(3, 0)
	}
	return b, nil
}

// nbitZeros are the zero points, [n][block] or one of all: numbers, or of as many bits as the
// weights, the lowest bits first and the rows of whole bytes; nil if they are something else.
func (p *prep) nbitZeros(s gemm.NBitsSpec, blocks int) ([]float32, error) {
	if !p.has(3) {
		return []float32{float32(int(1) << (s.Bits - 1))}, nil
	}
	a, err := p.constant(3)
	if a == nil || err != nil {
		return nil, err
	}
	width := ceilDiv(blocks*s.Bits, 8)
	switch {
	case a.DType == ndarray.Float32 && a.Len() == s.N*blocks:
		return ndarray.Slice[float32](a), nil
	case a.DType != ndarray.Uint8 || a.Len() != s.N*width:
		return nil, nil
	}
	if err := p.table("zero points", int64(4*s.N*blocks)); err != nil {
		return nil, err
	}
	out := make([]float32, s.N*blocks)
	for i := range out {
		at := i % blocks * s.Bits
		out[i] = float32(a.Data[i/blocks*width+at/8] >> (at % 8) & byte(1<<s.Bits-1))
	}
	return out, nil
}

// Run multiplies.
func (k *nbitsProduct) Run(c *ops.Call) error {
	args := gemm.GemmArgs{Done: c.Done(), A: f32(c.In[0]), C: f32(c.Out[0]), NBitsB: k.b}
	if k.bias {
		args.Bias = f32(c.In[5])
	}
	return k.g.Run(args, c.Scratch[k.ws:], min(k.threads, c.Threads))
}

// Choice is how package gemm multiplies.
func (k *nbitsProduct) Choice() backend.Choice {
	algorithm, reason := k.g.Choice()
	return backend.Choice{Algorithm: algorithm, Reason: reason}
}
