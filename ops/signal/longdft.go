package signal

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// A long transform is made of short ones, so that it can end early. A length n = a·b is split as
//
//	X[q + b·p] = Σᵢ  w(a)^(i·p) · w(n)^(i·q) · Σⱼ w(b)^(j·q) · x[i + a·j]         w(m) = e^(-2πi/m)
//
// a transforms of length b, a rotation of every element, and b transforms of length a; parts that are still long are split
// again. A long prime number of elements is summed as the definition has it, as the transform of a prime length is anyway.
// Source: J. Cooley, J. Tukey, "An Algorithm for the Machine Calculation of Complex Fourier Series", Math. Comp. 19, 1965.

// shortWork is up to how many steps, elements times the sum of the prime factors of their number, a transform is short:
// some milliseconds.
const shortWork = 1 << 22

// primeFactors lists the prime factors of a number in ascending order.
func primeFactors(n int) (out []int) {
	for f := 2; f*f <= n; f++ {
		for n%f == 0 {
			out, n = append(out, f), n/f
		}
	}
	if n > 1 {
		out = append(out, n)
	}
	return out
}

// isShort reports that the transform of a length is done in one piece.
func isShort(n int) bool {
	steps := 1
	for _, f := range primeFactors(n) {
		steps += f
	}
	return n <= shortWork/steps
}

// longDFT computes unnormalized transforms of any length.
type longDFT struct {
	call    *ops.Call
	watch   kit.Watch
	inverse bool
	plans   map[int]*fourier.CmplxFFT
	turns   map[int][]complex128 // the powers of w of lengths that are prime and long
}

func newLongDFT(c *ops.Call, inverse bool) *longDFT {
	return &longDFT{call: c, watch: kit.Watching(c), inverse: inverse, plans: map[int]*fourier.CmplxFFT{}, turns: map[int][]complex128{}}
}

// run transforms src into dst, which is other memory.
func (l *longDFT) run(dst, src []complex128) {
	n := len(src)
	factors := primeFactors(n)
	switch {
	case isShort(n):
		l.short(dst, src)
	case len(factors) == 1:
		l.sum(dst, src)
	default:
		a := 1
		for i := len(factors) - 1; i >= 0 && a*a < n; i-- {
			a *= factors[i]
		}
		if a == n {
			a /= factors[0]
		}
		l.split(dst, src, a, n/a)
	}
}

func (l *longDFT) short(dst, src []complex128) {
	plan := l.plans[len(src)]
	if plan == nil {
		plan = fourier.NewCmplxFFT(len(src))
		l.plans[len(src)] = plan
	}
	l.watch.Did(8 * len(src))
	if l.inverse {
		plan.Sequence(dst, src)
	} else {
		plan.Coefficients(dst, src)
	}
}

// turn is w(n)^k, or its inverse.
func (l *longDFT) turn(k, n int) complex128 {
	sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(n))
	if !l.inverse {
		sin = -sin
	}
	return complex(cos, sin)
}

// sum is the transform of a prime length by its definition.
func (l *longDFT) sum(dst, src []complex128) {
	n := len(src)
	turns := l.turns[n]
	if turns == nil {
		turns = kit.Make[complex128](l.call, n)
		for k := range turns {
			l.watch.Did(1)
			turns[k] = l.turn(k, n)
		}
		l.turns[n] = turns
	}
	for q := range dst {
		var s complex128
		at := 0
		for _, v := range src {
			l.watch.Did(1)
			s += v * turns[at]
			if at += q; at >= n {
				at -= n
			}
		}
		dst[q] = s
	}
}

// split is the transform of length a·b.
func (l *longDFT) split(dst, src []complex128, a, b int) {
	n := a * b
	mid := kit.Make[complex128](l.call, n) // [a, b]
	line, out := kit.Make[complex128](l.call, max(a, b)), kit.Make[complex128](l.call, max(a, b))
	for i := range a {
		for j := range b {
			l.watch.Did(1)
			line[j] = src[i+a*j]
		}
		l.run(mid[i*b:][:b], line[:b])
		for q := range b {
			l.watch.Did(1)
			mid[i*b+q] *= l.turn(i*q, n)
		}
	}
	for q := range b {
		for i := range a {
			l.watch.Did(1)
			line[i] = mid[i*b+q]
		}
		l.run(out[:a], line[:a])
		for p, v := range out[:a] {
			l.watch.Did(1)
			dst[q+b*p] = v
		}
	}
}

// realParts is the real signal of a one-sided spectrum, unnormalized.
func (l *longDFT) realParts(signal []float64, half []complex128) {
	n := len(signal)
	full, out := kit.Make[complex128](l.call, n), kit.Make[complex128](l.call, n)
	for k := range full {
		l.watch.Did(1)
		switch v := half[min(k, n-k)]; {
		case k == 0 || 2*k == n:
			full[k] = complex(real(v), 0)
		case 2*k < n:
			full[k] = v
		default:
			full[k] = complex(real(v), -imag(v))
		}
	}
	l.run(out, full)
	kit.Convert(l.call, signal, out, func(v complex128) float64 { return real(v) })
}
