package ops

import (
	"math"

	"github.com/berth-onnx/berth/ssa"
)

// MaxRoiPool takes maxima over the bins of regions:
// https://onnx.ai/onnx/operators/onnx__MaxRoiPool.html
//
// A region (batch, x1, y1, x2, y2) is scaled, rounded to whole elements and cut
// into pooled_shape bins; bin borders round outwards, so bins may overlap. A bin
// without elements gives 0.
//
// Source: "Fast R-CNN" (ICCV 2015), section 2.1.
var MaxRoiPool = Op{
	Name: "MaxRoiPool", Since: 22, Form: typeForm(1, 22), Doc: "Y[r] = maxima of X over the bins of rois[r]",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intsAttr("pooled_shape").required(), floatAttr("spatial_scale", 1)},
	Facts: Facts{Traits: general}, Infer: rule(inferMaxRoiPool), Eval: floatKernel(maxRoiPool[float32], maxRoiPool[float64]),
}

func inferMaxRoiPool(n *ssa.Node) []Inferred {
	x, rois, pooled := InType(n, 0), InType(n, 1), Ints(n, "pooled_shape")
	if len(pooled) != 2 {
		check(badAttr("pooled_shape", pooled, "height and width"))
	}
	dims := []ssa.Dim{{}, {}, ssa.D(pooled[0]), ssa.D(pooled[1])}
	if rois.Rank() > 0 {
		dims[0] = rois.Shape[0]
	}
	if x.Ranked {
		if len(x.Shape) != 4 {
			failf("X has rank %d, it must be 4", len(x.Shape))
		}
		dims[1] = x.Shape[1]
	}
	return One(ssa.TensorOf(x.DType, dims...))
}

// binRange is the range of elements of bin p of count along one dimension, for a
// region from first to last (inclusive).
func binRange(p, count, first, last, dim int) (lo, hi int) {
	size := max(last-first+1, 1)
	lo = p*size/count + first
	hi = ((p+1)*size+count-1)/count + first
	return min(max(lo, 0), dim), min(max(hi, 0), dim)
}

func maxRoiPool[T realNum](c *Call) {
	x := c.Array(0)
	rois := tensor(c, 1)
	pooled := Ints(c.Node, "pooled_shape")
	if x.Rank() != 4 || rois.Rank() != 2 || rois.Shape[1] != 5 {
		failf("X %s and rois %s must be [N, C, H, W] and [regions, 5]", x, rois)
	}
	if len(pooled) != 2 || pooled[0] < 1 || pooled[1] < 1 || pooled[0] > 1<<31 || pooled[1] > 1<<31 {
		check(badAttr("pooled_shape", pooled, "height and width above 0"))
	}
	oh, ow := int(pooled[0]), int(pooled[1])
	y := newResult[T](c, 0, x.DType, rois.Shape[0], x.Shape[1], oh, ow)
	scale, regions := T(Float(c.Node, "spatial_scale")), elements[T](rois)
	data, channels, h, w := elements[T](x), x.Shape[1], x.Shape[2], x.Shape[3]
	for r := range rois.Shape[0] {
		b, err := wrapIndex(int64(rois.Float(r*5)), x.Shape[0])
		if err != nil {
			failf("rois: %w", err)
		}
		var edge [4]int
		for k := range edge {
			v := math.Round(float64(regions[r*5+1+k] * scale))
			if !(math.Abs(v) < 1<<31) {
				failf("region %d is out of range", r)
			}
			edge[k] = int(v)
		}
		for ch := range channels {
			plane := data[(b*channels+ch)*h*w:][:h*w]
			for i := range oh * ow {
				y0, y1 := binRange(i/ow, oh, edge[1], edge[3], h)
				x0, x1 := binRange(i%ow, ow, edge[0], edge[2], w)
				y.V[(r*channels+ch)*oh*ow+i] = maxOf(plane, w, y0, y1, x0, x1)
			}
		}
	}
	y.store()
}

// maxOf is the largest element of a window of a plane, 0 if it is empty.
func maxOf[T realNum](plane []T, w, y0, y1, x0, x1 int) T {
	if y0 >= y1 || x0 >= x1 {
		return 0
	}
	best := plane[y0*w+x0]
	for y := y0; y < y1; y++ {
		for _, v := range plane[y*w+x0 : y*w+x1] {
			best = max(best, v)
		}
	}
	return best
}
