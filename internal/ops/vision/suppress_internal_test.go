package vision

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-onnx/berth/internal/ops/kit"
)

// plainSuppress compares every box with every kept one.
func plainSuppress(boxes []box, scores []float32, limit int64, iou, threshold float64) []int {
	var order, kept []int
	for i, s := range scores {
		if math.IsInf(threshold, -1) || float64(s) > threshold {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(scores[j], scores[i]) })
	for _, i := range order {
		if int64(len(kept)) < limit && !slices.ContainsFunc(kept, func(k int) bool { return float64(boxes[i].overlap(boxes[k])) > iou }) {
			kept = append(kept, i)
		}
	}
	return kept
}

// TestSuppress compares the search by strips and the ranking by bits with the plain search: classes at places of their own,
// boxes of every size, equal scores, negative and unordered ones, coordinates that are no numbers.
func TestSuppress(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	odd := []float32{nan, inf, -inf, 0, -1e38, 3e38}
	tests := []struct {
		name           string
		n              int
		offset, size   float32 // of a class; of a box
		odd            bool
		limit          int64
		iou, threshold float64
		one            bool // strip
	}{
		{"one place", 400, 0, 30, false, 1000, 0.5, math.Inf(-1), false},
		{"classes apart", 600, 101, 30, false, 1000, 0.3, 0, false},
		{"classes far apart", 600, 1e5, 100, false, 1000, 0.6, -0.5, false},
		{"small boxes", 2000, 0, 0.5, false, 5000, 0.1, 0, false},
		{"points", 50, 0, 0, false, 100, 0.1, -1, true},
		{"no overlap allowed", 300, 10, 8, false, 1000, 0, math.Inf(-1), false},
		{"threshold below zero", 30, 0, 5, false, 100, -0.1, math.Inf(-1), true},
		{"limit", 300, 101, 10, false, 17, 0.5, math.Inf(-1), false},
		{"odd numbers", 300, 101, 10, true, 1000, 0.5, math.Inf(-1), true},
		{"odd numbers above a threshold", 300, 0, 10, true, 1000, 0.5, 0.1, true},
		{"none", 0, 0, 1, false, 10, 0.5, 0, true},
	}
	for _, c := range tests {
		r := rand.New(rand.NewPCG(1, 2))
		boxes, scores := make([]box, c.n), make([]float32, c.n)
		for i := range boxes {
			at := float32(r.IntN(8)) * c.offset
			v := [4]float32{at + r.Float32()*100, at + r.Float32()*100, r.Float32() * c.size, r.Float32() * c.size}
			boxes[i] = box{v[0], v[1], v[0] + v[2], v[1] + v[3]}
			scores[i] = float32(r.IntN(200)-100) / 100
			if c.odd && i%7 == 0 {
				scores[i] = odd[i/7%len(odd)]
			}
			if c.odd && i%11 == 0 {
				boxes[i].x2 = odd[i/11%len(odd)]
			}
		}
		w := kit.Watching(nil)
		pick := suppressor{boxes: boxes, strip: newColumns(nil, boxes, c.iou), w: &w}
		if strips := len(pick.strip.kept); (strips == 1) != c.one {
			t.Errorf("%s: %d strips", c.name, strips)
		}
		for range 2 {
			got, want := pick.suppress(scores, c.limit, c.iou, c.threshold), plainSuppress(boxes, scores, c.limit, c.iou, c.threshold)
			if !slices.Equal(got, want) {
				t.Errorf("%s: kept %v, want %v", c.name, got, want)
			}
		}
	}
}
