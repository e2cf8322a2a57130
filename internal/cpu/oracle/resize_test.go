package oracle

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// factors are constant scales.
func factors(v ...float64) arg {
	a := arg{dt: ndarray.Float32, shape: []int{len(v)}, konst: true}
	a.fill = func(_ *rand.Rand, x *ndarray.Array) {
		for i, f := range v {
			x.SetFloat(i, f)
		}
	}
	return a
}

func strs(pairs ...string) (out []ssa.Attr) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, ssa.StringAttr(pairs[i], pairs[i+1]))
	}
	return out
}

func TestResize(t *testing.T) {
	coords := []string{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn"}
	x := f32s(2, 3, 7, 9)
	for _, coord := range coords {
		for _, mode := range []string{"nearest", "linear", "cubic"} {
			attrs := strs("mode", mode, "coordinate_transformation_mode", coord)
			for _, s := range [][]float64{{1, 1, 2, 2}, {1, 1, 0.6, 1.7}, {1, 1, 1, 3}, {1, 1, 2.5, 1}, {1, 2, 0.5, 0.3}} {
				runCases(t, []opCase{{op: "Resize", in: []arg{x, absent, factors(s...)}, attrs: attrs, tol: 1e-5}})
			}
			runCases(t, []opCase{
				{op: "Resize", in: []arg{x, absent, absent, ints(2, 3, 13, 4)}, attrs: attrs, tol: 1e-5},
				{op: "Resize", in: []arg{x, f32s(0).c(), factors(1, 1, 2, 2)}, attrs: attrs, tol: 1e-5},
			})
		}
	}
	for _, near := range []string{"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"} {
		for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Uint8, ndarray.Float16, ndarray.Int64} {
			runCases(t, []opCase{
				{op: "Resize", in: []arg{tensor(dt, 1, 2, 6, 5), absent, factors(1, 1, 2, 3)}, attrs: strs("nearest_mode", near)},
				{op: "Resize", in: []arg{tensor(dt, 6, 5, 3), absent, factors(0.5, 1.5, 1)}, attrs: strs("nearest_mode", near)},
			})
		}
	}
	flag := func(name string, more ...ssa.Attr) []ssa.Attr { return append(more, ssa.IntAttr(name, 1)) }
	runCases(t, []opCase{
		{op: "Resize", in: []arg{x, absent, factors(1, 1, 0.4, 0.5)}, attrs: flag("antialias", strs("mode", "linear")...), tol: 1e-5},
		{op: "Resize", in: []arg{x, absent, factors(1, 1, 0.4, 2)}, attrs: flag("antialias", strs("mode", "cubic")...), tol: 1e-5},
		{op: "Resize", in: []arg{x, absent, factors(1, 1, 0.4, 2)}, attrs: flag("exclude_outside", strs("mode", "cubic")...), tol: 1e-5},
		{op: "Resize", in: []arg{x, absent, factors(2, 0.7)}, attrs: append(strs("mode", "linear"), ssa.IntsAttr("axes", 3, 2)), tol: 1e-5},
		{op: "Resize", in: []arg{f32s(1, 2, 200, 90), absent, factors(1, 1, 2, 2)}, attrs: strs("mode", "linear"), tol: 1e-5},
		{op: "Resize", in: []arg{f32s(3, 4, 5, 6, 2), absent, factors(1, 2, 2, 2, 1)}, attrs: strs("mode", "linear"), tol: 1e-5},
		{op: "Resize", in: []arg{x, absent, factors(1, 1, 1, 1)}, attrs: strs("mode", "linear")},
		{op: "Resize", in: []arg{x, factors(0, 0, 0.1, 0.1, 1, 1, 0.8, 0.8), factors(1, 1, 2, 2)}, attrs: strs("coordinate_transformation_mode", "tf_crop_and_resize"), left: true},
		{op: "Resize", name: "a region of the same size", in: []arg{x, factors(0, 0, 0.1, 0.1, 1, 1, 0.8, 0.8), factors(1, 1, 1, 1)}, attrs: strs("coordinate_transformation_mode", "tf_crop_and_resize"), left: true},
	})
}

func TestGridSample(t *testing.T) {
	x, grid := f32s(2, 3, 7, 9), f32s(2, 5, 6, 2).between(-1.4, 1.4)
	for _, mode := range []string{"linear", "nearest"} {
		for _, pad := range []string{"zeros", "border", "reflection"} {
			for corners := range int64(2) {
				attrs := append(strs("mode", mode, "padding_mode", pad), ssa.IntAttr("align_corners", corners))
				runCases(t, []opCase{
					{op: "GridSample", in: []arg{x, grid}, attrs: attrs, tol: 1e-5},
					{op: "GridSample", in: []arg{x, f32s(2, 40, 30, 2).between(-3, 3)}, attrs: attrs, tol: 1e-5},
					{op: "GridSample", in: []arg{x, f32s(2, 5, 6, 2).odd()}, attrs: attrs, tol: 1e-5},
				})
			}
		}
	}
	runCases(t, []opCase{{op: "GridSample", in: []arg{x, grid}, attrs: strs("mode", "cubic"), left: true}})
}

func TestRoiAlign(t *testing.T) {
	regions, batch := f32s(9, 4).between(-6, 30), tensor(ndarray.Int64, 9).between(-2, 2)
	for _, mode := range []string{"half_pixel", "output_half_pixel"} {
		attrs := append(strs("coordinate_transformation_mode", mode), ssa.IntAttr("output_height", 3), ssa.IntAttr("output_width", 5), ssa.FloatAttr("spatial_scale", 0.5))
		for _, ratio := range []int64{0, 1, 2, 9} {
			attrs := append(slices.Clone(attrs), ssa.IntAttr("sampling_ratio", ratio))
			runCases(t, []opCase{
				{op: "RoiAlign", name: "blocked", in: []arg{f32s(2, 19, 8, 9), regions, batch}, attrs: attrs, tol: 1e-5},
				{op: "RoiAlign", name: "plain", in: []arg{f32s(2, 5, 40, 41), regions, batch}, attrs: attrs, tol: 1e-5},
				{op: "RoiAlign", name: "one pixel", in: []arg{f32s(2, 3, 1, 1), regions, batch}, attrs: attrs, tol: 1e-5},
			})
		}
	}
	runCases(t, []opCase{
		{op: "RoiAlign", name: "defaults", in: []arg{f32s(2, 5, 4, 4), regions, batch}, tol: 1e-5},
		{op: "RoiAlign", name: "many pixels in a bin", in: []arg{f32s(2, 19, 12, 12), f32s(40, 4).between(-6, 30), tensor(ndarray.Int64, 40).between(0, 1)}, tol: 1e-5},
		{op: "RoiAlign", name: "no region", in: []arg{f32s(2, 5, 4, 4), f32s(0, 4), tensor(ndarray.Int64, 0)}, tol: 1e-5, either: true},
		{op: "RoiAlign", name: "max", in: []arg{f32s(2, 5, 4, 4), regions, batch}, attrs: strs("mode", "max"), left: true},
	})
}

// TestGridSampleOfLargeImages: positions in an image are numbers of 32 bits.
func TestGridSampleOfLargeImages(t *testing.T) {
	for w, served := range map[int]bool{4: true, 1 << 16: false} {
		g := ssa.NewGraph("grid")
		x, grid := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 1, 1, 1<<15, w)), g.AddParam("grid", ssa.StaticTensor(ndarray.Float32, 1, 1, 1, 2))
		n := g.NewNode("GridSample", []*ssa.Value{x, grid}, 1)
		require.NoError(t, ops.Infer(n))
		p, err := cpu.New().Prepare(t.Context(), n, 1)
		require.NoError(t, err)
		assert.Equal(t, served, p.Kernel != nil, "%d", w)
	}
}
