package cpu

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Convolutions of 8-bit integers with constant weights.

var intConvOps = []entry{
	{op: "ConvInteger", prepare: prepareConvInteger},
	{op: "QLinearConv", prepare: prepareQLinearConv},
}

// intConv sums up products of bytes less their zero points, and a bias.
type intConv struct {
	planned
	c           *convolve.IntConv
	packed      *gemm.Packed
	zx, bias    int // operand positions of the input's zero point and the bias, -1 for none
	ws, threads int
}

// newIntConv prepares the sums over operand 0 and the weights, operand w; nil if
// there is no code for their types or shapes, or the weights are no constants.
func (p *prep) newIntConv(w, zx, zw, bias int, quantized bool) (*intConv, error) {
	s, size, zeros, err := p.intConvSpec(w, zx, zw, quantized)
	if s == nil || err != nil {
		return nil, err
	}
	taken := arrangement{signed: s.WSigned}
	if p.has(zw) {
		if taken.zeros, err = p.in[zw].value.Const.IdentityContext(p.ctx, p.memory()); err != nil {
			return nil, err
		}
	}
	k := &intConv{zx: present(p, zx), bias: present(p, bias), threads: p.threads}
	if err := p.table(tapLists, s.Bytes()); err != nil {
		return nil, err
	}
	if k.c, err = convolve.NewIntConv(*s, zeros); err != nil {
		return nil, err
	}
	if k.c.Out() != size {
		return nil, nil
	}
	k.planned = planned(k.c.Plan())
	k.packed, err = p.pack(w, k.c.WeightLayout(), taken, func(c *ssa.Constant) (*gemm.Packed, error) {
		data, err := p.bytesOf(c)
		if err != nil {
			return nil, err
		}
		return k.c.PackW(p.ctx, data)
	})
	if err != nil {
		return nil, err
	}
	k.ws = p.workspace(k.c.Workspace(p.threads))
	return k, nil
}

// intConvSpec describes the sums, the extents of the result and the zero points of the weights; nil as newIntConv.
func (p *prep) intConvSpec(w, zx, zw int, quantized bool) (s *convolve.IntConvSpec, size [3]int, zeros []int32, err error) {
	xs, ws, out := p.in[0], p.in[w], p.out[0]
	if !xs.dt.IsByte() || !ws.dt.IsByte() || len(xs.shape) < 3 || len(ws.shape) != len(xs.shape) ||
		!p.isConst(w) || p.has(zw) && (!p.isConst(zw) || p.in[zw].dt != ws.dt || !vector(p.in[zw].shape)) ||
		p.has(zx) && (p.in[zx].n != 1 || p.in[zx].dt != xs.dt) {
		return nil, size, nil, nil
	}
	win, ok := p.windowOf(ws.shape[2:], xs.shape[2:], out.shape[2:])
	if !ok {
		return nil, size, nil, nil
	}
	win = win.squeezed()
	s = &convolve.IntConvSpec{ConvSpec: p.windowSpec(win, xs.shape, ws.shape), XSigned: xs.dt == ndarray.Int8, WSigned: ws.dt == ndarray.Int8,
		Quantized: quantized, InPixels: xs.blocked, OutPixels: out.blocked}
	if !p.has(zw) {
		return s, win.out, nil, nil
	}
	z, err := p.constant(zw)
	if err != nil {
		return nil, size, nil, err
	}
	zeros = make([]int32, z.Len())
	widen(zeros, z)
	return s, win.out, zeros, nil
}

// run writes the sums to where the arguments say.
func (k *intConv) run(c *ops.Call, a convolve.IntConvArgs) error {
	a.W, a.X = k.packed, arrayOf(c.In[0]).Data
	if k.zx >= 0 {
		a.ZX = byteOf(arrayOf(c.In[k.zx]), 0)
	}
	if k.bias >= 0 {
		a.Bias = elems[int32](c.In[k.bias])
	}
	return k.c.Run(a, c.Scratch[k.ws:], min(k.threads, c.Threads))
}

// byteOf is 8-bit element i as a number.
func byteOf(a *ndarray.Array, i int) int32 {
	if a.DType == ndarray.Int8 {
		return int32(int8(a.Data[i]))
	}
	return int32(a.Data[i])
}

// convInteger gives the sums as they are.
type convInteger struct{ *intConv }

func prepareConvInteger(p *prep) (ops.Kernel, error) {
	k, err := p.newIntConv(1, 2, 3, -1, false)
	if k == nil || err != nil {
		return nil, err
	}
	return convInteger{k}, nil
}

// Run computes the sums.
func (k convInteger) Run(c *ops.Call) error {
	return k.run(c, convolve.IntConvArgs{Y: elems[int32](c.Out[0])})
}

// qLinearConv quantizes the sums on the way.
type qLinearConv struct {
	*intConv
	scales, channels int // of the weights: 1 or one per output channel
	factors          int // workspace
}

func prepareQLinearConv(p *prep) (ops.Kernel, error) {
	m, out := p.in[3].shape[0], p.out[0]
	for _, i := range []int{1, 4, 6} {
		if p.in[i].dt != ndarray.Float32 || i != 4 && p.in[i].n != 1 {
			return nil, nil
		}
	}
	scales := p.in[4].n
	if scales != 1 && scales != m || p.in[7].n != 1 || p.has(8) && (p.in[8].dt != ndarray.Int32 || p.in[8].n != m) || !out.dt.IsByte() {
		return nil, nil
	}
	k, err := p.newIntConv(3, 2, 5, 8, true)
	if k == nil || err != nil {
		return nil, err
	}
	return &qLinearConv{k, scales, m, p.workspace(4 * m)}, nil
}

// Run computes and quantizes the sums.
func (k *qLinearConv) Run(c *ops.Call) error {
	factors, out := scratchOf[float32](c, k.factors, k.channels), arrayOf(c.Out[0])
	xs, ws, ys := f32(c.In[1])[0], f32(c.In[4]), f32(c.In[6])[0]
	for ch := range factors {
		factors[ch] = xs * ws[min(ch, k.scales-1)] / ys
	}
	return k.run(c, convolve.IntConvArgs{Q: convolve.Quantization{Y: out.Data, Signed: out.DType == ndarray.Int8, Zero: byteOf(arrayOf(c.In[7]), 0), Factors: factors}})
}
