package nn

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// NormAttrs are the attributes that normalizations share.
var NormAttrs = []*ops.AttrSpec{ops.IntAttr("axis", -1), ops.FloatAttr("epsilon", 1e-5), ops.IntAttr("stash_type", 1)}

// Standardize writes (x-mean)/sqrt(variance+eps) to y and returns the mean and
// the reciprocal of the deviation. With center false the mean counts as 0. Sums are
// taken in float64, the variance around the mean, so that large means do not cancel.
func Standardize[T kit.RealNum](w *kit.Watch, y, x []T, eps float64, center bool) (mean, inv float64) {
	if center {
		for _, v := range x {
			w.Did(1)
			mean += float64(v)
		}
		mean /= float64(len(x))
	}
	variance := 0.0
	for _, v := range x {
		w.Did(1)
		d := float64(v) - mean
		variance += d * d
	}
	inv = 1 / math.Sqrt(variance/float64(len(x))+eps)
	for i, v := range x {
		w.Did(1)
		y[i] = T((float64(v) - mean) * inv)
	}
	return mean, inv
}

// stashType reads stash_type: the precision of the first stage.
func stashType(n *ssa.Node) ndarray.DType {
	dt := kit.Try(kit.DtypeAttr(n, "stash_type", ndarray.Float32))
	if !kit.TypesOf(ndarray.Float16, ndarray.BFloat16, ndarray.Float32, ndarray.Float64).Has(dt) {
		kit.Failf("stash_type %s is no float type of 16 bits or more", dt)
	}
	return dt
}

// ScaleShift computes y*scale + bias for rows of spread operands; either may be nil.
func ScaleShift[T kit.RealNum](c *ops.Call, y, scale, bias []T) {
	w := kit.Watching(c)
	for i := range y {
		w.Did(1)
		if scale != nil {
			y[i] *= scale[i%len(scale)]
		}
		if bias != nil {
			y[i] += bias[i%len(bias)]
		}
	}
}

// SuffixNorm is layer normalization and its relatives: rows are the dimensions
// from axis on.
type SuffixNorm struct {
	Axis, Outer, Inner int
	Eps                float64
	Stash              ndarray.DType
	Center             bool
}

// SuffixNormOf reads axis, epsilon and stash_type for an operand of a shape.
func SuffixNormOf(n *ssa.Node, shape []int, center bool) (s SuffixNorm) {
	s.Axis = kit.Try(ops.NormAxis(ops.IntOr(n, "axis", -1), len(shape)))
	s.Outer, s.Inner = kit.SizeOf(shape[:s.Axis]), kit.SizeOf(shape[s.Axis:])
	s.Eps, s.Center = float64(ops.Float(n, "epsilon")), center
	s.Stash = stashType(n)
	return s
}

// NormalizeSuffix normalizes every row of x into y; row sees the moments of each.
func NormalizeSuffix[T kit.RealNum](c *ops.Call, s SuffixNorm, x, y []T, row func(r int, mean, inv float64)) {
	w := kit.Watching(c)
	for r := range s.Outer {
		mean, inv := Standardize(&w, y[r*s.Inner:(r+1)*s.Inner], x[r*s.Inner:(r+1)*s.Inner], s.Eps, s.Center)
		if row != nil {
			row(r, mean, inv)
		}
	}
	kit.RoundTo(c, y, s.Stash)
}

// StatShape is the shape of per-row statistics: 1 from axis on.
func (s SuffixNorm) StatShape(shape []int) []int {
	out := slices.Clone(shape)
	for i := s.Axis; i < len(out); i++ {
		out[i] = 1
	}
	return out
}

// InferSuffixStats is the type of per-row statistics.
func InferSuffixStats(n *ssa.Node, dt ndarray.DType) ssa.Type {
	x := ops.InType(n, 0)
	if !x.Ranked {
		return ssa.UnrankedTensor(dt)
	}
	axis := kit.Try(ops.NormAxis(ops.IntOr(n, "axis", -1), x.Rank()))
	dims := slices.Clone(x.Shape)
	for i := axis; i < len(dims); i++ {
		dims[i] = ssa.D(1)
	}
	return ssa.TensorOf(dt, dims...)
}
