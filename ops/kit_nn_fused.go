package ops

import (
	"strings"

	"github.com/berth-onnx/berth/ndarray"
)

// fusedActivation returns the activation that a fused operator ends with; params
// are its alpha, beta and gamma as far as they are given, an empty name is none.
func fusedActivation(name string, params []float32) func(float64) float64 {
	at := func(i int, def float64) float64 {
		if i < len(params) {
			return float64(params[i])
		}
		return def
	}
	switch strings.ToLower(name) {
	case "":
		return nil
	case "clip":
		lo, hi := at(0, -3.4028234663852886e38), at(1, 3.4028234663852886e38)
		return func(x float64) float64 { return max(lo, min(hi, x)) }
	case "selu":
		f := gateSpecs["elu"].build(at(0, 1.67326319217681884765625), 0)
		gamma := at(1, 1.05070102214813232421875)
		return func(x float64) float64 { return gamma * f(x) }
	case "gelu":
		return gelu
	case "hardswish":
		return func(x float64) float64 { return x * clamp01(x/6+0.5) }
	case "silu", "swish":
		return func(x float64) float64 { return x * sigmoid(x) }
	}
	spec, ok := gateSpecs[strings.ToLower(name)]
	if !ok {
		failf("activation %q: %w", name, ErrUnsupported)
	}
	return spec.build(at(0, spec.alpha), at(1, spec.beta))
}

// activate applies f, if there is one, to every element.
func activate[T realNum](v []T, f func(float64) float64) {
	if f == nil {
		return
	}
	for i, x := range v {
		v[i] = T(f(float64(x)))
	}
}

// activateArray is activate for a computed result.
func activateArray(a *ndarray.Array, f func(float64) float64) {
	if f == nil {
		return
	}
	if a.DType == ndarray.Float32 {
		activate(ndarray.Slice[float32](a), f)
		return
	}
	for i := range a.Len() {
		a.SetFloat(i, f(a.Float(i)))
	}
}

// channelsFirst copies [n, plane, c] to [n, c, plane]; channelsLast is its inverse.
func channelsFirst[T any](v []T, n, plane, c int) []T {
	out := make([]T, 0, len(v))
	for i := range n {
		out = append(out, transposed(plane, c, v[i*plane*c:(i+1)*plane*c])...)
	}
	return out
}

func channelsLast[T any](v []T, n, c, plane int) []T { return channelsFirst(v, n, c, plane) }
