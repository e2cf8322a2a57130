package vision

import (
	"math"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Resampling works axis by axis. For every index y of the result a coordinate
// transformation says where it lies in the operand, and the mode which operand
// elements, the taps, it is made of:
//
//	operand      0     1     2     3     4
//	                      ^ x = 1.7
//	nearest               2                  one tap
//	linear          1     2                  weights 0.3 0.7
//	cubic     0     1     2     3            weights of the cubic kernel at the distances
//
// With antialiasing the kernel of a shrinking axis is stretched by 1/scale, so
// more taps fall under it. Taps outside of the operand take the edge's value, or
// are left out with exclude_outside; the weights then are scaled to sum 1.
//
// Source: ONNX operator Resize-19, attributes coordinate_transformation_mode,
// nearest_mode, cubic_coeff_a, antialias, exclude_outside.

// coordinate returns where index y of the result lies in the operand.
func (x *resizeAxis) coordinate(mode string, y int) float64 {
	at, last := float64(y), float64(x.in-1)
	switch mode {
	case "half_pixel":
		return (at+0.5)/x.scale - 0.5
	case "half_pixel_symmetric":
		center := float64(x.in) / 2
		return center*(1-float64(x.out)/x.width) + (at+0.5)/x.scale - 0.5
	case "pytorch_half_pixel":
		if x.out <= 1 {
			return 0
		}
		return (at+0.5)/x.scale - 0.5
	case "align_corners":
		if x.width == 1 || x.out == 1 {
			return 0
		}
		return at * last / (x.width - 1)
	case "asymmetric":
		return at / x.scale
	case "tf_half_pixel_for_nn":
		return (at + 0.5) / x.scale
	}
	if x.width == 1 || x.out == 1 { // tf_crop_and_resize
		return 0.5 * (x.from + x.to) * last
	}
	return x.from*last + at*(x.to-x.from)*last/(x.width-1)
}

// snap moves a coordinate that misses a multiple of one half only by the
// rounding of a float32 scale onto it, so that 3/0.6 is 5.
func snap(v float64) float64 {
	if r := math.Round(2*v) / 2; math.Abs(v-r) <= 1e-6*max(1, math.Abs(v)) {
		return r
	}
	return v
}

// nearestIndex rounds a coordinate to an index, which may lie outside.
func nearestIndex(mode string, v float64) int {
	v = snap(v)
	switch mode {
	case "round_prefer_floor":
		v = math.Ceil(v - 0.5)
	case "round_prefer_ceil":
		v = math.Floor(v + 0.5)
	case "floor":
		v = math.Floor(v)
	default:
		v = math.Ceil(v)
	}
	return int(v)
}

// taps returns the operand elements result index y is made of along an axis and
// whether y lies outside of the operand altogether (tf_crop_and_resize).
func (p *resizePlan) taps(x *resizeAxis, y int) ([]tap, bool) {
	at := x.coordinate(p.coord, y)
	outside := p.coord == "tf_crop_and_resize" && (at < 0 || at > float64(x.in-1))
	if math.IsNaN(at) || math.Abs(at) > 1<<40 {
		kit.Failf("coordinate %v is out of range", at)
	}
	if p.mode == "nearest" {
		k := nearestIndex(p.nearest, at)
		return []tap{{min(max(k, 0), x.in-1), 1}}, outside
	}
	stretch, reach := 1.0, 1.0
	if p.antialias {
		stretch = min(x.scale, 1)
	}
	kernel := linearKernel
	if p.mode == "cubic" {
		reach, kernel = 2, func(d float64) float64 { return cubicKernel(p.cubicA, d) }
	}
	reach /= stretch
	if reach > 1<<24 {
		kit.Failf("scale %v is too small for antialiasing", x.scale)
	}
	var out []tap
	sum := 0.0
	for i := int(math.Ceil(at - reach)); float64(i) <= at+reach; i++ {
		w := kernel((float64(i) - at) * stretch)
		if w == 0 || p.exclude && (i < 0 || i >= x.in) {
			continue
		}
		out = append(out, tap{min(max(i, 0), x.in-1), w})
		sum += w
	}
	if sum != 0 && (p.exclude || p.antialias) {
		for i := range out {
			out[i].weight /= sum
		}
	}
	return out, outside
}

// run computes the result of a plan whose axes are known.
func (p *resizePlan) run(c *ops.Call, a *ndarray.Array) {
	shape := make([]int, len(p.axes))
	for i, x := range p.axes {
		shape[i] = x.out
	}
	out := kit.Result(c, 0, a.DType, shape...)
	if out.Len() == 0 {
		return
	}
	if a.Len() == 0 {
		kit.Failf("%s has no elements to sample", a)
	}
	taps := make([][][]tap, len(p.axes))
	outside := make([][]bool, len(p.axes))
	for i := range p.axes {
		taps[i], outside[i] = p.axisTaps(c, &p.axes[i])
	}
	if p.mode == "nearest" {
		sampleNearest(c, out, a, taps)
	} else {
		sampleWeighted(c, out, a, taps)
	}
	p.fillOutside(c, out, outside)
}

// axisTaps returns the taps of every result index, nil where the axis stays as it is.
func (p *resizePlan) axisTaps(c *ops.Call, x *resizeAxis) (taps [][]tap, outside []bool) {
	if !x.listed || x.in == x.out && x.scale == 1 && x.from == 0 && x.to == 1 {
		return nil, nil
	}
	taps, outside = kit.Make[[]tap](c, x.out), kit.Make[bool](c, x.out)
	w, made := kit.Watching(c), 0 // made since memory was asked for
	for y := range taps {
		taps[y], outside[y] = p.taps(x, y)
		w.Did(1 + len(taps[y]))
		if made += len(taps[y]); made >= 1<<14 || y == len(taps)-1 {
			kit.Check(c.Memory.AskContext(c.Ctx, "the taps of Resize", int64(made)*int64(unsafe.Sizeof(tap{}))))
			made = 0
		}
	}
	return taps, outside
}

// sampleNearest moves elements, of any type.
func sampleNearest(c *ops.Call, out, a *ndarray.Array, taps [][][]tap) {
	maps := make([][]int, len(taps))
	for k := range maps {
		maps[k] = kit.PositionsIn(c, out.Shape[k])
		for y, t := range taps[k] {
			maps[k][y] = t[0].index
		}
	}
	kit.MoveMapped(c, out, a, maps)
}

// sampleWeighted sums weighted taps, one axis after the other, in float64.
func sampleWeighted(c *ops.Call, out, a *ndarray.Array, taps [][][]tap) {
	if !a.DType.IsFloat() && !a.DType.IsInteger() {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	v, shape := kit.Elements[float64](c, a), slices.Clone(a.Shape)
	for axis, list := range taps {
		if list == nil {
			continue
		}
		outer, dim, inner := kit.SplitDims(shape, axis)
		w := kit.Watching(c)
		next := kit.Make[float64](c, outer*len(list)*inner)
		for o := range outer {
			for y, row := range list {
				dst := next[(o*len(list)+y)*inner:][:inner]
				for _, t := range row {
					w.Did(inner)
					src := v[(o*dim+t.index)*inner:][:inner]
					for i, s := range src {
						dst[i] += t.weight * s
					}
				}
			}
		}
		v, shape[axis] = next, len(list)
	}
	storeSaturated(c, out, v)
}

// fillOutside writes extrapolation_value where any axis lies outside.
func (p *resizePlan) fillOutside(c *ops.Call, out *ndarray.Array, outside [][]bool) {
	for axis, list := range outside {
		if !slices.Contains(list, true) {
			continue
		}
		if out.DType == ndarray.String {
			kit.Check(kit.UnsupportedType(out.DType))
		}
		outer, dim, inner := kit.SplitDims(out.Shape, axis)
		w := kit.Watching(c)
		for o := range outer {
			for y := range dim {
				for i := 0; list[y] && i < inner; i++ {
					w.Did(1)
					out.SetFloat((o*dim+y)*inner+i, p.extrapolate)
				}
			}
		}
	}
}

// storeSaturated stores values as result 0; integers round to nearest even and
// saturate.
func storeSaturated(c *ops.Call, out *ndarray.Array, v []float64) {
	if !out.DType.IsInteger() {
		kit.WriteFloats(c, out, v)
		return
	}
	lo, hi := kit.IntegerRange(out.DType)
	w := kit.Watching(c)
	for i, x := range v {
		w.Did(1)
		switch x = math.RoundToEven(x); {
		case x <= float64(lo):
			out.SetInt(i, lo)
		case x < float64(hi):
			out.SetFloat(i, x)
		default:
			out.SetInt(i, int64(hi))
		}
	}
}
