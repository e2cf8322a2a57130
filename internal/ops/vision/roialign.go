package vision

import (
	"errors"
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// RoiAlign pools regions by sampling: https://onnx.ai/onnx/operators/onnx__RoiAlign.html
//
// Every region is cut into output_height x output_width bins; in each bin a grid
// of points is sampled bilinearly, and their mean (or the largest weighted
// corner) is the result.
//
//	+-------+-------+
//	| .   . | .   . |     a region of 1x2 bins
//	| .   . | .   . |     with sampling_ratio 2
//	+-------+-------+
//
// Source: "Mask R-CNN" (ICCV 2017), section 3, RoIAlign.
var RoiAlign = ops.Op{
	Name: "RoiAlign", Since: 22, Form: kit.TypeForm(16, 22), Doc: "Y[r] = X[batch_indices[r]] pooled over rois[r]",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("coordinate_transformation_mode", "half_pixel", "output_half_pixel").From(16), ops.StrAttr("mode", "avg", "max"),
		ops.IntAttr("output_height", 1).Between(1, 1<<31), ops.IntAttr("output_width", 1).Between(1, 1<<31),
		ops.IntAttr("sampling_ratio", 0), ops.FloatAttr("spatial_scale", 1)},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferRoiAlign), Eval: kit.FloatKernel(roiAlign[float32], roiAlign[float64]),
	Upgrades: []ops.Upgrade{{Below: 16, Source: kit.Changelog("RoiAlign", 16), Apply: func(_ *ops.Upgrader, n *ssa.Node) error {
		n.SetAttr(ssa.StringAttr("coordinate_transformation_mode", "output_half_pixel"))
		return nil
	}}},
	Downgrades: []ops.Downgrade{{Below: 16, Form: kit.FloatForm(10, 22), Apply: func(_ *ops.Upgrader, n *ssa.Node) error {
		if a := n.Attr("coordinate_transformation_mode"); a == nil || a.S != "output_half_pixel" {
			return errors.New("has coordinates other than output_half_pixel")
		}
		n.DropAttr("coordinate_transformation_mode")
		return nil
	}}},
}

func inferRoiAlign(n *ssa.Node) []ops.Inferred {
	x, rois, batch := ops.InType(n, 0), ops.InType(n, 1), ops.InType(n, 2)
	kit.MatchShapes(n, "*", "R 4", "R")
	var regions ssa.Dim
	switch {
	case rois.Rank() > 0:
		regions = rois.Shape[0]
	case batch.Rank() > 0:
		regions = batch.Shape[0]
	}
	return RegionsOf(x, regions, ops.Int(n, "output_height"), ops.Int(n, "output_width"))
}

// roiBins is one region in the coordinates of X.
type roiBins struct {
	y, x   float64 // where it starts
	bh, bw float64 // size of a bin
	gh, gw int     // sampling points per bin
}

// roiBinsOf scales a region (x1, y1, x2, y2) and cuts it into bins.
func roiBinsOf[T kit.RealNum](n *ssa.Node, v []T, oh, ow int) roiBins {
	scale := T(ops.Float(n, "spatial_scale"))
	half := ops.Str(n, "coordinate_transformation_mode") == "half_pixel"
	shift := T(0)
	if half {
		shift = 0.5
	}
	x1, y1, x2, y2 := v[0]*scale-shift, v[1]*scale-shift, v[2]*scale-shift, v[3]*scale-shift
	w, h := x2-x1, y2-y1
	if !half { // malformed regions become one element large
		w, h = max(w, 1), max(h, 1)
	}
	b := roiBins{y: float64(y1), x: float64(x1), bh: float64(h / T(oh)), bw: float64(w / T(ow))}
	ratio := ops.Int(n, "sampling_ratio")
	gh, gw := math.Ceil(b.bh), math.Ceil(b.bw)
	if ratio > 0 {
		gh, gw = float64(ratio), float64(ratio)
	}
	if !(gh <= 1<<15 && gw <= 1<<15) {
		kit.Failf("a region from (%v, %v) to (%v, %v) needs too many sampling points", x1, y1, x2, y2)
	}
	b.gh, b.gw = max(int(gh), 0), max(int(gw), 0)
	return b
}

// corners returns the four elements around a point of an h x w plane with their
// bilinear weights, all 0 outside.
func corners(y, x float64, h, w int) (out [4]tap) {
	if !(y >= -1 && y <= float64(h) && x >= -1 && x <= float64(w)) {
		return out
	}
	y0, y1, ly := lowHigh(max(y, 0), h)
	x0, x1, lx := lowHigh(max(x, 0), w)
	return [4]tap{{y0*w + x0, (1 - ly) * (1 - lx)}, {y0*w + x1, (1 - ly) * lx}, {y1*w + x0, ly * (1 - lx)}, {y1*w + x1, ly * lx}}
}

// lowHigh returns the indices left and right of a coordinate and its distance
// from the left one.
func lowHigh(v float64, n int) (lo, hi int, frac float64) {
	lo = int(v)
	if lo >= n-1 {
		return n - 1, n - 1, 0
	}
	return lo, lo + 1, v - float64(lo)
}

func roiAlign[T kit.RealNum](c *ops.Call) {
	x, n := c.Array(0), c.Node
	rois, batch := kit.Tensor(c, 1), kit.Ints(c, 2)
	oh, ow := int(ops.Int(n, "output_height")), int(ops.Int(n, "output_width"))
	largest := ops.Str(n, "mode") == "max"
	if x.Rank() != 4 || rois.Rank() != 2 || rois.Shape[1] != 4 || rois.Shape[0] != len(batch) {
		kit.Failf("X %s, rois %s and %d batch indices do not fit", x, rois, len(batch))
	}
	y := kit.NewResult[T](c, 0, x.DType, len(batch), x.Shape[1], oh, ow)
	if len(y.V) == 0 {
		return
	}
	data, regions := kit.Elements[T](c, x), kit.Elements[T](c, rois)
	channels, h, w := x.Shape[1], x.Shape[2], x.Shape[3]
	watch := kit.Watching(c)
	for r, b64 := range batch {
		b, err := ops.WrapIndex(b64, x.Shape[0])
		if err != nil {
			kit.Failf("batch indices: %w", err)
		}
		bins := roiBinsOf(n, regions[r*4:r*4+4], oh, ow)
		for i := range oh * ow {
			watch.Did(4 * bins.gh * bins.gw)
			points := bins.points(i/ow, i%ow, h, w)
			for ch := range channels {
				watch.Did(4 * bins.gh * bins.gw)
				y.V[(r*channels+ch)*oh*ow+i] = poolPoints(points, bins.gh*bins.gw, data[(b*channels+ch)*h*w:][:h*w], largest)
			}
		}
	}
	y.Store()
}

// points returns the corners of every sampling point of a bin; points outside
// have weight 0.
func (b *roiBins) points(py, px, h, w int) [][4]tap {
	out := make([][4]tap, 0, b.gh*b.gw)
	if h == 0 || w == 0 {
		return out
	}
	for i := range b.gh {
		yy := b.y + float64(py)*b.bh + (float64(i)+0.5)*b.bh/float64(b.gh)
		for k := range b.gw {
			xx := b.x + float64(px)*b.bw + (float64(k)+0.5)*b.bw/float64(b.gw)
			out = append(out, corners(yy, xx, h, w))
		}
	}
	return out
}

// poolPoints is the mean of the sampled values, or the largest weighted corner.
func poolPoints[T kit.RealNum](points [][4]tap, count int, plane []T, largest bool) T {
	if len(points) == 0 {
		return 0
	}
	sum, best := 0.0, math.Inf(-1)
	for _, p := range points {
		for _, t := range p {
			v := 0.0
			if t.weight != 0 { // an element that has no part in the sample may be infinite
				v = t.weight * float64(plane[t.index])
			}
			sum += v
			best = max(best, v)
		}
	}
	if largest {
		return T(best)
	}
	return T(sum / float64(count))
}

// RegionsOf is the type of regions of x, all brought to one size.
func RegionsOf(x ssa.Type, regions ssa.Dim, height, width int64) []ops.Inferred {
	dims := []ssa.Dim{regions, {}, ssa.D(height), ssa.D(width)}
	if x.Ranked {
		if len(x.Shape) != 4 {
			kit.Failf("X has rank %d, it must be 4", len(x.Shape))
		}
		dims[1] = x.Shape[1]
	}
	return ops.One(ssa.TensorOf(x.DType, dims...))
}
