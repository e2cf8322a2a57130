package signal

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// DFT is the discrete Fourier transform along an axis: https://onnx.ai/onnx/operators/onnx__DFT.html
//
//	y[k] = sum over n of x[n] * e^(-2πi kn/N)          inverse: e^(+2πi kn/N) / N
//
// The last dimension holds real (and imaginary) parts. onesided=1 keeps the
// first N/2+1 values of a real signal's transform; with inverse=1 it takes them
// and gives the real signal. The signal is cut or padded with 0 to dft_length.
//
// Sums are in float64 for every type. A real or imaginary part is within
//
//	u·|y| + 8·(log₂N + p)·2⁻⁵³·Σ|x|
//
// of the exact one, with u the rounding of the type and p the largest prime factor of N (over N for the inverse).
var DFT = ops.Op{
	Name: "DFT", Since: 20, Doc: "y[k] = Σ x[n]·e^(∓2πi·kn/N)",
	MinIn: 1, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("inverse", 0), ops.IntAttr("onesided", 0),
		ops.IntAttr("axis", 1).Before(20)},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferDFT), Eval: kit.Kernel(evalDFT),
	Upgrades: []ops.Upgrade{{Below: 20, Source: kit.Changelog("DFT", 20), Apply: func(u *ops.Upgrader, n *ssa.Node) error {
		axis := u.Const("axis", ssa.ScalarConst(ops.Int(n, "axis")))
		n.DropAttr("axis")
		u.SetOperand(n, 2, axis)
		return nil
	}}},
	Downgrades: []ops.Downgrade{{Below: 20, Form: kit.SinceTypes(17, 20, ndarray.BFloat16), Apply: downgradeDFT}},
}

// downgradeDFT makes an attribute of the axis, by default the one before the last.
func downgradeDFT(u *ops.Upgrader, n *ssa.Node) error {
	rank := ops.InType(n, 0).Rank()
	if n.Input(2) != nil {
		if err := u.InputToAttr(n, 2, "axis"); err != nil {
			return err
		}
	} else {
		n.SetAttr(ssa.IntAttr("axis", -2))
	}
	if a := n.Attr("axis"); a.I < 0 && rank < 0 {
		return fmt.Errorf("axis %d of an operand of unknown rank", a.I)
	} else if a.I < 0 {
		a.I += int64(rank)
	}
	n.TruncateInputs(min(len(n.In), 2))
	return nil
}

// dftModes reads the attributes.
func dftModes(n *ssa.Node) (inverse, onesided bool) {
	return ops.Int(n, "inverse") != 0, ops.Int(n, "onesided") != 0
}

func inferDFT(n *ssa.Node) []ops.Inferred {
	x := ops.InType(n, 0)
	if !x.Ranked {
		return ops.One(x)
	}
	inverse, onesided := dftModes(n)
	shape := slices.Clone(x.Shape)
	if len(shape) < 2 {
		kit.Failf("operand %s has no signal and component dimensions", x)
	}
	if k, ok := shape[len(shape)-1].Const(); ok && onesided && (k == 2) != inverse {
		kit.Failf("operand %s: a one-sided transform takes real numbers (a last dimension of 1), its inverse complex ones (2)", x)
	}
	shape[len(shape)-1] = ssa.D(2)
	if inverse && onesided {
		shape[len(shape)-1] = ssa.D(1)
	}
	at := int64(-2)
	if n.Input(2) != nil {
		v, ok := ops.ConstInts(n, 2)
		if !ok || len(v) != 1 {
			if n.Input(1) != nil || onesided { // else every axis keeps its length
				clear(shape[:len(shape)-1])
			}
			return ops.One(ssa.TensorOf(x.DType, shape...))
		}
		at = v[0]
	}
	axis := signalAxis(at, len(shape))
	length := shape[axis]
	if inverse && onesided {
		length = length.AddN(-1).MulN(2)
	}
	if n.Input(1) != nil {
		length = kit.ScalarDim(n, 1)
	}
	if onesided && !inverse {
		length = length.FloorDiv(ssa.D(2)).AddN(1)
	}
	shape[axis] = length
	return ops.One(ssa.TensorOf(x.DType, shape...))
}

// signalAxis is NormAxis without the component dimension.
func signalAxis(axis int64, rank int) int {
	a := kit.Try(ops.NormAxis(axis, rank))
	if a == rank-1 {
		kit.Failf("axis %d is the dimension of the components", axis)
	}
	return a
}

func evalDFT(c *ops.Call) {
	x := kit.Tensor(c, 0)
	if x.Rank() < 2 || !x.DType.IsFloat() {
		kit.Failf("operand 0 is %s, expected floats with signal and component dimensions", x)
	}
	at := kit.OptionalInt(c, 2, -2)
	axis := signalAxis(at, x.Rank())
	inverse, onesided := dftModes(c.Node)
	def := int64(x.Shape[axis])
	if inverse && onesided {
		def = 2 * (def - 1)
	}
	length := kit.OptionalInt(c, 1, def)
	if parts := x.Shape[x.Rank()-1]; parts != 1 && parts != 2 || length < 1 || length > math.MaxInt32 {
		kit.Failf("operand %s with dft_length=%d", x, length)
	}
	t := newTransform(c, int(length), inverse, onesided)
	shape := slices.Clone(x.Shape)
	shape[axis], shape[len(shape)-1] = t.outLen(), t.outParts()
	y := kit.NewResult[float64](c, 0, x.DType, shape...)
	t.runLines(c, y.V, kit.Elements[float64](c, x), x.Shape, axis)
	y.Store()
}

// runLines transforms every line along an axis of x, whose last dimension holds
// the components.
func (t *transform) runLines(c *ops.Call, y, x []float64, shape []int, axis int) {
	parts := shape[len(shape)-1]
	outer, dim, inner := kit.SplitDims(shape[:len(shape)-1], axis)
	for o := range outer {
		for i := range inner {
			t.load(dim, func(k int) complex128 {
				e := ((o*dim+k)*inner + i) * parts
				if parts == 1 {
					return complex(x[e], 0)
				}
				return complex(x[e], x[e+1])
			})
			t.run()
			t.store(func(k, part int, value float64) { y[((o*t.outLen()+k)*inner+i)*t.outParts()+part] = value })
		}
	}
}

// transform is a Fourier transform of one length with its buffers.
type transform struct {
	n                 int
	inverse, onesided bool
	in, out           []complex128
	cmplx             *fourier.CmplxFFT
	real              *fourier.FFT // for the inverse of a one-sided spectrum
	signal            []float64
	long              *longDFT // in the place of both for long transforms
	watch             kit.Watch
}

func newTransform(c *ops.Call, n int, inverse, onesided bool) *transform {
	kit.Check(c.Memory.AskContext(c.Ctx, "the tables of a Fourier transform", 64*int64(n)))
	t := &transform{n: n, inverse: inverse, onesided: onesided, watch: kit.Watching(c)}
	if !isShort(n) {
		t.long = newLongDFT(c, inverse)
	}
	switch {
	case inverse && onesided && t.long != nil:
		t.in, t.signal = kit.Make[complex128](c, n/2+1), kit.Make[float64](c, n)
		return t
	case t.long != nil:
		t.in, t.out = kit.Make[complex128](c, n), kit.Make[complex128](c, n)
		return t
	case inverse && onesided:
		t.real, t.in, t.signal = fourier.NewFFT(n), kit.Make[complex128](c, n/2+1), kit.Make[float64](c, n)
		return t
	}
	t.cmplx, t.in, t.out = fourier.NewCmplxFFT(n), kit.Make[complex128](c, n), kit.Make[complex128](c, n)
	return t
}

// outLen is the number of values of a transform.
func (t *transform) outLen() int {
	if t.onesided && !t.inverse {
		return t.n/2 + 1
	}
	return t.n
}

// outParts is 2 for complex values, 1 for real ones.
func (t *transform) outParts() int {
	if t.signal != nil {
		return 1
	}
	return 2
}

// load reads the signal of dim elements, cut or padded to the input's length.
func (t *transform) load(dim int, at func(int) complex128) {
	for k := range t.in {
		t.watch.Did(1)
		t.in[k] = 0
		if k < dim {
			t.in[k] = at(k)
		}
	}
}

func (t *transform) run() {
	t.watch.Did(8 * t.n)
	switch {
	case t.long != nil && t.signal != nil:
		t.long.realParts(t.signal, t.in)
	case t.long != nil:
		t.long.run(t.out, t.in)
	case t.real != nil:
		t.real.Sequence(t.signal, t.in)
	case t.inverse:
		t.cmplx.Sequence(t.out, t.in)
	default:
		t.cmplx.Coefficients(t.out, t.in)
	}
}

// store passes the result to put, inverse transforms divided by their length.
func (t *transform) store(put func(k, part int, value float64)) {
	scale := 1.0
	if t.inverse {
		scale = 1 / float64(t.n)
	}
	for k := range t.outLen() {
		t.watch.Did(2)
		if t.signal != nil {
			put(k, 0, t.signal[k]*scale)
			continue
		}
		put(k, 0, real(t.out[k])*scale)
		put(k, 1, imag(t.out[k])*scale)
	}
}
