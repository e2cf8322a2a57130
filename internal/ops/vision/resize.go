package vision

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Resize samples a tensor at another size: https://onnx.ai/onnx/operators/onnx__Resize.html
//
//	output[y…] = sum over taps t of weight(axis, y, t) * X[index(axis, y, t)…]
//
// separately along every axis; resize_kernel.go has the coordinates and weights.
// The size is floor(dimension * scale), or comes from sizes.
var Resize = ops.Op{
	Name: "Resize", Since: 19, Form: resizeForm, Doc: "Y = X sampled at scales or sizes",
	MinIn: 1, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("mode", "nearest", "linear", "cubic"), ops.StrAttr("coordinate_transformation_mode", "half_pixel", "half_pixel_symmetric",
		"pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn").From(11),
		ops.StrAttr("nearest_mode", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil").From(11), ops.FloatAttr("cubic_coeff_a", -0.75).From(11),
		ops.IntAttr("exclude_outside", 0).From(11), ops.FloatAttr("extrapolation_value", 0).From(11),
		ops.IntAttr("antialias", 0).From(18), ops.IntsAttr("axes").From(18),
		ops.StrAttr("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller").From(18)},
	Infer: kit.Rule(inferResize), Eval: kit.Kernel(evalResize),
	Facts: ops.Facts{Traits: ops.PassingTraits, Cost: resizeCost},
	Upgrades: []ops.Upgrade{
		{Below: 11, Source: kit.Changelog("Resize", 11), Apply: upgradeResize10},
		{Below: 13, Source: kit.Changelog("Resize", 13), Apply: upgradeResize11},
	},
	Downgrades: []ops.Downgrade{{Below: 13, Form: oldResizeForm(11), Apply: downgradeResize13}, {Below: 11, Form: oldResizeForm(10), Apply: downgradeResize11},
		{Below: 10, Form: oldResizeForm(9), Apply: downgradeResize10}},
}

// Upsample is what Resize was called before operator set 10; it is replaced by a
// Resize wherever it appears: https://onnx.ai/onnx/operators/onnx__Upsample.html
var Upsample = ops.Op{
	Name: "Upsample", Since: 9, Form: kit.Since(9), Doc: "Y = Resize(X, scales), asymmetric coordinates",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("mode", "nearest", "linear", "bilinear", "trilinear", "cubic"),
		ops.FloatAttr("height_scale").Mandatory().Before(7), ops.FloatsAttr("scales").Mandatory().From(7).Before(9), ops.FloatAttr("width_scale").Mandatory().Before(7)},
	Infer: kit.Rule(inferUpsample), Eval: kit.Kernel(evalUpsample),
	Facts:    ops.Facts{Traits: ops.GeneralTraits, Cost: resizeCost},
	Upgrades: []ops.Upgrade{{Below: kit.Always, Source: kit.Changelog("Upsample", 10), Apply: upgradeUpsample}},

	Downgrades: []ops.Downgrade{{Below: 9, Form: kit.Since(7), Apply: downgradeUpsample9}, {Below: 7, Apply: downgradeUpsample7}},
}

func resizeForm(n *ssa.Node) int {
	base := 11
	if n.Input(1) == nil || n.Input(2) == nil {
		base = 13
	}
	if ops.Str(n, "coordinate_transformation_mode") == "half_pixel_symmetric" {
		base = 19
	}
	return kit.TypeForm(base, 13, 18, 19)(n)
}

// resizeSize is the result's dimension for a scale. The product is rounded to
// float32, as scales are: 10 * 0.7 is 7.
func resizeSize(dim int, scale float32) (int, error) {
	if !(scale > 0) {
		return 0, fmt.Errorf("scale %v is not above 0", scale)
	}
	size := math.Floor(float64(float32(dim) * scale))
	if size > math.MaxInt32 {
		return 0, fmt.Errorf("a dimension of %d times %v is too large", dim, scale)
	}
	return int(size), nil
}

// resizeDim is resizeSize for a dimension that may be symbolic: scales that are
// fractions of a power of two give floor(dim*p/q).
func resizeDim(dim ssa.Dim, scale float32) ssa.Dim {
	if k, ok := dim.Const(); ok {
		size, err := resizeSize(int(k), scale)
		if err != nil {
			return ssa.Dim{}
		}
		return ssa.D(int64(size))
	}
	for q := int64(1); q <= 1<<16; q *= 2 {
		if p := float64(scale) * float64(q); p == math.Trunc(p) && p >= 1 && p <= 1<<24 {
			return dim.MulN(int64(p)).FloorDiv(ssa.D(q))
		}
	}
	return ssa.Dim{}
}

func inferResize(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		return ops.One(t)
	}
	axes := kit.ListedAxes(n, len(t.Shape))
	dims := slices.Clone(t.Shape)
	for _, a := range axes {
		dims[a] = ssa.Dim{}
	}
	out := ssa.TensorOf(t.DType, dims...)
	sizes := ops.ContentOf(n, 3)
	scales, known := constFloats(n, 2)
	switch {
	case len(sizes) == len(axes) && n.Input(3) != nil:
		kit.CheckDims(sizes)
		resizeToSizes(n, t.Shape, dims, axes, sizes)
		return ops.One(out)
	case len(sizes) > 0:
		kit.Failf("%d sizes for %d axes", len(sizes), len(axes))
	case known && len(scales) == len(axes):
		for i, a := range axes {
			dims[a] = resizeDim(t.Shape[a], scales[i])
		}
	case known && len(scales) > 0:
		kit.Failf("%d scales for %d axes", len(scales), len(axes))
	}
	return ops.One(out)
}

// resizeToSizes writes the result's dimensions for given sizes into dims.
func resizeToSizes(n *ssa.Node, in, dims []ssa.Dim, axes []int, sizes []ssa.Dim) {
	policy := ops.Str(n, "keep_aspect_ratio_policy")
	if policy == "stretch" {
		for i, a := range axes {
			dims[a] = sizes[i]
		}
		return
	}
	from, to := make([]int, len(axes)), make([]int, len(axes))
	for i, a := range axes {
		x, ok := in[a].Const()
		y, ok2 := sizes[i].Const()
		if !ok || !ok2 {
			return
		}
		from[i], to[i] = int(x), int(y)
	}
	got, _ := keepAspect(policy, from, to)
	for i, a := range axes {
		dims[a] = ssa.D(int64(got[i]))
	}
}

// keepAspect returns the sizes nearest to the wanted ones that scale all axes
// alike, and the scale.
func keepAspect(policy string, from, want []int) ([]int, float64) {
	scale := math.NaN()
	for i, d := range from {
		s := float64(want[i]) / float64(d)
		if math.IsNaN(scale) || policy == "not_larger" && s < scale || policy == "not_smaller" && s > scale {
			scale = s
		}
	}
	out := make([]int, len(from))
	for i, d := range from {
		size := math.Floor(scale*float64(d) + 0.5)
		if !(size >= 0 && size <= math.MaxInt32) {
			kit.Failf("sizes %v of dimensions %v have no common scale", want, from)
		}
		out[i] = int(size)
	}
	return out, scale
}

// constFloats returns the elements of a constant float operand; none, known, for
// an absent one.
func constFloats(n *ssa.Node, i int) (v []float32, known bool) {
	in := n.Input(i)
	if in == nil {
		return nil, true
	}
	if in.Const == nil || !in.Const.DType().IsFloat() || in.Const.Len() > 1<<20 {
		return nil, false
	}
	a, err := in.Const.Array()
	if err != nil {
		return nil, false
	}
	return a.Floats32(), true
}

// resizeCost counts one multiply and add per tap and result element, twice where
// two axes change.
func resizeCost(n *ssa.Node) ops.Cost {
	c := kit.MoveCost(n)
	taps := tapsOf[ops.Str(n, "mode")]
	x, y := ops.InType(n, 0), n.Out[0].Type
	if k, ok := y.NumElems().Const(); ok && len(x.Shape) == len(y.Shape) {
		for i, d := range x.Shape {
			if !d.Equal(y.Shape[i]) {
				c.FLOPs += 2 * taps * k
			}
		}
	}
	return c
}

// resizePlan is a Resize with the lengths and scales of all axes.
type resizePlan struct {
	mode, nearest, coord string
	cubicA, extrapolate  float64
	exclude, antialias   bool
	axes                 []resizeAxis // one per dimension
}

// resizeAxis is how one dimension is resized.
type resizeAxis struct {
	in, out  int
	scale    float64
	width    float64 // in*scale, the length before it was rounded to out
	from, to float64 // region of interest, normalized
	listed   bool    // among the axes that scales or sizes are given for
}

// resizePlanOf reads the attributes; no axis changes yet.
func resizePlanOf(n *ssa.Node, a *ndarray.Array) resizePlan {
	p := resizePlan{
		mode: ops.Str(n, "mode"), nearest: ops.Str(n, "nearest_mode"),
		coord:  ops.Str(n, "coordinate_transformation_mode"),
		cubicA: float64(ops.Float(n, "cubic_coeff_a")), extrapolate: float64(ops.Float(n, "extrapolation_value")),
		exclude: ops.Int(n, "exclude_outside") != 0, antialias: ops.Int(n, "antialias") != 0,
		axes: make([]resizeAxis, a.Rank()),
	}
	for i, d := range a.Shape {
		p.axes[i] = resizeAxis{in: d, out: d, scale: 1, width: float64(d), to: 1}
	}
	return p
}

func evalResize(c *ops.Call) {
	a := kit.Tensor(c, 0)
	p := resizePlanOf(c.Node, a)
	p.size(c, kit.ListedAxes(c.Node, a.Rank()))
	p.run(c, a)
}

// size reads the operands scales or sizes and roi, which speak of the listed axes.
func (p *resizePlan) size(c *ops.Call, axes []int) {
	sizes := kit.OptionalInts(c, 3)
	scales := c.Array(2)
	switch {
	case len(sizes) > 0 || c.Has(3) && len(axes) == 0:
		p.fromSizes(c.Node, axes, sizes)
	case scales != nil && scales.DType.IsFloat() && scales.Len() == len(axes):
		p.fromScales(axes, scales.Floats32())
	default:
		kit.Failf("neither scales nor sizes have one element for each of %d axes", len(axes))
	}
	if p.coord != "tf_crop_and_resize" {
		return
	}
	roi := c.Array(1)
	if roi == nil || !roi.DType.IsFloat() || roi.Len() != 2*len(axes) {
		kit.Failf("coordinates of tf_crop_and_resize need a roi of %d elements", 2*len(axes))
	}
	for i, k := range axes {
		p.axes[k].from, p.axes[k].to = roi.Float(i), roi.Float(len(axes)+i)
	}
}

// resize gives an axis another length.
func (x *resizeAxis) resize(out int, scale float64) {
	x.listed, x.out, x.scale, x.width = true, out, scale, scale*float64(x.in)
}

func (p *resizePlan) fromScales(axes []int, scales []float32) {
	for i, k := range axes {
		p.axes[k].resize(kit.Try(resizeSize(p.axes[k].in, scales[i])), float64(scales[i]))
	}
}

func (p *resizePlan) fromSizes(n *ssa.Node, axes []int, sizes []int64) {
	if len(sizes) != len(axes) {
		kit.Failf("%d sizes for %d axes", len(sizes), len(axes))
	}
	want := kit.ShapeOfInts(sizes)
	common := 0.0
	if policy := ops.Str(n, "keep_aspect_ratio_policy"); policy != "stretch" && len(axes) > 0 {
		from := make([]int, len(axes))
		for i, k := range axes {
			from[i] = p.axes[k].in
		}
		want, common = keepAspect(policy, from, want)
	}
	for i, k := range axes {
		scale := common
		if common == 0 {
			scale = float64(want[i]) / float64(p.axes[k].in)
		}
		p.axes[k].resize(want[i], scale)
	}
}

func inferUpsample(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	scales, known := constFloats(n, 1)
	if !t.Ranked || !known || len(scales) != len(t.Shape) {
		return ops.One(kit.TensorOfRank(t.DType, t.Rank()))
	}
	dims := make([]ssa.Dim, len(scales))
	for i, s := range scales {
		dims[i] = resizeDim(t.Shape[i], s)
	}
	return ops.One(ssa.TensorOf(t.DType, dims...))
}

func evalUpsample(c *ops.Call) {
	a, scales := kit.Tensor(c, 0), kit.Tensor(c, 1)
	p := resizePlanOf(c.Node, a)
	p.coord, p.nearest, p.mode = "asymmetric", "floor", upsampleMode(p.mode)
	if !scales.DType.IsFloat() || scales.Len() != a.Rank() {
		kit.Failf("%d scales for %s", scales.Len(), a)
	}
	p.fromScales(kit.Positions(a.Rank()), scales.Floats32())
	p.run(c, a)
}
