package vision

import (
	"cmp"
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// NonMaxSuppression picks boxes that do not overlap a better one too much:
// https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html
//
// For every batch entry and class, boxes with a score above score_threshold are
// taken from the highest score down; a box is kept unless its intersection over
// union with a kept one is above iou_threshold, until enough are kept. A row of
// the result is (batch, class, box).
var NonMaxSuppression = ops.Op{
	Name: "NonMaxSuppression", Since: 11, Form: kit.Since(10), Doc: "selected_indices = boxes kept, best first",
	MinIn: 2, MaxIn: 5, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("center_point_box", 0)},
	Facts: ops.Facts{Traits: ops.GeneralTraits.But(ops.ExtentOpen)}, Infer: kit.Rule(func(*ssa.Node) []ops.Inferred {
		return ops.One(ssa.TensorOf(ndarray.Int64, ssa.Dim{}, ssa.D(3)))
	}),
	Eval: kit.Kernel(evalNonMaxSuppression),
}

// box is a rectangle by its low and high corners.
type box struct{ y1, x1, y2, x2 float32 }

// boxAt reads a box given by two opposite corners (y, x, y, x), or by center and
// size (x, y, width, height).
func boxAt(v []float32, center bool) box {
	if center {
		return box{v[1] - v[3]/2, v[0] - v[2]/2, v[1] + v[3]/2, v[0] + v[2]/2}
	}
	return box{min(v[0], v[2]), min(v[1], v[3]), max(v[0], v[2]), max(v[1], v[3])}
}

// overlap is the intersection over union of two boxes, 0 if either is empty.
func (a box) overlap(b box) float32 {
	h, w := min(a.y2, b.y2)-max(a.y1, b.y1), min(a.x2, b.x2)-max(a.x1, b.x1)
	areaA, areaB := (a.y2-a.y1)*(a.x2-a.x1), (b.y2-b.y1)*(b.x2-b.x1)
	if !(h > 0 && w > 0) || areaA <= 0 || areaB <= 0 {
		return 0
	}
	return h * w / (areaA + areaB - h*w)
}

// suppress returns the indices of the kept boxes of one class, best first.
func suppress(c *ops.Call, boxes []box, scores []float32, limit int64, iou, threshold float64) []int {
	var order []int
	w := kit.Watching(c)
	for i, s := range scores {
		w.Did(1)
		if math.IsInf(threshold, -1) || float64(s) > threshold {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		w.Did(1)
		return cmp.Compare(scores[j], scores[i])
	})
	var kept []int
	for _, i := range order {
		w.Did(1 + len(kept))
		if int64(len(kept)) >= limit {
			break
		}
		if !slices.ContainsFunc(kept, func(k int) bool { return float64(boxes[i].overlap(boxes[k])) > iou }) {
			kept = append(kept, i)
		}
	}
	return kept
}

func evalNonMaxSuppression(c *ops.Call) {
	b, s := kit.Tensor(c, 0), kit.Tensor(c, 1)
	if b.Rank() != 3 || s.Rank() != 3 || b.Shape[2] != 4 || b.Shape[0] != s.Shape[0] || b.Shape[1] != s.Shape[2] ||
		!b.DType.IsFloat() || !s.DType.IsFloat() {
		kit.Failf("boxes %s and scores %s must be [batch, boxes, 4] and [batch, classes, boxes]", b, s)
	}
	limit := kit.OptionalInt(c, 2, 0)
	iou, threshold := kit.OptionalFloat(c, 3, 0), kit.OptionalFloat(c, 4, math.Inf(-1))
	v, scores, n := kit.Elements[float32](c, b), kit.Elements[float32](c, s), b.Shape[1]
	var rows []int64
	boxes := kit.Make[box](c, n)
	for i := range s.Shape[0] {
		w := kit.Watching(c)
		for k := range boxes {
			w.Did(1)
			boxes[k] = boxAt(v[(i*n+k)*4:], ops.Int(c.Node, "center_point_box") != 0)
		}
		for class := range s.Shape[1] {
			for _, k := range suppress(c, boxes, scores[(i*s.Shape[1]+class)*n:][:n], limit, iou, threshold) {
				rows = kit.Append(c, rows, int64(i), int64(class), int64(k))
			}
		}
	}
	out := kit.Result(c, 0, ndarray.Int64, len(rows)/3, 3)
	kit.CopySlice(c, ndarray.Slice[int64](out), rows)
}
