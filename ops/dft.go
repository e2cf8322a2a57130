package ops

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ssa"
	"gonum.org/v1/gonum/dsp/fourier"
)

// DFT is the discrete Fourier transform along an axis: https://onnx.ai/onnx/operators/onnx__DFT.html
//
//	y[k] = sum over n of x[n] * e^(-2πi kn/N)          inverse: e^(+2πi kn/N) / N
//
// The last dimension holds real (and imaginary) parts. onesided=1 keeps the
// first N/2+1 values of a real signal's transform; with inverse=1 it takes them
// and gives the real signal. The signal is cut or padded with 0 to dft_length.
var DFT = Op{
	Name: "DFT", Since: 20, Doc: "y[k] = Σ x[n]·e^(∓2πi·kn/N)",
	MinIn: 1, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("inverse", 0), intAttr("onesided", 0),
		intAttr("axis", 1).until(20)},
	Facts: Facts{Traits: general}, Infer: rule(inferDFT), Eval: kernel(evalDFT),
	Upgrades: []Upgrade{{Below: 20, Source: changelog("DFT", 20), Apply: func(u *Upgrader, n *ssa.Node) error {
		axis := u.Const("axis", ssa.ScalarConst(Int(n, "axis")))
		n.DropAttr("axis")
		for len(n.In) < 3 {
			n.AddInput(nil)
		}
		n.SetInput(2, axis)
		return nil
	}}},
}

// dftModes reads the attributes.
func dftModes(n *ssa.Node) (inverse, onesided bool) {
	return Int(n, "inverse") != 0, Int(n, "onesided") != 0
}

func inferDFT(n *ssa.Node) []Inferred {
	x := InType(n, 0)
	if !x.Ranked {
		return One(x)
	}
	inverse, onesided := dftModes(n)
	shape := slices.Clone(x.Shape)
	if len(shape) < 2 {
		failf("operand %s has no signal and component dimensions", x)
	}
	shape[len(shape)-1] = ssa.D(2)
	if inverse && onesided {
		shape[len(shape)-1] = ssa.D(1)
	}
	at := int64(-2)
	if n.Input(2) != nil {
		v, ok := ConstInts(n, 2)
		switch {
		case (!ok || len(v) != 1) && n.Input(1) == nil && !onesided: // every axis keeps its length
			return One(ssa.TensorOf(x.DType, shape...))
		case !ok || len(v) != 1:
			for i := range shape[:len(shape)-1] {
				shape[i] = ssa.Dim{}
			}
			return One(ssa.TensorOf(x.DType, shape...))
		}
		at = v[0]
	}
	axis := signalAxis(at, len(shape))
	length := shape[axis]
	if inverse && onesided {
		length = length.AddN(-1).MulN(2)
	}
	if n.Input(1) != nil {
		length = scalarDim(n, 1)
	}
	if onesided && !inverse {
		length = length.FloorDiv(ssa.D(2)).AddN(1)
	}
	shape[axis] = length
	return One(ssa.TensorOf(x.DType, shape...))
}

// signalAxis is NormAxis without the component dimension.
func signalAxis(axis int64, rank int) int {
	a := try(NormAxis(axis, rank))
	if a == rank-1 {
		failf("axis %d is the dimension of the components", axis)
	}
	return a
}

func evalDFT(c *Call) {
	x := tensor(c, 0)
	if x.Rank() < 2 || !x.DType.IsFloat() {
		failf("operand 0 is %s, expected floats with signal and component dimensions", x)
	}
	at := optionalInt(c, 2, -2)
	axis := signalAxis(at, x.Rank())
	inverse, onesided := dftModes(c.Node)
	def := int64(x.Shape[axis])
	if inverse && onesided {
		def = 2 * (def - 1)
	}
	length := optionalInt(c, 1, def)
	if parts := x.Shape[x.Rank()-1]; parts != 1 && parts != 2 || length < 1 || length > math.MaxInt32 {
		failf("operand %s with dft_length=%d", x, length)
	}
	t := newTransform(int(length), inverse, onesided)
	shape := slices.Clone(x.Shape)
	shape[axis], shape[len(shape)-1] = t.outLen(), t.outParts()
	y := newResult[float64](c, 0, x.DType, shape...)
	t.runLines(y.V, elements[float64](x), x.Shape, axis)
	y.store()
}

// runLines transforms every line along an axis of x, whose last dimension holds
// the components.
func (t *transform) runLines(y, x []float64, shape []int, axis int) {
	parts := shape[len(shape)-1]
	outer, dim, inner := splitDims(shape[:len(shape)-1], axis)
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
}

func newTransform(n int, inverse, onesided bool) *transform {
	t := &transform{n: n, inverse: inverse, onesided: onesided}
	if inverse && onesided {
		t.real, t.in, t.signal = fourier.NewFFT(n), make([]complex128, n/2+1), make([]float64, n)
		return t
	}
	t.cmplx, t.in, t.out = fourier.NewCmplxFFT(n), make([]complex128, n), make([]complex128, n)
	return t
}

// outLen is the number of values a transform gives, outParts how many numbers
// each has.
func (t *transform) outLen() int {
	if t.onesided && !t.inverse {
		return t.n/2 + 1
	}
	return t.n
}

func (t *transform) outParts() int {
	if t.real != nil {
		return 1
	}
	return 2
}

// load reads the signal of dim elements, cut or padded to the input's length.
func (t *transform) load(dim int, at func(int) complex128) {
	clear(t.in)
	for k := range min(dim, len(t.in)) {
		t.in[k] = at(k)
	}
}

func (t *transform) run() {
	switch {
	case t.real != nil:
		t.real.Sequence(t.signal, t.in)
	case t.inverse:
		t.cmplx.Sequence(t.out, t.in)
	default:
		t.cmplx.Coefficients(t.out, t.in)
	}
}

// store hands out the result, inverse transforms divided by their length.
func (t *transform) store(put func(k, part int, value float64)) {
	scale := 1.0
	if t.inverse {
		scale = 1 / float64(t.n)
	}
	for k := range t.outLen() {
		if t.real != nil {
			put(k, 0, t.signal[k]*scale)
			continue
		}
		put(k, 0, real(t.out[k])*scale)
		put(k, 1, imag(t.out[k])*scale)
	}
}
