package lower

import (
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Products and convolutions of 8-bit integers: exact sums in 32 bits, as they are or quantized again.

func init() {
	add("", integerProduct(integerOperands), "MatMulInteger")
	add("", integerProduct(quantizedOperands), "QLinearMatMul")
	add("", integerConv(integerOperands), "ConvInteger")
	add("", integerConv(quantizedOperands), "QLinearConv")
}

// intOperands are positions of operands: factors, their zero points and scales, those of the result; -1 where there are none.
type intOperands struct{ a, b, aZero, bZero, aScale, bScale, yScale, yZero int }

var (
	integerOperands   = intOperands{0, 1, 2, 3, -1, -1, -1, -1}
	quantizedOperands = intOperands{0, 3, 2, 5, 1, 4, 6, 7}
)

// quantizedBias is the position of QLinearConv's bias.
const quantizedBias = 8

func (o *intOperands) isQuantized() bool { return o.yScale >= 0 }

// of are the places of the operands in a run.
func (o *intOperands) of(c *Call) kernels.IntOperands {
	get := func(i int) Operand {
		if i < 0 {
			return Operand{}
		}
		return at(c.In, i)
	}
	return kernels.IntOperands{A: get(o.a), B: get(o.b), AZero: get(o.aZero), BZero: get(o.bZero), AScale: get(o.aScale), BScale: get(o.bScale),
		YScale: get(o.yScale), YZero: get(o.yZero)}
}

// reads lists the operands that there are.
func (o *intOperands) reads() (out []int) {
	for _, i := range []int{o.a, o.b, o.aZero, o.bZero, o.aScale, o.bScale, o.yScale, o.yZero} {
		if i >= 0 {
			out = append(out, i)
		}
	}
	return out
}

// flips gives what makes factors into int8; false for other types than those of 8 bits.
func (p *prep) flips(o intOperands) (a, b int32, ok bool) {
	a, okA := flipOf[p.in[o.a].dt]
	b, okB := flipOf[p.in[o.b].dt]
	return a, b, okA && okB && p.in[o.a].n > 0 && p.in[o.b].n > 0
}

// stride is that of an operand with one element for a tensor, of any shape that broadcasts, or for each of most rows or columns: 0 or 1.
// isColumn takes [most, 1] as well as [most].
func (p *prep) stride(i, most int, dt ndarray.DType, isColumn bool) (int32, bool) {
	if i < 0 || !p.has(i) {
		return 0, true
	}
	x := p.in[i]
	rank := len(x.shape)
	isVector := rank == 1 || rank == 2 && isColumn && x.shape[1] == 1
	switch {
	case x.dt != dt:
		return 0, false
	case x.n == 1:
		return 0, rank <= max(1, len(p.out[0].shape))
	}
	return 1, x.n == most && isVector
}

// quantization reads scales and the zero point of the result; rows and columns are how many scales there may be.
func (p *prep) quantization(o intOperands, rows, columns int) (q kernels.Quantization, ok bool) {
	dt := p.out[0].dt
	if !o.isQuantized() {
		return q, dt == ndarray.Int32
	}
	limits, known := quantized[dt]
	if !known || dt.Size() != 1 || p.in[o.yScale].n != 1 || p.in[o.yScale].dt != ndarray.Float32 || p.in[o.yZero].n != 1 || p.in[o.yZero].dt != dt {
		return q, false
	}
	q = kernels.Quantization{IsQuantized: 1, Low: int32(limits[0]), High: int32(limits[1])}
	var okA, okB bool
	q.ScaleRow, okA = p.stride(o.aScale, rows, ndarray.Float32, true)
	q.ScaleColumn, okB = p.stride(o.bScale, columns, ndarray.Float32, false)
	return q, okA && okB
}

// integerProduct is the rule of products. Zero points and scales of rows are those of one matrix.
func integerProduct(o intOperands) rule {
	return func(p *prep) (bool, error) {
		flipA, flipB, ok := p.flips(o)
		if !ok {
			return false, nil
		}
		s, ok := stackOf(p.in[o.a].shape, p.in[o.b].shape)
		a, b, count, isRegular := s.regular()
		if !ok || !isRegular || int(count)*s.m*s.n != p.out[0].n {
			return false, nil
		}
		rows := s.m
		if len(p.in[o.a].shape) > 2 {
			rows = 1
		}
		g := kernels.IntGemm{M: int32(s.m), N: int32(s.n), K: int32(s.k), FlipA: flipA, FlipB: flipB, ABatch: a, BBatch: b, CBatch: int64(s.m) * int64(s.n)}
		var okA, okB, okY bool
		g.ZeroRow, okA = p.stride(o.aZero, rows, p.in[o.a].dt, true)
		g.ZeroColumn, okB = p.stride(o.bZero, s.n, p.in[o.b].dt, false)
		g.Y, okY = p.quantization(o, rows, s.n)
		if !okA || !okB || !okY {
			return false, nil
		}
		p.choice = "dp4a"
		return p.launchParts(count, kernels.MostMatrices, func(c *Call, from, n int64) (*device.Launch, error) {
			factors := o.of(c)
			factors.A, factors.B = behind(factors.A, from*a), behind(factors.B, from*b)
			return p.host.Kernels().IntGemm(g, n, factors, behind(c.Out[0], from*g.CBatch*int64(p.out[0].dt.Size())))
		}, o.reads()...), nil
	}
}

// integerConv is the rule of convolutions.
func integerConv(o intOperands) rule {
	return func(p *prep) (bool, error) {
		flipX, flipW, ok := p.flips(o)
		x, w, y := p.in[o.a].shape, p.in[o.b].shape, p.out[0].shape
		if !ok || len(x) < 3 {
			return false, nil
		}
		groups := int(ops.Int(p.node, "group"))
		f, ok := p.window(x[2:], y[2:], w[2:])
		if !ok || groups < 1 {
			return false, nil
		}
		g := kernels.IntConv{Groups: int32(groups), Channels: int32(w[1]), Outputs: int32(w[0] / groups), Height: f.Height, Width: f.Width,
			OutHeight: f.OutHeight, OutWidth: f.OutWidth, FilterHeight: f.FilterHeight, FilterWidth: f.FilterWidth, StrideY: f.StrideY, StrideX: f.StrideX,
			PadY: f.PadY, PadX: f.PadX, DilationY: f.DilationY, DilationX: f.DilationX, FlipX: flipX, FlipW: flipW}
		var okX, okW, okY bool
		_, okX = p.stride(o.aZero, 1, p.in[o.a].dt, false)
		g.ZeroRow, okW = p.stride(o.bZero, w[0], p.in[o.b].dt, false)
		g.Y, okY = p.quantization(o, 1, w[0])
		if !okX || !okW || !okY {
			return false, nil
		}
		reads := o.reads()
		if o.isQuantized() {
			if p.has(quantizedBias) && (p.in[quantizedBias].dt != ndarray.Int32 || p.in[quantizedBias].n != w[0]) {
				return false, nil
			}
			reads = append(reads, quantizedBias)
		}
		p.choice = "dp4a"
		each := imagesAtOnce(groups)
		if g.IsDepthwise() {
			p.choice, each = "depthwise, in integers", int64(x[0])
		}
		return p.launchParts(int64(x[0]), each, func(c *Call, from, n int64) (*device.Launch, error) {
			bias, operands, some := Operand{}, o.of(c), g
			if o.isQuantized() {
				bias = at(c.In, quantizedBias)
			}
			some.Batch, operands.A = int32(n), behind(operands.A, from*p.in[o.a].imageBytes())
			return p.host.Kernels().IntConv(some, operands, bias, behind(c.Out[0], from*p.out[0].imageBytes()))
		}, reads...), nil
	}
}
