package vision

import (
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

// ranking orders boxes by score: a key has the score's bits, so arranged that a higher score is a smaller number, above the
// index of the box. NaN comes last; boxes of one score are in the order of their indices.
func ranking(scores []float32, threshold float64, w *kit.Watch, keys []uint64) []uint64 {
	keys = keys[:0]
	for i, s := range scores {
		w.Did(1)
		if !math.IsInf(threshold, -1) && !(float64(s) > threshold) {
			continue
		}
		bits := math.Float32bits(s + 0) // −0 is 0
		switch {
		case s != s:
			bits = math.MaxUint32
		case bits>>31 == 0:
			bits = 1<<31 - 1 - bits
		}
		keys = append(keys, uint64(bits)<<32|uint64(i))
	}
	w.Did(16 * len(keys))
	slices.Sort(keys)
	return keys
}

// columns divides the plane into vertical strips no narrower than any box, so that a box overlaps none but those
// whose low corners are in its strip and the two beside it. Detectors that move boxes of each class to a place
// of their own have many strips.
type columns struct {
	first, width float64
	kept         [][]int // of each strip
}

// mostColumns bounds the strips.
const mostColumns = 1024

// newColumns divides the plane for boxes. Coordinates that are no numbers leave one strip, and so does a threshold below zero, above
// which boxes are that do not meet.
func newColumns(c *ops.Call, boxes []box, iou float64) *columns {
	lo, hi, width := math.Inf(1), math.Inf(-1), 0.0
	for i := range boxes {
		x1, x2 := float64(boxes[i].x1), float64(boxes[i].x2)
		lo, hi, width = min(lo, x1), max(hi, x1), max(width, x2-x1)
	}
	n := 1
	if span := hi - lo; iou >= 0 && width > 0 && span/width >= 1 && !math.IsInf(span, 0) {
		n = int(min(span/width, mostColumns-1)) + 1
		width = max(width, span/float64(n)) * (1 + 1e-6)
	}
	return &columns{lo, width, kit.Make[[]int](c, n)}
}

// of is the strip of a box.
func (s *columns) of(b *box) int {
	if len(s.kept) == 1 {
		return 0
	}
	return min(int((float64(b.x1)-s.first)/s.width), len(s.kept)-1)
}

// suppressor picks boxes of one image, class by class.
type suppressor struct {
	boxes []box
	strip *columns
	keys  []uint64
	w     *kit.Watch
	kept  []int
}

// suppress returns the indices of the kept boxes of one class, best first; they are valid up to the next call.
func (s *suppressor) suppress(scores []float32, limit int64, iou, threshold float64) []int {
	s.keys, s.kept = ranking(scores, threshold, s.w, s.keys), s.kept[:0]
	for i := range s.strip.kept {
		s.strip.kept[i] = s.strip.kept[i][:0]
	}
	for _, key := range s.keys {
		if int64(len(s.kept)) >= limit {
			break
		}
		i := int(uint32(key))
		if at := s.strip.of(&s.boxes[i]); !s.overlapsKept(i, at, iou) {
			s.strip.kept[at] = append(s.strip.kept[at], i)
			s.kept = append(s.kept, i)
		}
	}
	return s.kept
}

// overlapsKept reports whether box i, of strip at, overlaps a kept one by more than iou.
func (s *suppressor) overlapsKept(i, at int, iou float64) bool {
	b := s.boxes[i]
	for _, kept := range s.strip.kept[max(0, at-1):min(at+2, len(s.strip.kept))] {
		s.w.Did(1 + len(kept))
		for _, k := range kept {
			if o := &s.boxes[k]; (iou < 0 || b.x1 < o.x2 && o.x1 < b.x2) && float64(b.overlap(*o)) > iou {
				return true
			}
		}
	}
	return false
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
	boxes, keys := kit.Make[box](c, n), kit.Make[uint64](c, n)
	for i := range s.Shape[0] {
		w := kit.Watching(c)
		for k := range boxes {
			w.Did(1)
			boxes[k] = boxAt(v[(i*n+k)*4:], ops.Int(c.Node, "center_point_box") != 0)
		}
		pick := suppressor{boxes: boxes, strip: newColumns(c, boxes, iou), keys: keys, w: &w}
		for class := range s.Shape[1] {
			for _, k := range pick.suppress(scores[(i*s.Shape[1]+class)*n:][:n], limit, iou, threshold) {
				rows = kit.Append(c, rows, int64(i), int64(class), int64(k))
			}
		}
	}
	out := kit.Result(c, 0, ndarray.Int64, len(rows)/3, 3)
	kit.CopySlice(c, ndarray.Slice[int64](out), rows)
}
