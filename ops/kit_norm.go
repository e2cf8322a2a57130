package ops

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// moments returns mean and population variance of a row. Sums are taken in
// float64, the variance around the mean, so that large means do not cancel.
func moments[T realNum](x []T) (mean, variance float64) {
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		d := float64(v) - mean
		variance += d * d
	}
	return mean, variance / float64(len(x))
}

// meanSquare returns the mean of the squares of a row.
func meanSquare[T realNum](x []T) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s / float64(len(x))
}

// standardize writes (x-mean)/sqrt(variance+eps) to y and returns the mean and
// the reciprocal of the deviation. With center false the mean counts as 0.
func standardize[T realNum](y, x []T, eps float64, center bool) (mean, inv float64) {
	variance := 0.0
	if center {
		mean, variance = moments(x)
	} else {
		variance = meanSquare(x)
	}
	inv = 1 / math.Sqrt(variance+eps)
	for i, v := range x {
		y[i] = T((float64(v) - mean) * inv)
	}
	return mean, inv
}

// stashType reads stash_type: the precision of the first stage.
func stashType(n *ssa.Node) ndarray.DType {
	dt := try(dtypeAttr(n, "stash_type", ndarray.Float32))
	if !typesOf(ndarray.Float16, ndarray.BFloat16, ndarray.Float32, ndarray.Float64).has(dt) {
		failf("stash_type %s is no float type of 16 bits or more", dt)
	}
	return dt
}

// roundTo rounds values to a narrower float type; no-op where T is no wider.
func roundTo[T realNum](v []T, dt ndarray.DType) {
	var f func(float32) float32
	switch {
	case dt == ndarray.Float16:
		f = func(x float32) float32 { return ndarray.F16ToF32(ndarray.F32ToF16(x)) }
	case dt == ndarray.BFloat16:
		f = func(x float32) float32 { return ndarray.BF16ToF32(ndarray.F32ToBF16(x)) }
	case dt == ndarray.Float32 && ndarray.DTypeOf(T(0)) == ndarray.Float64:
		f = func(x float32) float32 { return x }
	default:
		return
	}
	for i, x := range v {
		v[i] = T(f(float32(x)))
	}
}

// spread gives the elements of a as T, repeated to a full shape by
// unidirectional broadcasting; nil for nil. The suffix case, where a covers the
// last dimensions exactly, stays as it is and is indexed modulo its length.
func spread[T realNum](what string, a *ndarray.Array, shape []int) []T {
	if a == nil {
		return nil
	}
	out, err := BroadcastShapes(a.Shape, shape)
	if err != nil || !slices.Equal(out, shape) {
		failf("%s of shape %v does not broadcast to %v", what, a.Shape, shape)
	}
	v := elements[T](a)
	if slices.Equal(a.Shape, shape[len(shape)-len(a.Shape):]) || a.Len() == 1 {
		return v
	}
	n := try(ndarray.NumElems(shape))
	full := make([]T, n)
	EachBroadcast(shape, a.Shape, nil, func(o, i, _ int) { full[o] = v[i] })
	return full
}

// scaleShift computes y*scale + bias for rows of spread operands; either may be nil.
func scaleShift[T realNum](y, scale, bias []T) {
	if scale != nil {
		for i := 0; i < len(y); i += len(scale) {
			for j, s := range scale {
				y[i+j] *= s
			}
		}
	}
	if bias != nil {
		for i := 0; i < len(y); i += len(bias) {
			for j, b := range bias {
				y[i+j] += b
			}
		}
	}
}

// suffixNorm is layer normalization and its relatives: rows are the dimensions
// from axis on. mean and inv, if not nil, get one value per row.
type suffixNorm struct {
	axis, outer, inner int
	eps                float64
	stash              ndarray.DType
	center             bool
}

// suffixNormOf reads axis, epsilon and stash_type for an operand of a shape.
func suffixNormOf(n *ssa.Node, shape []int, center bool) (s suffixNorm) {
	s.axis = try(NormAxis(IntOr(n, "axis", -1), len(shape)))
	s.outer, s.inner = sizeOf(shape[:s.axis]), sizeOf(shape[s.axis:])
	s.eps, s.center = float64(Float(n, "epsilon")), center
	s.stash = stashType(n)
	return s
}

func normalizeSuffix[T realNum](s suffixNorm, x, y []T, row func(r int, mean, inv float64)) {
	for r := range s.outer {
		mean, inv := standardize(y[r*s.inner:(r+1)*s.inner], x[r*s.inner:(r+1)*s.inner], s.eps, s.center)
		if row != nil {
			row(r, mean, inv)
		}
	}
	roundTo(y, s.stash)
}

// statShape is the shape of per-row statistics: 1 from axis on.
func (s suffixNorm) statShape(shape []int) []int {
	out := slices.Clone(shape)
	for i := s.axis; i < len(out); i++ {
		out[i] = 1
	}
	return out
}

// inferSuffixStats is the type of per-row statistics.
func inferSuffixStats(n *ssa.Node, dt ndarray.DType) ssa.Type {
	x := InType(n, 0)
	if !x.Ranked {
		return ssa.UnrankedTensor(dt)
	}
	axis := try(NormAxis(IntOr(n, "axis", -1), x.Rank()))
	dims := slices.Clone(x.Shape)
	for i := axis; i < len(dims); i++ {
		dims[i] = ssa.D(1)
	}
	return ssa.TensorOf(dt, dims...)
}

var normAttrs = []AttrSpec{intAttr("axis", -1), floatAttr("epsilon", 1e-5), intAttr("stash_type", 1)}
