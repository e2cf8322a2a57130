package rare

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/vision"
	"github.com/berth-onnx/berth/ops"
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
var MaxRoiPool = ops.Op{
	Name: "MaxRoiPool", Since: 22, Form: kit.TypeForm(1, 22), Doc: "Y[r] = maxima of X over the bins of rois[r]",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntsAttr("pooled_shape").Mandatory().Between(1, 1<<31), ops.FloatAttr("spatial_scale", 1)},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferMaxRoiPool), Eval: kit.FloatKernel(maxRoiPool[float32], maxRoiPool[float64]),
}

func inferMaxRoiPool(n *ssa.Node) []ops.Inferred {
	x, rois, pooled := ops.InType(n, 0), ops.InType(n, 1), pooledShape(n)
	var regions ssa.Dim
	if rois.Rank() > 0 {
		regions = rois.Shape[0]
	}
	return vision.RegionsOf(x, regions, pooled[0], pooled[1])
}

func pooledShape(n *ssa.Node) []int64 {
	pooled := ops.Ints(n, "pooled_shape")
	if len(pooled) != 2 {
		kit.Check(kit.BadAttr("pooled_shape", pooled, "height and width"))
	}
	return pooled
}

// binRange is the range of elements of bin p of count along one dimension, for a
// region from first to last (inclusive).
func binRange(p, count, first, last, dim int) (lo, hi int) {
	size := max(last-first+1, 1)
	lo = p*size/count + first
	hi = ((p+1)*size+count-1)/count + first
	return min(max(lo, 0), dim), min(max(hi, 0), dim)
}

func maxRoiPool[T kit.RealNum](c *ops.Call) {
	x, rois, pooled := c.Array(0), kit.Tensor(c, 1), pooledShape(c.Node)
	if x.Rank() != 4 || rois.Rank() != 2 || rois.Shape[1] != 5 {
		kit.Failf("X %s and rois %s must be [N, C, H, W] and [regions, 5]", x, rois)
	}
	oh, ow := int(pooled[0]), int(pooled[1])
	y := kit.NewResult[T](c, 0, x.DType, rois.Shape[0], x.Shape[1], oh, ow)
	scale, regions := T(ops.Float(c.Node, "spatial_scale")), kit.Elements[T](c, rois)
	data, channels, h, w := kit.Elements[T](c, x), x.Shape[1], x.Shape[2], x.Shape[3]
	watch := kit.Watching(c)
	for r := range rois.Shape[0] {
		b, err := ops.WrapIndex(int64(rois.Float(r*5)), x.Shape[0])
		if err != nil {
			kit.Failf("rois: %w", err)
		}
		var edge [4]int
		for k := range edge {
			v := math.Round(float64(regions[r*5+1+k] * scale))
			if !(math.Abs(v) < 1<<31) {
				kit.Failf("region %d is out of range", r)
			}
			edge[k] = int(v)
		}
		for ch := range channels {
			plane := data[(b*channels+ch)*h*w:][:h*w]
			for i := range oh * ow {
				y0, y1 := binRange(i/ow, oh, edge[1], edge[3], h)
				x0, x1 := binRange(i%ow, ow, edge[0], edge[2], w)
				watch.Did(1 + (y1-y0)*(x1-x0))
				y.V[(r*channels+ch)*oh*ow+i] = maxOf(plane, w, y0, y1, x0, x1)
			}
		}
	}
	y.Store()
}

// maxOf is the largest element of a window of a plane, 0 if it is empty.
func maxOf[T kit.RealNum](plane []T, w, y0, y1, x0, x1 int) T {
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
